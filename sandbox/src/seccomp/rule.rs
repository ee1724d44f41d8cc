//! What the filter asks about the arguments of a call before it lets it through.
//!
//! # Invariants
//!
//! - Only the low 32 bits of an argument are compared. Every argument that a rule reads
//!   is an `int`, an `unsigned int` or a `umode_t` in the kernel, which drops the high
//!   half; a filter that compared it could be passed by setting it. The one exception is
//!   the `unsigned long` of clone(2), whose high half the kernel drops itself
//!   (`lower_32_bits` in `kernel/fork.c`).
//! - No rule reads memory. What hides behind a pointer cannot be judged here, so calls
//!   that pass flags that way (`clone3`, `openat2`) do not exist inside.

use std::fmt;

use super::kernel::{
    AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, BTRFS_IOC_SNAP_CREATE, BTRFS_IOC_SNAP_CREATE_V2,
    CLONE_NEWCGROUP, CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER,
    CLONE_NEWUTS, CLONE_PTRACE, CLONE_UNTRACED, Errno, IPPROTO_DEFAULT, IPPROTO_ICMP,
    IPPROTO_ICMPV6, IPPROTO_TCP, IPPROTO_UDP, MSG_FASTOPEN, NETLINK_ROUTE, O_CREAT, O_TMPFILE_BIT,
    PER_LINUX, PERSONALITY_QUERY, PR_GET_AUXV, PR_NEWEST, PR_SCHED_CORE, PR_SET_MM,
    PR_SET_PDEATHSIG, PR_SET_PTRACER, PR_SET_VMA, RENAME_WHITEOUT, RET_ALLOW, RET_ERRNO,
    RET_KILL_PROCESS, S_IFIFO, S_IFMT, S_IFREG, S_IFSOCK, SECCOMP_NEW_LISTENER, SET_ID_BITS,
    SOCK_DGRAM, SOCK_PACKET, SOCK_RAW, SOCK_SEQPACKET, SOCK_STREAM, SOCK_TYPE_MASK, TIOCCONS,
    TIOCLINUX, TIOCSETD, TIOCSTI,
};
use super::{SocketFamilies, SyscallPolicy};

const NAMESPACES: u32 = CLONE_NEWNS
    | CLONE_NEWCGROUP
    | CLONE_NEWUTS
    | CLONE_NEWIPC
    | CLONE_NEWUSER
    | CLONE_NEWPID
    | CLONE_NEWNET;
const INTERNET: &[u32] = &[AF_INET, AF_INET6];

/// A question about arguments; the numbers are argument positions, counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ArgumentRule {
    /// No new namespace, and no child that a tracer cannot follow.
    CloneFlags,
    /// A file that the call creates is not set-user-id or set-group-id.
    CreationMode {
        /// Position of the open flags; the mode comes next.
        flags: u8,
    },
    /// No request that types into a terminal or takes it over, and no btrfs snapshot.
    IoctlRequest,
    /// The mode is not set-user-id or set-group-id.
    Mode {
        /// Position of the mode.
        mode: u8,
    },
    /// The new node is a file, a FIFO or a socket, never a device.
    NodeKind {
        /// Position of the mode.
        mode: u8,
    },
    /// The process that is named is the caller itself: 0.
    OwnProcess {
        /// Position of the process id.
        pid: u8,
    },
    /// The plain personality, or the question which one there is.
    Personality,
    /// A prctl(2) option that was judged.
    PrctlOption,
    /// A renaming leaves no whiteout device behind.
    RenameFlags,
    /// A nested filter brings no listener of its own.
    SeccompFlags,
    /// The data does not open a connection of its own.
    SendFlags {
        /// Position of the flags.
        flags: u8,
    },
    /// A socket of a granted family, of a common kind and protocol.
    Socket,
    /// A pair of Unix sockets.
    SocketPair,
}

/// What the kernel does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Verdict {
    /// The call is carried out.
    Allow,
    /// The whole process is killed.
    KillProcess,
    /// The call answers this and does nothing.
    Refuse(Errno),
}

/// A list of clauses; the first whose conditions all hold settles the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) clauses: Vec<Clause>,
    pub(super) otherwise: Verdict,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Clause {
    pub(super) conditions: Vec<Condition>,
    pub(super) verdict: Verdict,
}

/// A test of the low 32 bits of one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) argument: u8,
    pub(super) test: Test,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Test {
    /// At least one of these bits is set.
    AnyBit(u32),
    /// What remains under the mask is one of the values.
    Is { mask: u32, values: &'static [u32] },
    /// The whole lies between the two, both included.
    Within { first: u32, last: u32 },
}

impl Verdict {
    /// The value that a filter returns for this, as in seccomp(2).
    pub(super) fn code(self) -> u32 {
        match self {
            Self::Allow => RET_ALLOW,
            Self::KillProcess => RET_KILL_PROCESS,
            Self::Refuse(errno) => RET_ERRNO | u32::from(errno.number()),
        }
    }
}

impl Check {
    /// The verdict, if no argument changes it.
    pub(super) fn settled(&self) -> Option<Verdict> {
        let same = |it: &Clause| it.verdict == self.otherwise;
        self.clauses.iter().all(same).then_some(self.otherwise)
    }
}

impl ArgumentRule {
    /// The clauses of this rule under `policy`.
    pub(super) fn check(self, policy: &SyscallPolicy) -> Check {
        match self {
            Self::CloneFlags => clone_flags(policy),
            // Without one of the two flags the kernel does not read the mode, and callers
            // leave anything there.
            Self::CreationMode { flags } => forbid(
                [
                    any_bit(flags, O_CREAT | O_TMPFILE_BIT),
                    any_bit(flags + 1, SET_ID_BITS),
                ],
                Errno::NotPermitted,
            ),
            Self::IoctlRequest => forbid(
                [is(
                    1,
                    &[
                        TIOCSTI,
                        TIOCLINUX,
                        TIOCCONS,
                        TIOCSETD,
                        BTRFS_IOC_SNAP_CREATE,
                        BTRFS_IOC_SNAP_CREATE_V2,
                    ],
                )],
                Errno::NotPermitted,
            ),
            Self::Mode { mode } => forbid([any_bit(mode, SET_ID_BITS)], Errno::NotPermitted),
            Self::NodeKind { mode } => Check {
                clauses: vec![
                    refuse([any_bit(mode, SET_ID_BITS)], Errno::NotPermitted),
                    // Zero is a regular file too, says mknod(2).
                    allow([masked(mode, S_IFMT, &[0, S_IFREG, S_IFIFO, S_IFSOCK])]),
                ],
                otherwise: Verdict::Refuse(Errno::NotPermitted),
            },
            // EPERM is what prlimit(2) answers for a process of another user.
            Self::OwnProcess { pid } => Check {
                clauses: vec![allow([is(pid, &[0])])],
                otherwise: Verdict::Refuse(Errno::NotPermitted),
            },
            Self::Personality => Check {
                clauses: vec![allow([is(0, &[PER_LINUX, PERSONALITY_QUERY])])],
                otherwise: Verdict::Refuse(Errno::NotPermitted),
            },
            Self::PrctlOption => prctl(policy),
            // EINVAL is what a file system without whiteouts answers, as in rename(2).
            Self::RenameFlags => forbid([any_bit(4, RENAME_WHITEOUT)], Errno::Invalid),
            // EBUSY is what the kernel answers where a listener is in place, as in seccomp(2).
            Self::SeccompFlags => forbid([any_bit(1, SECCOMP_NEW_LISTENER)], Errno::Busy),
            // EOPNOTSUPP is what the kernel answers where Fast Open is off.
            Self::SendFlags { flags } => {
                forbid([any_bit(flags, MSG_FASTOPEN)], Errno::NoSuchOperation)
            }
            Self::Socket => socket(&policy.families),
            Self::SocketPair => socket_pair(&policy.families),
        }
    }
}

/// `CLONE_UNTRACED` hides a child from the tracer of its parent, `CLONE_PTRACE` hands it to
/// one: neither has a use where nothing may trace.
fn clone_flags(policy: &SyscallPolicy) -> Check {
    let namespaces = if policy.nested_user_namespaces {
        0
    } else {
        NAMESPACES
    };
    let tracing = if policy.ptrace {
        0
    } else {
        CLONE_PTRACE | CLONE_UNTRACED
    };
    let mut check = forbid([any_bit(0, namespaces | tracing)], Errno::NotPermitted);
    // Asking for none of no bits would look at arguments for nothing.
    check.clauses.retain(|_| namespaces | tracing != 0);
    check
}

/// Options are numbered without gaps, so that the judged ones are a range with holes.
/// An unknown option is EINVAL, as on an older kernel.
fn prctl(policy: &SyscallPolicy) -> Check {
    let mut clauses = vec![
        refuse([is(0, &[PR_SET_MM])], Errno::NotPermitted),
        refuse([is(0, &[PR_SCHED_CORE])], Errno::Invalid),
        allow([Condition {
            argument: 0,
            test: Test::Within {
                first: PR_SET_PDEATHSIG,
                last: PR_NEWEST,
            },
        }]),
        allow([is(0, &[PR_GET_AUXV, PR_SET_VMA])]),
    ];
    if policy.ptrace {
        clauses.push(allow([is(0, &[PR_SET_PTRACER])]));
    }
    Check {
        clauses,
        otherwise: Verdict::Refuse(Errno::Invalid),
    }
}

fn socket(families: &SocketFamilies) -> Check {
    let mut clauses = Vec::new();
    if families.unix {
        clauses.push(allow([is(0, &[AF_UNIX])]));
    }
    if families.inet {
        clauses.extend([
            allow([
                is(0, INTERNET),
                masked(1, SOCK_TYPE_MASK, &[SOCK_STREAM]),
                is(2, &[IPPROTO_DEFAULT, IPPROTO_TCP]),
            ]),
            allow([
                is(0, INTERNET),
                masked(1, SOCK_TYPE_MASK, &[SOCK_DGRAM]),
                is(
                    2,
                    &[IPPROTO_DEFAULT, IPPROTO_UDP, IPPROTO_ICMP, IPPROTO_ICMPV6],
                ),
            ]),
            refuse(
                [
                    is(0, INTERNET),
                    masked(1, SOCK_TYPE_MASK, &[SOCK_RAW, SOCK_PACKET]),
                ],
                Errno::NotPermitted,
            ),
            // Go asks for MPTCP first, and takes TCP on exactly this answer.
            refuse([is(0, INTERNET)], Errno::NoSuchProtocol),
        ]);
    } else {
        clauses.push(refuse([is(0, INTERNET)], Errno::NoAccess));
    }
    if families.netlink_route {
        clauses.push(allow([is(0, &[AF_NETLINK]), is(2, &[NETLINK_ROUTE])]));
    }
    Check {
        clauses,
        otherwise: Verdict::Refuse(Errno::NoSuchFamily),
    }
}

/// Runtimes wake themselves through a socket pair, so that connected pairs exist without
/// the grant too: a pair of streams can never be connected anew (EISCONN, unix(7)).
/// A pair of datagram sockets can, and reaches any named socket: that needs the grant.
fn socket_pair(families: &SocketFamilies) -> Check {
    let mut conditions = vec![is(0, &[AF_UNIX])];
    if !families.unix {
        conditions.push(masked(1, SOCK_TYPE_MASK, &[SOCK_STREAM, SOCK_SEQPACKET]));
    }
    Check {
        clauses: vec![Clause {
            conditions,
            verdict: Verdict::Allow,
        }],
        otherwise: Verdict::Refuse(Errno::NoSuchFamily),
    }
}

fn any_bit(argument: u8, bits: u32) -> Condition {
    Condition {
        argument,
        test: Test::AnyBit(bits),
    }
}

fn is(argument: u8, values: &'static [u32]) -> Condition {
    masked(argument, u32::MAX, values)
}

fn masked(argument: u8, mask: u32, values: &'static [u32]) -> Condition {
    Condition {
        argument,
        test: Test::Is { mask, values },
    }
}

fn allow<const N: usize>(conditions: [Condition; N]) -> Clause {
    Clause {
        conditions: conditions.into(),
        verdict: Verdict::Allow,
    }
}

fn refuse<const N: usize>(conditions: [Condition; N], errno: Errno) -> Clause {
    Clause {
        conditions: conditions.into(),
        verdict: Verdict::Refuse(errno),
    }
}

/// Refuses what meets all `conditions` and lets everything else through.
fn forbid<const N: usize>(conditions: [Condition; N], errno: Errno) -> Check {
    Check {
        clauses: vec![refuse(conditions, errno)],
        otherwise: Verdict::Allow,
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow => formatter.write_str("allow"),
            Self::KillProcess => formatter.write_str("kill process"),
            Self::Refuse(errno) => errno.fmt(formatter),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let argument = self.argument;
        match self.test {
            Test::AnyBit(bits) => write!(formatter, "arg{argument} & {bits:#x}"),
            Test::Is { mask, values } => {
                write!(formatter, "arg{argument}")?;
                if mask != u32::MAX {
                    write!(formatter, " & {mask:#x}")?;
                }
                let values: Vec<String> = values.iter().map(|it| format!("{it:#x}")).collect();
                write!(formatter, " in [{}]", values.join(", "))
            }
            Test::Within { first, last } => write!(formatter, "arg{argument} in {first}..={last}"),
        }
    }
}
