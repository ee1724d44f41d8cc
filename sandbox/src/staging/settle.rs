//! Takes out of a stage what no longer differs from the workspace.

use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, BorrowedFd};

use super::StagingError;
use super::change::{Change, FileKind, is_within, tree_order};
use super::remove::remove;
use super::tree::{join, names, node, open_dir, overlay_attribute};

/// Removes every staged entry that `remaining`, a fresh and sorted scan, does not need.
///
/// An opaque directory stays whole until nothing in it is left to do: were an entry of it
/// removed alone, its absence would read as a deletion.
pub(super) fn settle(
    upper: BorrowedFd<'_>,
    heap: BorrowedFd<'_>,
    remaining: &[Change],
    tick: &mut dyn FnMut(&'static str, &[u8]) -> ControlFlow<StagingError>,
) -> Result<(), StagingError> {
    let mut open = vec![Vec::new()];
    while let Some(path) = open.pop() {
        let failed = |errno| StagingError::io("tidy the staged entry", &path, errno);
        // What cannot be opened was refused by the scan, and stays.
        let Ok(dir) = open_dir(upper, &path) else {
            continue;
        };
        if !path.is_empty()
            && overlay_attribute(dir.as_fd(), "opaque")
                .map_err(failed)?
                .is_some_and(|value| value == b"y")
        {
            continue;
        }
        for name in names(dir.as_fd()).map_err(failed)? {
            let inner = join(&path, &name);
            if !is_pending(remaining, &inner) {
                if let ControlFlow::Break(stop) = tick("settle", &inner) {
                    return Err(stop);
                }
                remove(dir.as_fd(), &name, heap)
                    .map_err(|errno| StagingError::io("remove the staged entry", &inner, errno))?;
            } else if node(dir.as_fd(), &name)
                .map_err(failed)?
                .is_some_and(|found| found.kind == FileKind::Directory)
            {
                open.push(inner);
            }
        }
    }
    Ok(())
}

/// Whether a change is left at `path` or beneath it.
fn is_pending(remaining: &[Change], path: &[u8]) -> bool {
    // In tree order, what is beneath `path` follows right behind it.
    let at = remaining.partition_point(|change| tree_order(&change.path, path).is_lt());
    remaining
        .get(at)
        .is_some_and(|change| is_within(&change.path, path))
}
