//! `stockade profile`: which there are, what they say, and what is wrong with one.

use std::process::ExitCode;

use policy::{BUILTIN_NAMES, Catalog};

use crate::caller::Caller;
use crate::catalog::Profiles;
use crate::cli::ProfileAction;
use crate::exit::{self, Outcome};
use crate::output;
use crate::overrides::Overrides;
use crate::session::{self, SessionError};
use crate::style::Style;

pub(crate) fn run(action: &ProfileAction, caller: &Caller, style: Style) -> ExitCode {
    let result = match action {
        ProfileAction::List => list(caller),
        ProfileAction::Show { name, effective } => show(name, *effective, caller),
        ProfileAction::Check { file } => check(file, caller),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let help = match &error {
                SessionError::Profile(error) => error.help(),
                SessionError::UnknownProfile { .. } => {
                    Some("`stockade profile list` names those that exist")
                }
                _ => None,
            };
            exit::print_error_to_stderr(style, &error, help);
            Outcome::Usage.into()
        }
    }
}

fn list(caller: &Caller) -> Result<(), SessionError> {
    let own = Profiles::new(caller).own_names();
    let names = BUILTIN_NAMES.iter().map(|it| (*it).to_owned()).chain(own);
    for name in names {
        match session::load(&name, &Overrides::default(), caller) {
            Ok(profile) => output::line(&format!("{name:<12} {}", profile.description)),
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                output::line(&format!("{name:<12} broken: {}", cause.unwrap_or_default()));
            }
        }
    }
    Ok(())
}

fn show(name: &str, effective: bool, caller: &Caller) -> Result<(), SessionError> {
    if effective {
        let profile = session::load(name, &Overrides::default(), caller)?;
        output::text(&profile.to_toml());
        return Ok(());
    }
    let unknown = || SessionError::UnknownProfile {
        name: name.to_owned(),
    };
    let source = Profiles::new(caller)
        .fetch(name)
        .map_err(|why| SessionError::UnreadableProfile {
            name: name.to_owned(),
            why,
        })?
        .ok_or_else(unknown)?;
    output::text(&source.text);
    Ok(())
}

fn check(file: &str, caller: &Caller) -> Result<(), SessionError> {
    let profile = session::load(file, &Overrides::default(), caller)?;
    output::line(&format!("{file}: ok ({})", profile.description));
    Ok(())
}
