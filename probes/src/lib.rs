//! Hostile probes: each makes one attack or abuse, and says whether it worked.
//!
//! The same probe runs twice: *free*, where it must work, or it proves nothing on this kernel,
//! and *confined*, where it must be refused. A *stage* of victims and canaries is built
//! beforehand, so that no probe touches anything of the user's or of the host's.
//!
//! # Terminology
//!
//! - **worked**: the attack succeeded. Confined, that is a hole, unless policy allows it.
//! - **refused**: the kernel, the mounts or a missing target stopped it; the errno says how.
//! - **error**: the probe could not tell. Never counted as held.
//! - **free**: outside any sandbox.
//!
//! # Invariants
//!
//! - A probe that works changes nothing beyond the stage, and puts the stage back as it was,
//!   unless it is told to keep what it did so that the host side can judge it.
//! - Each probe runs in a process of its own, ends within a time limit, and is bounded in
//!   processes, memory and disk by the stage's limits.
//! - Details name no content of any file but the stage's own.
//! - All `unsafe` lies in `sys`.

mod attempt;
mod caller;
pub mod cli;
mod descriptors;
mod environment;
mod errno;
mod files;
mod files_git;
mod files_modes;
mod files_names;
mod kernel;
mod kernel_files;
mod lifecycle;
mod mounts;
mod probe;
mod processes;
mod resources;
mod run;
mod sockets;
mod sockets_local;
mod stage;
mod sys;
mod terminal;

pub use probe::{Class, Expect, Judge, Outcome, Probe, Report, Word, probes};
pub use stage::verify::Verdict;
pub use stage::{Limits, Stage, StageError};
