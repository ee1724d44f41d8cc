//! What this machine can enforce: the machine itself, one profile tried on it, and attacks.
//!
//! # Invariants
//!
//! - **Scratch folders only.** Everything happens in folders of this run, and in terminals that
//!   the probes make for themselves.
//! - **By doing.** A layer is reported as the kernel answered when a sandbox was built with it.

pub(crate) mod attack;
pub(crate) mod json;
pub(crate) mod judge;
pub(crate) mod print;
mod run;
mod scratch;

use policy::Profile;
use sandbox::probe::{Feature, Finding, Machine};
use sandbox::{AbsPath, EnforcementReport, LimitKind, LimitStatus};

use crate::backends::{self, BackendName};
use crate::caller::Caller;
use crate::session::{self, SessionError};
pub(crate) use scratch::Scratch;

/// What was found about this machine and one profile.
#[derive(Debug)]
pub(crate) struct Diagnosis {
    pub(crate) machine: Machine,
    pub(crate) profile: Profile,
    pub(crate) trial: Result<Trial, SessionError>,
}

/// A sandbox that was built, and taken down again.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) report: EnforcementReport,
    pub(crate) warnings: Vec<String>,
}

/// A limit that the profile sets and the kernel does not enforce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unenforced<'d> {
    pub(crate) kind: LimitKind,
    pub(crate) why: &'d str,
    /// Whether Stockade holds it by looking from time to time.
    pub(crate) polled: bool,
    pub(crate) remedy: Option<&'d str>,
}

impl Diagnosis {
    /// Looks at the machine, and builds a sandbox under `profile` in `place`.
    pub(crate) fn make(
        profile: Profile,
        backend: Option<BackendName>,
        place: &AbsPath,
        caller: &Caller,
    ) -> Result<Self, SessionError> {
        let machine = backends::examine(place, caller)?;
        let trial = session::trial(&profile, backend, place, caller)
            .map(|(report, warnings)| Trial { report, warnings });
        Ok(Self {
            machine,
            profile,
            trial,
        })
    }

    /// The limits that the kernel does not hold.
    pub(crate) fn unenforced(&self) -> Vec<Unenforced<'_>> {
        let Ok(trial) = &self.trial else {
            return Vec::new();
        };
        let limits = trial.report.limits.iter();
        limits
            .filter_map(|(kind, status)| {
                let (why, polled) = match status {
                    LimitStatus::Absent(why) => (why, false),
                    LimitStatus::Polled(why) => (why, true),
                    _ => return None,
                };
                Some(Unenforced {
                    kind: *kind,
                    why,
                    polled,
                    remedy: self.remedy(*kind),
                })
            })
            .collect()
    }

    /// What the machine's own trial says to do about a limit.
    fn remedy(&self, kind: LimitKind) -> Option<&str> {
        let feature = match kind {
            LimitKind::Memory => Feature::MemoryGroups,
            LimitKind::Processes => Feature::ProcessGroups,
            _ => return None,
        };
        let finding: Option<&Finding> = self.machine.finding(feature);
        finding.and_then(|it| it.remedy.as_deref())
    }
}
