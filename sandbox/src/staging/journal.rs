//! The two notes that make applying repeatable: directories known good, and names in use.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::tree::{Identity, Node, Time};

/// What was known to be untouched by the host before we first touched it ourselves: our own
/// work moves the times of directories, which then prove nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Baseline {
    /// Directories that had not changed since the session's start, or that we made.
    directories: BTreeMap<Vec<u8>, (Identity, u32)>,
    /// Staged files that the workspace never had under their name.
    absent: BTreeSet<Vec<u8>>,
}

/// What one path is about to go through, written before the first change to the workspace.
///
/// It names every temporary file that a crash can leave there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) entries: Vec<(Vec<u8>, Option<Version>)>,
}

/// The version of a host entry that is to be replaced or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Version {
    id: Identity,
    size: u64,
    mtime: Time,
}

impl Baseline {
    /// Adds a directory.
    pub(super) fn insert(&mut self, path: &[u8], node: &Node) {
        self.directories
            .insert(path.to_owned(), (node.id, node.permissions()));
    }

    /// Adds the name of a file that the workspace lacks, and that the host did not remove.
    pub(super) fn insert_absent(&mut self, path: &[u8]) {
        self.absent.insert(path.to_owned());
    }

    /// Whether the workspace is known to have lacked `path` all along.
    pub(super) fn was_absent(&self, path: &[u8]) -> bool {
        self.absent.contains(path)
    }

    /// Whether `node` is the very directory that was noted for `path`.
    pub(super) fn knows(&self, path: &[u8], node: &Node) -> bool {
        self.directories
            .get(path)
            .is_some_and(|(id, _)| *id == node.id)
    }

    /// Whether it has the permission bits that were noted, too.
    pub(super) fn has_mode(&self, path: &[u8], node: &Node) -> bool {
        self.directories.get(path) == Some(&(node.id, node.permissions()))
    }
}

impl Version {
    /// The version that `node` is.
    pub(super) fn of(node: &Node) -> Self {
        Self {
            id: node.id,
            size: node.size,
            mtime: node.mtime,
        }
    }
}
