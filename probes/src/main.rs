//! Runs the probes, and builds and judges the stage they run on.

use std::process::ExitCode;

fn main() -> ExitCode {
    stockade_probes::cli::main(std::env::args_os().skip(1))
}
