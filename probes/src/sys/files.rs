//! File system calls that rustix lacks: handles, `fchmodat2`, `mount_setattr`.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use super::check;

/// Changes the mode of `path` by the newer call, fchmodat2(2), which an old filter forgets.
pub(crate) fn fchmodat2(path: &CStr, mode: u32) -> io::Result<()> {
    const SYS_FCHMODAT2: libc::c_long = 452;
    // SAFETY: `path` ends in NUL and is only read; the other arguments are integers.
    check(unsafe { libc::syscall(SYS_FCHMODAT2, libc::AT_FDCWD, path.as_ptr(), mode, 0) })?;
    Ok(())
}

/// Clears or sets the read-only attribute of the mount at `path`, `mount_setattr(2)`.
pub(crate) fn set_mount_writable(path: &CStr, writable: bool) -> io::Result<()> {
    const MOUNT_ATTR_RDONLY: u64 = 1;
    // `struct mount_attr`: attr_set, attr_clr, propagation, userns_fd.
    let (set, clear) = if writable {
        (0, MOUNT_ATTR_RDONLY)
    } else {
        (MOUNT_ATTR_RDONLY, 0)
    };
    let attributes: [u64; 4] = [set, clear, 0, 0];
    // SAFETY: `path` ends in NUL; `attributes` is a mount_attr of the size given. Both are
    // only read.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            0,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    })?;
    Ok(())
}

/// Opens `path` by its handle instead of its name, `open_by_handle_at(2)`, on the mount of
/// `mount`.
pub(crate) fn open_by_handle(path: &CStr, mount: impl AsFd) -> io::Result<OwnedFd> {
    // `struct file_handle` with room for the largest handle (MAX_HANDLE_SZ, 128 bytes):
    // handle_bytes, handle_type, the bytes. Words keep it aligned.
    let mut handle = [0_u32; 34];
    let [size, ..] = &mut handle;
    *size = 128;
    let mut mount_id = 0_i32;
    // SAFETY: `path` ends in NUL; `handle` says that 128 bytes follow its header, and they
    // do; `mount_id` is an i32 that the kernel fills.
    check(unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            path.as_ptr(),
            handle.as_mut_ptr(),
            &raw mut mount_id,
            0,
        )
    })?;
    let fd = mount.as_fd().as_raw_fd();
    // SAFETY: `handle` was filled by the kernel in the call above and is only read.
    let answer = check(unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            fd,
            handle.as_mut_ptr(),
            libc::O_RDONLY,
        )
    })?;
    let number = i32::try_from(answer).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor, and nothing else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
