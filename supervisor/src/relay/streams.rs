//! The streams that a relay serves, and how one of them can fail.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use thiserror::Error;

/// A stream, as an error names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Standard error.
    Stderr,
    /// Standard input.
    Stdin,
    /// Standard output.
    Stdout,
    /// What the child puts out on its pseudo-terminal.
    Terminal,
}

impl std::fmt::Display for Stream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Stderr => "standard error",
            Self::Stdin => "standard input",
            Self::Stdout => "standard output",
            Self::Terminal => "the terminal",
        })
    }
}

/// A stream could not be served.
///
/// The stream that is named is closed, towards the child too; the others stand, and the
/// relay may be used on. What the child does next is the caller's to decide.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(crate) enum RelayError {
    /// The descriptors could not be waited for; no byte was moved.
    #[error("cannot wait for the command's streams")]
    Poll {
        /// The kernel's answer.
        source: io::Error,
    },
    /// Bytes could not be read; those read before were passed on or are lost with the lane.
    #[error("cannot read {stream}")]
    Read {
        /// The stream.
        stream: Stream,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A descriptor could not be made ready; nothing was moved, the child's ends are closed.
    #[error("cannot set up {stream}")]
    SetUp {
        /// The stream.
        stream: Stream,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Bytes could not be written, for example because the disk is full; up to 64 KiB that
    /// the child has written did not arrive.
    #[error("cannot write {stream}")]
    Write {
        /// The stream.
        stream: Stream,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Our ends of what the child reads and writes.
#[derive(Debug)]
pub(crate) enum ChildEnds {
    /// Pipes; a missing one is not relayed.
    Pipes {
        /// The write end of the child's standard input.
        stdin: Option<OwnedFd>,
        /// The read end of its standard output, or of both where one pipe serves for both.
        stdout: Option<OwnedFd>,
        /// The read end of its standard error.
        stderr: Option<OwnedFd>,
    },
    /// The master of the pseudo-terminal that is the child's three streams.
    Terminal {
        /// The master.
        master: OwnedFd,
    },
}

/// The user's three streams, and the child's.
#[derive(Debug)]
pub(crate) struct Streams<'user> {
    /// What the child has.
    pub(crate) child: ChildEnds,
    /// The user's standard input.
    pub(crate) stdin: BorrowedFd<'user>,
    /// The user's standard output.
    pub(crate) stdout: BorrowedFd<'user>,
    /// The user's standard error.
    pub(crate) stderr: BorrowedFd<'user>,
}
