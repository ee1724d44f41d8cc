//! Hosts that lack something, simulated.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::fixture::Suite;

pub(crate) fn run(_suite: &mut Suite) {}

/// Runs in the simulated host.
pub(crate) fn inside(_words: &[OsString]) -> ExitCode {
    ExitCode::SUCCESS
}
