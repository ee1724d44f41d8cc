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
        let stage = attacker.set("free", &report.backend)?;
        let free = stage.run(Fence::Free, &every, false)?;
        stage.end()?;

        say("the same confined, and the host looked at");
        let mut stage = attacker.set("confined", &report.backend)?;
        let mut confined = stage.run(fence, &every, false)?;
        stage.wait_for_survivors();
        let mut seen = stage.seen()?;
        stage.end()?;

        say(&format!("{} again that the host judges", hosted.len()));
        let mut reached: BTreeMap<String, String> = BTreeMap::new();
        let mut stage = attacker.set("kept", &report.backend)?;
        let (outliving, writing): (Vec<&Probe>, Vec<&Probe>) =
            hosted.into_iter().partition(|it| it.class == "lifecycle");
        // A change carries no name: it is that of the probe after which it is first seen.
        let mut known = Vec::new();
        for probe in writing {
            confined.extend(stage.run(fence, &[probe], true)?);
            let differences = stage.seen()?.differences;
            let new = differences.iter().find(|it| !known.contains(*it));
            if let Some(new) = new {
                reached.insert(probe.id.clone(), new.clone());
            }
            known = differences;
        }
        confined.extend(stage.run(fence, &outliving, true)?);
        stage.wait_for_survivors();
        let more = stage.seen()?;
        stage.end()?;
        let late = more
            .differences
            .into_iter()
            .filter(|it| !known.contains(it));
        seen.differences.extend(late);
        seen.received.extend(more.received);
        seen.survivors.extend(more.survivors);

        let grants = Grants::new(profile, report);
        Ok(Self::judge(probes, free, confined, reached, seen, &grants))
    }

    fn judge(
        probes: Vec<Probe>,
        mut free: BTreeMap<String, Answer>,
        mut confined: BTreeMap<String, Answer>,
        mut reached: BTreeMap<String, String>,
        seen: Seen,
        grants: &Grants,
    ) -> Self {
        // What arrived and who survived carries the name of its probe.
        let (mut host, traces) = (seen.differences, [seen.received, seen.survivors].concat());
        for trace in traces {
            match probes.iter().find(|it| is_trace_of(&trace, &it.id)) {
                Some(probe) => {
                    reached.insert(probe.id.clone(), trace);
                }
                None => host.push(trace),
            }
        }
        let mut rows = Vec::new();
        for probe in probes {
            let free = free.remove(&probe.id);
            let confined = confined.remove(&probe.id);
            let reached = reached.remove(&probe.id);
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
        host.retain(|it| !judge::is_accepted(it, grants));
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

/// Whether a listener's note or a survivor's flag is that of the probe `id`.
///
/// Messages carry the number at the start of the id; a name query has no place for it.
fn is_trace_of(trace: &str, id: &str) -> bool {
    let number = id.split('_').next().unwrap_or(id);
    trace.contains(number) || (id == "ip19_dns" && trace.starts_with("[\"dns\""))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(id: &str) -> Probe {
        let text = format!(
            r#"{{"id":"{id}","class":"sockets","expect":"held","judge":"inside","tries":"Tries."}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn what_the_host_saw_breaks_its_probe_or_stands_for_itself() {
        let probes = [
            "ip01_tcp_loop",
            "ip19_dns",
            "lf01_orphan_plain",
            "fs01_write_rc",
        ];
        let answer = |id: &str, outcome: &str| {
            let text = format!(r#"{{"id":"{id}","outcome":"{outcome}"}}"#);
            (
                id.to_owned(),
                serde_json::from_str::<Answer>(&text).unwrap(),
            )
        };
        let seen = Seen {
            differences: vec!["/home/u/x: new".to_owned()],
            received: vec![
                r#"["tcp","ip01"]"#.to_owned(),
                r#"["dns","leak"]"#.to_owned(),
                r#"["udp","nobody"]"#.to_owned(),
            ],
            survivors: vec!["/w/survivor-lf01_orphan_plain: new".to_owned()],
        };
        let attack = Attack::judge(
            probes.map(probe).into(),
            probes.map(|it| answer(it, "worked")).into(),
            probes.map(|it| answer(it, "refused")).into(),
            BTreeMap::new(),
            seen,
            &Grants::default(),
        );
        let verdicts: Vec<Verdict> = attack.rows.iter().map(|it| it.verdict).collect();
        use Verdict::{Broken, Held};
        assert_eq!(verdicts, [Broken, Broken, Broken, Held]);
        assert_eq!(attack.host, ["/home/u/x: new", r#"["udp","nobody"]"#]);
        assert_eq!(attack.count(Broken), 5, "what is nameless counts as well");
    }
}
