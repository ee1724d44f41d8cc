//! A mark of a name on disk that changes whenever the name, or what is in it, does.
//!
//! It is made of what stat(2) tells: an ordinary user cannot set the time of an inode's last
//! change (`ctime`), and an inode that takes another's place has another number.

use std::ffi::CStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

/// Most entries that one mark covers; more count as one that cannot be read.
const MOST: usize = 65_536;

/// The mark of `name` in `folder`, and of everything below it.
pub(super) fn of(folder: BorrowedFd<'_>, name: &CStr) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut left = MOST;
    add(folder, name, &mut hasher, &mut left);
    hasher.finish()
}

fn add(folder: BorrowedFd<'_>, name: &CStr, hasher: &mut DefaultHasher, left: &mut usize) {
    name.hash(hasher);
    *left = left.saturating_sub(1);
    let Ok(it) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
        return;
    };
    let kind = FileType::from_raw_mode(it.st_mode);
    (it.st_dev, it.st_ino, it.st_mode, it.st_uid, it.st_size).hash(hasher);
    (it.st_ctime, it.st_ctime_nsec, it.st_mtime, it.st_mtime_nsec).hash(hasher);
    if kind != FileType::Directory || *left == 0 {
        return;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(inner) = rustix::fs::openat(folder, name, flags, Mode::empty()) else {
        return;
    };
    let Ok(listing) = Dir::read_from(&inner) else {
        return;
    };
    let mut names: Vec<Box<CStr>> = listing
        .flatten()
        .filter(|it| ![c".", c".."].contains(&it.file_name()))
        .map(|it| it.file_name().into())
        .collect();
    names.sort();
    for name in names {
        add(std::os::fd::AsFd::as_fd(&inner), &name, hasher, left);
    }
}
