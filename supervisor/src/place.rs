//! Names below a searched root, reached from its descriptor: no link on the way is followed.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

/// Names that are tried for what is moved aside.
const ATTEMPTS: u32 = 100;

/// The folder in which `path` lies.
pub(crate) fn parent(root: &Path, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = rustix::fs::openat(CWD, root, flags, Mode::empty())?;
    let below = path
        .parent()
        .and_then(|it| it.strip_prefix(root).ok())
        .ok_or(Errno::INVAL)?;
    if below.as_os_str().is_empty() {
        return Ok(top);
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(&top, below, flags, Mode::empty(), resolve)
}

/// The first link on the way from `root` to the folder of `path`.
fn first_link(root: &Path, path: &Path) -> Option<PathBuf> {
    let below = path.parent()?.strip_prefix(root).ok()?;
    let mut place = root.to_owned();
    below.iter().find_map(|name| {
        place.push(name);
        place.is_symlink().then(|| place.clone())
    })
}

/// Whether `path` is in `folder`, whatever it is.
pub(crate) fn is_there(folder: &OwnedFd, path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// Renames `path` in its own folder to a name that no program looks for; answers that name.
pub(crate) fn move_aside(root: &Path, path: &Path, id: &str) -> Result<PathBuf, Errno> {
    let folder = match parent(root, path) {
        // A link on the way leads to what appeared: without the link, it has another name.
        Err(Errno::LOOP | Errno::NOTDIR) => {
            let link = first_link(root, path).ok_or(Errno::LOOP)?;
            return move_aside(root, &link, id);
        }
        other => other?,
    };
    let name = path.file_name().ok_or(Errno::INVAL)?;
    for attempt in 0..ATTEMPTS {
        let mut aside = OsString::from(name);
        aside.push(format!(".stockade-quarantine-{id}"));
        if attempt > 0 {
            aside.push(format!("-{attempt}"));
        }
        let rename =
            || rustix::fs::renameat_with(&folder, name, &folder, &aside, RenameFlags::NOREPLACE);
        let result = match rename() {
            // The payload may have closed the folder to writing; it is the same user's.
            Err(Errno::ACCESS) => {
                let mode = rustix::fs::fstat(folder.as_fd())?.st_mode;
                let opened = Mode::from_raw_mode(mode) | Mode::WUSR | Mode::XUSR;
                rustix::fs::fchmod(&folder, opened)?;
                rename()
            }
            other => other,
        };
        match result {
            Err(Errno::EXIST) => (),
            Err(error) => return Err(error),
            Ok(()) => return Ok(path.with_file_name(aside)),
        }
    }
    Err(Errno::EXIST)
}
