//! Fixtures for the staging suites: a workspace, a stage, hand-made marks, and a tree as text.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox::staging::{
    ApplyReport, Change, LockedStage, Meta, Outcome, Selection, Stage, StagingError, Status,
};

/// A workspace with a stage; the folder goes with the value.
pub(crate) struct Place {
    _folder: tempfile::TempDir,
    pub(crate) root: PathBuf,
    pub(crate) workspace: PathBuf,
    pub(crate) stage: Option<LockedStage>,
}

/// Builds a workspace with `fill`, lets the clock tick, and starts a session on it.
pub(crate) fn place(fill: impl FnOnce(&Path)) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_owned();
    let workspace = root.join("workspace");
    fs::create_dir(&workspace).unwrap();
    fs::create_dir(root.join("state")).unwrap();
    fill(&workspace);
    tick();
    let stage = Stage::create(&root.join("state"), "s1", &meta(&workspace)).unwrap();
    tick();
    Place {
        _folder: folder,
        root,
        workspace,
        stage: Some(stage),
    }
}

pub(crate) fn meta(workspace: &Path) -> Meta {
    Meta {
        workspace: workspace.as_os_str().as_bytes().to_vec(),
        session: "session-1".to_owned(),
        command: "make test".to_owned(),
        created: 1_700_000_000,
        uid: rustix::process::getuid().as_raw(),
        status: Status::Running,
    }
}

/// Longer than the kernel's coarse clock stands still (10 ms at 100 Hz).
pub(crate) fn tick() {
    std::thread::sleep(Duration::from_millis(12));
}

impl Place {
    pub(crate) fn stage(&self) -> &LockedStage {
        self.stage.as_ref().unwrap()
    }

    pub(crate) fn upper(&self) -> PathBuf {
        self.stage().upper()
    }

    pub(crate) fn scan(&self) -> Vec<Change> {
        self.stage().scan(&|_| false).unwrap()
    }

    /// `path kind` of each change, conflicts, refusals and protection named.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.scan().iter().map(line).collect()
    }

    pub(crate) fn apply(&self) -> ApplyReport {
        self.apply_until(usize::MAX).unwrap()
    }

    /// Applies all, and dies before step `end`.
    pub(crate) fn apply_until(&self, end: usize) -> Result<ApplyReport, StagingError> {
        self.stage().apply(Selection::All, &|_| false, &mut |step| {
            if step.number == end {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
    }

    /// What is left in the upper directory, at the top.
    pub(crate) fn staged(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.upper())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

pub(crate) fn line(change: &Change) -> String {
    let mut text = format!(
        "{} {:?}",
        String::from_utf8_lossy(&change.path),
        change.kind
    );
    if change.protected {
        text.push_str(" protected");
    }
    if let Some(conflict) = change.conflict {
        text.push_str(&format!(" {conflict:?}"));
    }
    if let Some(refusal) = change.refusal {
        text.push_str(&format!(" {refusal:?}"));
    }
    text
}

/// Outcomes that are not `Applied`, by path.
pub(crate) fn unapplied(report: &ApplyReport) -> Vec<(String, Outcome)> {
    let all = report.outcomes.iter();
    all.filter(|(_, outcome)| *outcome != Outcome::Applied)
        .map(|(change, outcome)| {
            (
                String::from_utf8_lossy(&change.path).into_owned(),
                outcome.clone(),
            )
        })
        .collect()
}

pub(crate) fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

pub(crate) fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

pub(crate) fn link(target: &str, path: &Path) {
    symlink(target, path).unwrap();
}

/// A tree as text: path to kind, mode and content.
pub(crate) fn picture(root: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let found = fs::symlink_metadata(&path).unwrap();
            let mode = found.mode() & 0o7777;
            let text = if found.is_symlink() {
                format!("link {}", fs::read_link(&path).unwrap().display())
            } else if found.is_dir() {
                open.push(path.clone());
                format!("dir {mode:o}")
            } else if found.is_file() {
                format!(
                    "file {mode:o} {}",
                    String::from_utf8_lossy(&fs::read(&path).unwrap())
                )
            } else {
                format!("other {mode:o}")
            };
            all.insert(
                path.strip_prefix(root)
                    .unwrap()
                    .to_string_lossy()
                    .into_owned(),
                text,
            );
        }
    }
    all
}

/// Says loudly what this machine cannot test; where CI demands enforcement, fails.
#[expect(
    clippy::disallowed_methods,
    reason = "the variable is for the tests alone"
)]
pub(crate) fn not_tested(what: &str) {
    let required = std::env::var("STOCKADE_REQUIRE_ENFORCEMENT").is_ok_and(|value| value == "1");
    assert!(!required, "cannot test here: {what}");
    eprintln!("NOT TESTED: {what}");
}
