//! One step of building a sandbox, and how its failure is told across a socket.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::SandboxError;
use crate::path::AbsPath;

/// A step that failed in the sandbox's init.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) stage: String,
    pub(crate) path: Option<AbsPath>,
    pub(crate) errno: i32,
}

/// Names the step in which an error of the kernel arose.
pub(crate) trait Stage<T> {
    /// The step was `stage`.
    fn stage(self, stage: &str) -> Result<T, Failure>;
    /// The step was `stage`, and it concerned `path`.
    fn stage_at(self, stage: &str, path: &Path) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> Stage<T> for Result<T, E> {
    fn stage(self, stage: &str) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(stage, None, &error.into()))
    }

    fn stage_at(self, stage: &str, path: &Path) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(stage, AbsPath::new(path).ok(), &error.into()))
    }
}

impl Failure {
    pub(crate) fn new(stage: &str, path: Option<AbsPath>, error: &io::Error) -> Self {
        Self {
            stage: stage.to_owned(),
            path,
            errno: error.raw_os_error().unwrap_or(libc::EIO),
        }
    }
}

impl From<Failure> for SandboxError {
    fn from(failure: Failure) -> Self {
        let Failure { stage, path, errno } = failure;
        match (errno, path) {
            // A link, or nothing, where planning saw a real name.
            (libc::ELOOP | libc::ESTALE, Some(path)) => Self::PathChanged {
                path: path.to_path_buf(),
            },
            (errno, path) => Self::Build {
                stage,
                path: path.map(|it| it.to_path_buf()),
                source: io::Error::from_raw_os_error(errno),
            },
        }
    }
}
