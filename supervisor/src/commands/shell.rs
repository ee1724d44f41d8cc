//! `stockade completions` and `stockade man`: what an installation puts beside the program.

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::Cli;
use crate::exit;
use crate::style::Style;

pub(crate) fn completions(shell: clap_complete::Shell) -> ExitCode {
    let mut command = Cli::command();
    clap_complete::generate(shell, &mut command, "stockade", &mut std::io::stdout());
    ExitCode::SUCCESS
}

pub(crate) fn man(folder: &Path, style: Style) -> ExitCode {
    match clap_mangen::generate_to(Cli::command(), folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            exit::print_error_to_stderr(style, &error, Some("name a folder that can be written"));
            ExitCode::FAILURE
        }
    }
}
