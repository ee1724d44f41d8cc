//! What an attack's two runs prove: pure, so that a table can test it.

use policy::{Network, Profile, Require};
use sandbox::{EnforcementReport, Layer, LayerStatus, LimitKind, LimitStatus};
use serde::{Deserialize, Serialize};

/// A probe, as `stockade-probe list --json` says it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Probe {
    pub(crate) id: String,
    pub(crate) class: String,
    pub(crate) expect: Expect,
    pub(crate) judge: Judge,
    pub(crate) tries: String,
}

/// What should happen inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Expect {
    AllowedByPolicy,
    Held,
}

/// Who can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Judge {
    Host,
    Inside,
}

/// What one run of a probe answered.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Answer {
    pub(crate) id: String,
    pub(crate) outcome: Word,
    #[serde(default)]
    pub(crate) errno: String,
    #[serde(default)]
    pub(crate) detail: String,
}

/// The word for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Word {
    /// The whole sandbox was ended while the probe ran.
    Ended,
    Error,
    Refused,
    Worked,
}

/// What the two runs together prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// It worked inside, and the profile grants that.
    AllowedByPolicy,
    /// It worked inside, and should not have.
    Broken,
    /// It worked free, and was stopped inside.
    Held,
    /// It did not work free either, or could not tell: nothing follows.
    NotProven,
}

/// What the profile and its trial say about attacks that may work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grants {
    network: bool,
    nested: bool,
    /// The caller's own choice of commands is passed on.
    commands: bool,
    /// Limits that are neither required nor enforced.
    limits: Vec<LimitKind>,
    /// Layers that the profile can do without and that are absent.
    lost: Vec<Layer>,
}

/// What stands between a probe and the host's network, and nothing else does.
const NETWORK: [&str; 18] = [
    "ip01_tcp_loop",
    "ip02_udp_loop",
    "ip15_bind_listen",
    "ip16_fastopen",
    "ip17_mptcp_connect",
    "ip18_connect_ipv6_mapped",
    "ip19_dns",
    "ip20_ifaces",
    "ip21_listen_autobind",
    "ip22_mptcp_listen",
    "sk01_tcp_ipv6",
    "sk02_host_address",
    "sk03_any_address",
    "sk04_udp_sendmsg",
    "sk05_udp_connected",
    "sk08_netlink_route",
    "sk12_ping",
    "sk14_proc_net_tcp",
];

/// What a nested user namespace is for.
const NESTED: [&str; 4] = [
    "fs23_nested_userns_mount",
    "mt07_nested_proc",
    "mt08_nested_bind",
    "mt10_nested_overlay",
];

/// The probes that go beyond a limit.
const LIMITS: [(&str, LimitKind); 8] = [
    ("fs55_sparse_quota", LimitKind::TmpSize),
    ("pr08_nproc", LimitKind::Processes),
    ("pr09_mem", LimitKind::Memory),
    ("pr19_disk_fill", LimitKind::FileSize),
    ("rs01_open_files", LimitKind::OpenFiles),
    ("rs02_file_size", LimitKind::FileSize),
    ("rs03_tmp_fill", LimitKind::TmpSize),
    ("rs04_shm_fill", LimitKind::TmpSize),
];

impl Grants {
    pub(crate) fn new(profile: &Profile, report: &EnforcementReport) -> Self {
        let accepts_loss = profile
            .require
            .as_ref()
            .is_some_and(|it| it.value == Require::Landlock);
        let layers = report.layers.iter().filter(|_| accepts_loss);
        let required = |kind: LimitKind| {
            profile
                .require_limits
                .iter()
                .any(|it| it.value == kind.name())
        };
        Self {
            network: profile
                .network
                .as_ref()
                .is_some_and(|it| it.value == Network::Host),
            nested: profile
                .nested_user_namespaces
                .as_ref()
                .is_some_and(|it| it.value),
            commands: ["EDITOR", "PAGER"].iter().any(|name| {
                profile
                    .pass
                    .iter()
                    .any(|it| it.value.matches(name.as_bytes()))
            }),
            limits: report
                .limits
                .iter()
                .filter(|(kind, status)| {
                    matches!(status, LimitStatus::Absent(_)) && !required(*kind)
                })
                .map(|(kind, _)| *kind)
                .collect(),
            lost: layers
                .filter(|(_, status)| {
                    matches!(status, LayerStatus::Absent(_) | LayerStatus::Degraded(_))
                })
                .map(|(layer, _)| *layer)
                .collect(),
        }
    }

    /// Why `probe` may work, if it may.
    fn reason(&self, probe: &Probe) -> Option<String> {
        let id = probe.id.as_str();
        if probe.expect == Expect::AllowedByPolicy {
            return Some("the profiles allow it on purpose".to_owned());
        }
        if self.network && NETWORK.contains(&id) {
            return Some("the profile grants the host's network".to_owned());
        }
        if self.nested && NESTED.contains(&id) {
            return Some("the profile grants nested user namespaces".to_owned());
        }
        if self.commands && id == "en16_pager_editor" {
            return Some("the profile passes EDITOR and PAGER on".to_owned());
        }
        let limit = LIMITS.iter().find(|it| it.0 == id).map(|it| it.1);
        if let Some(limit) = limit.filter(|it| self.limits.contains(it)) {
            return Some(format!(
                "the limit `{}` is not enforced here, and not required",
                limit.name()
            ));
        }
        let layer = layer_of(probe)?;
        self.lost.contains(&layer).then(|| {
            format!(
                "the profile accepts `landlock`, and `{}` does not hold here",
                layer.name()
            )
        })
    }
}

/// The layer on which holding a probe rests alone, with neither Landlock nor seccomp as a floor
/// under it: what a back end without namespaces says it loses.
fn layer_of(probe: &Probe) -> Option<Layer> {
    let id = probe.id.as_str();
    let is = |starts: &[&str]| starts.iter().any(|it| id.starts_with(it));
    if is(&[
        "gt", "nm", "fs06_", "fs07_", "fs08_", "fs09_", "fs10_", "fs45_", "fs51_",
    ]) {
        return Some(Layer::ProtectedNames);
    }
    // Names, sizes, modes, times and attributes; the host's tables of mounts and of the kernel.
    if is(&[
        "fs12_", "fs13_", "fs14_", "fs15_", "fs40_", "fs61_", "mt12_", "kf", "ks19_",
    ]) {
        return Some(Layer::Mounts);
    }
    // The list of processes and what it says of each; handles of them.
    if is(&["fs22_", "ps07_", "ps12_", "ps16_", "ps19_", "ps20_"]) || probe.class == "lifecycle" {
        return Some(Layer::Processes);
    }
    // System V and POSIX channels, and the host's tables of interfaces and sockets.
    if is(&["ip07_", "ip08_", "ip20_", "sk14_", "sl05_", "sl06_"]) {
        return Some(Layer::OtherNamespaces);
    }
    None
}

/// Whether `line` is a change of the host that a back end without mounts can not prevent.
pub(crate) fn is_accepted(line: &str, grants: &Grants) -> bool {
    let kinds = [
        ": mode",
        ": modification time",
        ": extended attributes",
        ": owner",
    ];
    grants.lost.contains(&Layer::Mounts) && kinds.iter().any(|it| line.ends_with(it))
}

/// Judges one probe. `reached`: what the host saw of it, where it saw anything.
pub(crate) fn judge(
    probe: &Probe,
    free: Option<&Answer>,
    confined: Option<&Answer>,
    reached: Option<&str>,
    grants: &Grants,
) -> (Verdict, String) {
    let worked_free = free.is_some_and(|it| it.outcome == Word::Worked);
    let inside = confined.map(|it| it.outcome);
    let worked_inside =
        inside == Some(Word::Worked) && (probe.judge == Judge::Inside || reached.is_some());
    if worked_inside || reached.is_some() {
        let detail = || {
            let told = confined.map_or("", |it| it.detail.as_str());
            reached.unwrap_or(told).to_owned()
        };
        return match grants.reason(probe) {
            Some(reason) => (Verdict::AllowedByPolicy, reason),
            None => (Verdict::Broken, detail()),
        };
    }
    if !worked_free {
        let why = match free {
            Some(it) if it.outcome == Word::Refused => {
                format!("refused free as well: {} {}", it.errno, it.detail)
            }
            Some(it) => format!("free it could not tell: {}", it.detail),
            None => "it did not answer free".to_owned(),
        };
        return (Verdict::NotProven, why);
    }
    match confined {
        Some(it) if it.outcome == Word::Worked => (
            Verdict::Held,
            format!("inside only, nothing reached the host: {}", it.detail),
        ),
        Some(it) if it.outcome == Word::Refused => (Verdict::Held, it.detail.clone()),
        Some(it) if it.outcome == Word::Ended && probe.class == "resources" => {
            (Verdict::Held, it.detail.clone())
        }
        Some(it) => (
            Verdict::NotProven,
            format!("inside it could not tell: {}", it.detail),
        ),
        None => (Verdict::NotProven, "it did not answer inside".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(id: &str, expect: Expect, judge: Judge) -> Probe {
        Probe {
            id: id.to_owned(),
            class: "files".to_owned(),
            expect,
            judge,
            tries: "Writes something.".to_owned(),
        }
    }

    fn answer(outcome: Word) -> Answer {
        Answer {
            id: String::new(),
            outcome,
            errno: String::new(),
            detail: String::new(),
        }
    }

    #[test]
    fn only_what_worked_free_and_was_stopped_inside_is_held() {
        use Expect::{AllowedByPolicy as Allowed, Held};
        use Judge::{Host, Inside};
        use Word::{Ended, Error, Refused, Worked};
        let cases = [
            (Held, Inside, Worked, Some(Refused), false, Verdict::Held),
            (Held, Inside, Worked, Some(Worked), false, Verdict::Broken),
            (
                Allowed,
                Inside,
                Worked,
                Some(Worked),
                false,
                Verdict::AllowedByPolicy,
            ),
            (Held, Inside, Worked, Some(Error), false, Verdict::NotProven),
            (Held, Inside, Worked, Some(Ended), false, Verdict::NotProven),
            (Held, Inside, Worked, None, false, Verdict::NotProven),
            // What does not work free proves nothing by failing inside …
            (
                Held,
                Inside,
                Refused,
                Some(Refused),
                false,
                Verdict::NotProven,
            ),
            (
                Held,
                Inside,
                Error,
                Some(Refused),
                false,
                Verdict::NotProven,
            ),
            // … but a hole is a hole.
            (Held, Inside, Refused, Some(Worked), false, Verdict::Broken),
            // What works on the sandbox's own copy counts by what reaches the host.
            (Held, Host, Worked, Some(Worked), false, Verdict::Held),
            (Held, Host, Worked, Some(Worked), true, Verdict::Broken),
            (Held, Inside, Worked, Some(Refused), true, Verdict::Broken),
        ];
        for (expect, judged, free, confined, reached, expected) in cases {
            let probe = probe("fs01_write_rc", expect, judged);
            let (verdict, _) = judge(
                &probe,
                Some(&answer(free)),
                confined.map(answer).as_ref(),
                reached.then_some("it did"),
                &Grants::default(),
            );
            assert_eq!(
                verdict, expected,
                "{expect:?} {judged:?} {free:?} {confined:?} {reached}"
            );
        }
        let probe = probe("fs01_write_rc", Held, Inside);
        let refused = answer(Refused);
        let (verdict, _) = judge(&probe, None, Some(&refused), None, &Grants::default());
        assert_eq!(verdict, Verdict::NotProven, "no positive control");
    }

    #[test]
    fn a_grant_excuses_what_it_grants_and_nothing_else() {
        let network = Grants {
            network: true,
            ..Grants::default()
        };
        let limits = Grants {
            limits: vec![LimitKind::Memory],
            ..Grants::default()
        };
        let cases = [
            ("ip01_tcp_loop", &network, Verdict::AllowedByPolicy),
            ("ip04_unix_path", &network, Verdict::Broken),
            ("pr09_mem", &limits, Verdict::AllowedByPolicy),
            ("pr08_nproc", &limits, Verdict::Broken),
        ];
        for (id, grants, expected) in cases {
            let worked = answer(Word::Worked);
            let probe = probe(id, Expect::Held, Judge::Inside);
            let (verdict, _) = judge(&probe, Some(&worked), Some(&worked), None, grants);
            assert_eq!(verdict, expected, "{id}");
        }
    }
}
