//! The empty root, its scratch space, and opening and mounting beneath it.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags,
};

use crate::filesystem::Link;
use crate::identity::Identity;
use crate::path::AbsPath;
use crate::step::{Failure, Stage};
use crate::sys::mount::{self, NODEV, NOEXEC, NOSUID, RDONLY};

/// Keeps what happens to mounts here from the host, and the other way round.
pub(crate) fn make_private() -> Result<(), Failure> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).stage("making mounts private")
}

/// Where scratch space is reachable while the view is built.
const SCRATCH: &str = ".scratch";
/// Where the host's root is moved in it, so that both are detached at once.
const HOST: &str = ".scratch/host";

/// The mode of directories of the root.
const DIRECTORY_MODE: Mode = Mode::RWXU
    .union(Mode::RGRP)
    .union(Mode::XGRP)
    .union(Mode::ROTH)
    .union(Mode::XOTH);

/// The root of the view.
#[derive(Debug)]
pub(super) struct Root {
    tree: OwnedFd,
    scratch: OwnedFd,
    ids: (u32, u32),
    made: Cell<u32>,
    /// Directories that were made in the root's own tmpfs and that no mount covers.
    bare: RefCell<HashSet<PathBuf>>,
    empty_directory: OwnedFd,
    empty_file: OwnedFd,
}

impl Root {
    /// Mounts an empty root over this namespace's own, and scratch space of `size` bytes in it.
    pub(super) fn mount(identity: Identity, size: u64) -> Result<Self, Failure> {
        let ids = identity.ids();
        // The root holds mount points alone; the payload cannot write to it.
        let tree = tmpfs("1m", "20000", "755").stage("mounting the private root")?;
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        rustix::mount::move_mount(&tree, "", CWD, "/", flags)
            .stage("attaching the private root")?;
        let scratch = tmpfs(&size.to_string(), "1000000", "700").stage("mounting scratch space")?;
        rustix::fs::mkdirat(&tree, SCRATCH, Mode::RWXU).stage("making scratch space")?;
        rustix::mount::move_mount(&scratch, "", &tree, SCRATCH, flags)
            .stage("attaching scratch space")?;
        rustix::fs::mkdirat(&tree, HOST, Mode::RWXU).stage("making scratch space")?;
        rustix::fs::mkdirat(&scratch, "none", Mode::empty()).stage("making an empty directory")?;
        let file = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::openat(&scratch, "nothing", file, Mode::empty())
            .stage("making an empty file")?;
        // Attached mounts with their attributes: what is cloned from them has these already.
        let empty = |name| {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
            let empty = rustix::mount::open_tree(&scratch, name, flags)?;
            let attributes = RDONLY | NOSUID | NODEV | NOEXEC;
            mount::set_attributes(empty.as_fd(), attributes, None, false)?;
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            rustix::mount::move_mount(&empty, "", &scratch, name, flags)?;
            Ok::<OwnedFd, std::io::Error>(empty)
        };
        let empty_directory = empty("none").stage("making an empty directory")?;
        let empty_file = empty("nothing").stage("making an empty file")?;
        Ok(Self {
            tree,
            scratch,
            ids,
            made: Cell::new(0),
            bare: RefCell::new(HashSet::from([PathBuf::from("/")])),
            empty_directory,
            empty_file,
        })
    }

    /// The payload's user and group id.
    pub(super) fn ids(&self) -> (u32, u32) {
        self.ids
    }

    /// Opens what the view shows at `path`, without following a link.
    pub(super) fn open(&self, path: &AbsPath) -> Result<OwnedFd, Failure> {
        self.look(path).stage_at("opening a name of the view", path)
    }

    fn look(&self, path: &AbsPath) -> Result<OwnedFd, Errno> {
        rustix::fs::openat2(
            &self.tree,
            path.relative(),
            OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
        )
    }

    /// Mounts `tree` at `path`, where a mount point is made in our own tmpfs if need be.
    pub(super) fn attach(
        &self,
        tree: BorrowedFd<'_>,
        path: &AbsPath,
        is_directory: bool,
    ) -> Result<(), Failure> {
        if self.is_bare(path)? && self.make_bare_mount_point(path, is_directory)? {
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            return rustix::mount::move_mount(tree, "", &self.tree, path.relative(), flags)
                .stage_at("mounting", path);
        }
        let target = match self.look(path) {
            Err(Errno::NOENT) => {
                self.make_mount_point(path, is_directory)?;
                self.open(path)?
            }
            other => other.stage_at("opening a mount point", path)?,
        };
        self.bare.borrow_mut().retain(|it| !it.starts_with(path));
        attach_over(tree, target.as_fd(), path)
    }

    /// Whether every directory above `path` is one of ours that no mount covers; those that
    /// are missing are made.
    ///
    /// No link is on the way then, and nobody else is here who could put one there, so that a
    /// name below such a directory can be used as it is.
    fn is_bare(&self, path: &AbsPath) -> Result<bool, Failure> {
        let mut missing = Vec::new();
        for above in path.ancestors().skip(1) {
            if self.bare.borrow().contains(above) {
                break;
            }
            missing.push(above.to_owned());
        }
        while let Some(above) = missing.pop() {
            let name = above.strip_prefix("/").unwrap_or(&above);
            match rustix::fs::mkdirat(&self.tree, name, DIRECTORY_MODE) {
                Ok(()) => self.give(self.tree.as_fd(), name, path)?,
                // A link, or a place that is mounted over.
                Err(Errno::EXIST) => return Ok(false),
                Err(error) => return Err(error).stage_at("making a directory", path),
            }
            self.bare.borrow_mut().insert(above);
        }
        Ok(true)
    }

    /// Makes the mount point `path` in a bare directory; whether it was not there before.
    fn make_bare_mount_point(&self, path: &AbsPath, is_directory: bool) -> Result<bool, Failure> {
        let name = path.relative();
        let made = if is_directory {
            rustix::fs::mkdirat(&self.tree, name, DIRECTORY_MODE)
        } else {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            rustix::fs::openat(&self.tree, name, flags, Mode::empty()).map(drop)
        };
        match made {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error).stage_at("making a mount point", path),
        }
    }

    /// Makes the directories up to `path` and `path` itself, in our own tmpfs alone.
    fn make_mount_point(&self, path: &AbsPath, is_directory: bool) -> Result<(), Failure> {
        for ancestor in path.ancestors_below(Path::new("/")) {
            self.make_directory(&ancestor)?;
        }
        if is_directory {
            return self.make_directory(path);
        }
        let (parent, name) = self.parent(path)?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::openat(&parent, name, flags, Mode::empty())
            .stage_at("making a mount point", path)
            .map(drop)
    }

    /// Makes the directory `path` unless it is there.
    pub(super) fn make_directory(&self, path: &AbsPath) -> Result<(), Failure> {
        match self.look(path) {
            Ok(_) => return Ok(()),
            Err(Errno::NOENT) => (),
            Err(other) => return Err(other).stage_at("making a directory", path),
        }
        let (parent, name) = self.parent(path)?;
        rustix::fs::mkdirat(&parent, name, DIRECTORY_MODE).stage_at("making a directory", path)?;
        self.give(parent.as_fd(), name.as_ref(), path)
    }

    /// The directory above `path`, which must be in a tmpfs of ours: nothing is ever made on
    /// the host.
    fn parent<'p>(&self, path: &'p AbsPath) -> Result<(OwnedFd, &'p std::ffi::OsStr), Failure> {
        let above = path.parent().unwrap_or(path);
        let above = AbsPath::new(above).unwrap_or_else(|_| AbsPath::root());
        let parent = if *above == *Path::new("/") {
            rustix::io::dup(&self.tree).stage("opening the root")?
        } else {
            self.open(&above)?
        };
        let device = |it: BorrowedFd<'_>| rustix::fs::fstat(it).map(|it| it.st_dev);
        let here = device(parent.as_fd()).stage_at("looking at a directory", path)?;
        let ours = [&self.tree, &self.scratch]
            .iter()
            .any(|it| device(it.as_fd()) == Ok(here));
        if !ours {
            return Err(Errno::STALE).stage_at("finding a mount point", path);
        }
        Ok((parent, path.file_name().unwrap_or_default()))
    }

    /// Gives a name in scratch space to the payload's user.
    pub(super) fn give(
        &self,
        parent: BorrowedFd<'_>,
        name: &Path,
        path: &AbsPath,
    ) -> Result<(), Failure> {
        let (uid, gid) = self.ids;
        rustix::fs::chownat(
            parent,
            name,
            Some(rustix::fs::Uid::from_raw(uid)),
            Some(rustix::fs::Gid::from_raw(gid)),
            AtFlags::SYMLINK_NOFOLLOW,
        )
        .stage_at("giving a directory to the payload", path)
    }

    /// Makes a symbolic link of the root.
    pub(super) fn link(&self, link: &Link) -> Result<(), Failure> {
        let Link { path, target } = link;
        if self.is_bare(path)? {
            return rustix::fs::symlinkat(target.as_bytes(), &self.tree, path.relative())
                .stage_at("making a link", path);
        }
        let (parent, name) = self.parent(path)?;
        rustix::fs::symlinkat(target.as_bytes(), &parent, name).stage_at("making a link", path)
    }

    /// A fresh directory in scratch space, as a detached mount.
    pub(super) fn scratch_directory(&self, mode: u32) -> Result<OwnedFd, Failure> {
        let name = self.fresh_name();
        let mode = Mode::from_raw_mode(mode);
        rustix::fs::mkdirat(&self.scratch, &name, mode).stage("making a private directory")?;
        // Not subject to the umask.
        rustix::fs::chmodat(&self.scratch, &name, mode, AtFlags::empty())
            .stage("making a private directory")?;
        self.give(self.scratch.as_fd(), Path::new(&name), &AbsPath::root())?;
        self.scratch_tree(&name)
    }

    /// A fresh file with `content` in scratch space, as a detached mount.
    pub(super) fn scratch_file(&self, content: &[u8]) -> Result<OwnedFd, Failure> {
        let name = self.fresh_name();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::RGRP | Mode::ROTH;
        let file = rustix::fs::openat(&self.scratch, &name, flags, mode).stage("making a file")?;
        let mut rest = content;
        while !rest.is_empty() {
            let written = rustix::io::write(&file, rest).stage("writing a made file")?;
            rest = rest.get(written..).unwrap_or_default();
        }
        self.scratch_tree(&name)
    }

    fn scratch_tree(&self, name: &str) -> Result<OwnedFd, Failure> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        rustix::mount::open_tree(&self.scratch, name, flags).stage("detaching a private directory")
    }

    /// Attaches a tree in scratch space, out of sight, where it stays until the view is entered.
    pub(super) fn set_aside(&self, tree: BorrowedFd<'_>) -> Result<(), Errno> {
        let name = self.fresh_name();
        rustix::fs::mkdirat(&self.scratch, &name, Mode::RWXU)?;
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        rustix::mount::move_mount(tree, "", &self.scratch, &name, flags)
    }

    fn fresh_name(&self) -> String {
        let number = self.made.get();
        self.made.set(number.wrapping_add(1));
        number.to_string()
    }

    /// Nothing: a detached read-only mount of an empty directory or file that nobody may read.
    pub(super) fn empty(&self, is_directory: bool) -> Result<OwnedFd, Failure> {
        let source = if is_directory {
            &self.empty_directory
        } else {
            &self.empty_file
        };
        clone_tree(source.as_fd(), &AbsPath::root())
    }

    /// Makes this the root of the process, and read-only.
    pub(super) fn enter(self) -> Result<(), Failure> {
        rustix::process::fchdir(&self.tree).stage("entering the private root")?;
        rustix::process::pivot_root(".", HOST).stage("pivoting to the private root")?;
        // Each call that detaches waits for a grace period of the kernel, so there is one
        // alone. What was cloned out of scratch space keeps it alive.
        rustix::mount::unmount(SCRATCH, UnmountFlags::DETACH)
            .stage("detaching scratch space and the host's root")?;
        rustix::fs::unlinkat(&self.tree, SCRATCH, AtFlags::REMOVEDIR)
            .stage("removing the scratch mount point")?;
        rustix::process::chdir("/").stage("entering the private root")?;
        mount::set_attributes(self.tree.as_fd(), RDONLY, None, false)
            .stage("making the private root read-only")
    }
}

/// Opens a host path without following a link.
pub(crate) fn open_host(path: &AbsPath) -> Result<OwnedFd, Failure> {
    rustix::fs::openat2(
        CWD,
        &**path,
        OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )
    .stage_at("opening a granted path", path)
}

/// Whether the descriptor is of a directory.
pub(super) fn is_directory(fd: BorrowedFd<'_>, path: &AbsPath) -> Result<bool, Failure> {
    let mode = rustix::fs::fstat(fd)
        .stage_at("looking at a path", path)?
        .st_mode;
    Ok(FileType::from_raw_mode(mode) == FileType::Directory)
}

/// A detached copy of the mounts at and below an open path.
pub(super) fn clone_tree(source: BorrowedFd<'_>, path: &AbsPath) -> Result<OwnedFd, Failure> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    rustix::mount::open_tree(source, "", flags).stage_at("copying the mount of", path)
}

/// Mounts `tree` over an open path.
pub(super) fn attach_over(
    tree: BorrowedFd<'_>,
    target: BorrowedFd<'_>,
    path: &AbsPath,
) -> Result<(), Failure> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(tree, "", target, "", flags).stage_at("mounting", path)
}

/// A detached tmpfs of at most `size` bytes and `inodes` names.
pub(crate) fn tmpfs(size: &str, inodes: &str, mode: &str) -> Result<OwnedFd, Errno> {
    let options = [("size", size), ("nr_inodes", inodes), ("mode", mode)];
    filesystem("tmpfs", &options, MountAttrFlags::empty())
}

/// A detached file system of `kind` with `options`; never with set-uid, and with no
/// device but terminals.
pub(crate) fn filesystem(
    kind: &str,
    options: &[(&str, &str)],
    extra: MountAttrFlags,
) -> Result<OwnedFd, Errno> {
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        if value.is_empty() {
            rustix::mount::fsconfig_set_flag(&context, *key)?;
        } else {
            rustix::mount::fsconfig_set_string(&context, *key, *value)?;
        }
    }
    rustix::mount::fsconfig_create(&context)?;
    // A terminal is a device, and devpts holds no other.
    let nodev = if kind == "devpts" {
        MountAttrFlags::empty()
    } else {
        MountAttrFlags::MOUNT_ATTR_NODEV
    };
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | nodev | extra;
    rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}
