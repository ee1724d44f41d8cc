//! Why a sandbox could not be made or a command not be started in it.

use std::io;
use std::path::PathBuf;

/// A confinement could not be put in place, so the command was not started.
///
/// Every variant means *nothing ran*. There is no partial success to report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The running kernel or its settings lack a protection that is required.
    #[error("this machine does not offer {feature}")]
    Unsupported {
        /// The missing protection, as `docs/KERNEL_SUPPORT.md` names it.
        feature: String,
        /// What to do about it.
        remedy: String,
    },
    /// A step of building the sandbox failed.
    #[error("sandbox not built: {stage} failed{}", subject(.path))]
    Build {
        /// The step, in words.
        stage: String,
        /// The path it concerned.
        path: Option<PathBuf>,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A limit that the profile requires is not enforced here.
    #[error("limit `{limit}` is required but not enforced: {reason}")]
    LimitNotEnforced {
        /// The limit.
        limit: &'static str,
        /// Why not.
        reason: String,
    },
    /// A path was replaced between planning and building.
    #[error("`{}` changed while the sandbox was being built; run again", .path.display())]
    PathChanged {
        /// The path.
        path: PathBuf,
    },
    /// The back end can not hold what the confinement asks for.
    #[error("back end `{backend}` can not hold this: {what}")]
    NotHeld {
        /// The back end.
        backend: &'static str,
        /// The demand, with the path or line it came from.
        what: String,
    },
    /// The process that launches must have one thread.
    #[error("a process with {threads} threads can not launch a sandbox")]
    Threaded {
        /// Threads counted.
        threads: u64,
    },
    /// The sandbox's init ended before it answered.
    #[error("the sandbox ended while it was being built ({detail})")]
    InitDied {
        /// How it ended.
        detail: String,
    },
    /// The program could not be started inside.
    #[error("cannot start `{program}` in the sandbox")]
    Exec {
        /// The program, as given.
        program: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Talking to the sandbox's init failed.
    #[error("the sandbox's init can not be reached")]
    Channel {
        /// The kernel's answer.
        source: io::Error,
    },
    /// A message could not be encoded or decoded.
    #[error("a message between Stockade's own processes is malformed")]
    Message,
}

fn subject(path: &Option<PathBuf>) -> String {
    path.as_ref()
        .map(|it| format!(" for `{}`", it.display()))
        .unwrap_or_default()
}

impl SandboxError {
    /// The remedy, where the error knows one.
    #[must_use]
    pub fn help(&self) -> Option<&str> {
        match self {
            Self::Unsupported { remedy, .. } => Some(remedy),
            _ => None,
        }
    }

    pub(crate) fn build(stage: &str, source: impl Into<io::Error>) -> Self {
        Self::Build {
            stage: stage.to_owned(),
            path: None,
            source: source.into(),
        }
    }
}
