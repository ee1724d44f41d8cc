//! Finds names below a tree: those to protect, those to mask, and folders of git.
//!
//! # Invariants
//!
//! - **No link is followed**, and each folder is opened from its parent's descriptor.
//! - **What cannot be looked into is an error**, unless the payload could not change it either:
//!   a protected name that was not found would not be protected.

use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use policy::PathRule;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;

/// How deep a tree may be: each level holds a descriptor.
const DEEPEST: usize = 256;

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
    /// Folders that git would take for a repository.
    pub(crate) repositories: Vec<PathBuf>,
    /// Protected files that have another name as well, through which they could be changed.
    pub(crate) linked: Vec<PathBuf>,
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
    #[error("`{}` lies more than {DEEPEST} folders deep, too deep to be searched", .path.display())]
    TooDeep { path: PathBuf },
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
        let named = self.by_name.get(name.to_ascii_lowercase().as_slice());
        named
            .into_iter()
            .flatten()
            .chain(&self.patterns)
            .any(|it| it.matches_end(path))
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

    /// Whether `path`, relative to a root, is one to protect.
    pub(crate) fn protects(&self, path: &Path) -> bool {
        path.file_name()
            .is_some_and(|name| self.protect.matches(name.as_bytes(), path))
    }
}

/// Searches the tree at `root`.
pub(crate) fn walk(root: &Path, names: &Names) -> Result<Found, WalkError> {
    let mut found = Found::default();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match rustix::fs::openat(CWD, root, flags, Mode::empty()) {
        Ok(folder) => folder,
        // A file was granted, not a tree.
        Err(Errno::NOTDIR) => return Ok(found),
        Err(error) => return Err(closed(root, error)),
    };
    let mut walker = Walker {
        root,
        buffer: Vec::with_capacity(LISTING),
        names,
        found: &mut found,
    };
    walker.folder(&folder, Path::new(""), 0)?;
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
    /// Where the kernel writes listings, getdents64(2).
    buffer: Vec<u8>,
    names: &'w Names,
    found: &'w mut Found,
}

/// The names by which git knows a repository's folder.
const REPOSITORY: [(&[u8], FileType); 3] = [
    (b"HEAD", FileType::RegularFile),
    (b"objects", FileType::Directory),
    (b"refs", FileType::Directory),
];

/// What of a repository's folder is protected when it is not called `.git`.
const REPOSITORY_NAMES: [&[u8]; 5] = [
    b"hooks",
    b"config",
    b"config.worktree",
    b"commondir",
    b"gitdir",
];

impl Walker<'_> {
    fn folder(&mut self, folder: &OwnedFd, below: &Path, depth: usize) -> Result<(), WalkError> {
        let here = self.root.join(below);
        if depth > DEEPEST {
            return Err(WalkError::TooDeep { path: here });
        }
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
        let has = |wanted: &(&[u8], FileType)| {
            entries
                .iter()
                .any(|it| it.0.to_bytes() == wanted.0 && it.1 == wanted.1)
        };
        // Linked worktrees' folders have no objects of their own, but say where they are.
        let is_repository = REPOSITORY.iter().all(has)
            || (has(&(b"HEAD", FileType::RegularFile))
                && has(&(b"commondir", FileType::RegularFile)));
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
                continue;
            }
            if protected {
                self.check_links(folder.as_fd(), name, *kind, &path);
                self.found.protected.push(self.root.join(&path));
                continue;
            }
            // Objects hold no name that git would take programs from.
            let skip = is_repository && bytes == b"objects";
            if *kind == FileType::Directory && !skip {
                self.enter(folder.as_fd(), name, &path, depth)?;
            }
        }
        Ok(())
    }

    fn enter(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &CStr,
        path: &Path,
        depth: usize,
    ) -> Result<(), WalkError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(folder, name, flags, Mode::empty()) {
            Ok(inner) => self.folder(&inner, path, depth + 1),
            // Gone, or no longer a folder: another program's doing.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
            Err(Errno::ACCESS) if !self.is_ours(folder, name) => Ok(()),
            Err(error) => Err(closed(&self.root.join(path), error)),
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
mod tests {
    use super::*;

    fn names() -> Names {
        let rules = |texts: &[&str]| -> Vec<PathRule> {
            texts
                .iter()
                .map(|it| PathRule::parse(it).unwrap())
                .collect()
        };
        let protect = rules(&[".git/hooks", ".git/config", ".mcp.json"]);
        let deny = rules(&[".env", "*.pem"]);
        Names::new(protect.iter(), deny.iter())
    }

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            if !file.ends_with('/') {
                std::fs::write(path, "x").unwrap();
            }
        }
        root
    }

    fn relative(root: &Path, paths: &[PathBuf]) -> Vec<String> {
        let mut all: Vec<String> = paths
            .iter()
            .map(|it| it.strip_prefix(root).unwrap().display().to_string())
            .collect();
        all.sort();
        all
    }

    #[test]
    fn names_are_found_at_any_depth_and_in_any_case() {
        let root = tree(&[
            ".git/hooks/x",
            ".git/config",
            "a/b/.GIT/Hooks/x",
            "a/.Mcp.json",
            "a/.env",
            "a/keys/k.pem",
            "a/hooks/x",
        ]);
        let found = walk(root.path(), &names()).unwrap();
        assert_eq!(
            relative(root.path(), &found.protected),
            [".git/config", ".git/hooks", "a/.Mcp.json", "a/b/.GIT/Hooks"]
        );
        assert_eq!(
            relative(root.path(), &found.masked),
            ["a/.env", "a/keys/k.pem"]
        );
    }

    #[test]
    fn a_repository_is_known_by_what_it_holds_whatever_its_name() {
        let root = tree(&[
            "bare/HEAD",
            "bare/objects/x",
            "bare/refs/x",
            "bare/config",
            "sub/.git",
        ]);
        let found = walk(root.path(), &names()).unwrap();
        assert_eq!(relative(root.path(), &found.repositories), ["bare"]);
        assert_eq!(
            relative(root.path(), &found.protected),
            ["bare/config", "sub/.git"]
        );
    }

    #[test]
    fn a_protected_file_with_another_name_is_noted() {
        let root = tree(&[".git/config", ".git/hooks/x"]);
        std::fs::hard_link(root.path().join(".git/config"), root.path().join("c")).unwrap();
        std::fs::hard_link(root.path().join(".git/hooks/x"), root.path().join("h")).unwrap();
        let found = walk(root.path(), &names()).unwrap();
        assert_eq!(
            relative(root.path(), &found.linked),
            [".git/config", ".git/hooks/x"]
        );
    }

    #[test]
    fn links_are_not_followed() {
        let outside = tree(&[".git/config"]);
        let root = tree(&["a/x"]);
        std::os::unix::fs::symlink(outside.path(), root.path().join("a/out")).unwrap();
        let found = walk(root.path(), &names()).unwrap();
        assert_eq!(found.protected, Vec::<PathBuf>::new());
    }
}
