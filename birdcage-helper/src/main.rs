//! Runs one command under birdcage, as a plan in an inherited descriptor says.
//!
//! ```text
//! stockade-birdcage FD          outer: reads the plan, applies birdcage, waits
//!   └─ birdcage's init          PID 1 of the sandbox
//!        └─ stockade-birdcage --inside …   inner: says that it is confined, execs the command
//! ```
//!
//! The inner stage exists because birdcage's init ends with status 1 when confinement fails,
//! which a command may also do. Without its word, the outer stage reports 125.
//!
//! # Invariants
//!
//! - **The environment is empty.** What this program was started with can be read by the
//!   payload in `/proc/1/environ`, so it refuses to start with any variable at all.
//! - **No descriptor passes.** The outer stage closes all but the standard three, since the
//!   payload can open those of birdcage's init; the inner stage marks its own close-on-exec.
//! - **One thread.** birdcage panics otherwise.

mod exit;
mod inner;
mod outer;
mod plan;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match arguments.as_slice() {
        // birdcage asserts and unwraps; the panic's message is printed before this returns.
        [fd] => exit::code(
            std::panic::catch_unwind(|| outer::run(fd)).unwrap_or(Err(exit::HelperError::Panicked)),
        ),
        [flag, plan, report] if flag == "--inside" => exit::code(inner::run(plan, report)),
        _ => exit::code(Err(exit::HelperError::Usage)),
    }
}
