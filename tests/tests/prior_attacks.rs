//! What the documents promise, held against the tests and probes that exist.
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use stockade_tests::claims::{Witnesses, violations_of_attack_rows, violations_of_guarantees};
    use stockade_tests::tree::{files, root};

    fn read(path: &str) -> String {
        fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The ids of the cases, in the order of the files; an id that stands twice fails here.
    fn case_ids() -> BTreeSet<String> {
        let mut ids = BTreeSet::new();
        for path in [
            "tests/cases/attacks-codex.jsonl",
            "tests/cases/attacks-peers.jsonl",
        ] {
            for line in read(path).lines() {
                let case: serde_json::Value = serde_json::from_str(line).unwrap();
                let id = case["id"].as_str().unwrap().to_owned();
                assert!(ids.insert(id), "{path}: {line}");
            }
        }
        ids
    }

    #[test]
    fn every_known_attack_has_a_row_that_names_its_test_or_its_reason() {
        let witnesses = Witnesses::in_files(&files(&root()).unwrap());
        let found =
            violations_of_attack_rows(&read("docs/PRIOR_ATTACKS.md"), &case_ids(), &witnesses);
        assert!(found.is_empty(), "\n{}\n", found.join("\n"));
    }

    #[test]
    fn every_guarantee_names_the_test_that_shows_it() {
        let witnesses = Witnesses::in_files(&files(&root()).unwrap());
        let found = violations_of_guarantees(&read("SECURITY.md"), &witnesses);
        assert!(found.is_empty(), "\n{}\n", found.join("\n"));
    }

    #[test]
    fn the_case_files_hold_every_case_that_was_collected() {
        assert_eq!(case_ids().len(), 164);
    }
}
