//! One meaning, three back ends: the same confinements, the same expectations.
//!
//! Each case runs free first, where it must succeed, so that it can fail; then under every back
//! end. As root the whole suite runs again as an ordinary user. This binary is its own second
//! stage, so it has its own `main`, and one thread.
#![expect(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test with its own main: there is no test module"
)]

mod cases;
mod environments;
mod fixture;
mod free;
mod given;
mod life;
mod refusals;

use std::ffi::OsString;
use std::process::ExitCode;

use fixture::Suite;

/// The user that stands for every ordinary one.
///
/// Not 65534: a set-uid bubblewrap maps that one for terminals, and fails if the caller is it.
const ORDINARY: &str = "54321";

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    sandbox::stage::dispatch(words.clone());
    if let [mode, rest @ ..] = words.as_slice() {
        match mode.to_str() {
            Some("__supervise") => return life::supervise(rest),
            Some("__overflow") => return refusals::overflow(),
            Some("__environment") => return environments::inside(rest),
            _ => (),
        }
    }
    let filter = words
        .iter()
        .filter_map(|it| it.to_str())
        .find(|it| !it.starts_with('-') && *it != "__ordinary")
        .map(str::to_owned);
    let mut suite = Suite::new(filter);
    cases::run(&mut suite);
    given::run(&mut suite);
    life::run(&mut suite);
    refusals::run(&mut suite);
    refusals::stuck(&mut suite);
    environments::run(&mut suite);
    let mut passed = suite.summary();
    if rustix::process::getuid().is_root() {
        passed &= again_as_an_ordinary_user(&words);
    }
    if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs the whole suite as another user, from a copy that this user can read.
fn again_as_an_ordinary_user(words: &[OsString]) -> bool {
    let folder = free::readable_copy();
    let status = free::as_user(ORDINARY, folder.path())
        .arg("__ordinary")
        .args(words)
        .status();
    match status {
        Ok(status) => status.success(),
        Err(error) => {
            println!("not tested as an ordinary user: setpriv can not be run ({error})");
            !fixture::enforcement_is_required()
        }
    }
}
