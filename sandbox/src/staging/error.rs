//! Why staged work could not be read, applied or thrown away as a whole.

use std::io;

use rustix::io::Errno;
use thiserror::Error;

use super::escape::escape;

/// An operation on a stage stopped. What one path met is no error: see [`super::Outcome`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StagingError {
    /// The name cannot be a folder of ours; nothing was touched.
    #[error("`{id}` is no stage name: use letters, digits, `-` and `_`, at most 64")]
    BadId {
        /// The name, escaped.
        id: String,
    },
    /// The calling process could not restrict itself; it has read nothing yet.
    #[error("cannot restrict this process with Landlock")]
    Confine {
        /// What the kernel or the crate answered.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A stage of this name is there already; it was not touched.
    #[error("stage `{id}` exists already: apply or discard it first")]
    Exists {
        /// Its name.
        id: String,
    },
    /// The observer asked to stop. What is done so far is kept; apply again to go on.
    #[error("applying stopped after {steps} steps: run it again to go on")]
    Interrupted {
        /// Steps that were finished.
        steps: usize,
    },
    /// A running session holds the stage; nothing was touched.
    #[error("stage `{id}` belongs to a running session: end it first")]
    InUse {
        /// Its name.
        id: String,
    },
    /// A system call failed in a way that no single path accounts for.
    #[error("cannot {action} `{path}`")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what, escaped for a terminal.
        path: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A record of ours does not read back; the work beneath it was not touched.
    #[error("the record `{record}` of stage `{id}` is damaged: discard the stage")]
    Record {
        /// Which file.
        record: &'static str,
        /// The stage's name.
        id: String,
    },
    /// No stage of that name.
    #[error("no stage `{id}`: see `stockade changes list`")]
    Unknown {
        /// The name, escaped.
        id: String,
    },
    /// The workspace's path leads to another directory now; nothing was read or applied.
    #[error("`{path}` is not the directory that stage `{id}` was made from: move it back")]
    WorkspaceReplaced {
        /// The workspace's path, escaped.
        path: String,
        /// The stage's name.
        id: String,
    },
}

impl StagingError {
    /// Wraps a system call's answer with what was tried on which path.
    pub(super) fn io(action: &'static str, path: &[u8], source: Errno) -> Self {
        Self::Io {
            action,
            path: escape(path),
            source: source.into(),
        }
    }
}
