//! Our own program under other roles, which no person calls.

use std::ffi::OsStr;
use std::process::ExitCode;

use sandbox::{Network, zygote};

use crate::exit::Outcome;

/// Runs the role that `name` asks for.
pub(crate) fn run(name: &OsStr, argument: Option<&OsStr>) -> ExitCode {
    sandbox::stage::dispatch(std::env::args_os().skip(1));
    if name.as_encoded_bytes() == zygote::ARGUMENT.to_bytes() {
        let network = match argument {
            Some(argument) if argument == "host" => Network::Host,
            _ => Network::Off,
        };
        zygote::run(network)
    }
    Outcome::Usage.into()
}
