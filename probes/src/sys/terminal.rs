//! Terminal ioctls that put words into somebody else's mouth.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use super::check;

/// Pushes one byte into the input of a terminal, `TIOCSTI` of `ioctl_tty(2)`, with `high` or-ed
/// into the request's upper half, which the kernel ignores and a careless filter compares.
pub(crate) fn push_input(terminal: impl AsFd, byte: u8, high: u32) -> io::Result<()> {
    let request = (u64::from(high) << 32) | libc::TIOCSTI;
    let fd = terminal.as_fd().as_raw_fd();
    // SAFETY: TIOCSTI reads one byte at the pointer, which is to the argument `byte`. The raw
    // call is used since the C function could cut the request to 32 bits.
    check(unsafe { libc::syscall(libc::SYS_ioctl, fd, request, &raw const byte) })?;
    Ok(())
}

/// Reads the shift state of a console, `TIOCLINUX` subcode 6 of `ioctl_console(2)`: the least
/// harmful of the calls that paste a selection.
pub(crate) fn console_shift_state(terminal: impl AsFd) -> io::Result<()> {
    const TIOCLINUX: libc::c_long = 0x541c;
    let mut buffer = [6_u8; 64];
    let fd = terminal.as_fd().as_raw_fd();
    // SAFETY: subcode 6 reads one byte at the pointer and writes one back; `buffer` has 64.
    check(unsafe { libc::syscall(libc::SYS_ioctl, fd, TIOCLINUX, buffer.as_mut_ptr()) })?;
    Ok(())
}

/// Makes `terminal` the controlling terminal of this session, `TIOCSCTTY`; `steal` takes it
/// from the session that has it, which needs `CAP_SYS_ADMIN`.
pub(crate) fn take_terminal(terminal: impl AsFd, steal: bool) -> io::Result<()> {
    let fd = terminal.as_fd().as_raw_fd();
    // SAFETY: TIOCSCTTY takes an integer argument and touches no memory.
    check(unsafe { libc::ioctl(fd, libc::TIOCSCTTY, libc::c_int::from(steal)) }.into())?;
    Ok(())
}

/// Ignores the signals that ask a process to end: hang-up, interrupt, quit and terminate.
pub(crate) fn ignore_polite_signals() {
    for number in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // SAFETY: SIG_IGN is a valid disposition for each of these numbers; no handler runs.
        unsafe { libc::signal(number, libc::SIG_IGN) };
    }
}
