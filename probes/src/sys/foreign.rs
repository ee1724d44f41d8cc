//! Enters the kernel by the doors of other architectures: `int 0x80` and x32 (`x86_64` only).

use std::arch::asm;
use std::io;

/// Makes a 32-bit system call with one integer argument. The kernel's tables differ, so the
/// numbers do too.
pub(crate) fn ia32(number: u32, argument: u32) -> i32 {
    let answer: i32;
    // SAFETY: `int 0x80` clobbers eax and, on some kernels, r8 to r11, all declared. rbx is
    // reserved by the compiler, so it is swapped in and out again. The numbers used take
    // integers only and the instruction touches no memory of the process.
    unsafe {
        asm!(
            "xchg rbx, {argument:r}",
            "int 0x80",
            "xchg rbx, {argument:r}",
            argument = inout(reg) u64::from(argument) => _,
            inlateout("eax") number => answer,
            in("ecx") 0,
            in("edx") 0,
            out("r8") _,
            out("r9") _,
            out("r10") _,
            out("r11") _,
        );
    }
    answer
}

/// Asks for the process id by its x32 number.
pub(crate) fn x32_getpid() -> io::Result<libc::c_long> {
    const X32_BIT: libc::c_long = 0x4000_0000;
    // SAFETY: getpid takes no argument in either table and touches no memory.
    super::check(unsafe { libc::syscall(X32_BIT | libc::SYS_getpid) })
}
