//! Shared mappings of files, written through memory instead of write(2).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Writes `byte` at the start of the file through a shared mapping, mmap(2).
///
/// The file must not be empty, or the store raises SIGBUS.
pub(crate) fn store_through_mapping(file: impl AsFd, byte: u8) -> io::Result<()> {
    let fd = file.as_fd().as_raw_fd();
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a null address lets the kernel choose, so no existing mapping is replaced.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), 1, protection, libc::MAP_SHARED, fd, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `start` is a writable mapping of at least one byte that only this function
    // knows; a volatile store cannot be left out. Other writers of the file are no data race
    // in this process.
    unsafe { start.cast::<u8>().write_volatile(byte) };
    // SAFETY: `start` is the mapping made above, of the same length, not used afterwards.
    unsafe { libc::munmap(start, 1) };
    Ok(())
}

/// The address at which `bytes` lie, as another process would have to name it.
pub(crate) fn address_of(bytes: &[u8]) -> u64 {
    bytes.as_ptr().addr() as u64
}

/// Stores `byte` into a shared read-only mapping of `file` by way of `/proc/self/mem`.
pub(crate) fn force_store(file: &std::fs::File, byte: u8) -> io::Result<()> {
    let fd = file.as_raw_fd();
    // SAFETY: a null address lets the kernel choose, so no existing mapping is replaced.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            1,
            libc::PROT_READ,
            libc::MAP_SHARED,
            fd,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let memory = std::fs::OpenOptions::new()
        .write(true)
        .open("/proc/self/mem")?;
    // The mapping is this function's alone, so whatever the kernel stores there harms nobody.
    std::os::unix::fs::FileExt::write_at(&memory, &[byte], start.addr() as u64)?;
    Ok(())
}
