//! Removes a tree that a hostile program made: any depth, any mode, no link followed.

use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{AtFlags, Mode, RenameFlags, chmodat, mkdirat, renameat_with, unlinkat};
use rustix::io::Errno;

use super::change::FileKind;
use super::tree::{names, node, open_dir};

/// Removes `name` of `dir` and all beneath it, by way of the empty directory `heap`.
///
/// A tree may be deeper than a path can be long, and than descriptors can be open. So it is
/// flattened: each directory is moved into the heap under a number, and what it holds is
/// removed or moved there in turn. Needs neither recursion nor memory, and can be taken up
/// again after a crash by removing the heap's own entries ([`empty`]).
pub(super) fn remove(dir: BorrowedFd<'_>, name: &[u8], heap: BorrowedFd<'_>) -> Result<(), Errno> {
    match node(dir, name)? {
        None => Ok(()),
        Some(found) if found.kind != FileKind::Directory => unlinkat(dir, name, AtFlags::empty()),
        Some(_) => {
            let mut counter = 0;
            shelve(dir, name, heap, &mut counter)?;
            drain(heap, &mut counter)
        }
    }
}

/// Removes all that the directory `heap` holds.
pub(super) fn empty(heap: BorrowedFd<'_>) -> Result<(), Errno> {
    drain(heap, &mut 0)
}

/// Opens the directory `name` of `parent` as a heap, made where it is not there yet.
pub(super) fn open_heap(parent: BorrowedFd<'_>, name: &[u8]) -> Result<rustix::fd::OwnedFd, Errno> {
    match mkdirat(parent, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => open_dir(parent, name),
        Err(errno) => Err(errno),
    }
}

fn drain(heap: BorrowedFd<'_>, counter: &mut u64) -> Result<(), Errno> {
    loop {
        let shelved = names(heap)?;
        if shelved.is_empty() {
            return Ok(());
        }
        for name in shelved {
            if node(heap, &name)?.is_some_and(|found| found.kind != FileKind::Directory) {
                unlinkat(heap, name.as_slice(), AtFlags::empty())?;
                continue;
            }
            // The name stands directly in a directory that only we write, so it is no link.
            chmodat(heap, name.as_slice(), Mode::RWXU, AtFlags::empty())?;
            let dir = open_dir(heap, &name)?;
            for inner in names(dir.as_fd())? {
                match node(dir.as_fd(), &inner)? {
                    Some(found) if found.kind == FileKind::Directory => {
                        shelve(dir.as_fd(), &inner, heap, counter)?;
                    }
                    _ => unlinkat(dir.as_fd(), inner.as_slice(), AtFlags::empty())?,
                }
            }
            unlinkat(heap, name.as_slice(), AtFlags::REMOVEDIR)?;
        }
    }
}

/// Moves the directory `name` of `from` into the heap under the next free number.
fn shelve(
    from: BorrowedFd<'_>,
    name: &[u8],
    heap: BorrowedFd<'_>,
    counter: &mut u64,
) -> Result<(), Errno> {
    // rename(2) writes to the directory that it moves, because of its `..`.
    chmodat(from, name, Mode::RWXU, AtFlags::empty())?;
    loop {
        *counter += 1;
        match renameat_with(
            from,
            name,
            heap,
            counter.to_string(),
            RenameFlags::NOREPLACE,
        ) {
            Err(Errno::EXIST) => (),
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use rustix::fs::{OFlags, openat};

    use super::*;
    use crate::staging::tree::open_root;

    #[test]
    fn a_deep_tree_with_closed_modes_goes_and_a_link_target_stays() {
        let place = tempfile::tempdir().unwrap();
        let outside = place.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "kept").unwrap();
        fs::create_dir(place.path().join("tree")).unwrap();
        symlink(&outside, place.path().join("tree/link")).unwrap();
        let root = open_root(place.path()).unwrap();
        // Four thousand levels of nine bytes: ten times as long as a path may be.
        let mut at = open_dir(root.as_fd(), b"tree").unwrap();
        for _ in 0..4000 {
            mkdirat(&at, c"deepdeep", Mode::RWXU).unwrap();
            at = openat(
                &at,
                c"deepdeep",
                OFlags::DIRECTORY | OFlags::RDONLY,
                Mode::empty(),
            )
            .unwrap();
        }
        drop(at);
        fs::create_dir(place.path().join("tree/shut")).unwrap();
        fs::write(place.path().join("tree/shut/file"), "x").unwrap();
        for shut in ["tree/shut", "tree/deepdeep", "tree"] {
            fs::set_permissions(place.path().join(shut), fs::Permissions::from_mode(0o0)).unwrap();
        }
        let heap = open_heap(root.as_fd(), b"heap").unwrap();
        remove(root.as_fd(), b"tree", heap.as_fd()).unwrap();
        assert!(!place.path().join("tree").exists());
        assert_eq!(names(heap.as_fd()).unwrap(), Vec::<Vec<u8>>::new());
        assert_eq!(fs::read_to_string(outside.join("kept")).unwrap(), "kept");
    }
}
