//! What a command left that somebody may run later, outside: the end-of-run receipt.
//!
//! No sandbox can hold what is run without it afterwards. The receipt lists what changed of
//! that kind: executables, and files that build tools, editors and shells run by themselves.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use sandbox::AbsPath;

/// Most names that are listed.
const MOST: usize = 50;

/// Names that a tool runs, or takes commands from, when a person uses it.
const NAMES: [&str; 30] = [
    ".envrc",
    ".gitlab-ci.yml",
    ".pre-commit-config.yaml",
    ".tool-versions",
    "BUILD",
    "BUILD.bazel",
    "CMakeLists.txt",
    "Cargo.toml",
    "Dockerfile",
    "Gemfile",
    "GNUmakefile",
    "Jenkinsfile",
    "Justfile",
    "Makefile",
    "Rakefile",
    "Taskfile.yml",
    "build.gradle",
    "build.gradle.kts",
    "build.rs",
    "compose.yaml",
    "conftest.py",
    "docker-compose.yml",
    "justfile",
    "makefile",
    "package.json",
    "pom.xml",
    "pyproject.toml",
    "setup.py",
    "sitecustomize.py",
    "tox.ini",
];

/// Folders whose files are run or read by tools.
const FOLDERS: [&str; 5] = [".cargo", ".github", ".husky", ".vscode", ".idea"];

/// Folders of build products, which are as executable as they are many.
const SKIPPED: [&str; 6] = [
    ".git",
    "target",
    "node_modules",
    ".venv",
    "venv",
    "__pycache__",
];

/// The changed names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Receipt {
    since: (i64, i64),
    /// Relative to the workspace.
    pub(crate) changed: Vec<PathBuf>,
    /// How many more there are than are listed.
    pub(crate) more: usize,
}

impl Receipt {
    /// Notes the time from which changes count.
    pub(crate) fn begin(_workspace: &AbsPath) -> Self {
        // The kernel stamps files with the time of its last tick, which may lie a few
        // milliseconds back.
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .saturating_sub(std::time::Duration::from_millis(10));
        Self {
            since: (
                i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
                now.subsec_nanos().into(),
            ),
            changed: Vec::new(),
            more: 0,
        }
    }

    /// Looks for changes since then.
    pub(crate) fn end(mut self, workspace: &AbsPath) -> Self {
        self.look(workspace, Path::new(""), 0);
        self.changed.sort();
        self.more = self.changed.len().saturating_sub(MOST);
        self.changed.truncate(MOST);
        self
    }

    fn look(&mut self, root: &Path, below: &Path, depth: usize) {
        let Ok(entries) = std::fs::read_dir(root.join(below)) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let path = below.join(&name);
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() {
                if depth < 64 && !SKIPPED.iter().any(|it| name == *it) {
                    self.look(root, &path, depth + 1);
                }
            } else if kind.is_file()
                && entry.metadata().is_ok_and(|it| {
                    (it.ctime(), it.ctime_nsec()) >= self.since
                        && (it.mode() & 0o111 != 0 || is_run_by_tools(&path))
                })
            {
                self.changed.push(path);
            }
        }
    }
}

fn is_run_by_tools(path: &Path) -> bool {
    let named = path.file_name().is_some_and(|name| {
        NAMES.iter().any(|it| name == *it)
            || Path::new(name)
                .extension()
                .is_some_and(|it| it == "pth" || it == "mk")
    });
    named || path.iter().any(|part| FOLDERS.iter().any(|it| part == *it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_build_files_and_executables_are_listed_and_others_are_not() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let workspace = AbsPath::new(root.path().canonicalize().unwrap()).unwrap();
        std::fs::write(root.path().join("old.mk"), "").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(40));
        let receipt = Receipt::begin(&workspace);
        std::fs::create_dir(root.path().join("sub")).unwrap();
        std::fs::write(root.path().join("sub/Makefile"), "").unwrap();
        std::fs::write(root.path().join("notes.txt"), "").unwrap();
        std::fs::write(root.path().join("run"), "").unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(root.path().join("run"), mode).unwrap();
        let receipt = receipt.end(&workspace);
        assert_eq!(
            receipt.changed,
            [PathBuf::from("run"), PathBuf::from("sub/Makefile")]
        );
    }
}
