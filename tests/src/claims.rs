//! Claims in the documents, held against the tests and probes that exist.
//!
//! A claim names its witness in backticks: a test function, `module::function` or
//! `function` alone, or the id of a probe.
//!
//! # Invariants
//!
//! - A name counts only where code stands: a test that was renamed or removed, or that is
//!   named in a comment alone, witnesses nothing.

use crate::scan::{split, tokens};
use crate::tree::SourceFile;
use std::collections::{BTreeMap, BTreeSet};

/// What may be named as a witness.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Witnesses {
    names: BTreeSet<String>,
}

impl Witnesses {
    /// The functions that a `#[test]` marks (or that a `proptest!` holds), and the ids of the probes.
    #[must_use]
    pub fn in_files(files: &[SourceFile]) -> Self {
        let mut names = BTreeSet::new();
        for file in files.iter().filter(|it| it.is_rust()) {
            add_tests(&split(&file.text).code, &mut names);
            if file.is_below("probes/src") {
                names.extend(quoted(&file.text, '"').filter(|it| is_probe_id(it)));
            }
        }
        Self { names }
    }

    fn know(&self, name: &str) -> bool {
        let function = name.rsplit("::").next().unwrap_or(name);
        self.names.contains(function)
    }
}

/// Adds the name behind each `fn` that comes next after a `#[test]`.
fn add_tests(code: &str, names: &mut BTreeSet<String>) {
    let tokens = tokens(code);
    let texts: Vec<&str> = tokens.iter().map(|it| it.text).collect();
    let mut is_marked = false;
    for window in texts.windows(4) {
        match window {
            ["#", "[", "test", "]"] => is_marked = true,
            ["fn", name, ..] if is_marked => {
                names.insert((*name).to_owned());
                is_marked = false;
            }
            _ => (),
        }
    }
}

/// Two letters, two digits, an underscore and more: `fs01_write_rc`.
fn is_probe_id(name: &str) -> bool {
    let (class, rest) = name.split_at_checked(2).unwrap_or_default();
    let (number, rest) = rest.split_at_checked(2).unwrap_or_default();
    class.bytes().all(|it| it.is_ascii_lowercase())
        && !number.is_empty()
        && number.bytes().all(|it| it.is_ascii_digit())
        && rest
            .strip_prefix('_')
            .is_some_and(|it| !it.is_empty() && it.bytes().all(is_id_byte))
}

fn is_id_byte(it: u8) -> bool {
    it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_'
}

/// What stands between pairs of `mark`, line by line.
fn quoted(text: &str, mark: char) -> impl Iterator<Item = String> {
    text.lines()
        .flat_map(move |line| line.split(mark).skip(1).step_by(2))
        .map(str::to_owned)
}

/// The cells of a row of a Markdown table, or nothing where the line is no row or is its ruler.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let cells: Vec<&str> = inner.split(" | ").map(str::trim).collect();
    let is_ruler = inner
        .bytes()
        .all(|it| matches!(it, b'-' | b'|' | b' ' | b':'));
    (!is_ruler).then_some(cells)
}

/// What is wrong with the rows of `docs/PRIOR_ATTACKS.md`.
///
/// Each of `ids` has exactly one row `| id | attack | answer |`, and no other row has an id.
/// The answer is `holds: ` with a witness, or `later: ` or `cannot: ` with a reason.
#[must_use]
pub fn violations_of_attack_rows(
    page: &str,
    ids: &BTreeSet<String>,
    witnesses: &Witnesses,
) -> Vec<String> {
    let mut found = Vec::new();
    let mut rows: BTreeMap<&str, usize> = BTreeMap::new();
    for line in page.lines() {
        let Some(cells) = cells(line) else { continue };
        let [id, attack, answer] = cells.as_slice() else {
            found.push(format!("not a row of three cells: {line}"));
            continue;
        };
        if *id == "id" {
            continue;
        }
        *rows.entry(id).or_default() += 1;
        if !ids.contains(*id) {
            found.push(format!("{id}: no such case"));
        }
        if attack.is_empty() {
            found.push(format!("{id}: says nothing of the attack"));
        }
        if let Some(claim) = answer.strip_prefix("holds: ") {
            found.extend(unwitnessed(claim, witnesses).map(|it| format!("{id}: {it}")));
        } else if !has_reason(answer) {
            found.push(format!("{id}: neither a witness nor a reason"));
        }
    }
    for id in ids {
        match rows.get(id.as_str()) {
            Some(1) => (),
            Some(count) => found.push(format!("{id}: {count} rows")),
            None => found.push(format!("{id}: no row")),
        }
    }
    found
}

/// Whether an answer gives a reason of more than a few words.
fn has_reason(answer: &str) -> bool {
    let reason = answer
        .strip_prefix("later: ")
        .or_else(|| answer.strip_prefix("cannot: "));
    reason.is_some_and(|it| it.split_whitespace().count() >= 3)
}

/// What is wrong with the guarantees of `SECURITY.md`.
///
/// Each row `| guarantee | shown by |` under the heading `## Guarantees` names a witness.
#[must_use]
pub fn violations_of_guarantees(page: &str, witnesses: &Witnesses) -> Vec<String> {
    let section = page
        .split("\n## ")
        .find(|it| it.starts_with("Guarantees\n"));
    let Some(section) = section else {
        return vec!["no heading `## Guarantees`".to_owned()];
    };
    let mut found = Vec::new();
    let mut rows = 0;
    for line in section.lines() {
        let Some(cells) = cells(line) else { continue };
        let [guarantee, claim] = cells.as_slice() else {
            found.push(format!("not a row of two cells: {line}"));
            continue;
        };
        if *guarantee == "guarantee" {
            continue;
        }
        rows += 1;
        found.extend(unwitnessed(claim, witnesses).map(|it| format!("{guarantee}: {it}")));
    }
    if rows == 0 {
        found.push("no guarantee is listed".to_owned());
    }
    found
}

/// What a claim lacks: a name, or the test or probe of that name.
fn unwitnessed(claim: &str, witnesses: &Witnesses) -> impl Iterator<Item = String> {
    let names: Vec<String> = quoted(claim, '`').collect();
    let none = names.is_empty().then(|| "names no witness".to_owned());
    let unknown = names.into_iter().filter(|it| !witnesses.know(it));
    let unknown: Vec<String> = unknown
        .map(|it| format!("no test or probe `{it}`"))
        .collect();
    none.into_iter().chain(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn witnesses() -> Witnesses {
        Witnesses::in_files(&[
            SourceFile::new(
                "sandbox/tests/life.rs",
                "#[test]\nfn a_daemon_dies() {}\n// fn only_said() {}\nfn helper() {}\n",
            ),
            SourceFile::new(
                "probes/src/files.rs",
                "id: \"fs01_write_rc\", name: \"other\"",
            ),
        ])
    }

    #[test]
    fn a_witness_is_a_test_or_a_probe_and_not_a_word() {
        let cases = [
            ("a_daemon_dies", true),
            ("life::a_daemon_dies", true),
            ("fs01_write_rc", true),
            ("helper", false),
            ("only_said", false),
            ("other", false),
        ];
        for (name, expected) in cases {
            assert_eq!(witnesses().know(name), expected, "{name}");
        }
    }

    #[test]
    fn every_case_has_one_row_and_every_row_its_answer() {
        let ids = BTreeSet::from(["c1".to_owned()]);
        let cases = [
            ("| c1 | writes | holds: `fs01_write_rc` |", None),
            ("| c1 | writes | later: the broker is not built |", None),
            ("| c1 | writes | cannot: there is no such tool |", None),
            ("", Some("c1: no row")),
            (
                "| c1 | writes | holds: `fs02_gone` |",
                Some("c1: no test or probe `fs02_gone`"),
            ),
            (
                "| c1 | writes | holds: surely |",
                Some("c1: names no witness"),
            ),
            ("| c1 | writes | later: soon |", Some("c1: neither")),
            ("| c1 | writes | fine |", Some("c1: neither")),
            (
                "| c1 |  | later: the broker is not built |",
                Some("c1: says nothing"),
            ),
            ("| c1 | writes |", Some("not a row")),
        ];
        for (row, expected) in cases {
            let page = format!("| id | attack | answer |\n|---|---|---|\n{row}\n");
            let found = violations_of_attack_rows(&page, &ids, &witnesses());
            let first = found.first().map(String::as_str);
            assert!(
                match expected {
                    Some(part) => first.is_some_and(|it| it.starts_with(part)),
                    None => first.is_none(),
                },
                "{row}\n{found:?}"
            );
        }
    }

    #[test]
    fn a_row_that_is_doubled_or_unknown_is_found() {
        let ids = BTreeSet::from(["c1".to_owned()]);
        let row = "| c1 | writes | later: the broker is not built |\n";
        let found = violations_of_attack_rows(&row.repeat(2), &ids, &witnesses());
        assert_eq!(found, ["c1: 2 rows"]);
        let found = violations_of_attack_rows(&row.replace("c1", "c2"), &ids, &witnesses());
        assert_eq!(found, ["c2: no such case", "c1: no row"]);
    }

    #[test]
    fn a_guarantee_without_a_test_is_found() {
        let cases = [
            (
                "| files hold | `fs01_write_rc` and `life::a_daemon_dies` |",
                None,
            ),
            (
                "| files hold | `helper` |",
                Some("files hold: no test or probe `helper`"),
            ),
            (
                "| files hold | believe us |",
                Some("files hold: names no witness"),
            ),
            ("nothing", Some("no guarantee is listed")),
        ];
        for (row, expected) in cases {
            let head = "# S\n\n## Guarantees\n\n| guarantee | shown by |\n|---|---|\n";
            let page = format!("{head}{row}\n\n## Not defended\n\n| a | b |\n");
            let found = violations_of_guarantees(&page, &witnesses());
            assert_eq!(found.first().map(String::as_str), expected, "{row}");
        }
        assert_eq!(
            violations_of_guarantees("# S\n", &witnesses()),
            ["no heading `## Guarantees`"]
        );
    }
}
