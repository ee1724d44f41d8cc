//! Which Landlock the kernel offers, landlock_create_ruleset(2).

use std::io;

use super::check;

/// The highest Landlock ABI that the kernel offers.
///
/// `ENOSYS`: not built in. `EOPNOTSUPP`: built in, but not enabled at boot.
pub(crate) fn abi() -> io::Result<u32> {
    const CREATE_RULESET_VERSION: libc::c_uint = 1;
    // SAFETY: with LANDLOCK_CREATE_RULESET_VERSION the kernel demands a null pointer and a
    // size of zero, which is what it gets, and only answers a number.
    let result = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0_usize,
            CREATE_RULESET_VERSION,
        )
    };
    check(result).map(|it| u32::try_from(it).unwrap_or(0))
}
