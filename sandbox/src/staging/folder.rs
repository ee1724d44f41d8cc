//! The folder that holds all stages: names, locks, records, and removal that can be resumed.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, RenameFlags, flock, fsync, mkdirat, openat, renameat,
    renameat_with, unlinkat,
};
use rustix::io::{Errno, write};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StagingError;
use super::escape::escape;
use super::remove::{open_heap, remove};
use super::tree::{names, node_of, open_dir, open_file, open_root};

/// Where removed trees are taken apart, by one process at a time.
const HEAP: &str = ".heap";
/// Larger than any record that we write; the plan of a million paths included.
const LONGEST_RECORD: u64 = 1 << 30;

/// Refuses names that are no plain file name of ours.
pub(super) fn check_id(id: &str) -> Result<(), StagingError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if (1..=64).contains(&id.len()) && id.bytes().all(plain) {
        return Ok(());
    }
    Err(StagingError::BadId {
        id: escape(id.as_bytes()),
    })
}

/// The bytes of a workspace's path as a path.
pub(super) fn workspace_path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Opens `<state>/staged`, made where asked for; `Unknown` where it is not there.
pub(super) fn open_above(state: &Path, make: bool) -> Result<OwnedFd, StagingError> {
    let failed =
        |errno| StagingError::io("open the state folder", state.as_os_str().as_bytes(), errno);
    let state = open_root(state).map_err(failed)?;
    if make {
        match mkdirat(&state, c"staged", Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => (),
            Err(errno) => return Err(failed(errno)),
        }
    }
    match open_dir(state.as_fd(), b"staged") {
        Err(Errno::NOENT) => Err(StagingError::Unknown {
            id: "staged".to_owned(),
        }),
        answer => answer.map_err(failed),
    }
}

/// Locks the stage whose folder is `dir`, without waiting. A file of its own is locked, so
/// that each caller holds a description of its own.
pub(super) fn take_lock(dir: BorrowedFd<'_>, operation: FlockOperation) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = openat(dir, c"lock", flags, Mode::empty())?;
    flock(&lock, operation)?;
    Ok(lock)
}

/// Discards the folder `name` unless somebody holds it; false where there is none. One
/// without a lock file is being made this moment, or its making was cut short: `lockless`
/// says whether that goes too.
pub(super) fn discard_name(
    above: BorrowedFd<'_>,
    name: &str,
    lockless: bool,
) -> Result<bool, StagingError> {
    let failed = |errno| StagingError::io("discard the stage", name.as_bytes(), errno);
    let dir = match open_dir(above, name.as_bytes()) {
        Ok(dir) => dir,
        Err(Errno::NOENT) => return Ok(false),
        Err(errno) => return Err(failed(errno)),
    };
    let _lock = match take_lock(dir.as_fd(), FlockOperation::NonBlockingLockExclusive) {
        Ok(lock) => Some(lock),
        Err(Errno::NOENT) if lockless => None,
        Err(Errno::NOENT | Errno::WOULDBLOCK) => {
            return Err(StagingError::InUse {
                id: name.to_owned(),
            });
        }
        Err(errno) => return Err(failed(errno)),
    };
    discard_locked(above, name)?;
    Ok(true)
}

/// Discards the folder `name`, which the caller holds: first out of sight, then for good.
pub(super) fn discard_locked(above: BorrowedFd<'_>, name: &str) -> Result<(), StagingError> {
    let failed = |errno| StagingError::io("discard the stage", name.as_bytes(), errno);
    let mut counter = 0u32;
    let gone = loop {
        let gone = format!(".gone-{counter}-{}", name.trim_start_matches('.'));
        match renameat_with(above, name, above, gone.as_str(), RenameFlags::NOREPLACE) {
            Ok(()) => break gone,
            Err(Errno::EXIST) => counter = counter.saturating_add(1),
            Err(errno) => return Err(failed(errno)),
        }
    };
    fsync(above).map_err(failed)?;
    take_apart(above, Some(&gone))
}

/// Removes the tree `name` (or only what an earlier removal left), one process at a time.
fn take_apart(above: BorrowedFd<'_>, name: Option<&str>) -> Result<(), StagingError> {
    let shown = name.unwrap_or(HEAP);
    let failed = |errno| StagingError::io("remove the discarded stage", shown.as_bytes(), errno);
    let turn = open_dir(above, b"").map_err(failed)?;
    flock(&turn, FlockOperation::LockExclusive).map_err(failed)?;
    let heap = open_heap(above, HEAP.as_bytes()).map_err(failed)?;
    super::remove::empty(heap.as_fd()).map_err(failed)?;
    if let Some(name) = name {
        remove(above, name.as_bytes(), heap.as_fd()).map_err(failed)?;
    }
    unlinkat(above, HEAP, AtFlags::REMOVEDIR).map_err(failed)
}

/// Reads the record `name` of the stage `id`; none where it was never written.
pub(super) fn read_record<T: DeserializeOwned>(
    dir: BorrowedFd<'_>,
    name: &'static str,
    id: &str,
) -> Result<Option<T>, StagingError> {
    let failed = |errno| StagingError::io("read the record", name.as_bytes(), errno);
    let damaged = || StagingError::Record {
        record: name,
        id: id.to_owned(),
    };
    let fd = match open_file(dir, name.as_bytes()) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(failed(errno)),
    };
    let size = node_of(fd.as_fd()).map_err(failed)?.size;
    if size > LONGEST_RECORD {
        return Err(damaged());
    }
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut std::fs::File::from(fd), &mut bytes)
        .map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
    postcard::from_bytes(&bytes)
        .map(Some)
        .map_err(|_| damaged())
}

/// Writes a record so that after a crash either the old or the new one is there.
pub(super) fn write_record(
    dir: BorrowedFd<'_>,
    name: &'static str,
    value: &impl Serialize,
    id: &str,
) -> Result<(), StagingError> {
    let failed = |errno| StagingError::io("write the record", name.as_bytes(), errno);
    let bytes = postcard::to_stdvec(value).map_err(|_| StagingError::Record {
        record: name,
        id: id.to_owned(),
    })?;
    let draft = format!("{name}.new");
    let flags =
        OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(dir, draft.as_str(), flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        done += write(&fd, rest).map_err(failed)?;
    }
    fsync(&fd).map_err(failed)?;
    renameat(dir, draft.as_str(), dir, name).map_err(failed)?;
    fsync(dir).map_err(failed)
}

/// Finishes discards, and removes stages whose making was cut short. Cheap where there are none.
///
/// # Errors
///
/// `Io` naming the first that could not be removed.
pub fn sweep(state: &Path) -> Result<(), StagingError> {
    let above = match open_above(state, false) {
        Ok(above) => above,
        Err(StagingError::Unknown { .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    let found = names(above.as_fd())
        .map_err(|errno| StagingError::io("read the stages in", b"staged", errno))?;
    for name in found
        .into_iter()
        .filter_map(|name| String::from_utf8(name).ok())
    {
        if name.starts_with(".new-") {
            match discard_name(above.as_fd(), &name, false) {
                // Being made right now.
                Ok(_) | Err(StagingError::InUse { .. }) => (),
                Err(error) => return Err(error),
            }
        } else if name.starts_with(".gone-") {
            take_apart(above.as_fd(), Some(&name))?;
        } else if name == HEAP {
            take_apart(above.as_fd(), None)?;
        }
    }
    Ok(())
}
