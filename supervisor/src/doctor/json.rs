//! The report of `stockade doctor --json`, whose keys `docs/KERNEL_SUPPORT.md` documents.

use sandbox::probe::Outcome;
use serde::Serialize;

use super::attack::Attack;
use super::judge::{Verdict, Word};
use super::{Diagnosis, Trial};
use crate::output;

/// The version of the keys; it grows when one is removed or changes its meaning.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document<'d> {
    schema: u32,
    version: &'static str,
    kernel: &'d str,
    uid: u32,
    landlock_abi: Option<u32>,
    features: Vec<Feature<'d>>,
    profile: Profile<'d>,
    attack: Option<JsonAttack<'d>>,
}

#[derive(Serialize)]
struct Feature<'d> {
    name: &'static str,
    status: &'static str,
    detail: &'d str,
    remedy: Option<&'d str>,
}

#[derive(Serialize)]
struct Profile<'d> {
    name: &'d str,
    runs: bool,
    backend: Option<&'d str>,
    layers: Vec<Held<'d>>,
    limits: Vec<Held<'d>>,
    notes: &'d [String],
    warnings: &'d [String],
    error: Option<String>,
    causes: Vec<String>,
    remedy: Option<&'d str>,
}

#[derive(Serialize)]
struct Held<'d> {
    name: &'static str,
    status: &'static str,
    detail: &'d str,
    remedy: Option<&'d str>,
}

#[derive(Serialize)]
struct JsonAttack<'d> {
    held: usize,
    allowed_by_policy: usize,
    not_proven: usize,
    broken: usize,
    host: &'d [String],
    probes: Vec<JsonProbe<'d>>,
}

#[derive(Serialize)]
struct JsonProbe<'d> {
    id: &'d str,
    class: &'d str,
    tries: &'d str,
    free: Option<Word>,
    confined: Option<Word>,
    errno: &'d str,
    verdict: Verdict,
    detail: &'d str,
}

/// The whole as one line of JSON.
pub(crate) fn text(diagnosis: &Diagnosis, attack: Option<&Attack>) -> String {
    let machine = &diagnosis.machine;
    let document = Document {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        kernel: &machine.kernel,
        uid: rustix::process::geteuid().as_raw(),
        landlock_abi: machine.landlock_abi,
        features: machine.findings.iter().map(feature).collect(),
        profile: profile(diagnosis),
        attack: attack.map(json_attack),
    };
    // Text and numbers alone: nothing in it can fail to be written.
    serde_json::to_string(&document).unwrap_or_default()
}

fn feature(finding: &sandbox::probe::Finding) -> Feature<'_> {
    let (status, detail) = match &finding.outcome {
        Outcome::Fails(detail) => ("fails", detail.as_str()),
        Outcome::NotTried(detail) => ("not_tried", detail.as_str()),
        Outcome::Works(detail) => ("works", detail.as_str()),
        _ => ("unknown", ""),
    };
    Feature {
        name: finding.feature.name(),
        status,
        detail,
        remedy: finding.remedy.as_deref(),
    }
}

fn profile(diagnosis: &Diagnosis) -> Profile<'_> {
    let name = diagnosis.profile.name.as_str();
    let unenforced = diagnosis.unenforced();
    match &diagnosis.trial {
        Ok(Trial { report, warnings }) => Profile {
            name,
            runs: true,
            backend: Some(&report.backend),
            layers: report
                .layers
                .iter()
                .map(|(layer, status)| {
                    let (_, status, detail) = output::layer_status(status);
                    Held {
                        name: layer.name(),
                        status,
                        detail,
                        remedy: None,
                    }
                })
                .collect(),
            limits: report
                .limits
                .iter()
                .map(|(kind, status)| {
                    let (_, status, detail) = output::limit_status(status);
                    Held {
                        name: kind.name(),
                        status,
                        detail,
                        remedy: unenforced
                            .iter()
                            .find(|it| it.kind == *kind)
                            .and_then(|it| it.remedy),
                    }
                })
                .collect(),
            notes: &report.notes,
            warnings,
            error: None,
            causes: Vec::new(),
            remedy: None,
        },
        Err(error) => Profile {
            name,
            runs: false,
            backend: None,
            layers: Vec::new(),
            limits: Vec::new(),
            notes: &[],
            warnings: &[],
            error: Some(error.to_string()),
            causes: std::iter::successors(std::error::Error::source(error), |it| it.source())
                .map(ToString::to_string)
                .collect(),
            remedy: error.help(),
        },
    }
}

fn json_attack(attack: &Attack) -> JsonAttack<'_> {
    JsonAttack {
        held: attack.count(Verdict::Held),
        allowed_by_policy: attack.count(Verdict::AllowedByPolicy),
        not_proven: attack.count(Verdict::NotProven),
        broken: attack.count(Verdict::Broken),
        host: &attack.host,
        probes: attack
            .rows
            .iter()
            .map(|row| JsonProbe {
                id: &row.probe.id,
                class: &row.probe.class,
                tries: &row.probe.tries,
                free: row.free.as_ref().map(|it| it.outcome),
                confined: row.confined.as_ref().map(|it| it.outcome),
                errno: row.confined.as_ref().map_or("", |it| it.errno.as_str()),
                verdict: row.verdict,
                detail: &row.detail,
            })
            .collect(),
    }
}
