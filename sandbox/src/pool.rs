//! Sandboxes that are prepared before they are asked for, each used once.
//!
//! A launch from the pool pays for the start of the command alone. While nobody waits, the
//! pool has its zygote make the next ones.
//!
//! # Invariants
//!
//! - **Used once.** [`Pool::start`] takes a sandbox out and never puts it back.
//! - **Never stale.** A sandbox is given out only for the very confinement it was made for,
//!   its environment aside, which the command brings. When the confinement changes, because
//!   policy or the set of protected or denied names did, what was prepared is discarded.
//! - **One session.** A pool belongs to one supervisor's session and is dropped with it.

use std::collections::VecDeque;

use crate::backend::Host;
use crate::command::{SandboxedCommand, Stdio};
use crate::confinement::{Confinement, Environment};
use crate::error::SandboxError;
use crate::report::{Layer, LayerStatus};
use crate::running::Running;
use crate::zygote::{Ordered, Zygote};

/// A pool over one zygote.
#[derive(Debug)]
pub struct Pool {
    zygote: Zygote,
    confinement: Confinement,
    layers: Vec<(Layer, LayerStatus)>,
    waiting: VecDeque<Ordered>,
    size: usize,
}

impl Pool {
    /// A pool of `size` sandboxes for `confinement`; [`Pool::refill`] fills it.
    #[must_use]
    pub fn new(
        zygote: Zygote,
        confinement: &Confinement,
        layers: Vec<(Layer, LayerStatus)>,
        size: usize,
    ) -> Self {
        Self {
            zygote,
            confinement: bare(confinement),
            layers,
            waiting: VecDeque::new(),
            size,
        }
    }

    /// How many are prepared, or being so.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Discards what was prepared unless it was for this very confinement.
    pub fn change(&mut self, confinement: &Confinement) {
        let confinement = bare(confinement);
        if confinement != self.confinement {
            self.waiting.clear();
            self.confinement = confinement;
        }
    }

    /// Has the zygote make what is missing; does not wait until it is done.
    ///
    /// # Errors
    ///
    /// [`SandboxError`], when one cannot be made; those that were made stay.
    pub fn refill(&mut self) -> Result<(), SandboxError> {
        while self.waiting.len() < self.size {
            let host = Host {
                layers: self.layers.clone(),
                ..Host::default()
            };
            let ordered = self.zygote.order(&self.confinement, host)?;
            self.waiting.push_back(ordered);
        }
        Ok(())
    }

    /// Starts a command in a prepared sandbox, or in a fresh one if none is.
    ///
    /// # Errors
    ///
    /// [`SandboxError`]; then the command did not run.
    pub fn start(
        &mut self,
        command: SandboxedCommand,
        stdio: Stdio,
    ) -> Result<Running, SandboxError> {
        self.change(command.confinement());
        let ordered = match self.waiting.pop_front() {
            Some(ordered) => ordered,
            None => {
                let host = Host {
                    layers: self.layers.clone(),
                    ..Host::default()
                };
                self.zygote.order(&self.confinement, host)?
            }
        };
        command.start_in(ordered.ready(&self.confinement)?, stdio)
    }
}

/// A confinement without its environment, which a prepared sandbox does not know.
fn bare(confinement: &Confinement) -> Confinement {
    Confinement {
        environment: Environment::new([]),
        ..confinement.clone()
    }
}
