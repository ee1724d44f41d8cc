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
    home: Option<&Path>,
    warnings: &mut Vec<String>,
) -> Vec<PathBuf> {
    let own = workspace.join(".git");
    if own.is_file() {
        return linked(places, workspace, home, &own, warnings);
    }
    if own.symlink_metadata().is_ok() {
        return Vec::new();
    }
    // A folder inside a repository: git can read the history, and change nothing.
    for above in workspace.ancestors().skip(1) {
        let folder = above.join(".git");
        if folder.symlink_metadata().is_ok() {
            if is_repository(&folder) && is_trusted(&folder) {
                places.grant(&folder, Access::Read, true);
            }
            break;
        }
    }
    Vec::new()
}

/// A linked worktree, git-worktree(1), gitrepository-layout(5).
fn linked(
    places: &mut Places,
    workspace: &AbsPath,
    home: Option<&Path>,
    own: &Path,
    warnings: &mut Vec<String>,
) -> Vec<PathBuf> {
    let Some(private) = target(own).filter(|it| !it.starts_with(workspace)) else {
        return Vec::new();
    };
    // What git-worktree(1) makes, and nothing else: a payload, or an archive, could have made
    // a folder that says where its parts are, and so be granted what lies there.
    let common = private.parent().and_then(Path::parent).map(Path::to_owned);
    let shape = read_small(&private.join("commondir"))
        .is_some_and(|it| it.trim_ascii() == b"../..")
        && private.parent().is_some_and(|it| it.ends_with("worktrees"));
    let known = read_small(&private.join("gitdir"))
        .map(|it| PathBuf::from(OsStr::from_bytes(it.trim_ascii())))
        .and_then(|it| it.canonicalize().ok())
        .is_some_and(|it| it == *own);
    let common = common.filter(|it| {
        shape
            && known
            && is_repository(it)
            && is_trusted(it)
            && !workspace.starts_with(it)
            && !home.is_some_and(|home| home.starts_with(it))
            && WRITTEN.iter().all(|name| !it.join(name).is_symlink())
    });
    let Some(common) = common else {
        warnings.push(format!(
            "git will not work here: `{}` points to `{}`, which is no worktree of a repository \
             that knows this one",
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

/// Whether a folder, which is no link, has what git calls a repository, and no part is a link.
fn is_repository(folder: &Path) -> bool {
    let is_folder = |path: &Path| path.symlink_metadata().is_ok_and(|it| it.is_dir());
    let has_head = folder
        .join("HEAD")
        .symlink_metadata()
        .is_ok_and(|it| it.is_file());
    is_folder(folder)
        && has_head
        && is_folder(&folder.join("objects"))
        && is_folder(&folder.join("refs"))
}

/// Whether the caller or the superuser owns a folder: anyone can make one in `/tmp`.
fn is_trusted(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let caller = rustix::process::geteuid().as_raw();
    // A superuser works in the checkouts of others, too.
    folder
        .symlink_metadata()
        .is_ok_and(|it| caller == 0 || it.uid() == caller || it.uid() == 0)
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
    file.take(MOST + 1).read_to_end(&mut text).ok()?;
    // A part of a file says nothing of the rest.
    u64::try_from(text.len())
        .is_ok_and(|it| it <= MOST)
        .then_some(text)
}
