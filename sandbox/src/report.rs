//! What the kernel really enforced, as data.

use serde::{Deserialize, Serialize};

use crate::limits::{LimitKind, LimitStatus};

/// What took effect for one sandbox.
///
/// Built by the process that applied each layer, after it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[must_use = "a report nobody reads hides what was lost"]
pub struct EnforcementReport {
    /// The back end that built the sandbox.
    pub backend: String,
    /// Each layer, outermost first.
    pub layers: Vec<(Layer, LayerStatus)>,
    /// Each limit.
    pub limits: Vec<(LimitKind, LimitStatus)>,
    /// What a reader should know besides.
    pub notes: Vec<String>,
}

/// A layer of the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Layer {
    /// A private root of mounts.
    Mounts,
    /// A PID namespace.
    Processes,
    /// A network namespace, or the host's network by grant.
    Network,
    /// IPC, UTS and cgroup namespaces.
    OtherNamespaces,
    /// The user that the payload is to the kernel.
    User,
    /// No capability, empty bounding set, `no_new_privs`.
    Capabilities,
    /// Landlock.
    Landlock,
    /// The system call filter.
    Seccomp,
    /// Protected names that existed at the start.
    ProtectedNames,
    /// Protected names that did not exist at the start.
    MissingNames,
}

/// How far a layer holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum LayerStatus {
    /// Nothing holds, for this reason.
    Absent(String),
    /// Part of it holds; this is missing.
    Degraded(String),
    /// It holds; the text says how.
    Enforced(String),
    /// The profile grants what the layer would withhold.
    Granted(String),
}

impl Layer {
    /// The name in reports and documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Capabilities => "capabilities",
            Self::Landlock => "landlock",
            Self::MissingNames => "missing names",
            Self::Mounts => "mounts",
            Self::Network => "network",
            Self::OtherNamespaces => "ipc, uts, cgroup",
            Self::Processes => "processes",
            Self::ProtectedNames => "protected names",
            Self::Seccomp => "seccomp",
            Self::User => "user",
        }
    }
}

impl EnforcementReport {
    /// The status of one layer.
    #[must_use]
    pub fn layer(&self, layer: Layer) -> Option<&LayerStatus> {
        self.layers
            .iter()
            .find(|(name, _)| *name == layer)
            .map(|(_, status)| status)
    }
}
