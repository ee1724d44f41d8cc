//! `stockade doctor`: what this machine can enforce.

use std::process::ExitCode;

use crate::caller::Caller;
use crate::cli::DoctorArgs;
use crate::style::Style;

pub(crate) fn run(_arguments: &DoctorArgs, _caller: &Caller, _style: Style) -> ExitCode {
    ExitCode::SUCCESS
}
