//! The plan: what to run, and what it may reach.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::exit::HelperError;

/// What to run, and what it may reach.
///
/// Unknown fields are errors: birdcage cannot hold a deny inside a grant, a limit or a
/// protected name, and a plan that asks for one must not run as if it had not.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    /// Trees that can be read and executed.
    pub(crate) read: Vec<Bytes>,
    /// Trees that can be read, executed and changed.
    pub(crate) write: Vec<Bytes>,
    /// Whether the host's network is there.
    pub(crate) network: bool,
    /// The whole environment of the command.
    pub(crate) env: Vec<(Bytes, Bytes)>,
    /// The program, looked up in the `PATH` of `env` if it has no slash, and its arguments.
    pub(crate) argv: Vec<Bytes>,
    /// The working directory.
    pub(crate) cwd: Bytes,
}

impl Plan {
    /// Reads a plan from a descriptor of this process, from its start.
    pub(crate) fn read(fd: i32) -> Result<Self, HelperError> {
        let mut text = Vec::new();
        File::open(format!("/proc/self/fd/{fd}"))
            .and_then(|mut file| file.read_to_end(&mut text))
            .map_err(HelperError::io("read the plan's descriptor"))?;
        let plan: Self =
            serde_json::from_slice(&text).map_err(|source| HelperError::Plan { source })?;
        if plan.argv.is_empty() {
            return Err(HelperError::NoProgram);
        }
        Ok(plan)
    }
}

/// A path or argument: a JSON string, or a list of bytes where it is not UTF-8.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum Bytes {
    /// UTF-8.
    Text(String),
    /// Anything.
    Raw(Vec<u8>),
}

impl Bytes {
    pub(crate) fn to_os_string(&self) -> OsString {
        match self {
            Self::Raw(bytes) => OsString::from_vec(bytes.clone()),
            Self::Text(text) => OsString::from(text),
        }
    }

    pub(crate) fn to_path(&self) -> PathBuf {
        PathBuf::from(self.to_os_string())
    }
}
