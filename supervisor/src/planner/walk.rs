//! Finds names below a tree: those to protect, those to mask, and folders of git.
//!
//! # Invariants
//!
//! - **No link is followed**, and each folder is opened from its parent's descriptor.
//! - **What cannot be looked into is an error**, unless the payload could not change it either:
//!   a protected name that was not found would not be protected.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::mark;
use policy::PathRule;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RawDir, ResolveFlags};
use rustix::io::Errno;

/// How long a path below the root may be: the kernel takes no longer one, path_resolution(7).
const LONGEST: usize = 4000;

/// Bytes of a listing that are read at once.
const LISTING: usize = 32 * 1024;

/// The names to look for, at any depth.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    protect: Table,
    deny: Table,
}

/// Rules by the last name that they match, for one look-up for each entry.
#[derive(Clone, Debug, Default)]
struct Table {
    by_name: HashMap<Vec<u8>, Vec<PathRule>>,
    patterns: Vec<PathRule>,
}

/// What was found, as absolute paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Names to protect that exist.
    pub(crate) protected: Vec<PathBuf>,
    /// Names to mask that exist.
    pub(crate) masked: Vec<PathBuf>,
    /// Folders whose names are a part of what a name is masked by.
    pub(crate) pinned: Vec<PathBuf>,
    /// Folders that git would take for a repository.
    pub(crate) repositories: Vec<PathBuf>,
    /// Protected files that have another name as well, through which they could be changed.
    pub(crate) linked: Vec<PathBuf>,
    /// What each protected name was: it and, for a folder, what is in it. Anything that changes
    /// content, attributes or identity changes the mark.
    pub(crate) marks: BTreeMap<PathBuf, u64>,
    /// Folders that could not be looked into, after a run.
    pub(crate) unsearched: Vec<PathBuf>,
    /// Entries that were looked at.
    pub(crate) entries: usize,
}

/// A tree was not searched, so nothing runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum WalkError {
    /// A folder cannot be looked into.
    #[error("`{}` can not be searched for names to protect", .path.display())]
    Closed {
        path: PathBuf,
        source: std::io::Error,
    },
    /// A folder lies too deep.
    #[error("`{}` has a path too long to be searched", .path.display())]
    TooDeep { path: PathBuf },
    /// Folders were left out of a search after a run.
    #[error("{count} folders could not be searched, `{}` first", .path.display())]
    Unsearched { path: PathBuf, count: usize },
}

impl Table {
    fn new<'r>(rules: impl Iterator<Item = &'r PathRule>) -> Self {
        let mut table = Self::default();
        for rule in rules {
            match rule.last_name() {
                Some(name) => table
                    .by_name
                    .entry(name.to_ascii_lowercase())
                    .or_default()
                    .push(rule.clone()),
                None => table.patterns.push(rule.clone()),
            }
        }
        table
    }

    /// Whether a rule matches the end of `path`, whose last name is `name`.
    fn matches(&self, name: &[u8], path: &Path) -> bool {
        self.matching(name, path).next().is_some()
    }

    fn matching<'t>(&'t self, name: &[u8], path: &'t Path) -> impl Iterator<Item = &'t PathRule> {
        let named = self.by_name.get(name.to_ascii_lowercase().as_slice());
        named
            .into_iter()
            .flatten()
            .chain(&self.patterns)
            .filter(|it| it.matches_end(path))
    }

    /// The folders above `path` without whose names no rule would match it.
    fn needed<'p>(&self, name: &[u8], path: &'p Path) -> impl Iterator<Item = &'p Path> {
        let most = self.matching(name, path).filter_map(PathRule::depth).max();
        path.ancestors()
            .skip(1)
            .take(most.unwrap_or(1).saturating_sub(1))
    }
}

impl Names {
    /// `protect` and `deny` are rules without an anchor.
    pub(crate) fn new<'r>(
        protect: impl Iterator<Item = &'r PathRule>,
        deny: impl Iterator<Item = &'r PathRule>,
    ) -> Self {
        Self {
            protect: Table::new(protect),
            deny: Table::new(deny),
        }
    }

    /// Whether any name is denied at any depth.
    pub(crate) fn denies_any(&self) -> bool {
        !self.deny.by_name.is_empty() || !self.deny.patterns.is_empty()
    }

    /// Whether `path`, relative to a root, is one to protect.
    pub(crate) fn protects(&self, path: &Path) -> bool {
        path.file_name()
            .is_some_and(|name| self.protect.matches(name.as_bytes(), path))
    }
}

/// When a tree is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// After a run. What was closed is opened, also what was masked is searched, and what
    /// cannot be searched is noted: the payload may have hidden something there.
    After,
    /// Before a run. What cannot be searched is an error, since nothing has run yet.
    Before,
}

/// Searches the tree at `root`.
pub(crate) fn walk(root: &Path, names: &Names, moment: Moment) -> Result<Found, WalkError> {
    let mut found = Found::default();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = match rustix::fs::openat(CWD, root, flags, Mode::empty()) {
        Ok(top) => top,
        // A file was granted, not a tree.
        Err(Errno::NOTDIR) => return Ok(found),
        Err(error) => return Err(closed(root, error)),
    };
    let mut walker = Walker {
        root,
        top: &top,
        buffer: Vec::with_capacity(LISTING),
        names,
        moment,
        found: &mut found,
    };
    walker.folder(&top, Path::new(""))?;
    Ok(found)
}

fn closed(path: &Path, error: Errno) -> WalkError {
    WalkError::Closed {
        path: path.to_owned(),
        source: error.into(),
    }
}

struct Walker<'w> {
    root: &'w Path,
    top: &'w OwnedFd,
    /// Where the kernel writes listings, getdents64(2).
    buffer: Vec<u8>,
    names: &'w Names,
    moment: Moment,
    found: &'w mut Found,
}

/// The names by which git knows a repository's folder, whatever they are: git asks access(2),
/// which follows links.
const REPOSITORY: [&[u8]; 3] = [b"HEAD", b"objects", b"refs"];

/// What of a repository's folder is protected when it is not called `.git`.
const REPOSITORY_NAMES: [&[u8]; 5] = [
    b"hooks",
    b"config",
    b"config.worktree",
    b"commondir",
    b"gitdir",
];

impl Walker<'_> {
    fn folder(&mut self, folder: &OwnedFd, below: &Path) -> Result<(), WalkError> {
        let here = self.root.join(below);
        let mut entries: Vec<(Box<CStr>, FileType)> = Vec::new();
        self.buffer.clear();
        let mut listing = RawDir::new(folder, self.buffer.spare_capacity_mut());
        while let Some(entry) = listing.next() {
            let entry = entry.map_err(|error| closed(&here, error))?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                let kind = kind(folder.as_fd(), name, entry.file_type());
                entries.push((name.into(), kind));
            }
        }
        self.found.entries += entries.len();
        let has = |wanted: &&[u8]| entries.iter().any(|it| it.0.to_bytes() == *wanted);
        // Linked worktrees' folders have no objects of their own, but say where they are.
        let is_repository = REPOSITORY.iter().all(has)
            || (has(&b"HEAD".as_slice()) && has(&b"commondir".as_slice()));
        if is_repository {
            self.found.repositories.push(here.clone());
        }
        for (name, kind) in &entries {
            let bytes = name.to_bytes();
            let path = below.join(OsStr::from_bytes(bytes));
            let pointer = bytes.eq_ignore_ascii_case(b".git") && *kind != FileType::Directory;
            let protected = pointer
                || (is_repository && REPOSITORY_NAMES.contains(&bytes))
                || self.names.protect.matches(bytes, &path);
            if self.names.deny.matches(bytes, &path) {
                self.found.masked.push(self.root.join(&path));
                let needed = self.names.deny.needed(bytes, &path);
                let needed = needed.map(|it| self.root.join(it));
                self.found.pinned.extend(needed);
                if self.moment == Moment::Before {
                    continue;
                }
            }
            if protected {
                self.check_links(folder.as_fd(), name, *kind, &path);
                let full = self.root.join(&path);
                let mark = mark::of(folder.as_fd(), name);
                self.found.marks.insert(full.clone(), mark);
                self.found.protected.push(full);
                continue;
            }
            // Objects hold no name that git would take programs from, until something is
            // hidden among them.
            let skip = self.moment == Moment::Before && is_repository && bytes == b"objects";
            if *kind == FileType::Directory && !skip {
                self.enter(folder.as_fd(), name, &path)?;
            }
        }
        Ok(())
    }

    fn enter(&mut self, above: BorrowedFd<'_>, name: &CStr, path: &Path) -> Result<(), WalkError> {
        let full = || self.root.join(path);
        let failure = if path.as_os_str().len() > LONGEST {
            WalkError::TooDeep { path: full() }
        } else {
            match self.open(above, name, path) {
                Ok(inner) => return self.folder(&inner, path),
                // Gone, or no longer a folder: another program's doing.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
                Err(Errno::ACCESS) if !self.is_ours(above, name) => return Ok(()),
                Err(error) => closed(&full(), error),
            }
        };
        match self.moment {
            Moment::After => {
                self.found.unsearched.push(full());
                Ok(())
            }
            Moment::Before => Err(failure),
        }
    }

    /// Opens a folder, from the top: a descriptor for each level would bound the depth.
    fn open(&self, above: BorrowedFd<'_>, name: &CStr, path: &Path) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let open = || rustix::fs::openat2(self.top, path, flags, Mode::empty(), resolve);
        match open() {
            Err(Errno::ACCESS) if self.moment == Moment::After && self.is_ours(above, name) => {
                // The payload closed it; it is the same user's.
                rustix::fs::chmodat(above, name, Mode::RWXU, AtFlags::SYMLINK_NOFOLLOW)
                    .or_else(|_| rustix::fs::chmodat(above, name, Mode::RWXU, AtFlags::empty()))?;
                open()
            }
            other => other,
        }
    }

    /// Whether the payload's user owns a folder, and so could open it to itself.
    fn is_ours(&self, folder: BorrowedFd<'_>, name: &CStr) -> bool {
        rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_or(true, |it| it.st_uid == rustix::process::geteuid().as_raw())
    }

    /// Notes a protected file, or one right below a protected folder, with further names.
    fn check_links(&mut self, folder: BorrowedFd<'_>, name: &CStr, kind: FileType, path: &Path) {
        let linked = |folder: BorrowedFd<'_>, name: &CStr| {
            rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|it| {
                it.st_nlink > 1 && FileType::from_raw_mode(it.st_mode) == FileType::RegularFile
            })
        };
        if kind != FileType::Directory {
            if linked(folder, name) {
                self.found.linked.push(self.root.join(path));
            }
            return;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(inner) = rustix::fs::openat(folder, name, flags, Mode::empty()) else {
            return;
        };
        let Ok(listing) = Dir::read_from(&inner) else {
            return;
        };
        for entry in listing.flatten() {
            if linked(inner.as_fd(), entry.file_name()) {
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                self.found.linked.push(self.root.join(path).join(name));
            }
        }
    }
}

/// The kind of an entry; some file systems do not tell it in listings, getdents(2).
fn kind(folder: BorrowedFd<'_>, name: &CStr, told: FileType) -> FileType {
    if told != FileType::Unknown {
        return told;
    }
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_or(FileType::Unknown, |it| FileType::from_raw_mode(it.st_mode))
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
