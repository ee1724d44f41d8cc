//! Copies of protected names, for a back end whose kernel layers cannot keep them as they are.
//!
//! Landlock alone cannot make an exception inside a writable tree. There, what is protected is
//! read before the run and compared afterwards: what was changed is moved aside and the old
//! content put back.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

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
        names: BTreeMap<PathBuf, Kept>,
    },
    Link(PathBuf),
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
            let what = read(path, &mut left).map_err(|source| KeepsakeError {
                path: path.to_owned(),
                source,
            })?;
            kept.insert(path.to_owned(), what);
        }
        Ok(Self(kept))
    }

    /// The names that no longer hold what they held.
    pub(crate) fn changed(&self) -> Vec<PathBuf> {
        self.0
            .iter()
            .filter(|(path, kept)| read(path, &mut MOST_NAMES.clone()).ok().as_ref() != Some(*kept))
            .map(|(path, _)| path.clone())
            .collect()
    }

    /// Puts back what `path`, which is free now, held.
    pub(crate) fn put_back(&self, path: &Path) -> io::Result<()> {
        match self.0.get(path) {
            Some(kept) => write(path, kept),
            None => Ok(()),
        }
    }
}

fn read(path: &Path, left: &mut usize) -> io::Result<Kept> {
    *left = left
        .checked_sub(1)
        .ok_or_else(|| io::Error::other(format!("more than {MOST_NAMES} protected names")))?;
    let attributes = path.symlink_metadata()?;
    let mode = attributes.permissions().mode() & 0o7777;
    if attributes.is_symlink() {
        return Ok(Kept::Link(fs::read_link(path)?));
    }
    if attributes.is_dir() {
        let mut names = BTreeMap::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            names.insert(PathBuf::from(entry.file_name()), read(&entry.path(), left)?);
        }
        return Ok(Kept::Folder { mode, names });
    }
    if !attributes.is_file() || attributes.len() > MOST {
        return Err(io::Error::other("it is no regular file of at most 1 MiB"));
    }
    let content = crate::planner::worktree::read_small(path)
        .ok_or_else(|| io::Error::other("it can not be read"))?;
    Ok(Kept::File { mode, content })
}

fn write(path: &Path, kept: &Kept) -> io::Result<()> {
    match kept {
        Kept::File { mode, content } => {
            let mut file = fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)?;
            file.write_all(content)?;
            file.set_permissions(fs::Permissions::from_mode(*mode))?;
            file.sync_all()
        }
        Kept::Folder { mode, names } => {
            fs::create_dir(path)?;
            for (name, kept) in names {
                write(&path.join(name), kept)?;
            }
            fs::set_permissions(path, fs::Permissions::from_mode(*mode))
        }
        Kept::Link(target) => symlink(target, path),
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(kept.changed(), Vec::<PathBuf>::new());
        fs::write(hooks.join("b"), "evil").unwrap();
        fs::write(&config, "new").unwrap();
        assert_eq!(kept.changed(), [config.clone(), hooks.clone()]);
        fs::rename(&config, root.path().join("aside")).unwrap();
        fs::rename(&hooks, root.path().join("aside2")).unwrap();
        kept.put_back(&config).unwrap();
        kept.put_back(&hooks).unwrap();
        assert_eq!(kept.changed(), Vec::<PathBuf>::new());
        assert!(!hooks.join("b").exists());
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
