//! The kernel's numbers that the seccomp rules speak of.
//!
//! `libc` has most of them, but only when it is built for Linux, and the table is also
//! read on other systems (documentation, tests). A test compares the two on Linux.
//!
//! # Invariants
//!
//! - Every number here is the same on `x86_64` and `aarch64`. Flags that differ, such as
//!   `O_DIRECTORY`, are absent, and no rule may need them.

use std::fmt;

/// A Linux error number that the filter answers with.
///
/// Source: `include/uapi/asm-generic/errno-base.h` and `errno.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
#[non_exhaustive]
pub enum Errno {
    /// `EPERM`: the process lacks the privilege.
    NotPermitted = 1,
    /// `EACCES`: the process lacks access.
    NoAccess = 13,
    /// `EBUSY`: somebody else has it.
    Busy = 16,
    /// `EINVAL`: the kernel knows no such value.
    Invalid = 22,
    /// `ENOSYS`: the kernel has no such call.
    NoSuchCall = 38,
    /// `EPROTONOSUPPORT`: the kernel has no such protocol.
    NoSuchProtocol = 93,
    /// `EOPNOTSUPP`: the operation does not exist here.
    NoSuchOperation = 95,
    /// `EAFNOSUPPORT`: the kernel has no such address family.
    NoSuchFamily = 97,
}

impl Errno {
    /// Every error number that the filter can answer with.
    pub const ALL: [Self; 8] = [
        Self::NotPermitted,
        Self::NoAccess,
        Self::Busy,
        Self::Invalid,
        Self::NoSuchCall,
        Self::NoSuchProtocol,
        Self::NoSuchOperation,
        Self::NoSuchFamily,
    ];

    /// The number, as in errno(3).
    #[must_use]
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// The symbolic name, as in errno(3).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotPermitted => "EPERM",
            Self::NoAccess => "EACCES",
            Self::Busy => "EBUSY",
            Self::Invalid => "EINVAL",
            Self::NoSuchCall => "ENOSYS",
            Self::NoSuchProtocol => "EPROTONOSUPPORT",
            Self::NoSuchOperation => "EOPNOTSUPP",
            Self::NoSuchFamily => "EAFNOSUPPORT",
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// `AUDIT_ARCH_*` of `linux/audit.h`: the ELF machine, 64 bits, little endian.
pub(super) const AUDIT_ARCH_AARCH64: u32 = 0xc000_00b7;
pub(super) const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;

/// `__X32_SYSCALL_BIT` of `asm/unistd.h`: marks a call of the x32 ABI.
pub(super) const X32_BIT: u32 = 0x4000_0000;

/// `SECCOMP_RET_*` of `linux/seccomp.h`.
pub(super) const RET_ALLOW: u32 = 0x7fff_0000;
pub(super) const RET_ERRNO: u32 = 0x0005_0000;
pub(super) const RET_KILL_PROCESS: u32 = 0x8000_0000;

/// Offsets into `struct seccomp_data`, in bytes.
pub(super) const DATA_NUMBER: u32 = 0;
pub(super) const DATA_ARCHITECTURE: u32 = 4;
pub(super) const DATA_ARGUMENTS: u32 = 16;
pub(super) const DATA_ARGUMENT_SIZE: u32 = 8;

/// `CLONE_*` of `linux/sched.h`. `CLONE_NEWTIME` is absent: clone(2) reads that bit as a
/// part of the exit signal, so that only `unshare` and `clone3` know the flag.
pub(super) const CLONE_PTRACE: u32 = 0x0000_2000;
pub(super) const CLONE_UNTRACED: u32 = 0x0080_0000;
pub(super) const CLONE_NEWNS: u32 = 0x0002_0000;
pub(super) const CLONE_NEWCGROUP: u32 = 0x0200_0000;
pub(super) const CLONE_NEWUTS: u32 = 0x0400_0000;
pub(super) const CLONE_NEWIPC: u32 = 0x0800_0000;
pub(super) const CLONE_NEWUSER: u32 = 0x1000_0000;
pub(super) const CLONE_NEWPID: u32 = 0x2000_0000;
pub(super) const CLONE_NEWNET: u32 = 0x4000_0000;

/// `S_ISUID | S_ISGID`.
pub(super) const SET_ID_BITS: u32 = 0o6000;
/// `S_IFMT` and the kinds of node that are no device.
pub(super) const S_IFMT: u32 = 0o170_000;
pub(super) const S_IFIFO: u32 = 0o010_000;
pub(super) const S_IFREG: u32 = 0o100_000;
pub(super) const S_IFSOCK: u32 = 0o140_000;

/// `O_CREAT`, and the part of `O_TMPFILE` that is not `O_DIRECTORY`.
pub(super) const O_CREAT: u32 = 0o100;
pub(super) const O_TMPFILE_BIT: u32 = 0o20_000_000;

/// `RENAME_WHITEOUT` of `linux/fs.h`.
pub(super) const RENAME_WHITEOUT: u32 = 4;

/// `AF_*` of `linux/socket.h`.
pub(super) const AF_UNIX: u32 = 1;
pub(super) const AF_INET: u32 = 2;
pub(super) const AF_INET6: u32 = 10;
pub(super) const AF_NETLINK: u32 = 16;

/// `SOCK_TYPE_MASK` of `linux/net.h`: what remains without `SOCK_CLOEXEC` and
/// `SOCK_NONBLOCK`.
pub(super) const SOCK_TYPE_MASK: u32 = 0xf;
pub(super) const SOCK_STREAM: u32 = 1;
pub(super) const SOCK_DGRAM: u32 = 2;
pub(super) const SOCK_RAW: u32 = 3;
pub(super) const SOCK_SEQPACKET: u32 = 5;
pub(super) const SOCK_PACKET: u32 = 10;

/// Protocols: zero is the family's default.
pub(super) const IPPROTO_DEFAULT: u32 = 0;
pub(super) const IPPROTO_ICMP: u32 = 1;
pub(super) const IPPROTO_TCP: u32 = 6;
pub(super) const IPPROTO_UDP: u32 = 17;
pub(super) const IPPROTO_ICMPV6: u32 = 58;
pub(super) const NETLINK_ROUTE: u32 = 0;

/// `MSG_FASTOPEN` of `linux/socket.h`.
pub(super) const MSG_FASTOPEN: u32 = 0x2000_0000;

/// Terminal requests of `asm-generic/ioctls.h`.
pub(super) const TIOCSTI: u32 = 0x5412;
pub(super) const TIOCLINUX: u32 = 0x541c;
pub(super) const TIOCCONS: u32 = 0x541d;
pub(super) const TIOCSETD: u32 = 0x5423;

/// Snapshot requests of `linux/btrfs.h`.
pub(super) const BTRFS_IOC_SNAP_CREATE: u32 = 0x5000_9401;
pub(super) const BTRFS_IOC_SNAP_CREATE_V2: u32 = 0x5000_9417;

/// `PR_*` of `linux/prctl.h`.
pub(super) const PR_SET_PDEATHSIG: u32 = 1;
pub(super) const PR_SET_MM: u32 = 35;
pub(super) const PR_SCHED_CORE: u32 = 62;
/// The newest option that was judged: `PR_FUTEX_HASH`, of Linux 6.16.
pub(super) const PR_NEWEST: u32 = 78;
/// Copies the process's own auxiliary vector to it.
pub(super) const PR_GET_AUXV: u32 = 0x4155_5856;
pub(super) const PR_SET_VMA: u32 = 0x5356_4d41;
pub(super) const PR_SET_PTRACER: u32 = 0x5961_6d61;

/// `PER_LINUX`, and the value that only asks, of personality(2).
pub(super) const PER_LINUX: u32 = 0;
pub(super) const PERSONALITY_QUERY: u32 = 0xffff_ffff;

/// `SECCOMP_FILTER_FLAG_NEW_LISTENER` of `linux/seccomp.h`.
pub(super) const SECCOMP_NEW_LISTENER: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn every_error_has_the_number_that_libc_gives_its_name() {
        let expected = [
            ("EPERM", libc::EPERM),
            ("EACCES", libc::EACCES),
            ("EBUSY", libc::EBUSY),
            ("EINVAL", libc::EINVAL),
            ("ENOSYS", libc::ENOSYS),
            ("EPROTONOSUPPORT", libc::EPROTONOSUPPORT),
            ("EOPNOTSUPP", libc::EOPNOTSUPP),
            ("EAFNOSUPPORT", libc::EAFNOSUPPORT),
        ];
        let actual = Errno::ALL.map(|it| (it.name(), i32::from(it.number())));
        assert_eq!(actual, expected);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn numbers_are_those_of_libc() {
        let signed = [
            (AF_INET, libc::AF_INET),
            (AF_INET6, libc::AF_INET6),
            (AF_NETLINK, libc::AF_NETLINK),
            (AF_UNIX, libc::AF_UNIX),
            (CLONE_NEWCGROUP, libc::CLONE_NEWCGROUP),
            (CLONE_NEWIPC, libc::CLONE_NEWIPC),
            (CLONE_NEWNET, libc::CLONE_NEWNET),
            (CLONE_NEWNS, libc::CLONE_NEWNS),
            (CLONE_NEWPID, libc::CLONE_NEWPID),
            (CLONE_NEWUSER, libc::CLONE_NEWUSER),
            (CLONE_NEWUTS, libc::CLONE_NEWUTS),
            (CLONE_PTRACE, libc::CLONE_PTRACE),
            (CLONE_UNTRACED, libc::CLONE_UNTRACED),
            (IPPROTO_DEFAULT, libc::IPPROTO_IP),
            (IPPROTO_ICMP, libc::IPPROTO_ICMP),
            (IPPROTO_ICMPV6, libc::IPPROTO_ICMPV6),
            (IPPROTO_TCP, libc::IPPROTO_TCP),
            (IPPROTO_UDP, libc::IPPROTO_UDP),
            (MSG_FASTOPEN, libc::MSG_FASTOPEN),
            (NETLINK_ROUTE, libc::NETLINK_ROUTE),
            (O_CREAT, libc::O_CREAT),
            (O_TMPFILE_BIT, libc::O_TMPFILE & !libc::O_DIRECTORY),
            (PR_SCHED_CORE, libc::PR_SCHED_CORE),
            (PR_SET_MM, libc::PR_SET_MM),
            (PR_SET_PDEATHSIG, libc::PR_SET_PDEATHSIG),
            (PR_SET_PTRACER, libc::PR_SET_PTRACER),
            (PR_SET_VMA, libc::PR_SET_VMA),
            (SOCK_DGRAM, libc::SOCK_DGRAM),
            (SOCK_RAW, libc::SOCK_RAW),
            (SOCK_SEQPACKET, libc::SOCK_SEQPACKET),
            (SOCK_STREAM, libc::SOCK_STREAM),
        ];
        for (ours, theirs) in signed {
            assert_eq!(ours, theirs.cast_unsigned());
        }
        let unsigned = [
            (RENAME_WHITEOUT, libc::RENAME_WHITEOUT),
            (RET_ALLOW, libc::SECCOMP_RET_ALLOW),
            (RET_ERRNO, libc::SECCOMP_RET_ERRNO),
            (RET_KILL_PROCESS, libc::SECCOMP_RET_KILL_PROCESS),
            (SET_ID_BITS, libc::S_ISUID | libc::S_ISGID),
            (S_IFIFO, libc::S_IFIFO),
            (S_IFMT, libc::S_IFMT),
            (S_IFREG, libc::S_IFREG),
            (S_IFSOCK, libc::S_IFSOCK),
        ];
        for (ours, theirs) in unsigned {
            assert_eq!(ours, theirs);
        }
        let long = [
            (u64::from(TIOCCONS), libc::TIOCCONS),
            (u64::from(TIOCLINUX), libc::TIOCLINUX),
            (u64::from(TIOCSTI), libc::TIOCSTI),
            (
                u64::from(SECCOMP_NEW_LISTENER),
                libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            ),
        ];
        for (ours, theirs) in long {
            assert_eq!(ours, theirs);
        }
    }
}
