//! Reaches into other processes: ptrace(2) and `process_vm_readv(2)`.

use std::io;

use rustix::process::Pid;

use super::check;

/// The sixth argument travels on the stack, so it must have a register's width.
const NO_FLAGS: libc::c_long = 0;

/// Stops `pid` under this process' control, `PTRACE_ATTACH`, and lets it go again.
pub(crate) fn attach_and_detach(pid: Pid) -> io::Result<()> {
    let raw = pid.as_raw_nonzero().get();
    // SAFETY: PTRACE_ATTACH ignores address and data and touches no memory of the caller.
    check(unsafe { libc::ptrace(libc::PTRACE_ATTACH, raw, 0, 0) })?;
    let stopped = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::UNTRACED);
    // SAFETY: PTRACE_DETACH with data 0 delivers no signal and touches no memory.
    check(unsafe { libc::ptrace(libc::PTRACE_DETACH, raw, 0, 0) })?;
    stopped?;
    Ok(())
}

/// Takes control of `pid` without stopping it, `PTRACE_SEIZE`. It ends with this process.
pub(crate) fn seize(pid: Pid) -> io::Result<()> {
    let raw = pid.as_raw_nonzero().get();
    // SAFETY: PTRACE_SEIZE takes options in `data`, here none, and touches no memory.
    check(unsafe { libc::ptrace(libc::PTRACE_SEIZE, raw, 0, 0) })?;
    Ok(())
}

/// Asks to be traced by the parent, `PTRACE_TRACEME`.
pub(crate) fn trace_me() -> io::Result<()> {
    // SAFETY: PTRACE_TRACEME ignores all other arguments and touches no memory.
    check(unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) })?;
    Ok(())
}

/// Reads `length` bytes at `address` in the memory of `pid`, `process_vm_readv(2)`.
pub(crate) fn read_memory(pid: Pid, address: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0_u8; length];
    let local = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: length,
    };
    let remote_address = usize::try_from(address).map_err(io::Error::other)?;
    let remote = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(remote_address),
        iov_len: length,
    };
    let raw = pid.as_raw_nonzero().get();
    // SAFETY: `local` covers exactly `buffer`, which outlives the call; `remote` is an address
    // in the other process and is never followed in this one.
    let read = check(unsafe {
        libc::syscall(
            libc::SYS_process_vm_readv,
            raw,
            &raw const local,
            1,
            &raw const remote,
            1,
            NO_FLAGS,
        )
    })?;
    buffer.truncate(usize::try_from(read).unwrap_or(0));
    Ok(buffer)
}

/// Writes `bytes` at `address` into the memory of `pid`, `process_vm_writev(2)`.
pub(crate) fn write_memory(pid: Pid, address: u64, bytes: &[u8]) -> io::Result<()> {
    let local = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let remote_address = usize::try_from(address).map_err(io::Error::other)?;
    let remote = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(remote_address),
        iov_len: bytes.len(),
    };
    let raw = pid.as_raw_nonzero().get();
    // SAFETY: `local` covers exactly `bytes`, which the kernel only reads; `remote` is an
    // address in another process (the stage's victim) and is never followed in this one.
    check(unsafe {
        libc::syscall(
            libc::SYS_process_vm_writev,
            raw,
            &raw const local,
            1,
            &raw const remote,
            1,
            NO_FLAGS,
        )
    })?;
    Ok(())
}
