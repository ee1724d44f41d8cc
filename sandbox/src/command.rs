//! A command and its confinement: the only way to start a process.

use std::ffi::OsString;
use std::os::fd::OwnedFd;

use rustix::fs::Mode;

use crate::backend::{Backend, Host};
use crate::confinement::Confinement;
use crate::error::SandboxError;
use crate::message::Start;
use crate::running::{Prepared, Running};

/// A program, its arguments, and what they are confined to.
///
/// There is no other constructor, and no way to start one without its confinement:
///
/// ```compile_fail
/// # use sandbox::SandboxedCommand;
/// let unconfined = SandboxedCommand::new("true", ["x"]);
/// ```
///
/// The twin that compiles:
///
/// ```
/// # use sandbox::{Confinement, SandboxedCommand};
/// fn confined(confinement: Confinement) -> SandboxedCommand {
///     SandboxedCommand::new("true", ["x"], confinement)
/// }
/// ```
#[derive(Debug)]
#[must_use]
pub struct SandboxedCommand {
    program: OsString,
    arguments: Vec<OsString>,
    confinement: Confinement,
}

/// The standard descriptors of a command.
#[derive(Debug)]
pub enum Stdio {
    /// These, in order: input, output, error.
    Given([OwnedFd; 3]),
    /// A pseudo-terminal of the sandbox's own, whose master comes back.
    Terminal,
}

impl SandboxedCommand {
    /// `program` is a path in the view, or a name that is looked for in the `PATH` of the
    /// confinement's environment; empty and relative entries of `PATH` are passed over.
    pub fn new<A: Into<OsString>>(
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = A>,
        confinement: Confinement,
    ) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            confinement,
        }
    }

    /// The confinement.
    #[must_use]
    pub fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    /// Builds the sandbox with `backend` and starts the command in it.
    ///
    /// # Errors
    ///
    /// [`SandboxError`]; then the command did not run.
    pub fn spawn(
        self,
        backend: &dyn Backend,
        host: Host,
        stdio: Stdio,
    ) -> Result<Running, SandboxError> {
        let prepared = backend.prepare(&self.confinement, host)?;
        self.start_in(prepared, stdio)
    }

    /// Starts the command in a sandbox that was prepared for this very confinement.
    ///
    /// # Errors
    ///
    /// [`SandboxError`]; then the command did not run.
    pub fn start_in(self, prepared: Prepared, stdio: Stdio) -> Result<Running, SandboxError> {
        let terminal = matches!(stdio, Stdio::Terminal);
        prepared.start(&self.into_start(0, terminal), stdio)
    }

    /// The request that init gets.
    pub(crate) fn into_start(self, id: u32, terminal: bool) -> Start {
        let Self {
            program,
            arguments,
            confinement,
        } = self;
        // umask(2) cannot be read without being set.
        let umask = rustix::process::umask(Mode::empty());
        rustix::process::umask(umask);
        Start {
            id,
            arguments: [program.clone()].into_iter().chain(arguments).collect(),
            program,
            workdir: confinement.filesystem.workdir,
            environment: confinement.environment,
            terminal,
            umask: umask.bits(),
        }
    }
}
