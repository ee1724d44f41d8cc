//! What supervisor, zygote and init say to each other.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use crate::confinement::Environment;
use crate::path::AbsPath;
use crate::report::{Layer, LayerStatus};
use crate::step::Failure;

/// To init.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Join the control groups whose files travel with it. Sent once, to an init that builds
    /// its own view, before it is confined.
    Join {
        /// Whether init watches the memory of the tree, for want of a group that holds it.
        poll_memory: bool,
    },
    /// Start a command. With it travel a sealed [`Start`] and, without a terminal, the three
    /// standard descriptors.
    Start,
    /// Send a signal to the process group of the command `id`, or to every process.
    Signal {
        id: u32,
        number: i32,
        everyone: bool,
    },
}

/// A command, and how it starts.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) id: u32,
    pub(crate) program: OsString,
    /// All arguments, the zeroth included.
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Environment,
    pub(crate) workdir: AbsPath,
    /// Whether init opens a terminal for it.
    pub(crate) terminal: bool,
    pub(crate) umask: u32,
}

/// From init.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Notice {
    /// The command `id` ended, and this is what it and its children used.
    Ended { id: u32, end: End, usage: Usage },
    /// A step of building failed; init is gone.
    Failed(Failure),
    /// The tree used more memory than it may, and was ended.
    MemoryExceeded { bytes: u64 },
    /// The command `id` could not be started.
    NotStarted { id: u32, errno: i32 },
    /// Init is confined and waits for commands.
    Ready {
        layers: Vec<(Layer, LayerStatus)>,
        notes: Vec<String>,
    },
    /// The command `id` runs; with it travels the terminal's master, if it has a terminal.
    Started { id: u32 },
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "wait(2) knows no third end")]
pub enum End {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
}

/// What a command and the children it waited for used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time in user mode, in microseconds.
    pub user_micros: u64,
    /// Processor time in the kernel, in microseconds.
    pub system_micros: u64,
    /// Largest resident set of one process, in KiB.
    pub resident_kib: u64,
}
