//! The system calls that no safe wrapper offers: one for each function, no decision.
//!
//! # Invariants
//!
//! - All `unsafe` of this crate is below here.
//! - After [`process::fork`] or [`process::clone3`] the child may allocate: both refuse to run
//!   in a process with more than one thread, so no lock can be held by a thread that the
//!   child does not have.
#![expect(
    unsafe_code,
    reason = "the one place for system calls without a safe wrapper"
)]

pub(crate) mod landlock;
pub(crate) mod mount;
pub(crate) mod network;
pub(crate) mod process;
pub(crate) mod seccomp;
pub mod signal;

use std::io;

/// Turns the kernel's `-1` into the error it set.
fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
