//! Opens and reads entries beneath a directory descriptor, following nothing.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RawMode, ResolveFlags, Statx, StatxFlags, fgetxattr,
    openat, openat2, readlinkat, statx,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::change::FileKind;

/// A point on the kernel's clock, seconds and nanoseconds since 1970.
pub(super) type Time = (i64, u32);

/// What statx(2) says of one name, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) kind: FileKind,
    /// Permission bits and the three special ones, without the type.
    pub(super) mode: u32,
    pub(super) size: u64,
    pub(super) id: Identity,
    pub(super) links: u32,
    pub(super) mtime: Time,
    pub(super) ctime: Time,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// A character device 0:0, an overlay's sign for "removed".
    pub(super) zero_device: bool,
}

/// Device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl Node {
    /// The nine permission bits, the only ones that are ever compared or applied.
    pub(super) fn permissions(&self) -> u32 {
        self.mode & 0o777
    }

    /// Same object, and neither written nor cut since: `ctime` is left out, because our own
    /// rename of an object moves it.
    pub(super) fn is_same_version(&self, other: &Self) -> bool {
        self.id == other.id
            && self.kind == other.kind
            && self.size == other.size
            && self.mtime == other.mtime
    }
}

impl TryFrom<Statx> for Node {
    type Error = Errno;

    fn try_from(stat: Statx) -> Result<Self, Errno> {
        let raw = RawMode::from(stat.stx_mode);
        let kind = match FileType::from_raw_mode(raw) {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Directory,
            FileType::Symlink => FileKind::Symlink,
            FileType::Fifo => FileKind::Fifo,
            FileType::Socket => FileKind::Socket,
            FileType::CharacterDevice => FileKind::CharDevice,
            FileType::BlockDevice => FileKind::BlockDevice,
            FileType::Unknown => return Err(Errno::INVAL),
        };
        Ok(Self {
            kind,
            mode: raw & 0o7777,
            size: stat.stx_size,
            id: Identity {
                device: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
                inode: stat.stx_ino,
            },
            links: stat.stx_nlink,
            mtime: (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
            ctime: (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
            uid: stat.stx_uid,
            gid: stat.stx_gid,
            zero_device: kind == FileKind::CharDevice
                && stat.stx_rdev_major == 0
                && stat.stx_rdev_minor == 0,
        })
    }
}

/// Opens a directory by its full path, links in it allowed: for roots that we were given.
pub(super) fn open_root(path: &Path) -> Result<OwnedFd, Errno> {
    openat(
        CWD,
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

/// Opens the directory `path` beneath `root`; the empty path is the root itself.
///
/// A symbolic link anywhere is `ELOOP`, another file system `EXDEV`.
pub(super) fn open_dir(root: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() { b"." } else { path };
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(root, path, flags, Mode::empty(), resolve)
}

/// Opens the file `name` of `dir` for reading, without waiting on whatever it turns out to be.
pub(super) fn open_file(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat(dir, name, flags, Mode::empty())
}

/// What `name` of `dir` is, a link not followed, or `None` where nothing has that name.
pub(super) fn node(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Option<Node>, Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    match statx(dir, name, flags, StatxFlags::BASIC_STATS) {
        Ok(stat) => Node::try_from(stat).map(Some),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// What an open descriptor is.
pub(super) fn node_of(fd: BorrowedFd<'_>) -> Result<Node, Errno> {
    Node::try_from(statx(
        fd,
        c"",
        AtFlags::EMPTY_PATH,
        StatxFlags::BASIC_STATS,
    )?)
}

/// The names in an open directory, sorted, without `.` and `..`.
pub(super) fn names(dir: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// A link's target.
pub(super) fn target(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Vec<u8>, Errno> {
    Ok(readlinkat(dir, name, Vec::new())?.into_bytes())
}

/// The overlay's attribute `name` on an open file or directory, under either prefix.
///
/// `user.` is what an unprivileged mount (`userxattr`) writes, `trusted.` what root's does.
/// A value longer than 16 bytes reads as empty: only presence matters for those.
pub(super) fn overlay_attribute(fd: BorrowedFd<'_>, name: &str) -> Result<Option<Vec<u8>>, Errno> {
    for prefix in ["user.overlay.", "trusted.overlay."] {
        let mut value = Vec::with_capacity(16);
        let full = format!("{prefix}{name}");
        match fgetxattr(
            fd,
            full.as_str(),
            rustix::buffer::spare_capacity(&mut value),
        ) {
            Ok(_) => return Ok(Some(value)),
            Err(Errno::RANGE) => return Ok(Some(Vec::new())),
            Err(Errno::NODATA | Errno::NOTSUP | Errno::PERM) => (),
            Err(errno) => return Err(errno),
        }
    }
    Ok(None)
}

/// A path's parent (empty for the root) and last name.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => {
            let (parent, rest) = path.split_at(at);
            (parent, rest.get(1..).unwrap_or_default())
        }
        None => (b"", path),
    }
}

/// `parent/name`, or `name` beneath the root.
pub(super) fn join(parent: &[u8], name: &[u8]) -> Vec<u8> {
    if parent.is_empty() {
        return name.to_owned();
    }
    [parent, b"/", name].concat()
}

/// Opens the directory that holds `path`, and says what `path` is there.
pub(super) fn locate<'p>(root: &OwnedFd, path: &'p [u8]) -> Result<(OwnedFd, &'p [u8]), Errno> {
    let (parent, name) = split(path);
    Ok((open_dir(root.as_fd(), parent)?, name))
}
