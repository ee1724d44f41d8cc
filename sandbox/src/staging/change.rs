//! The words for one difference between the stage and the workspace.

use std::fmt;

use super::tree::Node;

/// What kind of object a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// A block device.
    BlockDevice,
    /// A character device.
    CharDevice,
    /// A directory.
    Directory,
    /// A named pipe.
    Fifo,
    /// A regular file.
    File,
    /// A Unix socket.
    Socket,
    /// A symbolic link.
    Symlink,
}

/// What the payload did to a path, seen from the workspace as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ChangeKind {
    /// The workspace has nothing there.
    Added,
    /// The workspace has it, the payload removed it.
    Deleted,
    /// Same content, other permission bits.
    ModeChanged,
    /// Other content (of a file) or another target (of a link).
    Modified,
    /// Another kind of object under the same name.
    TypeChanged,
}

/// Why a change is not applied although its kind could be: the host moved on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Conflict {
    /// The host's clock stands before the session's start, so times prove nothing.
    ClockWentBack,
    /// The host exchanged a directory above for another.
    DirectoryReplaced,
    /// The host changed the entry after the session started, or made one of the same name.
    HostChanged,
    /// The host removed what the payload edited, or a directory above it.
    HostDeleted,
}

/// Why a change can never be applied by us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The workspace has another file system mounted there.
    OtherFileSystem,
    /// A device, FIFO or socket.
    Special,
    /// The path is longer than the kernel accepts in one call.
    TooDeep,
    /// Permission bits keep even us from reading it.
    Unreadable,
    /// The overlay stored it as a reference (`metacopy`, `redirect`), which our mounts
    /// switch off.
    Unsupported,
}

/// One difference. A directory with differences beneath it is no difference itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// Path relative to the workspace, in bytes, without a leading slash.
    pub path: Vec<u8>,
    /// What happened.
    pub kind: ChangeKind,
    /// What it is now; for a deletion, what it was.
    pub file: FileKind,
    /// Bytes of a file, length of a link's target; for a deletion, of what was there.
    pub size: u64,
    /// Permission bits in the workspace and in the stage, where each has the entry. The
    /// upper three octal digits of neither are ever applied.
    pub modes: (Option<u32>, Option<u32>),
    /// A file that the stage makes executable for anybody.
    pub executable: bool,
    /// The staged entry carries set-user-ID, set-group-ID or sticky bits, which are dropped.
    pub special_bits: bool,
    /// A protected name, or beneath one: never applied.
    pub protected: bool,
    /// The host moved on: not applied.
    pub conflict: Option<Conflict>,
    /// Never applied, for a reason of its own.
    pub refusal: Option<Refusal>,
    /// What the workspace had when it was read. Invariant: the entry that `kind` speaks of.
    pub(super) host: Option<Node>,
}

/// How many changes of which sort a stage holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Paths that are new.
    pub added: usize,
    /// Paths with other content, mode or type.
    pub modified: usize,
    /// Paths that go away.
    pub deleted: usize,
    /// Of all of them, those that are protected names.
    pub protected: usize,
    /// Of all of them, those in conflict with the host.
    pub conflicts: usize,
    /// Of all of them, those that can never be applied.
    pub refused: usize,
}

impl Change {
    /// Whether nothing known so far speaks against applying it.
    #[must_use]
    pub fn is_applicable(&self) -> bool {
        !self.protected && self.conflict.is_none() && self.refusal.is_none()
    }

    /// Whether the workspace has a directory there.
    pub(super) fn was_directory(&self) -> bool {
        self.host
            .is_some_and(|host| host.kind == FileKind::Directory)
    }
}

impl Counts {
    /// Counts `changes`.
    #[must_use]
    pub fn of(changes: &[Change]) -> Self {
        let mut counts = Self::default();
        for change in changes {
            match change.kind {
                ChangeKind::Added => counts.added += 1,
                ChangeKind::Deleted => counts.deleted += 1,
                ChangeKind::ModeChanged | ChangeKind::Modified | ChangeKind::TypeChanged => {
                    counts.modified += 1;
                }
            }
            counts.protected += usize::from(change.protected);
            counts.conflicts += usize::from(change.conflict.is_some());
            counts.refused += usize::from(change.refusal.is_some());
        }
        counts
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClockWentBack => "the clock was set back since the session started",
            Self::DirectoryReplaced => "a directory above was exchanged on the host",
            Self::HostChanged => "changed on the host since the session started",
            Self::HostDeleted => "removed on the host since the session started",
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherFileSystem => "another file system is mounted there",
            Self::Special => "devices, pipes and sockets are never applied",
            Self::TooDeep => "the path is too long",
            Self::Unreadable => "its permission bits forbid reading it",
            Self::Unsupported => "stored as an overlay reference, which is not supported",
        })
    }
}

/// Orders paths as a tree: a directory before what is in it, siblings by bytes.
pub(super) fn tree_order(left: &[u8], right: &[u8]) -> std::cmp::Ordering {
    left.split(|byte| *byte == b'/')
        .cmp(right.split(|byte| *byte == b'/'))
}

/// Whether `path` is `ancestor` or beneath it.
pub(super) fn is_within(path: &[u8], ancestor: &[u8]) -> bool {
    match path.strip_prefix(ancestor) {
        Some([]) => true,
        Some([first, ..]) => *first == b'/' || ancestor.is_empty(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sibling_that_shares_a_prefix_is_not_within() {
        assert!(is_within(b"a/b", b"a"));
        assert!(is_within(b"a", b"a"));
        assert!(is_within(b"a", b""));
        assert!(!is_within(b"ab", b"a"));
        assert!(!is_within(b"a", b"a/b"));
    }

    #[test]
    fn a_directory_comes_right_before_what_is_in_it() {
        let mut paths: Vec<&[u8]> = vec![b"a.b", b"a/z", b"b", b"a", b"a/b/c", b"a/b"];
        paths.sort_by(|left, right| tree_order(left, right));
        let sorted: Vec<&[u8]> = vec![b"a", b"a/b", b"a/b/c", b"a/z", b"a.b", b"b"];
        assert_eq!(paths, sorted);
    }
}
