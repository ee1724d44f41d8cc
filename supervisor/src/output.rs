//! What is printed for people: reports, receipts, lists.
#![expect(
    clippy::print_stderr,
    reason = "the one place that prints results; errors are printed by exit.rs"
)]

use std::io::Write;

use sandbox::{EnforcementReport, LayerStatus, LimitStatus};
use serde::Serialize;

use crate::aftermath::Quarantined;
use crate::cli::ReportFormat;
use crate::monitor::Cause;
use crate::session::Answer;
use crate::style::{Role, Safe, Style};

/// A line on standard output.
pub(crate) fn line(text: &str) {
    self::text(&format!("{text}\n"));
}

/// A text on standard output as it is.
pub(crate) fn text(text: &str) {
    let mut out = std::io::stdout().lock();
    // A reader that has left, such as `head`, has what it wanted.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// A note on standard error.
pub(crate) fn note(style: Style, label: &str, text: &str) {
    eprintln!(
        "{} {}",
        style.paint(Role::Quiet, format!("stockade: {label}")),
        Safe(text)
    );
}

/// Something that a person should know, on standard error.
pub(crate) fn warning(style: Style, text: &str) {
    eprintln!(
        "{} {}",
        style.paint(Role::Warning, "stockade: warning:"),
        Safe(text)
    );
}

/// What the kernel enforces, before the command starts.
pub(crate) fn report(style: Style, report: &EnforcementReport, format: ReportFormat) {
    if format == ReportFormat::Json {
        return;
    }
    eprintln!(
        "{}",
        style.paint(
            Role::Quiet,
            format!("stockade: back end {}", report.backend)
        )
    );
    for (layer, status) in &report.layers {
        let (role, word, how) = layer_status(status);
        eprintln!(
            "  {:<18} {} {}",
            layer.name(),
            style.paint(role, format!("{word:<9}")),
            Safe(how)
        );
    }
    for (kind, status) in &report.limits {
        let (role, word, how) = limit_status(status);
        eprintln!(
            "  {:<18} {} {}",
            kind.name(),
            style.paint(role, format!("{word:<9}")),
            Safe(how)
        );
    }
    for note in &report.notes {
        eprintln!("  {}", Safe(note));
    }
}

/// What is not as the strictest profile would have it, in a line each.
pub(crate) fn losses(style: Style, report: &EnforcementReport) {
    for (layer, status) in &report.layers {
        if let LayerStatus::Absent(how) | LayerStatus::Degraded(how) = status {
            warning(style, &format!("{}: {how}", layer.name()));
        }
    }
}

pub(crate) fn layer_status(status: &LayerStatus) -> (Role, &'static str, &str) {
    match status {
        LayerStatus::Absent(how) => (Role::Error, "absent", how),
        LayerStatus::Degraded(how) => (Role::Warning, "degraded", how),
        LayerStatus::Enforced(how) => (Role::Success, "enforced", how),
        LayerStatus::Granted(how) => (Role::Warning, "granted", how),
        _ => (Role::Warning, "unknown", ""),
    }
}

pub(crate) fn limit_status(status: &LimitStatus) -> (Role, &'static str, &str) {
    match status {
        LimitStatus::Absent(how) => (Role::Warning, "absent", how),
        LimitStatus::Enforced(how) => (Role::Success, "enforced", how),
        LimitStatus::Polled(how) => (Role::Warning, "polled", how),
        LimitStatus::Unlimited => (Role::Quiet, "unlimited", ""),
        _ => (Role::Warning, "unknown", ""),
    }
}

/// What there is to say when the command has ended.
pub(crate) fn end(style: Style, answer: &Answer, format: Option<ReportFormat>, watched: bool) {
    if format == Some(ReportFormat::Json) {
        json(answer);
        return;
    }
    match answer.cause {
        Some(Cause::Memory(bytes)) => warning(
            style,
            &format!(
                "ended: its tree used {} MiB of memory, over its limit",
                bytes >> 20
            ),
        ),
        Some(Cause::WallTime) => warning(style, "ended: its wall time was over"),
        None => (),
    }
    quarantined(style, &answer.quarantined);
    if let Some(error) = &answer.unsearched {
        warning(
            style,
            &format!("protected names were not looked for: {error}"),
        );
    }
    if let Some(id) = &answer.staged {
        note(
            style,
            "staged:",
            &format!("see `stockade changes diff {id}`, then apply or discard {id}"),
        );
    }
    if format.is_none() && !watched {
        return;
    }
    if !answer.receipt.changed.is_empty() {
        note(style, "changed, and run by others later:", "");
        for path in &answer.receipt.changed {
            eprintln!("  {}", Safe(path.display()));
        }
        if answer.receipt.more > 0 {
            eprintln!("  and {} more", answer.receipt.more);
        }
    }
    if format.is_some() {
        let usage = answer.usage;
        note(
            style,
            "used:",
            &format!(
                "{} ms user, {} ms system, {} MiB at most in one process",
                usage.user_micros / 1000,
                usage.system_micros / 1000,
                usage.resident_kib / 1024
            ),
        );
    }
}

/// Protected names that appeared or changed, and where they are now.
pub(crate) fn quarantined(style: Style, all: &[Quarantined]) {
    for found in all {
        let text = match &found.moved {
            Ok(place) => format!(
                "`{}` is a protected name that the command made or changed; it is now `{}`",
                found.path.display(),
                place.file_name().unwrap_or_default().display()
            ),
            Err(why) => format!(
                "`{}` is a protected name that the command made or changed, and could not be moved aside \
                 ({why}); look at it before you use it",
                found.path.display()
            ),
        };
        warning(style, &text);
    }
}

#[derive(Serialize)]
struct JsonAnswer<'a> {
    exit_code: u8,
    report: &'a EnforcementReport,
    usage: sandbox::Usage,
    ended_for: Option<&'static str>,
    quarantined: Vec<JsonQuarantined>,
    changed: Vec<String>,
    changed_more: usize,
    staged: Option<&'a str>,
}

#[derive(Serialize)]
struct JsonQuarantined {
    path: String,
    moved_to: Option<String>,
    error: Option<String>,
}

fn json(answer: &Answer) {
    let quarantined = answer
        .quarantined
        .iter()
        .map(|it| JsonQuarantined {
            path: it.path.display().to_string(),
            moved_to: it.moved.as_ref().ok().map(|it| it.display().to_string()),
            error: it.moved.as_ref().err().cloned(),
        })
        .collect();
    let value = JsonAnswer {
        exit_code: answer.outcome.code(),
        report: &answer.report,
        usage: answer.usage,
        ended_for: answer.cause.map(|it| match it {
            Cause::Memory(_) => "memory",
            Cause::WallTime => "wall_time",
        }),
        quarantined,
        changed: answer
            .receipt
            .changed
            .iter()
            .map(|it| it.display().to_string())
            .collect(),
        changed_more: answer.receipt.more,
        staged: answer.staged.as_deref(),
    };
    if let Ok(text) = serde_json::to_string(&value) {
        eprintln!("{text}");
    }
}
