//! The whole attack: each probe free, each confined, and the host looked at afterwards.

use std::collections::BTreeMap;

use policy::Profile;
use sandbox::{AbsPath, EnforcementReport};

use super::Scratch;
use super::judge::{self, Answer, Grants, Judge, Probe, Verdict};
pub(crate) use super::run::AttackError;
use super::run::{Attacker, Fence, Seen};
use crate::backends::BackendName;
use crate::caller::Caller;

/// What came of it.
#[derive(Debug)]
pub(crate) struct Attack {
    pub(crate) rows: Vec<Row>,
    /// What changed on the host, or arrived there, and no probe's name is on.
    pub(crate) host: Vec<String>,
}

/// One probe.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) probe: Probe,
    pub(crate) free: Option<Answer>,
    pub(crate) confined: Option<Answer>,
    pub(crate) verdict: Verdict,
    pub(crate) detail: String,
}

impl Attack {
    /// Makes it. `report`: what the trial under the same profile and back end enforced.
    pub(crate) fn make(
        profile: &Profile,
        backend: Option<BackendName>,
        report: &EnforcementReport,
        scratch: &Scratch,
        caller: &Caller,
        say: &mut dyn FnMut(&str),
    ) -> Result<Self, AttackError> {
        let attacker = Attacker::find(caller, scratch.path())?;
        let probes = attacker.list()?;
        let every: Vec<&Probe> = probes.iter().collect();
        let hosted: Vec<&Probe> = probes.iter().filter(|it| it.judge == Judge::Host).collect();

        // A name of the caller's own is not found from a stage: the whole text is.
        let file = write_profile(profile, scratch)?;
        let fence = Fence::Confined(&file, backend);

        // Free, on a stage that no confined run sees: what it leaves says nothing of them.
        say(&format!("{} probes free, as a control", every.len()));
        let stage = attacker.set("free")?;
        let free = stage.run(Fence::Free, &every, false)?;
        stage.end()?;

        say("the same confined, and the host looked at");
        let mut stage = attacker.set("confined")?;
        let confined = stage.run(fence, &every, false)?;
        let mut seen = stage.seen()?;
        stage.end()?;

        say(&format!("{} again that the host judges", hosted.len()));
        let mut stage = attacker.set("kept")?;
        let kept = stage.run(fence, &hosted, true)?;
        let more = stage.seen()?;
        stage.end()?;
        seen.differences.extend(more.differences);
        seen.received.extend(more.received);
        seen.survivors.extend(more.survivors);

        let grants = Grants::new(profile, report);
        Ok(Self::judge(probes, free, confined, &kept, seen, &grants))
    }

    fn judge(
        probes: Vec<Probe>,
        mut free: BTreeMap<String, Answer>,
        mut confined: BTreeMap<String, Answer>,
        kept: &BTreeMap<String, Answer>,
        seen: Seen,
        grants: &Grants,
    ) -> Self {
        let mut traces: Vec<String> = seen.received;
        traces.extend(seen.survivors);
        let mut host = seen.differences;
        let mut rows = Vec::new();
        for probe in probes {
            let free = free.remove(&probe.id);
            let confined = confined.remove(&probe.id);
            let trace = traces.iter().find(|it| it.contains(&probe.id)).cloned();
            // A change of the host carries no name: then none of those that may have made it
            // is taken for held.
            let suspect = probe.judge == Judge::Host
                && kept
                    .get(&probe.id)
                    .is_some_and(|it| it.outcome == judge::Word::Worked);
            let reached = trace.or_else(|| host.first().filter(|_| suspect).cloned());
            let (verdict, detail) = judge::judge(
                &probe,
                free.as_ref(),
                confined.as_ref(),
                reached.as_deref(),
                grants,
            );
            rows.push(Row {
                probe,
                free,
                confined,
                verdict,
                detail,
            });
        }
        let nameless = traces
            .into_iter()
            .filter(|it| !rows.iter().any(|row| it.contains(&row.probe.id)));
        host.extend(nameless);
        Self { rows, host }
    }

    /// How many have this verdict; what changed on the host is broken as well.
    pub(crate) fn count(&self, verdict: Verdict) -> usize {
        let rows = self.rows.iter().filter(|it| it.verdict == verdict).count();
        if verdict == Verdict::Broken {
            rows + self.host.len()
        } else {
            rows
        }
    }
}

fn write_profile(profile: &Profile, scratch: &Scratch) -> Result<AbsPath, AttackError> {
    let path = scratch.path().join("profile.toml");
    std::fs::write(&path, profile.to_toml_without_origins())
        .and_then(|()| AbsPath::new(path).map_err(std::io::Error::other))
        .map_err(|source| AttackError::Run {
            doing: "write down the profile",
            source,
        })
}
