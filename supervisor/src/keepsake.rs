//! Copies of protected names, for a back end whose kernel layers cannot keep them as they are.
//!
//! Landlock alone cannot make an exception inside a writable tree. There, what is protected is
//! read before the run and compared afterwards: what was changed is moved aside and the old
//! content put back.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use crate::place;

/// Most bytes of one file that are kept.
const MOST: u64 = 1 << 20;
/// Most names that are kept.
const MOST_NAMES: usize = 4096;

/// What protected names held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keepsake(BTreeMap<PathBuf, Kept>);

/// What one name held.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kept {
    File {
        mode: u32,
        content: Vec<u8>,
    },
    Folder {
        mode: u32,
        names: BTreeMap<OsString, Kept>,
    },
    Link(OsString),
}

/// Something protected cannot be kept, so nothing may run that could change it.
#[derive(Debug, thiserror::Error)]
#[error("`{}` is protected and can not be kept in mind, which this back end has to", .path.display())]
pub(crate) struct KeepsakeError {
    path: PathBuf,
    source: io::Error,
}

impl Keepsake {
    /// Reads every one of `paths`.
    pub(crate) fn of<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Result<Self, KeepsakeError> {
        let mut left = MOST_NAMES;
        let mut kept = BTreeMap::new();
        for path in paths {
            let folder = path.parent().unwrap_or(path);
            let what = place::parent(folder, path)
                .map_err(io::Error::from)
                .and_then(|it| read(&it, path.file_name().unwrap_or_default(), &mut left))
                .map_err(|source| KeepsakeError {
                    path: path.to_owned(),
                    source,
                })?;
            kept.insert(path.to_owned(), what);
        }
        Ok(Self(kept))
    }

    /// Whether `path` is kept.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }

    /// The names below `root` that no longer hold what they held.
    pub(crate) fn changed(&self, root: &Path) -> Vec<PathBuf> {
        let same = |path: &Path, kept: &Kept| {
            let folder = place::parent(root, path).ok()?;
            let now = read(&folder, path.file_name()?, &mut MOST_NAMES.clone()).ok()?;
            Some(now == *kept)
        };
        self.0
            .iter()
            .filter(|(path, _)| path.starts_with(root))
            .filter(|(path, kept)| same(path, kept) != Some(true))
            .map(|(path, _)| path.clone())
            .collect()
    }

    /// Puts back what `path`, which is free now, held.
    pub(crate) fn put_back(&self, root: &Path, path: &Path) -> io::Result<()> {
        let (Some(kept), Some(name)) = (self.0.get(path), path.file_name()) else {
            return Ok(());
        };
        write(&place::parent(root, path)?, name, kept)
    }
}

fn read(folder: &OwnedFd, name: &OsStr, left: &mut usize) -> io::Result<Kept> {
    *left = left
        .checked_sub(1)
        .ok_or_else(|| io::Error::other(format!("more than {MOST_NAMES} protected names")))?;
    let attributes = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let mode = attributes.st_mode & 0o7777;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match FileType::from_raw_mode(attributes.st_mode) {
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(folder, name, Vec::new())?;
            Ok(Kept::Link(OsString::from_vec(target.into_bytes())))
        }
        FileType::Directory => {
            let inner = rustix::fs::openat(folder, name, flags | OFlags::DIRECTORY, Mode::empty())?;
            let mut names = BTreeMap::new();
            for entry in Dir::read_from(&inner)? {
                let entry = entry?;
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                if name != "." && name != ".." {
                    names.insert(name.to_owned(), read(&inner, name, left)?);
                }
            }
            Ok(Kept::Folder { mode, names })
        }
        FileType::RegularFile if u64::try_from(attributes.st_size).is_ok_and(|it| it <= MOST) => {
            let file = File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?);
            let mut content = Vec::new();
            file.take(MOST).read_to_end(&mut content)?;
            Ok(Kept::File { mode, content })
        }
        _ => Err(io::Error::other("it is no regular file of at most 1 MiB")),
    }
}

fn write(folder: &OwnedFd, name: &OsStr, kept: &Kept) -> io::Result<()> {
    match kept {
        Kept::File { mode, content } => {
            let flags =
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let private = Mode::RUSR | Mode::WUSR;
            let mut file = File::from(rustix::fs::openat(folder, name, flags, private)?);
            file.write_all(content)?;
            rustix::fs::fchmod(&file, Mode::from_raw_mode(*mode))?;
            file.sync_all()
        }
        Kept::Folder { mode, names } => {
            rustix::fs::mkdirat(folder, name, Mode::RWXU)?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let inner = rustix::fs::openat(folder, name, flags, Mode::empty())?;
            for (name, kept) in names {
                write(&inner, name, kept)?;
            }
            Ok(rustix::fs::fchmod(&inner, Mode::from_raw_mode(*mode))?)
        }
        Kept::Link(target) => Ok(rustix::fs::symlinkat(target.as_bytes(), folder, name)?),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_was_changed_is_noticed_and_put_back() {
        let root = tempfile::tempdir().unwrap();
        let hooks = root.path().join("hooks");
        let config = root.path().join("config");
        fs::create_dir(&hooks).unwrap();
        fs::write(hooks.join("a"), "1").unwrap();
        fs::write(&config, "old").unwrap();
        let kept = Keepsake::of([hooks.as_path(), config.as_path()]).unwrap();
        assert_eq!(kept.changed(root.path()), Vec::<PathBuf>::new());
        fs::write(hooks.join("b"), "evil").unwrap();
        fs::write(&config, "new").unwrap();
        assert_eq!(kept.changed(root.path()), [config.clone(), hooks.clone()]);
        fs::rename(&config, root.path().join("aside")).unwrap();
        fs::rename(&hooks, root.path().join("aside2")).unwrap();
        kept.put_back(root.path(), &config).unwrap();
        kept.put_back(root.path(), &hooks).unwrap();
        assert_eq!(kept.changed(root.path()), Vec::<PathBuf>::new());
        assert!(!hooks.join("b").exists());
    }

    #[test]
    fn nothing_is_put_back_through_a_link() {
        let root = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("x")).unwrap();
        let path = root.path().join("x/.bash_profile");
        fs::write(&path, "evil").unwrap();
        let kept = Keepsake::of([path.as_path()]).unwrap();
        fs::rename(root.path().join("x"), root.path().join("y")).unwrap();
        std::os::unix::fs::symlink(outside.path(), root.path().join("x")).unwrap();
        assert_eq!(kept.changed(root.path()), std::slice::from_ref(&path));
        kept.put_back(root.path(), &path).unwrap_err();
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_cannot_be_kept_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let large = root.path().join("large");
        let file = fs::File::create(&large).unwrap();
        file.set_len(MOST + 1).unwrap();
        Keepsake::of([large.as_path()]).unwrap_err();
        Keepsake::of([root.path().join("none").as_path()]).unwrap_err();
    }
}
