//! The binary `stockade`: reads the command line, runs what it asks, answers with a code.
//!
//! Start reading at `session.rs`: it tells the story of one command.
#![forbid(unsafe_code)]

mod aftermath;
mod backends;
mod caller;
mod catalog;
mod cli;
mod commands;
mod doctor;
mod exit;
mod keepsake;
mod monitor;
mod output;
mod overrides;
mod place;
mod planner;
mod receipt;
mod relay;
mod runs;
mod session;
mod stage;
mod style;

use std::process::ExitCode;

use clap::Parser;

use crate::caller::Caller;
use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    // Our own program under another role, before anything else is set up.
    let mut arguments = std::env::args_os().skip(1);
    if let Some(first) = arguments.next()
        && first.as_encoded_bytes().starts_with(b"__")
    {
        return commands::hidden::run(&first, arguments.next().as_deref());
    }
    let caller = match Caller::look() {
        Ok(caller) => caller,
        Err(error) => {
            exit::print_error_to_stderr(
                style::Style::Plain,
                &error,
                Some("change to a folder that exists"),
            );
            return exit::Outcome::Usage.into();
        }
    };
    let style = commands::style_of_stderr(&caller);
    match Cli::parse().command {
        Command::Exec(arguments) => commands::exec::run(arguments, &caller, style),
        Command::Changes { action } => commands::changes::run(action, &caller, style),
        Command::Doctor(arguments) => commands::doctor::run(&arguments, &caller, style),
        Command::Profile { action } => commands::profile::run(&action, &caller, style),
        Command::Ps { json } => commands::ps::list(json, &caller, style),
        Command::Kill { id, force } => commands::ps::kill(&id, force, &caller, style),
        Command::Completions { shell } => commands::shell::completions(shell),
        Command::Man { folder } => commands::shell::man(&folder, style),
    }
}
