//! The view of files that a child gets: a private root with grants, masks and pins.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::confinement::ConfinementError;
use crate::path::AbsPath;

/// A private root, and what of the host appears in it.
///
/// Every path is a host path in normal form and appears under the same name inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filesystem {
    /// Host trees and files that appear inside.
    pub grants: Vec<Grant>,
    /// Existing files and directories that appear empty and unreadable.
    pub masks: Vec<AbsPath>,
    /// Existing names inside writable trees that stay as they are: read-only, and neither
    /// they nor any ancestor below the root can be renamed or removed.
    pub protected: Vec<AbsPath>,
    /// Directories that cannot be renamed: the ancestors of protected names. See
    /// [`Filesystem::pin_ancestors`].
    pub pins: Vec<AbsPath>,
    /// Symbolic links to make in the private root.
    pub links: Vec<Link>,
    /// Directories that are fresh, private and writable, and vanish at the end.
    pub private: Vec<AbsPath>,
    /// Files whose content is made for the sandbox, laid read-only over the path.
    pub files: Vec<File>,
    /// Bytes that each of `/tmp`, `/dev/shm` and the private directories may hold.
    pub tmp_size: u64,
    /// Where writes to a writable grant go when they do not go to the grant itself.
    pub staging: Option<Staging>,
    /// Where the child starts.
    pub workdir: AbsPath,
}

/// A host tree or file that appears inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Where it lies, on the host and inside.
    pub path: AbsPath,
    /// What may be done with it.
    pub access: Access,
    /// Whether the payload owns what the caller owns there.
    ///
    /// It matters only for a privileged caller, whose payload runs under another kernel
    /// uid: there the tree is mounted with its owner mapped to that uid.
    pub owned: bool,
}

/// What may be done with a granted tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a new access must break every back end"
)]
pub enum Access {
    /// Read and execute.
    Read,
    /// Read and execute; writes stay in the sandbox and vanish at its end.
    Cache,
    /// Read, execute and write.
    Write,
}

/// A symbolic link of the private root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Where the link is.
    pub path: AbsPath,
    /// What it says.
    pub target: OsString,
}

/// A file made for the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Where it appears.
    pub path: AbsPath,
    /// What it holds.
    pub content: Vec<u8>,
}

/// An overlay over a writable grant: reads come from the host, writes go to `upper`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Staging {
    /// The writable grant.
    pub root: AbsPath,
    /// A folder with `upper`, where changes are kept, and `work` beside it, on a file system
    /// that overlayfs accepts.
    pub stage: AbsPath,
}

impl Filesystem {
    /// Checks that nothing contradicts.
    pub(crate) fn check(&self) -> Result<(), ConfinementError> {
        let Self {
            grants,
            masks,
            private,
            workdir,
            ..
        } = self;
        let denied: HashSet<&[u8]> = masks.iter().map(AbsPath::bytes).collect();
        for grant in grants {
            let reserved = ["/", "/proc", "/dev"].map(Path::new);
            let covers = reserved.contains(&&*grant.path)
                || grant.path.starts_with("/proc")
                || grant.path.starts_with("/dev");
            if covers {
                return Err(ConfinementError::Reserved {
                    path: grant.path.clone(),
                });
            }
            let mut above = grant.path.ancestors().map(|it| it.as_os_str().as_bytes());
            let over = above.find(|it| denied.contains(it));
            if let Some(mask) = masks.iter().find(|it| over == Some(it.bytes())) {
                return Err(ConfinementError::GrantInsideDeny {
                    granted: grant.path.clone(),
                    denied: mask.clone(),
                });
            }
        }
        let reachable = grants
            .iter()
            .map(|it| &it.path)
            .chain(private)
            .any(|it| workdir.starts_with(it))
            || **workdir == *Path::new("/")
            || workdir.starts_with("/tmp");
        if !reachable {
            return Err(ConfinementError::WorkdirNotGranted {
                path: workdir.clone(),
            });
        }
        Ok(())
    }

    /// Pins every directory between a writable tree's root and a protected name.
    ///
    /// The kernel refuses to rename a mount point but not its parent: without the pins an
    /// ancestor could be moved away and the name made anew.
    pub fn pin_ancestors(&mut self) {
        let mut pins = BTreeSet::new();
        for path in &self.protected {
            if let Some(grant) = self
                .grant_over(path)
                .filter(|it| it.access == Access::Write)
            {
                pins.extend(path.ancestors_below(&grant.path));
            }
        }
        self.pins = pins.into_iter().collect();
    }

    /// The innermost grant that holds `path`.
    #[must_use]
    pub fn grant_over(&self, path: &Path) -> Option<&Grant> {
        self.grants
            .iter()
            .filter(|it| it.path.holds(path))
            .max_by_key(|it| it.path.depth())
    }
}
