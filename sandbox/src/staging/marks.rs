//! Reads what an overlay wrote on a staged entry: removed, opaque, copied up.

use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::io::Errno;

use super::change::{FileKind, Refusal};
use super::tree::{Node, open_dir, open_file, overlay_attribute};

/// What an overlay writes on an entry.
pub(super) struct Marks {
    pub(super) whiteout: bool,
    pub(super) opaque: bool,
    /// Copied from the workspace, rather than made by the payload.
    pub(super) origin: bool,
    /// `metacopy` or `redirect`: the content stands elsewhere.
    pub(super) reference: bool,
}

/// Reads the marks of the entry `name` of a staged directory.
pub(super) fn marks(upper: BorrowedFd<'_>, name: &[u8], staged: &Node) -> Result<Marks, Errno> {
    let mut marks = Marks {
        whiteout: staged.zero_device,
        opaque: false,
        origin: false,
        reference: false,
    };
    let fd = match staged.kind {
        FileKind::Directory => open_dir(upper, name)?,
        FileKind::File => open_file(upper, name)?,
        _ => return Ok(marks),
    };
    let fd = fd.as_fd();
    if staged.kind == FileKind::Directory {
        // `x` instead says that whiteouts in it are files with an attribute.
        marks.opaque = overlay_attribute(fd, "opaque")?.is_some_and(|value| value == b"y");
    } else {
        marks.whiteout = staged.size == 0 && overlay_attribute(fd, "whiteout")?.is_some();
    }
    marks.origin = overlay_attribute(fd, "origin")?.is_some();
    marks.reference = overlay_attribute(fd, "metacopy")?.is_some()
        || overlay_attribute(fd, "redirect")?.is_some();
    Ok(marks)
}

/// The refusal that an error on one entry amounts to; none where the whole scan must stop.
pub(super) fn refusal_of(errno: Errno) -> Option<Refusal> {
    match errno {
        Errno::ACCESS | Errno::PERM => Some(Refusal::Unreadable),
        Errno::XDEV => Some(Refusal::OtherFileSystem),
        Errno::NAMETOOLONG => Some(Refusal::TooDeep),
        _ => None,
    }
}
