//! Everything a sandbox's init needs to know, in one value that can cross to another process.

use serde::{Deserialize, Serialize};

use crate::confinement::Confinement;
use crate::identity::Identity;
use crate::report::{Layer, LayerStatus};

/// What an init has to build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) confinement: Confinement,
    pub(crate) identity: Identity,
    /// What the supervisor already did or decided about a layer.
    pub(crate) layers: Vec<(Layer, LayerStatus)>,
    /// Whether init watches the memory of the tree, for want of a cgroup. An init that builds
    /// its own view is told with [`crate::message::Request::Join`] instead.
    pub(crate) poll_memory: bool,
    /// Whether several commands may run, one after the other or at once.
    pub(crate) shared: bool,
}
