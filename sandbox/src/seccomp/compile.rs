//! Turns the table into a filter: a balanced search over ranges of equal outcome.
//!
//! The kernel runs a new filter once for every call number, to learn which calls it always
//! allows, so what counts at launch is how deep the search is, not how long the program.

use std::collections::BTreeMap;

use super::kernel::{
    AUDIT_ARCH_AARCH64, AUDIT_ARCH_X86_64, DATA_ARCHITECTURE, DATA_NUMBER, Errno, X32_BIT,
};
use super::program::{Assembler, JUMP_IF_ANY_BIT, JUMP_IF_AT_LEAST, JUMP_IF_EQUAL, Label, Program};
use super::rule::{ArgumentRule, Check, Verdict};
use super::table::{Decision, Grant, table};
use super::{Architecture, SyscallPolicy};

/// What becomes of a number that the table does not have.
pub(super) const DEFAULT: Verdict = Verdict::Refuse(Errno::NoSuchCall);

/// A tracer writes this number to skip a call: it is no call of the x32 ABI.
const SKIPPED: u32 = u32::MAX;

/// What a policy makes of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// The arguments settle it.
    Asks(ArgumentRule),
    /// The number alone settles it.
    Settled(Verdict),
}

/// The numbers from `first` up to the next range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u32,
    pub(super) outcome: Outcome,
}

/// Builds the filter for `policy` on `architecture`.
///
/// It kills a process that calls by a foreign architecture or by the x32 ABI, and answers
/// every other call as [`table`] says.
#[must_use]
pub fn compile(policy: &SyscallPolicy, architecture: Architecture) -> Program {
    let mut assembler = Assembler::default();
    let checks = checks(&mut assembler, policy, architecture);
    let ranges = ranges(policy, architecture);
    let search = search(&mut assembler, &ranges, &checks);
    let number = match architecture {
        Architecture::Aarch64 => search,
        Architecture::X86_64 => {
            let kill = assembler.verdict(Verdict::KillProcess);
            let absent = assembler.verdict(DEFAULT);
            let foreign = assembler.branch(JUMP_IF_EQUAL, SKIPPED, absent, kill);
            assembler.branch(JUMP_IF_ANY_BIT, X32_BIT, foreign, search)
        }
    };
    let native = assembler.load(DATA_NUMBER, number);
    let kill = assembler.verdict(Verdict::KillProcess);
    let wanted = match architecture {
        Architecture::Aarch64 => AUDIT_ARCH_AARCH64,
        Architecture::X86_64 => AUDIT_ARCH_X86_64,
    };
    let guard = assembler.branch(JUMP_IF_EQUAL, wanted, native, kill);
    assembler.load(DATA_ARCHITECTURE, guard);
    assembler.finish()
}

/// What `policy` makes of `decision`.
pub(super) fn outcome(decision: Decision, policy: &SyscallPolicy) -> Outcome {
    match decision {
        Decision::Allow => Outcome::Settled(Verdict::Allow),
        Decision::AllowIf(rule) => match rule.check(policy).settled() {
            None => Outcome::Asks(rule),
            Some(verdict) => Outcome::Settled(verdict),
        },
        Decision::AllowWith(grant, errno) => {
            let granted = match grant {
                Grant::NestedUserNamespaces => policy.nested_user_namespaces,
                Grant::Ptrace => policy.ptrace,
            };
            Outcome::Settled(if granted {
                Verdict::Allow
            } else {
                Verdict::Refuse(errno)
            })
        }
        Decision::Deny(errno) => Outcome::Settled(Verdict::Refuse(errno)),
        Decision::NoSys => Outcome::Settled(DEFAULT),
    }
}

/// The outcome of every number that has a table entry.
pub(super) fn outcomes(
    policy: &SyscallPolicy,
    architecture: Architecture,
) -> BTreeMap<u32, Outcome> {
    let numbered = |entry: &super::Entry| {
        let number = entry.number(architecture)?;
        Some((number, outcome(entry.decision, policy)))
    };
    table().iter().filter_map(numbered).collect()
}

/// All numbers from zero on, cut where the outcome changes. Never empty.
pub(super) fn ranges(policy: &SyscallPolicy, architecture: Architecture) -> Vec<Range> {
    let outcomes = outcomes(policy, architecture);
    let end = outcomes.last_key_value().map_or(0, |(last, _)| last + 1);
    let mut ranges: Vec<Range> = Vec::new();
    for number in 0..=end {
        let outcome = outcomes
            .get(&number)
            .copied()
            .unwrap_or(Outcome::Settled(DEFAULT));
        if ranges.last().is_none_or(|it| it.outcome != outcome) {
            ranges.push(Range {
                first: number,
                outcome,
            });
        }
    }
    ranges
}

/// Writes the check of each rule that occurs, once.
fn checks(
    assembler: &mut Assembler,
    policy: &SyscallPolicy,
    architecture: Architecture,
) -> BTreeMap<ArgumentRule, Label> {
    let mut labels = BTreeMap::new();
    for outcome in outcomes(policy, architecture).into_values() {
        if let Outcome::Asks(rule) = outcome {
            labels
                .entry(rule)
                .or_insert_with(|| check(assembler, &rule.check(policy)));
        }
    }
    labels
}

fn check(assembler: &mut Assembler, check: &Check) -> Label {
    let otherwise = assembler.verdict(check.otherwise);
    check.clauses.iter().rev().fold(otherwise, |miss, clause| {
        let hit = assembler.verdict(clause.verdict);
        let conditions = clause.conditions.iter().rev();
        conditions.fold(hit, |hit, it| assembler.condition(*it, hit, miss))
    })
}

/// Writes a binary search for the number in the accumulator.
fn search(
    assembler: &mut Assembler,
    ranges: &[Range],
    checks: &BTreeMap<ArgumentRule, Label>,
) -> Label {
    let (lower, upper) = ranges.split_at(ranges.len() / 2);
    match (lower, upper) {
        ([_, ..], [first_above, ..]) => {
            let at_least = search(assembler, upper, checks);
            let below = search(assembler, lower, checks);
            assembler.branch(JUMP_IF_AT_LEAST, first_above.first, at_least, below)
        }
        (_, [only, ..]) => leaf(assembler, only.outcome, checks),
        (_, []) => assembler.verdict(DEFAULT),
    }
}

fn leaf(
    assembler: &mut Assembler,
    outcome: Outcome,
    checks: &BTreeMap<ArgumentRule, Label>,
) -> Label {
    match outcome {
        // `checks` wrote every rule that an outcome asks; a hole would close, not open.
        Outcome::Asks(rule) => match checks.get(&rule) {
            Some(label) => *label,
            None => assembler.verdict(DEFAULT),
        },
        Outcome::Settled(verdict) => assembler.verdict(verdict),
    }
}
