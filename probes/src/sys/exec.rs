//! Replaces the running program, and places descriptors at fixed numbers.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::check;

/// Replaces this program by `program`, execve(2). Returns only when that failed.
pub(crate) fn execve(
    program: &CString,
    arguments: &[CString],
    environment: &[CString],
) -> io::Error {
    let argv = pointers(arguments);
    let envp = pointers(environment);
    // SAFETY: `program` and every string that `argv` and `envp` point to end in NUL and
    // outlive the call, since they are borrowed; both arrays end in a null pointer.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    io::Error::last_os_error()
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|it| it.as_ptr())
        .chain([std::ptr::null()])
        .collect()
}

/// Copies `fd` to the number `target`, without close-on-exec, dup2(2).
///
/// What `target` named before is closed, so the caller must own that number: the numbers
/// used are 0 and the two sentinels, right before an exec.
pub(crate) fn place(fd: impl AsFd, target: RawFd) -> io::Result<()> {
    // SAFETY: dup2 takes two integers and touches no memory; both are checked by the kernel.
    check(unsafe { libc::dup2(fd.as_fd().as_raw_fd(), target) }.into())?;
    Ok(())
}

/// A copy of the descriptor with the number `number`, which this process may not have.
pub(crate) fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl with F_DUPFD_CLOEXEC takes integers and touches no memory; a number that
    // is not open gives EBADF.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 20) };
    check(copy.into())?;
    // SAFETY: the kernel has just made `copy`, and nothing else in this process knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}
