//! Our filters against those that the seccompiler crate builds from the same table.

use std::collections::{BTreeMap, BTreeSet};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::super::compile::{DEFAULT, Outcome, outcome};
use super::super::interpreter::{Call, run};
use super::super::program::Instruction;
use super::super::rule::{Clause, Condition, Test, Verdict};
use super::super::{Decision, table};
use super::redundancy::samples;
use super::{Architecture, BOTH, FOREIGN, Filter, SyscallPolicy, audit, policy, verdict};

/// What the other filter says about calls that it was told nothing about.
const SILENT: SeccompAction = SeccompAction::Trap;

struct Oracle {
    program: Vec<Instruction>,
    audit: u32,
}

impl Oracle {
    fn new(rules: BTreeMap<i64, Vec<SeccompRule>>, then: Verdict, at: Architecture) -> Self {
        let action = match then {
            Verdict::Allow => SeccompAction::Allow,
            Verdict::KillProcess => SeccompAction::KillProcess,
            Verdict::Refuse(errno) => SeccompAction::Errno(errno.number().into()),
        };
        let target = match at {
            Architecture::Aarch64 => TargetArch::aarch64,
            Architecture::X86_64 => TargetArch::x86_64,
        };
        let filter = SeccompFilter::new(rules, SILENT, action, target).unwrap();
        let program = BpfProgram::try_from(filter).unwrap();
        let program = program.iter().map(|it| Instruction {
            code: it.code,
            jump_true: it.jt,
            jump_false: it.jf,
            k: it.k,
        });
        Self {
            program: program.collect(),
            audit: audit(at),
        }
    }

    /// The verdict, or `None` if the filter was told nothing about such a call.
    fn verdict(&self, number: u32, arguments: [u64; 6]) -> Option<Verdict> {
        let call = Call {
            number,
            audit: self.audit,
            arguments,
        };
        let returned = run(&self.program, &call).returned;
        (returned != u32::from(SILENT)).then(|| verdict(returned))
    }
}

#[test]
fn every_number_is_settled_as_by_filters_of_seccompiler() {
    for at in BOTH {
        for bits in 0..32 {
            let policy = policy(bits);
            let ours = Filter::new(&policy, at);
            let oracles = plain_oracles(&policy, at);
            let asking = asking(&policy, at);
            for number in (0..=1023).filter(|it| !asking.contains(it)) {
                let mut theirs = oracles.iter().filter_map(|it| it.verdict(number, [0; 6]));
                let expected = theirs.next().unwrap_or(DEFAULT);
                assert_eq!(theirs.next(), None, "two verdicts on {number}");
                let actual = ours.verdict(number, [u64::MAX; 6]);
                assert_eq!(actual, expected, "{number} {at:?} {policy:?}");
            }
        }
    }
}

/// A filter for each verdict that the number alone settles, from the table directly.
fn plain_oracles(policy: &SyscallPolicy, at: Architecture) -> Vec<Oracle> {
    let mut numbers: BTreeMap<Verdict, BTreeMap<i64, Vec<SeccompRule>>> = BTreeMap::new();
    for entry in table() {
        if let (Some(number), Outcome::Settled(verdict)) =
            (entry.number(at), outcome(entry.decision, policy))
        {
            let numbers = numbers.entry(verdict).or_default();
            numbers.insert(number.into(), Vec::new());
        }
    }
    let oracle = |(verdict, numbers)| Oracle::new(numbers, verdict, at);
    numbers.into_iter().map(oracle).collect()
}

fn asking(policy: &SyscallPolicy, at: Architecture) -> BTreeSet<u32> {
    let asks =
        |entry: &&super::super::Entry| matches!(outcome(entry.decision, policy), Outcome::Asks(_));
    let asking = table().iter().filter(asks);
    asking.filter_map(|entry| entry.number(at)).collect()
}

#[test]
fn arguments_are_judged_as_by_a_chain_of_filters_of_seccompiler() {
    for at in BOTH {
        // Many policies give a rule the same clauses; each set is compared once.
        let mut seen = BTreeSet::new();
        for bits in 0..32 {
            let policy = policy(bits);
            let ours = Filter::new(&policy, at);
            for entry in table() {
                let (Some(number), Decision::AllowIf(rule)) = (entry.number(at), entry.decision)
                else {
                    continue;
                };
                let check = rule.check(&policy);
                if !seen.insert(format!("{number} {check:?}")) {
                    continue;
                }
                let chain: Vec<Oracle> = check
                    .clauses
                    .iter()
                    .map(|clause| clause_oracle(number, clause, at))
                    .collect();
                for arguments in samples(&check) {
                    let theirs = chain.iter().find_map(|it| it.verdict(number, arguments));
                    let expected = theirs.unwrap_or(check.otherwise);
                    let actual = ours.verdict(number, arguments);
                    assert_eq!(actual, expected, "{} {arguments:x?} {policy:?}", entry.name);
                }
            }
        }
    }
}

/// A filter that answers the verdict of the clause where its conditions hold.
fn clause_oracle(number: u32, clause: &Clause, at: Architecture) -> Oracle {
    // seccompiler joins conditions by "and" within a rule and by "or" between rules, so a
    // condition with several values multiplies the rules.
    let mut rules: Vec<Vec<SeccompCondition>> = vec![Vec::new()];
    for condition in &clause.conditions {
        let alternatives = alternatives(condition);
        rules = rules
            .into_iter()
            .flat_map(|rule| {
                let extended = |it: &Vec<SeccompCondition>| [rule.clone(), it.clone()].concat();
                alternatives.iter().map(extended).collect::<Vec<_>>()
            })
            .collect();
    }
    let rules = rules.into_iter().map(|it| SeccompRule::new(it).unwrap());
    let rules = BTreeMap::from([(i64::from(number), rules.collect())]);
    Oracle::new(rules, clause.verdict, at)
}

fn alternatives(condition: &Condition) -> Vec<Vec<SeccompCondition>> {
    let low = |operator, value: u32| {
        SeccompCondition::new(
            condition.argument,
            SeccompCmpArgLen::Dword,
            operator,
            value.into(),
        )
        .unwrap()
    };
    match condition.test {
        Test::AnyBit(bits) => (0..32)
            .map(|it| 1_u32 << it)
            .filter(|bit| bits & bit != 0)
            .map(|bit| vec![low(SeccompCmpOp::MaskedEq(bit.into()), bit)])
            .collect(),
        Test::Is { mask, values } => values
            .iter()
            .map(|value| vec![low(SeccompCmpOp::MaskedEq(mask.into()), *value)])
            .collect(),
        Test::Within { first, last } => {
            vec![vec![
                low(SeccompCmpOp::Ge, first),
                low(SeccompCmpOp::Le, last),
            ]]
        }
    }
}

#[test]
fn a_foreign_architecture_is_killed_as_by_seccompiler() {
    for at in BOTH {
        let ours = Filter::new(&super::NATIVE, at);
        let rules = BTreeMap::from([(0, Vec::new())]);
        let theirs = Oracle::new(rules, Verdict::Allow, at);
        let others = BOTH.into_iter().filter(|it| *it != at).map(audit);
        for audit in others.chain(FOREIGN).chain([0, u32::MAX]) {
            for number in 0..=1023 {
                let call = Call {
                    number,
                    audit,
                    arguments: [0; 6],
                };
                let ours = run(ours.program.instructions(), &call).returned;
                assert_eq!(verdict(ours), Verdict::KillProcess, "{number} {audit:#x}");
                assert_eq!(ours, run(&theirs.program, &call).returned);
            }
        }
    }
}
