//! What every back end offers: one trait, one meaning.

use std::fmt;

use crate::confinement::Confinement;
use crate::error::SandboxError;
use crate::running::Prepared;

/// A way to build a sandbox.
pub trait Backend: fmt::Debug {
    /// Its name, as the command line and reports say it.
    fn name(&self) -> &'static str;

    /// Builds a sandbox whose init has confined itself and waits for a command.
    ///
    /// # Errors
    ///
    /// [`SandboxError`]; then nothing ran, and nothing is left.
    fn prepare(&self, confinement: &Confinement, host: Host) -> Result<Prepared, SandboxError>;
}

/// What the host does around one sandbox.
#[derive(Default)]
pub struct Host {
    /// Whether several commands may run in it, one after the other or at once.
    pub shared: bool,
    /// Runs in the surviving reaper when this process dies before it could do the work itself.
    pub when_orphaned: Option<Box<dyn FnOnce()>>,
    /// What the supervisor knows about how far a layer holds, for the report.
    pub layers: Vec<(crate::report::Layer, crate::report::LayerStatus)>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("shared", &self.shared)
            .field("when_orphaned", &self.when_orphaned.is_some())
            .finish_non_exhaustive()
    }
}
