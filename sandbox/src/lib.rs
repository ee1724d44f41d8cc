//! Kernel confinement of child processes: namespaces, mounts, Landlock, seccomp, limits.
//!
//! A [`Confinement`] names every dimension of what a child gets. A back end turns it into a
//! [`Prepared`] sandbox whose init has confined itself completely; only then does a command
//! start in it, as a child that inherits the confinement.
//!
//! ```text
//! Confinement ──prepare──► Prepared ──start(SandboxedCommand)──► Running ──► Ended
//!                             │                                    │
//!                             └── EnforcementReport                └── events, streams
//! ```
//!
//! # Terminology
//!
//! - *supervisor*: the process that asks; it is trusted.
//! - *init*: the first process of a sandbox; it builds the view, confines itself, starts the
//!   payload, reaps, and its end is the end of everything inside.
//! - *payload*: the command and all it starts; it is hostile.
//! - *reaper*: outlives the supervisor and removes what a killed one leaves on the host.
//! - *grant*, *mask*, *pin*: a host tree that appears inside; a name that appears empty; a
//!   mount that keeps a directory from being renamed.
//!
//! # Invariants
//!
//! - **Nothing runs unconfined.** The payload is forked from an init that is already confined.
//! - **No policy.** This crate knows the kernel; what is granted, and why, is decided elsewhere.
//! - **All `unsafe` is in `sys`.** One system call for each function, and no decision.
//!
//! Absent on purpose: asynchronous code, TOML, globs, and following symbolic links.

mod backend;
mod bare;
mod bwrap;
mod cgroup;
mod channel;
mod command;
mod confinement;
mod error;
mod filesystem;
mod host_program;
mod identity;
mod init;
mod limits;
mod lockdown;
mod message;
mod native;
mod path;
mod plan;
mod pool;
pub mod probe;
mod reaper;
mod report;
mod resident;
mod running;
mod scratch;
pub mod seatbelt;
pub mod seccomp;
mod serve;
mod shared;
pub mod stage;
pub mod staging;
mod step;
mod sys;
mod view;
pub mod zygote;

pub use backend::{Backend, Host};
pub use bare::Landlock;
pub use bwrap::Bwrap;
pub use command::{SandboxedCommand, Stdio};

pub use confinement::{
    Confinement, ConfinementError, Environment, Isolation, NeedsEnvironment, NeedsFilesystem,
    NeedsLimits, NeedsNetwork, NeedsPowers, NeedsRequirement, Network, Powers, Requirement,
};
pub use error::SandboxError;
pub use filesystem::{Access, File, Filesystem, Grant, Link, Staging};
pub use identity::RESERVED_ID;
pub use limits::{LimitKind, LimitStatus, Limits};
pub use message::{End, Usage};
pub use native::Native;
pub use path::{AbsPath, AbsPathError};
pub use pool::Pool;
pub use report::{EnforcementReport, Layer, LayerStatus};
pub use running::{Event, Prepared, Running};
pub use shared::{CommandId, Shared, SharedEvent};
pub use sys::signal;
