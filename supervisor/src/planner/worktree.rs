//! Linked worktrees and repositories above the workspace: the parts of git that git needs.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use sandbox::{AbsPath, Access};

use super::places::Places;

/// Most bytes that are read of a file of git's that a payload may have written.
const MOST: u64 = 1 << 20;

/// What of a shared repository a commit in a linked worktree writes.
const WRITTEN: [&str; 3] = ["objects", "refs", "logs"];

/// Grants what git needs beside the workspace; returns what of it is protected.
pub(super) fn grant(
    places: &mut Places,
    workspace: &AbsPath,
    warnings: &mut Vec<String>,
) -> Vec<PathBuf> {
    let own = workspace.join(".git");
    if own.is_file() {
        return linked(places, workspace, &own, warnings);
    }
    if own.symlink_metadata().is_ok() {
        return Vec::new();
    }
    // A folder inside a repository: git can read the history, and change nothing.
    for above in workspace.ancestors().skip(1) {
        let folder = above.join(".git");
        if folder.is_dir() {
            places.grant(&folder, Access::Read, true);
            break;
        }
    }
    Vec::new()
}

/// A linked worktree, git-worktree(1), gitrepository-layout(5).
fn linked(
    places: &mut Places,
    workspace: &AbsPath,
    own: &Path,
    warnings: &mut Vec<String>,
) -> Vec<PathBuf> {
    let Some(private) = target(own).filter(|it| !it.starts_with(workspace)) else {
        return Vec::new();
    };
    let common = read_small(&private.join("commondir"))
        .map(|it| private.join(OsStr::from_bytes(it.trim_ascii())))
        .and_then(|it| it.canonicalize().ok());
    // The repository itself has to know this worktree: the pointer alone could have been
    // written by anyone who made the folder.
    let known = read_small(&private.join("gitdir"))
        .map(|it| PathBuf::from(OsStr::from_bytes(it.trim_ascii())))
        .and_then(|it| it.canonicalize().ok())
        .is_some_and(|it| it == *own);
    let (Some(common), true) = (common, known) else {
        warnings.push(format!(
            "git will not work here: `{}` points to `{}`, which does not point back",
            own.display(),
            private.display()
        ));
        return Vec::new();
    };
    places.grant(&common, Access::Read, true);
    places.grant(&private, Access::Write, true);
    for name in WRITTEN {
        places.grant(&common.join(name), Access::Write, true);
    }
    ["commondir", "gitdir", "config.worktree"]
        .iter()
        .map(|it| private.join(it))
        .filter(|it| it.symlink_metadata().is_ok())
        .collect()
}

fn target(pointer: &Path) -> Option<PathBuf> {
    let text = read_small(pointer)?;
    let target = policy::pointer(&text)?;
    let folder = pointer.parent()?;
    folder.join(OsStr::from_bytes(target)).canonicalize().ok()
}

/// Reads a regular file of modest size, without following a link at its end and without
/// waiting for one that is no file at all.
pub(crate) fn read_small(path: &Path) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, path, flags, Mode::empty()).ok()?;
    let file = std::fs::File::from(file);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = Vec::new();
    file.take(MOST).read_to_end(&mut text).ok()?;
    Some(text)
}
