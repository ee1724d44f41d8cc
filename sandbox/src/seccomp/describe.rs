//! Prints the filter as text, for documents and for the recorded tests.

use std::collections::BTreeSet;

use super::compile::{DEFAULT, Outcome, outcome};
use super::rule::{Clause, Verdict};
use super::table::{Entry, table};
use super::{Architecture, SyscallPolicy};

/// The calls of `architecture` in order of their numbers, with what `policy` makes of each
/// and why; then the argument rules, clause by clause.
///
/// One call per line, separated by line feeds, with one at the end.
#[must_use]
pub fn describe(policy: &SyscallPolicy, architecture: Architecture) -> String {
    let mut entries: Vec<(u32, &Entry)> = table()
        .iter()
        .filter_map(|entry| Some((entry.number(architecture)?, entry)))
        .collect();
    entries.sort_by_key(|(number, _)| *number);

    let mut lines = Vec::new();
    let mut rules = BTreeSet::new();
    for (number, entry) in entries {
        let decision = match outcome(entry.decision, policy) {
            Outcome::Asks(rule) => {
                rules.insert(rule);
                "check".to_owned()
            }
            Outcome::Settled(verdict) => verdict.to_string(),
        };
        let (name, reason) = (entry.name, entry.reason);
        lines.push(format!("{number:>3} {name:<23} {decision:<10} {reason}"));
    }
    lines.push(format!("{:<27} {DEFAULT}", "any other number"));
    for rule in rules {
        let callers: Vec<&str> = table()
            .iter()
            .filter(|entry| entry.number(architecture).is_some())
            .filter(|entry| outcome(entry.decision, policy) == Outcome::Asks(rule))
            .map(|entry| entry.name)
            .collect();
        let check = rule.check(policy);
        lines.push(format!("\n{}:", callers.join(", ")));
        lines.extend(check.clauses.iter().map(clause));
        lines.push(line("otherwise", check.otherwise));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn clause(clause: &Clause) -> String {
    let conditions: Vec<String> = clause.conditions.iter().map(ToString::to_string).collect();
    line(&conditions.join(" and "), clause.verdict)
}

fn line(text: &str, verdict: Verdict) -> String {
    format!("  {text} -> {verdict}")
}
