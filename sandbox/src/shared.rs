//! One sandbox for many commands: a session's own, kept warm.
//!
//! Commands share the view, the PID namespace and the limits of the tree; each has a session
//! (setsid(2)) and streams of its own. Cheaper than a sandbox each, and a weaker fence between
//! one command and the next: right for searches and formatters, not for shells.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::backend::{Backend, Host};
use crate::command::{SandboxedCommand, Stdio};
use crate::confinement::Confinement;
use crate::error::SandboxError;
use crate::message::{End, Notice, Request, Usage};
use crate::report::EnforcementReport;
use crate::running::{Pending, Tree};

/// A sandbox that takes one command after the other.
#[derive(Debug)]
pub struct Shared {
    tree: Tree,
    report: EnforcementReport,
    confinement: Confinement,
    next: u32,
}

/// Names a command in a [`Shared`] sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommandId(u32);

/// What happened in a shared sandbox.
#[derive(Debug)]
#[non_exhaustive]
pub enum SharedEvent {
    /// A command ended; what it started may live on.
    Ended(CommandId, End, Usage),
    /// The sandbox is gone, and every command with it.
    Gone,
    /// The tree used this many bytes of memory, more than it may, and was ended.
    MemoryExceeded(u64),
}

impl Shared {
    /// Builds a sandbox for `confinement` that stays until this value is dropped.
    ///
    /// # Errors
    ///
    /// [`SandboxError`]; then nothing is left.
    pub fn build(
        backend: &dyn Backend,
        confinement: &Confinement,
        host: Host,
    ) -> Result<Self, SandboxError> {
        let host = Host {
            shared: true,
            ..host
        };
        let (tree, report) = backend.prepare(confinement, host)?.into_parts();
        Ok(Self {
            tree,
            report,
            confinement: confinement.clone(),
            next: 1,
        })
    }

    /// What the kernel enforces.
    pub fn report(&self) -> &EnforcementReport {
        &self.report
    }

    /// Starts a command; its terminal's master, if it has one.
    ///
    /// # Errors
    ///
    /// [`SandboxError::NotHeld`] when the command is confined otherwise than this sandbox, its
    /// environment aside; else as for a sandbox of its own. Then the command did not run.
    pub fn start(
        &mut self,
        command: SandboxedCommand,
        stdio: Stdio,
    ) -> Result<(CommandId, Option<OwnedFd>), SandboxError> {
        let Confinement {
            filesystem,
            network,
            powers,
            limits,
            environment: _,
            requirement,
        } = command.confinement();
        let own = &self.confinement;
        let same = *filesystem == own.filesystem
            && *network == own.network
            && *powers == own.powers
            && *limits == own.limits
            && *requirement == own.requirement;
        if !same {
            return Err(SandboxError::NotHeld {
                backend: "shared sandbox",
                what: "the command's confinement is another one".to_owned(),
            });
        }
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        let terminal = matches!(stdio, Stdio::Terminal);
        let master = self.tree.start(&command.into_start(id, terminal), stdio)?;
        Ok((CommandId(id), master))
    }

    /// Readable when [`Shared::event`] has something to say.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.tree.channel.as_fd()
    }

    /// Whether an event is at hand that came while a command was started.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        self.tree.has_pending()
    }

    /// Waits for the next event.
    ///
    /// # Errors
    ///
    /// [`SandboxError`] when init speaks nonsense.
    pub fn event(&mut self) -> Result<SharedEvent, SandboxError> {
        let notice = match self.tree.take_pending() {
            Some(Pending(notice)) => Some(notice),
            None => self.tree.channel.receive::<Notice>()?.map(|it| it.0),
        };
        match notice {
            Some(Notice::Ended { id, end, usage }) => {
                Ok(SharedEvent::Ended(CommandId(id), end, usage))
            }
            Some(Notice::MemoryExceeded { bytes }) => Ok(SharedEvent::MemoryExceeded(bytes)),
            Some(Notice::Failed(failure)) => Err(failure.into()),
            Some(_) => Err(SandboxError::Message),
            None => Ok(SharedEvent::Gone),
        }
    }

    /// Passes a signal to one command's process group.
    pub fn signal(&self, command: CommandId, number: i32) {
        let request = Request::Signal {
            id: command.0,
            number,
            everyone: false,
        };
        // If init is gone the next event says so.
        let _ = self.tree.channel.send(&request, &[]);
    }
}
