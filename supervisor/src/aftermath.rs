//! What is looked at when a command has ended: protected names that appeared meanwhile.
//!
//! A name that did not exist has no mount that could keep it from being made. In direct mode
//! it is moved aside before the call answers: in its own folder, so that nothing is lost and
//! the move is atomic, under a name that no program looks for.
//!
//! # Invariants
//!
//! - **Nothing is deleted.** What is found is renamed, never over something else.
//! - **What is inert stays.** A repository that `git init` or `git clone` made keeps its
//!   configuration and its sample hooks, if nothing in them can run a program.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use policy::GitConfig;
use sandbox::AbsPath;

use crate::keepsake::{Keepsake, KeepsakeError};
use crate::place;
use crate::planner::Planned;
use crate::planner::walk::{self, Found, Moment, Names, WalkError};
use crate::planner::worktree::read_small;

/// What has to be looked at, kept apart from the plan so that the reaper can hold it too.
#[derive(Clone, Debug)]
pub(crate) struct Aftermath {
    id: String,
    searched: Vec<(AbsPath, Found)>,
    names: Names,
    absent: Vec<PathBuf>,
    protected: Vec<AbsPath>,
    kept: Keepsake,
}

/// One name that appeared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quarantined {
    /// Where it appeared.
    pub(crate) path: PathBuf,
    /// Where it is now, or why it could not be moved.
    pub(crate) moved: Result<PathBuf, String>,
}

impl Aftermath {
    /// `staged`: the tree whose changes are kept apart, and so are not on the host to be found.
    pub(crate) fn new(id: &str, planned: Planned, staged: Option<&AbsPath>) -> Self {
        let mut searched = planned.searched;
        searched.retain(|(root, _)| Some(root) != staged);
        Self {
            id: id.to_owned(),
            searched,
            names: planned.names,
            absent: planned.absent,
            protected: planned.confinement.filesystem().protected.clone(),
            kept: Keepsake::default(),
        }
    }

    /// Looks at `root` as it is now, to compare with what it is after a change that is not a
    /// run: an apply of staged work.
    ///
    /// # Errors
    ///
    /// When it cannot be searched; then nothing should be applied.
    pub(crate) fn before_change(id: &str, root: &AbsPath, names: Names) -> Result<Self, WalkError> {
        let found = walk::walk(root, &names, Moment::Before)?;
        let absent = found
            .repositories
            .iter()
            .flat_map(|it| crate::planner::expand::configured(it, &[]).1)
            .collect();
        Ok(Self {
            id: id.to_owned(),
            searched: vec![(root.clone(), found)],
            names,
            absent,
            protected: Vec::new(),
            kept: Keepsake::default(),
        })
    }

    /// Keeps in mind what protected names hold, for a back end that cannot hold them.
    pub(crate) fn keep(&mut self) -> Result<(), KeepsakeError> {
        self.kept = Keepsake::of(self.protected.iter().map(|it| &**it))?;
        Ok(())
    }

    /// Moves aside every protected name that the search before the start did not find.
    ///
    /// The error says why a tree could not be searched; what was found elsewhere is moved.
    pub(crate) fn quarantine(&self) -> (Vec<Quarantined>, Option<WalkError>) {
        let mut moved = self.restore();
        let mut failed = None;
        for (root, before) in &self.searched {
            let after = match walk::walk(root, &self.names, Moment::After) {
                Ok(after) => after,
                Err(error) => {
                    failed = Some(error);
                    continue;
                }
            };
            if let Some(path) = after.unsearched.first() {
                failed = Some(WalkError::Unsearched {
                    path: path.clone(),
                    count: after.unsearched.len(),
                });
            }
            let pointed = self.absent.iter().filter(|it| it.starts_with(root));
            // A name that is as it was is as the host left it. One that is not may have been
            // changed by the host, by another sandbox, or by this one once the host had
            // renamed a file over the protected one, which takes its mount away.
            let appeared = after
                .protected
                .iter()
                .filter(|it| before.marks.get(*it) != after.marks.get(*it))
                .filter(|it| !self.kept.holds(it))
                .chain(pointed.filter(|it| it.symlink_metadata().is_ok()));
            let mut seen = BTreeSet::new();
            for path in appeared {
                if seen.insert(path) && !is_inert(path) {
                    moved.push(Quarantined {
                        path: path.clone(),
                        moved: self.move_aside(root, path),
                    });
                }
            }
        }
        (moved, failed)
    }

    /// Moves aside what was changed of what was kept in mind, and puts the old content back.
    fn restore(&self) -> Vec<Quarantined> {
        let mut restored = Vec::new();
        for (root, _) in &self.searched {
            for path in self.kept.changed(root) {
                let moved = match place::parent(root, &path) {
                    Ok(folder) if place::is_there(&folder, &path) => self.move_aside(root, &path),
                    // Its folder is there and it is not: nothing has to be moved.
                    Ok(_) => Ok(path.clone()),
                    Err(error) => Err(error.to_string()),
                };
                let moved = moved.and_then(|aside| {
                    let back = self.kept.put_back(root, &path);
                    back.map(|()| aside).map_err(|it| it.to_string())
                });
                restored.push(Quarantined { path, moved });
            }
        }
        restored
    }

    fn move_aside(&self, root: &AbsPath, path: &Path) -> Result<PathBuf, String> {
        place::move_aside(root, path, &self.id).map_err(|it| it.to_string())
    }
}

/// Whether nothing that git would read at `path` can run a program.
fn is_inert(path: &Path) -> bool {
    let is_link = path.is_symlink();
    match path.file_name().map(OsStr::as_bytes) {
        Some(b"hooks") if !is_link && path.is_dir() => hooks_are_samples(path),
        Some(b"config" | b"config.worktree") if !is_link => {
            read_small(path).is_some_and(|text| GitConfig::parse(&text).is_inert())
        }
        // A submodule's or a worktree's pointer, to a repository that is looked at as well.
        Some(b".git") if !is_link => points_inside(path),
        Some(b"commondir") => !is_link && points_to_own_repository(path),
        Some(b"gitdir") => !is_link,
        _ => false,
    }
}

/// Whether the folder holds nothing but what `git init` copies from its templates.
fn hooks_are_samples(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|entries| {
        entries.into_iter().all(|entry| {
            entry.is_ok_and(|entry| {
                let is_file = entry.file_type().is_ok_and(|it| it.is_file());
                is_file && entry.file_name().as_bytes().ends_with(b".sample")
            })
        })
    })
}

/// Whether a `commondir` is that of a linked worktree, and names the repository that holds it.
///
/// Anywhere else it would have git take hooks and configuration from another folder, which
/// need not look like a repository: gitrepository-layout(5).
fn points_to_own_repository(path: &Path) -> bool {
    let Some(private) = path.parent() else {
        return false;
    };
    let own = private
        .parent()
        .filter(|it| it.ends_with("worktrees"))
        .and_then(Path::parent)
        .and_then(|it| it.canonicalize().ok());
    let named = read_small(path)
        .and_then(|text| Some(private.join(OsStr::from_bytes(policy::commondir(&text)?))))
        .and_then(|it| it.canonicalize().ok());
    own.is_some() && own == named
}

/// Whether a `.git` file points to a folder beside or below its own place.
fn points_inside(path: &Path) -> bool {
    let Some(text) = read_small(path) else {
        return false;
    };
    let Some(target) = policy::pointer(&text) else {
        return false;
    };
    let Some(folder) = path.parent() else {
        return false;
    };
    let target = folder.join(OsStr::from_bytes(target));
    let repository = target.canonicalize().ok();
    // The nearest folder above that is a work tree's top holds the repository as well.
    let top = folder
        .ancestors()
        .skip(1)
        .find(|it| it.join(".git").is_dir());
    match (repository, top) {
        (Some(repository), Some(top)) => {
            repository.starts_with(top.join(".git"))
                && read_small(&repository.join("config"))
                    .is_none_or(|text| GitConfig::parse(&text).is_inert())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use policy::PathRule;

    use super::*;

    fn aftermath(root: &Path) -> Aftermath {
        let rules: Vec<PathRule> = [".git/hooks", ".git/config", ".mcp.json"]
            .iter()
            .map(|it| PathRule::parse(it).unwrap())
            .collect();
        let names = Names::new(rules.iter(), [].iter());
        let root = AbsPath::new(root.canonicalize().unwrap()).unwrap();
        let found = walk::walk(&root, &names, Moment::Before).unwrap();
        let found_protected = found
            .protected
            .iter()
            .map(|it| AbsPath::new(it).unwrap())
            .collect();
        Aftermath {
            id: "t".to_owned(),
            searched: vec![(root, found)],
            names,
            absent: Vec::new(),
            protected: found_protected,
            kept: Keepsake::default(),
        }
    }

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn what_appeared_is_moved_aside_and_what_was_there_stays() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "old/.mcp.json", "{}");
        let aftermath = aftermath(root.path());
        write(root.path(), "new/.mcp.json", "evil");
        write(root.path(), "new/.git/hooks/post-commit", "evil");
        write(root.path(), "new/.git/config", "[core]\nfsmonitor = x\n");
        let (moved, failed) = aftermath.quarantine();
        assert!(failed.is_none());
        assert_eq!(moved.len(), 3, "{moved:?}");
        assert!(root.path().join("old/.mcp.json").exists());
        for name in ["new/.mcp.json", "new/.git/hooks", "new/.git/config"] {
            assert!(!root.path().join(name).exists(), "{name}");
            let aside = format!("{name}.stockade-quarantine-t");
            assert!(root.path().join(aside).exists(), "{name}");
        }
    }

    #[test]
    fn what_was_kept_in_mind_is_put_back() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), ".git/config", "[core]\n");
        let mut aftermath = aftermath(root.path());
        aftermath.keep().unwrap();
        write(root.path(), ".git/config", "[core]\nfsmonitor = x\n");
        assert_eq!(aftermath.quarantine().0.len(), 1);
        let text = std::fs::read_to_string(root.path().join(".git/config")).unwrap();
        assert_eq!(text, "[core]\n");
        let aside = root.path().join(".git/config.stockade-quarantine-t");
        assert!(
            std::fs::read_to_string(aside)
                .unwrap()
                .contains("fsmonitor")
        );
    }

    #[test]
    fn a_repository_made_on_the_host_meanwhile_survives() {
        let root = tempfile::tempdir().unwrap();
        let aftermath = aftermath(root.path());
        write(root.path(), "new/.git/config", "[core]\n\tbare = false\n");
        write(root.path(), "new/.git/hooks/pre-push.sample", "#!/bin/sh\n");
        assert_eq!(aftermath.quarantine().0, []);
    }

    #[test]
    fn a_folder_that_was_closed_to_writing_is_opened_again() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let aftermath = aftermath(root.path());
        write(root.path(), "d/.mcp.json", "evil");
        let closed = std::fs::Permissions::from_mode(0o555);
        std::fs::set_permissions(root.path().join("d"), closed).unwrap();
        let (moved, _) = aftermath.quarantine();
        assert!(moved[0].moved.is_ok(), "{moved:?}");
    }

    #[test]
    fn a_repository_that_borrows_the_configuration_of_another_folder_is_not_inert() {
        let root = tempfile::tempdir().unwrap();
        for folder in [".git/worktrees/w", "lib/objects"] {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let cases = [
            (".git/worktrees/w/commondir", "../..\n", true),
            (".git/worktrees/w/commondir", "../../../lib\n", false),
            (".git/commondir", "../lib\n", false),
            (".git/commondir", ".\n", false),
            (".git/commondir", "", false),
        ];
        for (name, text, expected) in cases {
            let path = root.path().join(name);
            std::fs::write(&path, text).unwrap();
            assert_eq!(is_inert(&path), expected, "{name}: {text:?}");
        }
    }

    #[test]
    fn a_link_in_the_place_of_a_sample_or_a_configuration_is_not_inert() {
        let root = tempfile::tempdir().unwrap();
        let aftermath = aftermath(root.path());
        write(root.path(), "r/.git/x", "");
        write(root.path(), "inert", "");
        std::os::unix::fs::symlink("../../inert", root.path().join("r/.git/config")).unwrap();
        assert_eq!(aftermath.quarantine().0.len(), 1);
    }
}
