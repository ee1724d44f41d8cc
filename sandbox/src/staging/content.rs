//! Compares and copies file content, holes included, without reading what is a hole.

use std::os::fd::BorrowedFd;

use rustix::fs::{SeekFrom, copy_file_range, ftruncate, ioctl_ficlone, seek};
use rustix::io::{Errno, pread, pwrite};

/// Bytes per read or copy: large enough to be cheap, small enough for the heap.
const CHUNK: usize = 256 * 1024;

/// Whether two open files of `size` bytes each hold the same bytes.
///
/// Only stretches that at least one of them stores are read, so a huge hole costs nothing.
pub(super) fn is_equal(
    left: BorrowedFd<'_>,
    right: BorrowedFd<'_>,
    size: u64,
) -> Result<bool, Errno> {
    let mut at = 0;
    let (mut one, mut two) = (vec![0; CHUNK], vec![0; CHUNK]);
    while at < size {
        at = data_from(left, at, size)?.min(data_from(right, at, size)?);
        let length = usize::try_from(size - at).unwrap_or(CHUNK).min(CHUNK);
        if length == 0 {
            break;
        }
        let one = one.get_mut(..length).ok_or(Errno::INVAL)?;
        let two = two.get_mut(..length).ok_or(Errno::INVAL)?;
        if !fill(left, one, at)? || !fill(right, two, at)? || one != two {
            return Ok(false);
        }
        at += u64::try_from(length).map_err(|_| Errno::OVERFLOW)?;
    }
    Ok(true)
}

/// Copies `size` bytes of `from` into the empty file `to`, sharing blocks where the file
/// system can, keeping holes where it cannot.
pub(super) fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>, size: u64) -> Result<(), Errno> {
    if size == 0 || ioctl_ficlone(to, from).is_ok() {
        return Ok(());
    }
    ftruncate(to, size)?;
    let mut at = 0;
    while at < size {
        at = data_from(from, at, size)?;
        let end = hole_from(from, at, size)?;
        while at < end {
            at += copy_some(from, to, at, end - at)?;
        }
    }
    Ok(())
}

/// Copies between 1 and `length` bytes at `at`; says how many.
fn copy_some(from: BorrowedFd<'_>, to: BorrowedFd<'_>, at: u64, length: u64) -> Result<u64, Errno> {
    let (mut source, mut sink) = (at, at);
    let wanted = usize::try_from(length).unwrap_or(usize::MAX).min(1 << 30);
    match copy_file_range(from, Some(&mut source), to, Some(&mut sink), wanted) {
        Ok(0) => return Err(Errno::IO),
        Ok(copied) => return u64::try_from(copied).map_err(|_| Errno::OVERFLOW),
        Err(
            Errno::XDEV
            | Errno::INVAL
            | Errno::NOSYS
            | Errno::OPNOTSUPP
            | Errno::PERM
            | Errno::BADF,
        ) => (),
        Err(errno) => return Err(errno),
    }
    let mut buffer = vec![0; wanted.min(CHUNK)];
    let read = pread(from, buffer.as_mut_slice(), at)?;
    let mut done = 0;
    while let Some(rest) = buffer.get(done..read).filter(|rest| !rest.is_empty()) {
        let offset = u64::try_from(done).map_err(|_| Errno::OVERFLOW)?;
        done += pwrite(to, rest, at + offset)?;
    }
    // The file was `size` bytes long a moment ago and nobody may write it.
    if read == 0 {
        Err(Errno::IO)
    } else {
        u64::try_from(read).map_err(|_| Errno::OVERFLOW)
    }
}

/// Reads exactly `buffer.len()` bytes at `at`; false where the file ends before.
fn fill(fd: BorrowedFd<'_>, buffer: &mut [u8], at: u64) -> Result<bool, Errno> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        let offset = u64::try_from(done).map_err(|_| Errno::OVERFLOW)?;
        match pread(fd, rest, at + offset)? {
            0 => return Ok(false),
            read => done += read,
        }
    }
    Ok(true)
}

/// The first stored byte at or after `at`, `size` where only a hole follows.
fn data_from(fd: BorrowedFd<'_>, at: u64, size: u64) -> Result<u64, Errno> {
    match seek(fd, SeekFrom::Data(at)) {
        Ok(found) => Ok(found.min(size)),
        Err(Errno::NXIO) => Ok(size),
        Err(Errno::INVAL) => Ok(at),
        Err(errno) => Err(errno),
    }
}

/// The first hole at or after `at`, `size` where none follows.
fn hole_from(fd: BorrowedFd<'_>, at: u64, size: u64) -> Result<u64, Errno> {
    match seek(fd, SeekFrom::Hole(at)) {
        Ok(found) => Ok(found.min(size)),
        Err(Errno::NXIO | Errno::INVAL) => Ok(size),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, SeekFrom as At, Write as _};
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn sparse(tail: &[u8]) -> std::fs::File {
        let mut file = tempfile::tempfile().unwrap();
        file.seek(At::Start(3 << 30)).unwrap();
        file.write_all(tail).unwrap();
        file
    }

    #[test]
    fn a_copy_is_equal_and_keeps_its_holes() {
        let from = sparse(b"end");
        let to = tempfile::tempfile().unwrap();
        let size = from.metadata().unwrap().len();
        copy(from.as_fd(), to.as_fd(), size).unwrap();
        assert_eq!(to.metadata().unwrap().len(), size);
        assert!(
            to.metadata().unwrap().blocks() < 4096,
            "the hole was filled"
        );
        assert!(is_equal(from.as_fd(), to.as_fd(), size).unwrap());
    }

    #[test]
    fn one_byte_behind_a_hole_makes_a_difference() {
        let (one, two) = (sparse(b"x"), sparse(b"y"));
        assert!(!is_equal(one.as_fd(), two.as_fd(), one.metadata().unwrap().len()).unwrap());
    }
}
