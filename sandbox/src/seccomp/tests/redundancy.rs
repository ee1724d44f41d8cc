//! Nothing in the table or in the rules is there twice, or for nothing.

use std::collections::BTreeSet;

use super::super::interpreter::{Call, run};
use super::super::rule::{Check, Test, Verdict};
use super::super::{Decision, Entry, Errno, Grant, table};
use super::{Architecture, BOTH, Filter, policy};

#[test]
fn no_name_and_no_number_is_decided_twice() {
    let mut names = BTreeSet::new();
    for entry in table() {
        assert!(names.insert(entry.name), "{}", entry.name);
        assert!(entry.x86_64.is_some() || entry.aarch64.is_some());
    }
    for at in BOTH {
        let mut numbers = BTreeSet::new();
        for entry in table() {
            if let Some(number) = entry.number(at) {
                assert!(numbers.insert(number), "{} {number} {at:?}", entry.name);
            }
        }
    }
}

// A refusal that equals the default is redundant to the filter, so it may be written only
// as `NoSys`, which says that the call was judged; `Deny` is for other answers.
#[test]
fn only_nosys_answers_enosys_and_every_reason_is_one_short_line() {
    for entry in table() {
        assert_ne!(entry.decision, Decision::Deny(Errno::NoSuchCall));
        for grant in [Grant::NestedUserNamespaces, Grant::Ptrace] {
            let decision = Decision::AllowWith(grant, Errno::NoSuchCall);
            assert_ne!(entry.decision, decision);
        }
        assert!((8..=72).contains(&entry.reason.len()), "{}", entry.name);
        assert!(!entry.reason.ends_with('.') && !entry.reason.contains('\n'));
    }
}

#[test]
fn every_call_that_the_syscalls_crate_knows_has_a_decision_under_its_number() {
    // By number, since the crate's iterator leaves out the newest call.
    let x86_64 = (0..1024)
        .filter_map(syscalls::x86_64::Sysno::new)
        .map(|it| (it.id().cast_unsigned(), it.name()))
        .collect();
    check_names(Architecture::X86_64, &x86_64);
    // The crate lists the 64-bit time calls of 32-bit machines, which arm64 does not have
    // (`scripts/syscall.tbl` of the kernel gives them to 32-bit tables only).
    let aarch64 = (0..1024)
        .filter(|number| !(403..=423).contains(number))
        .filter_map(syscalls::aarch64::Sysno::new)
        .map(|it| match it.name() {
            // Both stand for number 79: the macro and the function of the kernel differ.
            "fstatat" => (it.id().cast_unsigned(), "newfstatat"),
            name => (it.id().cast_unsigned(), name),
        })
        .collect();
    check_names(Architecture::Aarch64, &aarch64);
}

fn check_names(at: Architecture, theirs: &BTreeSet<(u32, &'static str)>) {
    let numbered = |it: &Entry| Some((it.number(at)?, it.name));
    let ours: BTreeSet<_> = table().iter().filter_map(numbered).collect();
    let differing: Vec<_> = ours.symmetric_difference(theirs).collect();
    assert!(differing.is_empty(), "{at:?}: {differing:?}");
    assert!(ours.len() > 300);
}

#[test]
fn every_field_of_the_policy_changes_some_verdict_and_only_loosens() {
    let probes = [
        ("socket", [libc::AF_UNIX, libc::SOCK_STREAM, 0]),
        ("socket", [libc::AF_INET, libc::SOCK_STREAM, 0]),
        ("socket", [libc::AF_NETLINK, libc::SOCK_RAW, 0]),
        ("unshare", [libc::CLONE_NEWUSER, 0, 0]),
        ("ptrace", [0, 0, 0]),
    ];
    for at in BOTH {
        for bits in 0..32 {
            let filter = Filter::new(&policy(bits), at);
            for (field, (name, arguments)) in probes.iter().enumerate() {
                let arguments = arguments.map(|it| u64::from(it.cast_unsigned()));
                let verdict = filter.by_name(name, &arguments);
                let granted = bits & (1 << field) != 0;
                assert_eq!(verdict == Some(Verdict::Allow), granted, "{name} {bits:#b}");
            }
        }
    }
}

#[test]
fn every_clause_condition_value_and_bit_of_a_rule_changes_some_verdict() {
    let rules: Vec<_> = table()
        .iter()
        .filter_map(|it| match it.decision {
            Decision::AllowIf(rule) => Some(rule),
            _ => None,
        })
        .collect();
    let mut variants = 0;
    for rule in rules {
        for bits in 0..32 {
            let check = rule.check(&policy(bits));
            let samples = samples(&check);
            for variant in without_one_part(&check) {
                let differs = |it: &[u64; 6]| settle(&check, it) != settle(&variant, it);
                let effective = samples.iter().any(differs);
                assert!(effective, "{check:?} says no more than {variant:?}");
                variants += 1;
            }
        }
    }
    assert!(variants > 1000);
}

/// The check with one clause, condition, value or bit left out, in every way.
fn without_one_part(check: &Check) -> Vec<Check> {
    let mut variants = Vec::new();
    for (at, clause) in check.clauses.iter().enumerate() {
        let mut variant = check.clone();
        variant.clauses.remove(at);
        variants.push(variant);
        for (position, condition) in clause.conditions.iter().enumerate() {
            let mut variant = check.clone();
            variant.clauses[at].conditions.remove(position);
            variants.push(variant);
            let tests: Vec<Test> = match condition.test {
                Test::AnyBit(bits) => (0..32)
                    .map(|it| 1 << it)
                    .filter(|bit| bits & bit != 0)
                    .map(|bit| Test::AnyBit(bits & !bit))
                    .collect(),
                Test::Is { mask, values } => values
                    .iter()
                    .map(|left_out| {
                        let rest = values.iter().copied().filter(|it| it != left_out);
                        let values = rest.collect::<Vec<_>>().leak();
                        Test::Is { mask, values }
                    })
                    .collect(),
                Test::Within { first, last } => vec![
                    Test::Within {
                        first: first + 1,
                        last,
                    },
                    Test::Within {
                        first,
                        last: last - 1,
                    },
                ],
            };
            for test in tests {
                let mut variant = check.clone();
                variant.clauses[at].conditions[position].test = test;
                variants.push(variant);
            }
        }
    }
    variants
}

/// What the clauses mean, read plainly.
fn settle(check: &Check, arguments: &[u64; 6]) -> Verdict {
    let holds = |it: &super::super::rule::Condition| {
        let low = arguments[usize::from(it.argument)] & 0xffff_ffff;
        let low = u32::try_from(low).unwrap();
        match it.test {
            Test::AnyBit(bits) => low & bits != 0,
            Test::Is { mask, values } => values.contains(&(low & mask)),
            Test::Within { first, last } => (first..=last).contains(&low),
        }
    };
    let mut clauses = check.clauses.iter();
    clauses
        .find(|clause| clause.conditions.iter().all(holds))
        .map_or(check.otherwise, |clause| clause.verdict)
}

/// Arguments on and beside every boundary that the check draws, each once with an empty
/// high half and once with a full one.
pub(super) fn samples(check: &Check) -> Vec<[u64; 6]> {
    let mut values: [BTreeSet<u32>; 6] = Default::default();
    for condition in check.clauses.iter().flat_map(|it| &it.conditions) {
        let values = &mut values[usize::from(condition.argument)];
        values.extend([0, 1, u32::MAX]);
        match condition.test {
            Test::AnyBit(bits) => {
                values.extend([bits, !bits]);
                values.extend((0..32).map(|it| 1 << it));
            }
            Test::Is {
                mask,
                values: wanted,
            } => {
                for value in wanted {
                    values.extend([*value, value.wrapping_sub(1), value.wrapping_add(1)]);
                    values.insert(value | !mask);
                }
            }
            Test::Within { first, last } => {
                values.extend([first - 1, first, last, last + 1]);
            }
        }
    }
    let mut samples = vec![[0_u64; 6]];
    for (at, values) in values.iter().enumerate() {
        if values.is_empty() {
            continue;
        }
        samples = samples
            .iter()
            .flat_map(|sample| {
                values.iter().map(move |value| {
                    let mut sample = *sample;
                    sample[at] = u64::from(*value);
                    sample
                })
            })
            .collect();
    }
    let full = |it: &[u64; 6]| it.map(|value| value | 0xffff_ffff_0000_0000);
    let full: Vec<_> = samples.iter().map(full).collect();
    samples.extend(full);
    samples
}

#[test]
fn every_number_below_1024_does_what_its_entry_says_and_nothing_by_another_road() {
    for at in BOTH {
        let filter = Filter::new(&super::NATIVE, at);
        for number in 0..=1023 {
            let entry = table().iter().find(|it| it.number(at) == Some(number));
            let expected = match entry.map(|it| it.decision) {
                Some(Decision::Allow) => Some(Verdict::Allow),
                // Whether its arguments pass is tested elsewhere.
                Some(Decision::AllowIf(_)) => None,
                Some(Decision::AllowWith(_, errno) | Decision::Deny(errno)) => {
                    Some(Verdict::Refuse(errno))
                }
                Some(Decision::NoSys) | None => Some(Verdict::Refuse(Errno::NoSuchCall)),
            };
            for arguments in [[0; 6], [u64::MAX; 6]] {
                let actual = filter.verdict(number, arguments);
                assert!(expected.is_none_or(|it| it == actual), "{number} {at:?}");

                let x32 = filter.verdict(number | 0x4000_0000, arguments);
                let expected = match at {
                    // Bit 30 has no meaning there: the number is merely unknown.
                    Architecture::Aarch64 => Verdict::Refuse(Errno::NoSuchCall),
                    Architecture::X86_64 => Verdict::KillProcess,
                };
                assert_eq!(x32, expected, "{number} {at:?}");

                for audit in super::FOREIGN {
                    let call = Call {
                        number,
                        audit,
                        arguments,
                    };
                    let run = run(filter.program.instructions(), &call);
                    assert_eq!(super::verdict(run.returned), Verdict::KillProcess);
                }
            }
        }
        // A tracer skips a call by this number; it is not one of x32.
        let skipped = filter.verdict(u32::MAX, [0; 6]);
        assert_eq!(skipped, Verdict::Refuse(Errno::NoSuchCall));
    }
}
