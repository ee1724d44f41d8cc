//! `stockade doctor`: what this machine can enforce.

use std::process::ExitCode;

use super::style_of_stdout;
use crate::caller::Caller;
use crate::cli::DoctorArgs;
use crate::doctor::attack::Attack;
use crate::doctor::judge::Verdict;
use crate::doctor::{Diagnosis, Scratch, json, print};
use crate::exit::{self, Outcome};
use crate::output;
use crate::overrides::Overrides;
use crate::session::{self, SessionError};
use crate::style::Style;

/// The profile that is tried, and the one that is attacked, where none is named.
const DEFAULTS: [&str; 2] = ["standard", "strict"];

pub(crate) fn run(arguments: &DoctorArgs, caller: &Caller, style: Style) -> ExitCode {
    let [tried, attacked] = DEFAULTS;
    let usual = if arguments.attack { attacked } else { tried };
    let name = arguments.profile.as_deref().unwrap_or(usual);
    let fail = |error: &SessionError, code: Outcome| {
        exit::print_error_to_stderr(style, error, error.help());
        code.into()
    };
    let profile = match session::load(name, &Overrides::default(), caller) {
        Ok(profile) => profile,
        Err(error) => return fail(&error, Outcome::Usage),
    };
    let made = Scratch::make(caller).and_then(|scratch| {
        let place = scratch.workspace()?;
        Ok((scratch, place))
    });
    let (scratch, place) = match made {
        Ok(made) => made,
        Err(error) => {
            let help = "make ~/.cache, /var/tmp or /tmp writable";
            exit::print_error_to_stderr(style, &error, Some(help));
            return ExitCode::FAILURE;
        }
    };
    let diagnosis = match Diagnosis::make(profile, arguments.backend, &place, caller) {
        Ok(diagnosis) => diagnosis,
        Err(error) => return fail(&error, Outcome::Exited(1)),
    };
    if !arguments.json {
        let style = style_of_stdout(caller);
        output::text(&print::diagnosis(style, &diagnosis));
    }
    let attack = match &diagnosis.trial {
        Ok(trial) if arguments.attack => {
            let mut say = |text: &str| output::note(style, "attack:", text);
            let made = Attack::make(
                &diagnosis.profile,
                arguments.backend,
                &trial.report,
                &scratch,
                caller,
                &mut say,
            );
            match made {
                Ok(attack) => Some(attack),
                Err(error) => {
                    exit::print_error_to_stderr(style, &error, error.help());
                    return ExitCode::FAILURE;
                }
            }
        }
        Ok(_) => None,
        Err(error) => {
            if !arguments.json {
                exit::print_error_to_stderr(style, error, error.help());
            }
            None
        }
    };
    if arguments.json {
        output::line(&json::text(&diagnosis, attack.as_ref()));
    } else if let Some(attack) = &attack {
        let style = style_of_stdout(caller);
        output::text(&print::attack(style, attack));
    }
    let broken = attack.is_some_and(|it| it.count(Verdict::Broken) > 0);
    if diagnosis.trial.is_err() || broken {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
