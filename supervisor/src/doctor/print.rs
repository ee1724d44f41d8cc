//! What `stockade doctor` prints for people.

use sandbox::probe::Outcome;

use super::attack::Attack;
use super::judge::{Answer, Verdict, Word};
use super::{Diagnosis, Trial};
use crate::output;
use crate::style::{Role, Safe, Style};

/// The machine, and what the profile gets on it.
pub(crate) fn diagnosis(style: Style, diagnosis: &Diagnosis) -> String {
    let mut out = String::new();
    let machine = &diagnosis.machine;
    let uid = rustix::process::geteuid().as_raw();
    push(
        &mut out,
        &format!("machine: Linux {}, as user {uid}", machine.kernel),
    );
    for finding in &machine.findings {
        let (role, word, detail) = match &finding.outcome {
            Outcome::Fails(detail) => (Role::Error, "fails", detail.as_str()),
            Outcome::NotTried(detail) => (Role::Quiet, "not tried", detail.as_str()),
            Outcome::Works(detail) => (Role::Success, "works", detail.as_str()),
            _ => (Role::Warning, "unknown", ""),
        };
        row(&mut out, style, finding.feature.name(), role, word, detail);
        remedy(&mut out, style, finding.remedy.as_deref());
    }
    let name = Safe(&diagnosis.profile.name).to_string();
    match &diagnosis.trial {
        Ok(Trial { report, warnings }) => {
            let text = format!(
                "\nprofile `{name}`: a sandbox was built by the back end `{}`",
                report.backend
            );
            push(&mut out, &text);
            for (layer, status) in &report.layers {
                let (role, word, detail) = output::layer_status(status);
                row(&mut out, style, layer.name(), role, word, detail);
            }
            let unenforced = diagnosis.unenforced();
            for (kind, status) in &report.limits {
                let (role, word, detail) = output::limit_status(status);
                let label = format!("limit {}", kind.name());
                row(&mut out, style, &label, role, word, detail);
                let found = unenforced.iter().find(|it| it.kind == *kind);
                remedy(&mut out, style, found.and_then(|it| it.remedy));
            }
            for text in report.notes.iter().chain(warnings) {
                push(&mut out, &format!("  note: {}", Safe(text)));
            }
            let names: Vec<&str> = unenforced.iter().map(|it| it.kind.name()).collect();
            push(&mut out, &verdict(style, &name, &names));
        }
        Err(_) => {
            let text = format!("\nprofile `{name}` can not run here; nothing would be started");
            push(&mut out, &style.paint(Role::Error, text).to_string());
        }
    }
    out
}

fn verdict(style: Style, name: &str, unenforced: &[&str]) -> String {
    let sentence = if unenforced.is_empty() {
        format!("profile `{name}` can run here, and every limit is enforced by the kernel")
    } else {
        format!(
            "profile `{name}` can run here; limits that the kernel does not enforce: {}",
            unenforced.join(", ")
        )
    };
    let role = if unenforced.is_empty() {
        Role::Success
    } else {
        Role::Warning
    };
    style.paint(role, sentence).to_string()
}

/// The table of an attack, and its sum.
pub(crate) fn attack(style: Style, attack: &Attack) -> String {
    let mut out = format!(
        "\n{:<12} {:<34} {:<8} {:<16} verdict\n",
        "class", "probe", "free", "confined"
    );
    for row in &attack.rows {
        let (role, word) = match row.verdict {
            Verdict::AllowedByPolicy => (Role::Quiet, "allowed by policy"),
            Verdict::Broken => (Role::Error, "BROKEN"),
            Verdict::Held => (Role::Success, "held"),
            Verdict::NotProven => (Role::Warning, "not proven here"),
        };
        let detail = match row.verdict {
            // The errno says it all.
            Verdict::Held
                if row
                    .confined
                    .as_ref()
                    .is_some_and(|it| it.outcome == Word::Refused) =>
            {
                ""
            }
            _ => &row.detail,
        };
        let line = format!(
            "{:<12} {:<34} {:<8} {:<16} {} {}",
            row.probe.class,
            row.probe.id,
            shown(row.free.as_ref()),
            shown(row.confined.as_ref()),
            style.paint(role, word),
            Safe(detail),
        );
        push(&mut out, line.trim_end());
        if row.verdict == Verdict::Broken {
            push(&mut out, &format!("             {}", row.probe.tries));
        }
    }
    for line in &attack.host {
        let word = style.paint(Role::Error, "BROKEN");
        push(&mut out, &format!("{:<12} {word} {}", "host", Safe(line)));
    }
    let broken = attack.count(Verdict::Broken);
    let sum = format!(
        "\n{} held, {} allowed by policy, {} not proven here, {broken} BROKEN",
        attack.count(Verdict::Held),
        attack.count(Verdict::AllowedByPolicy),
        attack.count(Verdict::NotProven),
    );
    let role = if broken == 0 {
        Role::Success
    } else {
        Role::Error
    };
    push(&mut out, &style.paint(role, sum).to_string());
    out
}

fn shown(answer: Option<&Answer>) -> String {
    match answer {
        None => "-".to_owned(),
        Some(it) => match it.outcome {
            Word::Ended => "ended".to_owned(),
            Word::Error => "error".to_owned(),
            Word::Refused if it.errno.is_empty() => "refused".to_owned(),
            Word::Refused => it.errno.clone(),
            Word::Worked => "worked".to_owned(),
        },
    }
}

fn push(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

fn row(out: &mut String, style: Style, name: &str, role: Role, word: &str, detail: &str) {
    let word = style.paint(role, format!("{word:<9}"));
    let line = format!("  {name:<26} {word} {}", Safe(detail));
    push(out, line.trim_end());
}

fn remedy(out: &mut String, style: Style, remedy: Option<&str>) {
    let label = style.paint(Role::Help, "remedy:").to_string();
    for (at, line) in remedy.into_iter().flat_map(str::lines).enumerate() {
        let label = if at == 0 { label.as_str() } else { "       " };
        push(out, &format!("      {label} {}", Safe(line)));
    }
}
