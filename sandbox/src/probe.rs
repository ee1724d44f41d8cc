//! What this machine offers, found by trying it in throw-away processes.
//!
//! # Invariants
//!
//! - **By doing.** A setting can say yes while a security module says no; so each thing is tried.
//! - **Nothing is touched.** What is mounted is mounted in a namespace that ends with the trial.
//! - **Bounded.** Every trial ends within two seconds.

mod remedy;
mod trial;

use std::fmt;
use std::time::{Duration, Instant};

use crate::backend::Backend;
use crate::bare::Landlock;
use crate::bwrap::Bwrap;
use crate::cgroup::Cgroup;
use crate::confinement::{Isolation, Requirement};
use crate::error::SandboxError;
use crate::native::Native;
use crate::path::AbsPath;
use crate::stage::Executable;
use crate::sys;
pub use remedy::{landlock as landlock_remedy, user_namespaces as user_namespace_remedy};

/// How long all trials together may take.
pub const LONGEST: Duration = Duration::from_secs(2);

/// What a machine offers.
#[derive(Debug)]
#[must_use]
pub struct Machine {
    /// The kernel's release, as uname(2) says it.
    pub kernel: String,
    /// Everything that was tried, in the order of [`Feature::ALL`].
    pub findings: Vec<Finding>,
    /// The Landlock ABI, if there is one.
    pub landlock_abi: Option<u32>,
    bwrap: Option<Bwrap>,
}

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was tried.
    pub feature: Feature,
    /// What came of it.
    pub outcome: Outcome,
    /// What to do where it does not work.
    pub remedy: Option<String>,
}

/// What came of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It does not work; the text is the kernel's answer.
    Fails(String),
    /// It was not tried, for this reason.
    NotTried(String),
    /// It works; the text says more.
    Works(String),
}

/// Something that a sandbox can be built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// New user, mount, PID, IPC, UTS, cgroup and network namespaces.
    Namespaces,
    /// Mapping the caller's own ids into a user namespace.
    IdMaps,
    /// Mounting in a namespace of one's own.
    Mounts,
    /// A `/proc` for a new PID namespace.
    Proc,
    /// A loopback device in a new network namespace.
    Loopback,
    /// An overlay with user attributes, for staging and caches.
    Overlay,
    /// Forbidding further user namespaces below.
    NestedLimit,
    /// Mounts with mapped ids, for callers that are root.
    IdMappedMounts,
    /// Landlock.
    Landlock,
    /// System call filters.
    Seccomp,
    /// A control group that limits processes.
    ProcessGroups,
    /// A control group that limits memory.
    MemoryGroups,
    /// A bubblewrap that can be trusted, and works.
    Bubblewrap,
}

impl Feature {
    /// Everything that is tried, in the order of reports.
    pub const ALL: [Self; 13] = [
        Self::Namespaces,
        Self::IdMaps,
        Self::Mounts,
        Self::Proc,
        Self::Loopback,
        Self::Overlay,
        Self::NestedLimit,
        Self::IdMappedMounts,
        Self::Landlock,
        Self::Seccomp,
        Self::ProcessGroups,
        Self::MemoryGroups,
        Self::Bubblewrap,
    ];

    /// The name in reports and documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bubblewrap => "bubblewrap",
            Self::IdMappedMounts => "id-mapped mounts",
            Self::IdMaps => "id maps",
            Self::Landlock => "landlock",
            Self::Loopback => "loopback of its own",
            Self::MemoryGroups => "memory cgroup",
            Self::Mounts => "private mounts",
            Self::Namespaces => "namespaces",
            Self::NestedLimit => "limit on nested namespaces",
            Self::Overlay => "overlay",
            Self::Proc => "fresh /proc",
            Self::ProcessGroups => "pids cgroup",
            Self::Seccomp => "seccomp",
        }
    }
}

impl Machine {
    /// What was found about one feature.
    #[must_use]
    pub fn finding(&self, feature: Feature) -> Option<&Finding> {
        self.findings.iter().find(|it| it.feature == feature)
    }

    /// Whether a feature works.
    #[must_use]
    pub fn works(&self, feature: Feature) -> bool {
        self.finding(feature)
            .is_some_and(|it| matches!(it.outcome, Outcome::Works(_)))
    }

    /// Whether our own back end can isolate fully.
    #[must_use]
    pub fn isolates(&self) -> bool {
        [
            Feature::Namespaces,
            Feature::IdMaps,
            Feature::Mounts,
            Feature::Proc,
            Feature::Seccomp,
        ]
        .iter()
        .all(|it| self.works(*it))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, text) = match self {
            Self::Fails(text) => ("fails", text),
            Self::NotTried(text) => ("not tried", text),
            Self::Works(text) => ("works", text),
        };
        if text.is_empty() {
            f.write_str(word)
        } else {
            write!(f, "{word} ({text})")
        }
    }
}

/// Tries everything. Must run in a process with one thread.
///
/// `workspace`: where id-mapped mounts are tried, since they depend on the file system.
/// `stage`: how this program is started inside bubblewrap.
pub fn probe(workspace: Option<&AbsPath>, stage: &Executable) -> Machine {
    let deadline = Instant::now() + LONGEST;
    let mut findings = trial::namespaces(deadline);
    findings.push(trial::id_mapped_mounts(workspace, deadline));
    let landlock = sys::landlock::abi();
    findings.push(finding(
        Feature::Landlock,
        match &landlock {
            Ok(abi) => Outcome::Works(remedy::abi(*abi)),
            Err(error) => Outcome::Fails(error.to_string()),
        },
        landlock_remedy,
    ));
    findings.push(trial::filter(deadline));
    for (feature, controller) in [
        (Feature::ProcessGroups, "pids"),
        (Feature::MemoryGroups, "memory"),
    ] {
        let outcome = if Cgroup::can_hold(controller) {
            Outcome::Works(String::new())
        } else {
            Outcome::Fails(format!("no group with `{controller}` can be made here"))
        };
        findings.push(finding(feature, outcome, remedy::cgroups));
    }
    let (bwrap, bubblewrap) = trial::bubblewrap(stage, deadline);
    findings.push(bubblewrap);
    findings.sort_by_key(|it| it.feature);
    Machine {
        kernel: rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned(),
        findings,
        landlock_abi: landlock.ok(),
        bwrap,
    }
}

fn finding(feature: Feature, outcome: Outcome, remedy: impl FnOnce() -> String) -> Finding {
    let remedy = matches!(outcome, Outcome::Fails(_)).then(remedy);
    Finding {
        feature,
        outcome,
        remedy,
    }
}

/// The strongest back end that this machine carries, if it meets the requirement.
///
/// Native where namespaces work; else a bubblewrap that works (set-uid, or let through by a
/// security module that stops us); else Landlock alone, where the requirement accepts it.
///
/// # Errors
///
/// [`SandboxError::Unsupported`], with the remedy; never a weaker one than required.
pub fn choose(
    requirement: &Requirement,
    machine: &Machine,
) -> Result<Box<dyn Backend>, SandboxError> {
    let offered = machine.landlock_abi.unwrap_or(0);
    if offered < requirement.landlock_abi {
        return Err(SandboxError::Unsupported {
            feature: format!(
                "Landlock abi {}, which is required; it has {offered}",
                requirement.landlock_abi
            ),
            remedy: landlock_remedy(),
        });
    }
    if machine.isolates() {
        return Ok(Box::new(Native));
    }
    if machine.works(Feature::Bubblewrap)
        && let Some(bwrap) = &machine.bwrap
    {
        return Ok(Box::new(bwrap.clone()));
    }
    if requirement.isolation == Isolation::Landlock && machine.landlock_abi.is_some() {
        return Ok(Box::new(Landlock));
    }
    let failing = machine
        .findings
        .iter()
        .find(|it| it.feature <= Feature::Proc && !matches!(it.outcome, Outcome::Works(_)));
    Err(SandboxError::Unsupported {
        feature: failing.map_or_else(
            || "full isolation".to_owned(),
            |it| format!("full isolation: {} {}", it.feature.name(), it.outcome),
        ),
        remedy: failing
            .and_then(|it| it.remedy.clone())
            .unwrap_or_else(user_namespace_remedy),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(failing: &[Feature], landlock_abi: Option<u32>) -> Machine {
        let findings = Feature::ALL.iter().map(|feature| {
            let outcome = if failing.contains(feature) {
                Outcome::Fails("no".to_owned())
            } else {
                Outcome::Works(String::new())
            };
            finding(*feature, outcome, || "do this".to_owned())
        });
        Machine {
            kernel: String::new(),
            findings: findings.collect(),
            landlock_abi,
            bwrap: None,
        }
    }

    #[test]
    fn the_strongest_that_meets_the_requirement_is_chosen() {
        let cases = [
            (Isolation::Full, 0, machine(&[], Some(7)), Some("native")),
            (Isolation::Full, 0, machine(&[], None), Some("native")),
            (Isolation::Full, 1, machine(&[], None), None),
            (Isolation::Full, 8, machine(&[], Some(7)), None),
            (Isolation::Full, 0, machine(&[Feature::Proc], Some(7)), None),
            (
                Isolation::Full,
                0,
                machine(&[Feature::Seccomp], Some(7)),
                None,
            ),
            (
                Isolation::Landlock,
                1,
                machine(&[Feature::Namespaces], Some(3)),
                Some("landlock"),
            ),
            (
                Isolation::Landlock,
                0,
                machine(&[Feature::Namespaces], None),
                None,
            ),
            // What only makes it more comfortable is no reason to refuse.
            (
                Isolation::Full,
                0,
                machine(&[Feature::Overlay, Feature::Loopback], None),
                Some("native"),
            ),
        ];
        for (isolation, landlock_abi, machine, expected) in cases {
            let requirement = Requirement {
                isolation,
                landlock_abi,
                limits: Vec::new(),
            };
            let chosen = choose(&requirement, &machine);
            assert_eq!(
                chosen.as_ref().ok().map(|it| it.name()),
                expected,
                "{requirement:?}"
            );
            if let Err(error) = chosen {
                assert!(error.help().is_some_and(|it| !it.is_empty()), "{error}");
            }
        }
    }
}
