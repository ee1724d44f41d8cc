//! `mount_setattr(2)`.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::check;

/// `MOUNT_ATTR_RDONLY`, mount_setattr(2).
pub(crate) const RDONLY: u64 = libc::MOUNT_ATTR_RDONLY;
/// `MOUNT_ATTR_NOSUID`.
pub(crate) const NOSUID: u64 = libc::MOUNT_ATTR_NOSUID;
/// `MOUNT_ATTR_NODEV`.
pub(crate) const NODEV: u64 = libc::MOUNT_ATTR_NODEV;
/// `MOUNT_ATTR_NOEXEC`.
pub(crate) const NOEXEC: u64 = libc::MOUNT_ATTR_NOEXEC;

/// Changes the attributes of the mount behind `tree`, and of those below it if `recursive`.
///
/// With `user_namespace` the mount becomes an idmapped one with that namespace's maps.
pub(crate) fn set_attributes(
    tree: BorrowedFd<'_>,
    set: u64,
    user_namespace: Option<BorrowedFd<'_>>,
    recursive: bool,
) -> io::Result<()> {
    let (idmap, descriptor) = match user_namespace {
        Some(namespace) => (
            libc::MOUNT_ATTR_IDMAP,
            u64::try_from(namespace.as_raw_fd()).unwrap_or(u64::MAX),
        ),
        None => (0, 0),
    };
    let attributes = libc::mount_attr {
        attr_set: set | idmap,
        attr_clr: 0,
        propagation: 0,
        userns_fd: descriptor,
    };
    let empty: &CStr = c"";
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: `mount_setattr` reads a NUL-terminated path, which `empty` is, and as many
    // bytes of the structure as its last argument says, which is the structure's own size.
    // Both live until the call returns. The kernel writes to neither.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            empty.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    check(result).map(drop)
}
