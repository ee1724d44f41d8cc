//! Wraps the system calls that the probes need and rustix does not offer, one per function.
//!
//! # Invariants
//!
//! - Nothing here decides anything: each function makes its call and returns the answer.
//! - Each signature is safe: no argument a caller can pass makes the kernel touch memory
//!   that the function did not prepare itself.
//! - [`fork`] is called by single-threaded programs only (`stockade-probe` starts no thread),
//!   so the child may allocate.
#![expect(
    unsafe_code,
    reason = "this is the one place of the crate that calls the kernel directly"
)]

pub(crate) mod exec;
pub(crate) mod files;
#[cfg(target_arch = "x86_64")]
pub(crate) mod foreign;
pub(crate) mod ipc;
pub(crate) mod memory;
pub(crate) mod ring;
pub(crate) mod surface;
pub(crate) mod terminal;
pub(crate) mod trace;

use std::io;

use rustix::process::Pid;

/// Which side of a [`fork`] this is.
pub(crate) enum Fork {
    /// The new process.
    Child,
    /// The old process, told the new one's pid.
    Parent(Pid),
}

/// Turns a kernel answer into a result.
pub(crate) fn check(answer: libc::c_long) -> io::Result<libc::c_long> {
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(answer)
    }
}

/// Makes a copy of this process, fork(2).
pub(crate) fn fork() -> io::Result<Fork> {
    // SAFETY: fork takes no argument. In a process with one thread the child may do whatever
    // the parent may, and by the invariant of this module there is one thread.
    let pid = unsafe { libc::fork() };
    check(pid.into())?;
    Ok(Pid::from_raw(pid).map_or(Fork::Child, Fork::Parent))
}

/// Ends this process at once, without destructors or buffered output, `_exit(2)`.
pub(crate) fn exit_now(code: u8) -> ! {
    // SAFETY: `_exit` takes an integer, touches no memory and does not return.
    unsafe { libc::_exit(code.into()) }
}
