//! What can go wrong, and the status with which this program then ends.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use thiserror::Error;

/// The command could not be confined, or this program not used; the command did not run.
pub(crate) const CANNOT_CONFINE: u8 = 125;
/// The command was found but could not be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// There is no such command inside.
pub(crate) const NOT_FOUND: u8 = 127;

/// Why the command did not run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(crate) enum HelperError {
    /// birdcage refused.
    #[error("birdcage cannot confine")]
    Birdcage {
        /// Its reason.
        source: birdcage::error::Error,
    },
    /// The inner stage never reported; birdcage's init printed why.
    #[error("birdcage failed before the command could start")]
    NeverStarted,
    /// The fixed folder that birdcage mounts over belongs to somebody else.
    #[error("`{path}` belongs to another user or is no folder; remove it")]
    ForeignRoot {
        /// The folder.
        path: PathBuf,
    },
    /// An operation on the system failed.
    #[error("cannot {action}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The command could not be executed.
    #[error("cannot execute `{program}`")]
    Execute {
        /// The command's program.
        program: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The plan asks for nothing to run.
    #[error("the plan has an empty `argv`; name a program")]
    NoProgram,
    /// The environment is not empty.
    #[error("the environment is not empty; start this program with `env -i`")]
    NotEmptyEnvironment,
    /// birdcage, or this program, panicked.
    #[error("birdcage panicked before the command could be waited for")]
    Panicked,
    /// The plan is not one.
    #[error("the plan cannot be read")]
    Plan {
        /// Where and why.
        source: serde_json::Error,
    },
    /// The arguments are wrong.
    #[error("usage: stockade-birdcage FD, where FD is an open descriptor with a plan in JSON")]
    Usage,
}

impl HelperError {
    /// For `map_err`: names the action that failed.
    pub(crate) fn io<E: Into<io::Error>>(action: &'static str) -> impl Fn(E) -> Self {
        move |source| Self::Io {
            action,
            source: source.into(),
        }
    }

    pub(crate) fn status(&self) -> u8 {
        match self {
            Self::Execute { source, .. } if source.kind() == io::ErrorKind::NotFound => NOT_FOUND,
            Self::Execute { .. } => NOT_EXECUTABLE,
            _ => CANNOT_CONFINE,
        }
    }
}

/// Prints the chain of causes, if there is one, and gives the status.
pub(crate) fn code(result: Result<u8, HelperError>) -> ExitCode {
    let error = match result {
        Ok(status) => return ExitCode::from(status),
        Err(error) => error,
    };
    let mut message = format!("stockade-birdcage: {error}");
    let mut cause = std::error::Error::source(&error);
    while let Some(source) = cause {
        message.push_str(&format!(": {source}"));
        cause = source.source();
    }
    eprintln!("{message}");
    ExitCode::from(error.status())
}
