//! The two notes that make applying repeatable: directories known good, and names in use.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::tree::{Identity, Node, Time};

/// Directories of the workspace that had not changed since the session's start when we first
/// touched them, or that we made. Our own work moves their times, which then prove nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Baseline {
    directories: BTreeMap<Vec<u8>, (Identity, u32)>,
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
