//! `stockade ps` and `stockade kill`: what runs, and ending it.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::caller::Caller;
use crate::exit;
use crate::output;
use crate::runs;
use crate::session;
use crate::style::{Safe, Style};

pub(crate) fn list(json: bool, caller: &Caller, style: Style) -> ExitCode {
    let Some(state) = caller.state_folder() else {
        return ExitCode::SUCCESS;
    };
    let runs = match runs::list(&state) {
        Ok(runs) => runs,
        Err(error) => {
            exit::print_error_to_stderr(style, &error, None);
            return ExitCode::FAILURE;
        }
    };
    for run in runs {
        if json {
            output::line(&serde_json::to_string(&run).unwrap_or_default());
            continue;
        }
        let seconds = session::now().saturating_sub(run.started);
        output::line(&format!(
            "{}  {:>7}  {:>6} s  {:<10} {}  {}",
            run.id,
            run.pid,
            seconds,
            Safe(&run.profile),
            Safe(&run.workspace),
            Safe(run.command.join(" "))
        ));
    }
    ExitCode::SUCCESS
}

pub(crate) fn kill(id: &str, force: bool, caller: &Caller, style: Style) -> ExitCode {
    let found = caller.state_folder().and_then(|state| {
        let runs = runs::list(&state).ok()?;
        let run = runs.into_iter().find(|it| it.id == id)?;
        Some((state, run))
    });
    let Some((state, run)) = found else {
        output::warning(style, &format!("no sandbox `{id}` runs; see `stockade ps`"));
        return ExitCode::FAILURE;
    };
    let signal = if force { Signal::KILL } else { Signal::TERM };
    if let Err(error) = runs::signal(&state, &run, signal) {
        exit::print_error_to_stderr(style, &error, None);
        return ExitCode::FAILURE;
    }
    // TERM, two seconds, KILL, and the reaper's second.
    let deadline = Instant::now() + Duration::from_secs(5);
    while Instant::now() < deadline {
        if runs::list(&state).is_ok_and(|runs| !runs.contains(&run)) {
            return ExitCode::SUCCESS;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    output::warning(
        style,
        &format!("`{id}` has not ended; try `stockade kill --force {id}`"),
    );
    ExitCode::FAILURE
}
