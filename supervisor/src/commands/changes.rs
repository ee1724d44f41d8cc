//! `stockade changes`: staged work, listed, shown, applied or thrown away.

use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

use sandbox::staging::{Outcome as Fate, escape};

use crate::caller::Caller;
use crate::cli::ChangesAction;
use crate::exit;
use crate::output;
use crate::stage::{self, StageError};
use crate::style::{Safe, Style};

pub(crate) fn run(action: Option<ChangesAction>, caller: &Caller, style: Style) -> ExitCode {
    let bytes = |paths: Vec<std::ffi::OsString>| -> Vec<Vec<u8>> {
        paths.into_iter().map(OsStringExt::into_vec).collect()
    };
    let result = match action.unwrap_or(ChangesAction::List) {
        ChangesAction::List => list(caller),
        ChangesAction::Diff { id, paths } => {
            stage::diff(caller, &id, &bytes(paths), &mut std::io::stdout()).map(|_| true)
        }
        ChangesAction::Apply { id, paths } => apply(caller, style, &id, &bytes(paths)),
        ChangesAction::Discard { id } => stage::discard(caller, &id).map(|()| true),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            exit::print_error_to_stderr(style, &error, None);
            ExitCode::FAILURE
        }
    }
}

/// Whether the reader of our output, a pager perhaps, has seen enough.
fn is_closed_pipe(error: &StageError) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        let io = error
            .downcast_ref::<std::io::Error>()
            .map(std::io::Error::kind);
        let errno = error.downcast_ref::<rustix::io::Errno>();
        if io == Some(std::io::ErrorKind::BrokenPipe) || errno == Some(&rustix::io::Errno::PIPE) {
            return true;
        }
        cause = error.source();
    }
    false
}

fn list(caller: &Caller) -> Result<bool, StageError> {
    let stages = stage::list(caller)?;
    if stages.is_empty() {
        output::line("nothing is staged");
    }
    for summary in stages {
        let id = summary.id;
        match summary.state {
            Err(error) => output::line(&format!("{id}  damaged: {error}")),
            Ok(listed) => {
                let state = if listed.live { "running" } else { "waiting" };
                let counts = listed.counts.map_or_else(
                    || "unreadable".to_owned(),
                    |it| {
                        format!(
                            "{} added, {} modified, {} deleted, {} in conflict, {} protected",
                            it.added, it.modified, it.deleted, it.conflicts, it.protected
                        )
                    },
                );
                let workspace = escape(&listed.meta.workspace);
                output::line(&format!("{id}  {state}  {workspace}\n    {counts}"));
                output::line(&format!("    {}", Safe(&listed.meta.command)));
            }
        }
    }
    Ok(true)
}

/// Applies, and says what was left; whether everything was applied.
fn apply(caller: &Caller, style: Style, id: &str, paths: &[Vec<u8>]) -> Result<bool, StageError> {
    let (report, quarantined) = stage::apply(caller, id, paths)?;
    output::quarantined(style, &quarantined);
    let applied = report.count(|it| matches!(it, Fate::Applied));
    output::line(&format!("{applied} applied"));
    for (change, fate) in &report.outcomes {
        if !matches!(fate, Fate::Applied | Fate::Unselected) {
            output::warning(style, &format!("{}: {fate}", escape(&change.path)));
        }
    }
    if report.remaining > 0 {
        output::line(&format!("{} left in stage {id}", report.remaining));
    }
    let left = report.count(|it| !matches!(it, Fate::Applied | Fate::Unselected));
    Ok(left == 0 && quarantined.is_empty())
}
