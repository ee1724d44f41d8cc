//! Installing a system call filter, seccomp(2).

use std::io;

use super::check;
use crate::seccomp::Instruction;

/// Installs `program` on the calling thread. It cannot be taken off again.
pub(crate) fn install(program: &[Instruction]) -> io::Result<()> {
    let length =
        u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let filter = libc::sock_fprog {
        len: length,
        // The kernel only reads the program, though the C type says `*mut`.
        filter: program.as_ptr().cast_mut().cast::<libc::sock_filter>(),
    };
    // SAFETY: `filter` points to `len` instructions: `Instruction` is `repr(C)` with the
    // fields of `sock_filter` in order, and the slice outlives the call. The flags are zero.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0_u32,
            &raw const filter,
        )
    };
    check(result).map(drop)
}
