//! The rules of the house, applied to the whole tree.
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests {
    use stockade_tests::edges::violations_of_edges;
    use stockade_tests::rules;
    use stockade_tests::tree::{SourceFile, files, root};

    fn tree() -> Vec<SourceFile> {
        files(&root()).unwrap()
    }

    #[track_caller]
    fn assert_kept(violations: &[String]) {
        assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
    }

    #[test]
    fn crates_know_only_whom_they_may() {
        assert_kept(&violations_of_edges(&tree()));
    }

    #[test]
    fn every_module_says_first_what_it_is_for() {
        assert_kept(&rules::violations_of_module_docs(&tree()));
    }

    #[test]
    fn unsafe_stands_in_sys_alone_and_answers_for_itself() {
        assert_kept(&rules::violations_of_unsafe(&tree()));
    }

    #[test]
    fn processes_are_started_by_the_sandbox_alone() {
        assert_kept(&rules::violations_of_spawning(&tree()));
    }

    #[test]
    fn policy_is_pure_and_the_sandbox_is_free_of_async() {
        assert_kept(&rules::violations_of_purity(&tree()));
    }

    #[test]
    fn no_file_is_longer_than_a_reader_can_hold() {
        assert_kept(&rules::violations_of_length(&tree()));
    }

    #[test]
    fn nothing_is_unfinished_without_an_issue() {
        assert_kept(&rules::violations_of_completeness(&tree()));
    }

    #[test]
    fn no_file_names_the_machine_it_was_written_on() {
        let root = root();
        assert_kept(&rules::violations_of_places(
            &tree(),
            &root.to_string_lossy(),
        ));
    }

    #[test]
    fn no_file_names_a_registry_but_the_public_one() {
        assert_kept(&rules::violations_of_registries(&tree()));
    }
}
