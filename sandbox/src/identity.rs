//! Which user the payload is, to the kernel and to itself.

use serde::{Deserialize, Serialize};

/// The user id that the payload of a privileged caller gets.
///
/// It is outside every range that distributions and systemd hand out, and the same inside
/// and outside the sandbox, so that no program believes itself to be uid 0. See
/// `docs/decisions/0003-identity-when-run-as-root.md`.
pub const RESERVED_ID: u32 = 61_183;

/// Which user the payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Identity {
    /// The caller's own ids, in a user namespace that maps nothing else.
    Own {
        /// User id, the same inside and outside.
        uid: u32,
        /// Group id, the same inside and outside.
        gid: u32,
    },
    /// A user that owns nothing on the host. What `owner` owns in an owned tree appears as
    /// this user's, through an idmapped mount, and what it makes there is stored as `owner`'s.
    Reserved {
        /// The owner on the host.
        owner: u32,
        /// The owner's group on the host.
        group: u32,
    },
}

impl Identity {
    /// The payload's user and group id, as it sees them and as the kernel does.
    pub(crate) fn ids(self) -> (u32, u32) {
        match self {
            Self::Own { uid, gid } => (uid, gid),
            Self::Reserved { .. } => (RESERVED_ID, RESERVED_ID),
        }
    }

    /// Whether the payload is uid 0 to the kernel.
    pub(crate) fn is_superuser(self) -> bool {
        self.ids().0 == 0
    }
}
