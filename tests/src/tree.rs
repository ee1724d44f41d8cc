//! The project's own files, read as text.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// One text file of the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Where it is, relative to the root of the checkout, with `/` between the parts.
    pub path: String,
    /// What it says.
    pub text: String,
}

impl SourceFile {
    /// A file that need not exist: counter-examples are made with this.
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            text: text.into(),
        }
    }

    /// Whether this is Rust source.
    #[must_use]
    pub fn is_rust(&self) -> bool {
        has_extension(&self.path, "rs")
    }

    /// Whether this is Markdown.
    #[must_use]
    pub fn is_markdown(&self) -> bool {
        has_extension(&self.path, "md")
    }

    /// Whether this lies in the folder `folder`, at any depth.
    #[must_use]
    pub fn is_below(&self, folder: &str) -> bool {
        self.path
            .strip_prefix(folder)
            .is_some_and(|rest| rest.starts_with('/'))
    }

    /// Whether the whole file is test code: cargo builds it as a test or bench of its own,
    /// or it is the module `tests` of another.
    #[must_use]
    pub fn is_suite(&self) -> bool {
        let mut parts = self.path.split('/').skip(1);
        matches!(parts.next(), Some("tests" | "benches"))
            || parts.any(|it| it == "tests" || it == "tests.rs")
    }
}

fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path)
        .extension()
        .is_some_and(|it| it == extension)
}

/// The root of the checkout that this crate was compiled from.
#[must_use]
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// What holds nothing of ours. In a linked worktree `.git` is a file.
const NOT_OURS: [&str; 3] = [".git", "node_modules", "target"];

/// Every text file below `root`, sorted by path. Files that are not UTF-8 are left out.
///
/// # Errors
///
/// A folder or a file could not be read.
pub fn files(root: &Path) -> io::Result<Vec<SourceFile>> {
    let mut found = Vec::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let path = entry.path();
            if NOT_OURS.iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            if kind.is_dir() {
                pending.push(path);
            } else if kind.is_file()
                && let Ok(relative) = path.strip_prefix(root)
                && let Ok(text) = String::from_utf8(fs::read(&path)?)
            {
                found.push(SourceFile::new(relative.to_string_lossy(), text));
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_holds_this_file_and_nothing_that_was_built() {
        let files = files(&root()).unwrap();
        assert!(files.iter().any(|it| it.path == "tests/src/tree.rs"));
        assert!(!files.iter().any(|it| it.path.contains("target/")));
        assert!(!files.iter().any(|it| it.path.starts_with(".git/")));
    }

    #[test]
    fn a_folder_that_shares_a_prefix_is_not_above() {
        let file = SourceFile::new("sandbox/src/system.rs", "");
        assert!(file.is_below("sandbox/src"));
        assert!(!file.is_below("sandbox/src/sys"));
    }

    #[test]
    fn a_suite_is_known_by_its_folder_or_its_name() {
        let cases = [
            ("sandbox/tests/life.rs", true),
            ("tests/benches/launch.rs", true),
            ("sandbox/src/seatbelt/tests.rs", true),
            ("sandbox/src/seatbelt/tests/model.rs", true),
            ("tests/src/rules.rs", false),
            ("sandbox/src/contests.rs", false),
        ];
        for (path, expected) in cases {
            assert_eq!(SourceFile::new(path, "").is_suite(), expected, "{path}");
        }
    }
}
