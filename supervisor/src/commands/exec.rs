//! `stockade exec`: one command in a sandbox.

use std::process::ExitCode;

use sandbox::SandboxError;

use crate::caller::Caller;
use crate::cli::ExecArgs;
use crate::exit::{self, Outcome};
use crate::output;
use crate::planner::PlanError;
use crate::session::{self, Request, SessionError};
use crate::stage;
use crate::style::Style;

pub(crate) fn run(arguments: ExecArgs, caller: &Caller, style: Style) -> ExitCode {
    let overrides = arguments.overrides();
    let ExecArgs {
        profile,
        workspace,
        backend,
        report: format,
        command,
        ..
    } = arguments;
    let mut command = command.into_iter();
    let request = Request {
        profile,
        overrides,
        backend,
        program: command.next().unwrap_or_default(),
        arguments: command.collect(),
        workspace,
    };
    let watched = session::is_watched();
    if watched && let Ok(workspace) = caller.directory.join(&request.workspace).canonicalize() {
        let waiting = stage::waiting(caller, &workspace);
        if waiting > 0 {
            let text = format!("{waiting} for this workspace; see `stockade changes list`");
            output::note(style, "staged work is waiting:", &text);
        }
    }
    let answer = session::run(request, caller, &mut |report, warnings| {
        for warning in warnings {
            output::warning(style, warning);
        }
        match format {
            Some(format) => output::report(style, report, format),
            None => output::losses(style, report),
        }
    });
    match answer {
        Ok(answer) => {
            output::end(style, &answer, format, watched);
            answer.outcome.into()
        }
        Err(error) => {
            let (outcome, help) = judge(&error);
            exit::print_error_to_stderr(style, &error, help.as_deref());
            outcome.into()
        }
    }
}

/// The exit code of an error, and what can be done about it.
fn judge(error: &SessionError) -> (Outcome, Option<String>) {
    let help = |text: &str| Some(text.to_owned());
    match error {
        SessionError::Profile(error) => (Outcome::Usage, error.help().map(str::to_owned)),
        SessionError::UnknownProfile { .. } => (
            Outcome::Usage,
            help("`stockade profile list` names those that exist"),
        ),
        SessionError::UnreadableProfile { .. } | SessionError::Override(_) => {
            (Outcome::Usage, None)
        }
        SessionError::Plan(error) => {
            let outcome = match error {
                PlanError::HardLink { .. } | PlanError::Walk { .. } => Outcome::NotConfined,
                _ => Outcome::Usage,
            };
            (outcome, error.help().map(str::to_owned))
        }
        SessionError::Sandbox(SandboxError::Exec { source, .. }) => match source.raw_os_error() {
            Some(code) if code == rustix::io::Errno::NOENT.raw_os_error() => (
                Outcome::NotFound,
                help(
                    "only what the profile grants is visible inside; see --read, or `stockade profile show --effective`",
                ),
            ),
            _ => (Outcome::NotExecutable, None),
        },
        SessionError::Sandbox(error) => (Outcome::NotConfined, error.help().map(str::to_owned)),
        SessionError::Keepsake(_)
        | SessionError::Stage(_)
        | SessionError::Streams(_)
        | SessionError::Signals(_) => (Outcome::NotConfined, None),
        SessionError::Monitor(_) => (Outcome::Failed, None),
    }
}
