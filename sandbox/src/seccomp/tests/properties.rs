//! Laws about arguments, stated by what they are for and with the numbers of `libc`.

use proptest::prelude::*;

use super::super::rule::Verdict;
use super::{Architecture, BOTH, Errno, Filter, NATIVE, SyscallPolicy, policy, table};

const DENIED: Verdict = Verdict::Refuse(Errno::NotPermitted);

const NAMESPACE_FLAGS: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

fn any_policy() -> impl Strategy<Value = SyscallPolicy> {
    (0_u8..32).prop_map(policy)
}

fn architecture() -> impl Strategy<Value = Architecture> {
    prop::sample::select(&BOTH[..])
}

/// Few bits set, so that flags occur alone and absent as often as not.
fn sparse() -> impl Strategy<Value = u64> {
    prop_oneof![
        prop::collection::vec(0_u32..32, 0..4)
            .prop_map(|bits| bits.iter().fold(0, |sum, bit| sum | (1_u64 << bit))),
        any::<u64>(),
        0_u64..64,
    ]
}

fn low(value: i32) -> u64 {
    u64::from(value.cast_unsigned())
}

proptest! {
    #[test]
    fn the_high_half_of_an_argument_never_changes_a_verdict(
        at in architecture(), policy in any_policy(),
        call in 0_usize..400,
        arguments in prop::array::uniform6(sparse()),
        high in prop::array::uniform6(any::<u32>()),
    ) {
        let filter = Filter::new(&policy, at);
        let Some(number) = table()[call % table().len()].number(at) else { return Ok(()) };
        let mut other = arguments;
        for (value, high) in other.iter_mut().zip(high) {
            *value = (*value & 0xffff_ffff) | (u64::from(high) << 32);
        }
        prop_assert_eq!(filter.verdict(number, arguments), filter.verdict(number, other));
    }

    #[test]
    fn granting_more_never_refuses_what_was_allowed(
        at in architecture(), bits in 0_u8..32, more in 0_u8..32,
        call in 0_usize..400, arguments in prop::array::uniform6(sparse()),
    ) {
        let (less, more) = (policy(bits), policy(bits | more));
        let Some(number) = table()[call % table().len()].number(at) else { return Ok(()) };
        if Filter::new(&less, at).verdict(number, arguments) == Verdict::Allow {
            let verdict = Filter::new(&more, at).verdict(number, arguments);
            prop_assert_eq!(verdict, Verdict::Allow);
        }
    }

    #[test]
    fn clone_makes_a_namespace_only_where_nesting_is_granted(
        at in architecture(), policy in any_policy(), flags in sparse(),
    ) {
        let filter = Filter::new(&policy, at);
        let namespace = NAMESPACE_FLAGS.iter().any(|it| flags & low(*it) != 0);
        let hidden = flags & low(libc::CLONE_UNTRACED | libc::CLONE_PTRACE) != 0;
        let refused = (namespace && !policy.nested_user_namespaces) || (hidden && !policy.ptrace);
        let expected = if refused { DENIED } else { Verdict::Allow };
        prop_assert_eq!(filter.by_name("clone", &[flags]), Some(expected));
        let clone3 = filter.by_name("clone3", &[flags]);
        prop_assert_eq!(clone3, Some(Verdict::Refuse(Errno::NoSuchCall)));
    }

    #[test]
    fn no_call_gives_a_file_the_set_id_bits(
        at in architecture(), policy in any_policy(), mode in sparse(), flags in sparse(),
    ) {
        let filter = Filter::new(&policy, at);
        let set_id = mode & u64::from(libc::S_ISUID | libc::S_ISGID) != 0;
        let expected = if set_id { DENIED } else { Verdict::Allow };
        for (name, arguments) in [
            ("chmod", vec![1, mode]),
            ("fchmod", vec![1, mode]),
            ("fchmodat", vec![1, 1, mode]),
            ("fchmodat2", vec![1, 1, mode, flags]),
            ("mkdir", vec![1, mode]),
            ("mkdirat", vec![1, 1, mode]),
            ("creat", vec![1, mode]),
        ] {
            let verdict = filter.by_name(name, &arguments);
            prop_assert!(verdict.is_none_or(|it| it == expected), "{} {:?}", name, verdict);
        }
        // O_TMPFILE without O_DIRECTORY, which differs between the architectures.
        let creates = flags & low(libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)) != 0;
        let expected = if set_id && creates { DENIED } else { Verdict::Allow };
        prop_assert_eq!(filter.by_name("openat", &[1, 1, flags, mode]), Some(expected));
        let open = filter.by_name("open", &[1, flags, mode]);
        prop_assert!(open.is_none_or(|it| it == expected));
    }

    #[test]
    fn a_node_is_a_file_a_fifo_or_a_socket(
        at in architecture(), kind in 0_u64..16, permissions in 0_u64..0o10000, device in any::<u64>(),
    ) {
        let filter = Filter::new(&NATIVE, at);
        let mode = (kind << 12) | permissions;
        let allowed = [0, libc::S_IFREG, libc::S_IFIFO, libc::S_IFSOCK]
            .iter()
            .any(|it| u64::from(*it) == kind << 12);
        let expected = if allowed && permissions & 0o6000 == 0 { Verdict::Allow } else { DENIED };
        prop_assert_eq!(filter.by_name("mknodat", &[1, 1, mode, device]), Some(expected));
        let mknod = filter.by_name("mknod", &[1, mode, device]);
        prop_assert!(mknod.is_none_or(|it| it == expected));
    }

    #[test]
    fn a_socket_is_of_a_granted_family_and_an_ordinary_kind(
        at in architecture(), policy in any_policy(), family in 0_u64..48,
        kind in 0_u64..16, flags in prop::sample::select(vec![
            0, libc::SOCK_CLOEXEC, libc::SOCK_NONBLOCK, libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
        ]),
        protocol in prop_oneof![0_u64..300, Just(0)],
    ) {
        let filter = Filter::new(&policy, at);
        let families = policy.families;
        let verdict = filter.by_name("socket", &[family, kind | low(flags), protocol]).unwrap();
        let allowed = verdict == Verdict::Allow;
        if family == low(libc::AF_UNIX) {
            prop_assert_eq!(allowed, families.unix);
        } else if family == low(libc::AF_INET) || family == low(libc::AF_INET6) {
            let stream = kind == low(libc::SOCK_STREAM) && [0, 6].contains(&protocol);
            let datagram = kind == low(libc::SOCK_DGRAM) && [0, 1, 17, 58].contains(&protocol);
            prop_assert_eq!(allowed, families.inet && (stream || datagram));
            if !families.inet {
                prop_assert_eq!(verdict, Verdict::Refuse(Errno::NoAccess));
            }
        } else if family == low(libc::AF_NETLINK) {
            prop_assert_eq!(allowed, families.netlink_route && protocol == 0);
        } else {
            prop_assert_eq!(verdict, Verdict::Refuse(Errno::NoSuchFamily));
        }
    }

    #[test]
    fn no_ioctl_types_into_a_terminal_whatever_the_high_half(high in any::<u32>(), other in any::<u32>()) {
        for at in BOTH {
            let filter = Filter::new(&NATIVE, at);
            let high = u64::from(high) << 32;
            let bad = [libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCCONS, 0x5423];
            for request in bad {
                prop_assert_eq!(filter.by_name("ioctl", &[0, request | high]), Some(DENIED));
            }
            let snapshot = [0x5000_9401, 0x5000_9417];
            let other = u64::from(other);
            if !bad.contains(&other) && !snapshot.contains(&other) {
                let verdict = filter.by_name("ioctl", &[0, other | high]);
                prop_assert_eq!(verdict, Some(Verdict::Allow));
            }
        }
    }
}

#[test]
fn each_rule_answers_the_errno_that_its_callers_know() {
    let refuse = Verdict::Refuse;
    let tcp = low(libc::SOCK_STREAM);
    let rename_whiteout = u64::from(libc::RENAME_WHITEOUT);
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let cases: &[(&str, &[u64], Verdict)] = &[
        ("socket", &[2, tcp, 262], refuse(Errno::NoSuchProtocol)),
        ("socket", &[2, tcp, 132], refuse(Errno::NoSuchProtocol)),
        ("socket", &[2, 3, 1], DENIED),
        ("socket", &[10, 10, 0], DENIED),
        ("socket", &[16, 3, 15], refuse(Errno::NoSuchFamily)),
        ("socketpair", &[1, tcp, 0], Verdict::Allow),
        ("socketpair", &[2, tcp, 0], refuse(Errno::NoSuchFamily)),
        (
            "sendto",
            &[3, 0, 0, 0x2000_0000],
            refuse(Errno::NoSuchOperation),
        ),
        (
            "sendmsg",
            &[3, 0, 0x2000_0000],
            refuse(Errno::NoSuchOperation),
        ),
        (
            "sendmmsg",
            &[3, 0, 1, 0x2000_0000],
            refuse(Errno::NoSuchOperation),
        ),
        ("sendmsg", &[3, 0, low(libc::MSG_NOSIGNAL)], Verdict::Allow),
        ("personality", &[0], Verdict::Allow),
        ("personality", &[0xffff_ffff], Verdict::Allow),
        ("personality", &[low(libc::ADDR_NO_RANDOMIZE)], DENIED),
        ("personality", &[low(libc::READ_IMPLIES_EXEC)], DENIED),
        ("personality", &[8], DENIED),
        ("prctl", &[low(libc::PR_SET_NAME)], Verdict::Allow),
        ("prctl", &[low(libc::PR_SET_NO_NEW_PRIVS)], Verdict::Allow),
        ("prctl", &[0x4155_5856], Verdict::Allow),
        ("prctl", &[low(libc::PR_SET_VMA)], Verdict::Allow),
        ("prctl", &[low(libc::PR_SET_MM)], DENIED),
        (
            "prctl",
            &[low(libc::PR_SET_PTRACER)],
            refuse(Errno::Invalid),
        ),
        ("prctl", &[low(libc::PR_SCHED_CORE)], refuse(Errno::Invalid)),
        ("prctl", &[0], refuse(Errno::Invalid)),
        ("prctl", &[79], refuse(Errno::Invalid)),
        ("renameat2", &[3, 0, 3, 0, 1], Verdict::Allow),
        (
            "renameat2",
            &[3, 0, 3, 0, rename_whiteout],
            refuse(Errno::Invalid),
        ),
        ("seccomp", &[1, 0], Verdict::Allow),
        ("seccomp", &[1, listener], refuse(Errno::Busy)),
        ("openat2", &[], refuse(Errno::NoSuchCall)),
        ("io_uring_setup", &[], refuse(Errno::NoSuchCall)),
        ("chroot", &[], DENIED),
    ];
    for at in BOTH {
        let filter = Filter::new(&NATIVE, at);
        for (name, arguments, expected) in cases {
            let actual = filter.by_name(name, arguments);
            assert_eq!(actual, Some(*expected), "{name} {arguments:x?} {at:?}");
        }
    }
}

#[test]
fn without_the_unix_grant_only_pairs_that_cannot_be_reconnected_remain() {
    for at in BOTH {
        let filter = Filter::new(&super::STRICTEST, at);
        for (kind, allowed) in [
            (libc::SOCK_STREAM, true),
            (libc::SOCK_STREAM | libc::SOCK_CLOEXEC, true),
            (libc::SOCK_SEQPACKET, true),
            (libc::SOCK_DGRAM, false),
            // The kernel makes a raw Unix socket a datagram one.
            (libc::SOCK_RAW, false),
        ] {
            let verdict = filter.by_name("socketpair", &[low(libc::AF_UNIX), low(kind)]);
            assert_eq!(verdict == Some(Verdict::Allow), allowed, "{kind}");
        }
    }
}
