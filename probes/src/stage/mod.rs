//! The stage: victims, canaries and listeners on the host, and the file that names them all.
//!
//! `stockade-probe stage` builds it outside any sandbox and serves it until its standard input
//! closes. The probes read the stage file inside; `verify` compares the host with the baseline
//! afterwards.

pub(crate) mod build;
pub(crate) mod channels;
pub(crate) mod serve;
pub(crate) mod snapshot;
pub(crate) mod verify;
pub(crate) mod victim;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Where the probes find the stage file inside, below the workspace.
pub(crate) const INSIDE: &str = ".stage.json";

/// Everything a probe may aim at. Paths are those of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stage {
    /// A word that is in every name and text of this stage, and nowhere else.
    pub nonce: String,
    /// The secret that no confined probe may see.
    pub canary: String,
    /// The directory that holds all of it.
    pub root: PathBuf,
    /// The writable workspace, which looks like a repository.
    pub workspace: PathBuf,
    /// A home directory with keys and start-up files.
    pub home: PathBuf,
    /// Host files that must not change.
    pub outside: PathBuf,
    /// TCP listener on 127.0.0.1.
    pub tcp_port: u16,
    /// TCP listener on `::1`, where the host has it.
    pub tcp6_port: Option<u16>,
    /// An address of the host other than loopback, where it has one; same port as `tcp_any`.
    pub host_address: Option<String>,
    /// TCP listener on all addresses.
    pub tcp_any_port: u16,
    /// UDP on 127.0.0.1, which answers.
    pub udp_port: u16,
    /// UDP on 127.0.0.1, standing for a name server.
    pub dns_port: u16,
    /// UNIX stream socket that a docker daemon could listen on.
    pub unix_stream: PathBuf,
    /// UNIX datagram socket.
    pub unix_dgram: PathBuf,
    /// UNIX stream socket in the host's `/tmp`.
    pub tmp_stream: PathBuf,
    /// UNIX datagram socket in the host's `/tmp`.
    pub tmp_dgram: PathBuf,
    /// UNIX stream socket below `/run`, where the user may make one.
    pub run_stream: Option<PathBuf>,
    /// Name of an abstract stream socket, without the leading NUL.
    pub abstract_stream: String,
    /// Name of an abstract datagram socket, without the leading NUL.
    pub abstract_dgram: String,
    /// A process with the canary in its environment and memory.
    pub victim_pid: i32,
    /// Where in its memory the canary lies.
    pub victim_address: u64,
    /// Which of its descriptors has the outside target open.
    pub victim_fd: i32,
    /// Key of a System V segment with the canary.
    pub shm_key: i32,
    /// Name of a POSIX message queue, without the slash.
    pub mq_name: String,
    /// Description of a key in the user's keyring; empty where the host has none.
    pub key_name: String,
    /// A file with the canary in the host's `/tmp`.
    pub tmp_file: PathBuf,
    /// A file with the canary in the host's `/dev/shm`.
    pub shm_file: PathBuf,
    /// Device and inode of the host's `/tmp`.
    pub tmp_identity: (u64, u64),
    /// Device and inode of the host's `/dev/shm`.
    pub shm_identity: (u64, u64),
    /// A terminal of the host, and the device number of its `/dev/pts`.
    pub pts: Option<(PathBuf, u64)>,
    /// Inodes of the host's namespaces by kind.
    pub namespaces: BTreeMap<String, u64>,
    /// The host's network interfaces.
    pub interfaces: Vec<String>,
    /// The host's name.
    pub hostname: String,
    /// The host's `core_pattern`.
    pub core_pattern: String,
    /// The ceilings that the sandbox is expected to hold.
    pub limits: Limits,
    /// Leave in place what worked, so that the host can judge it. Set by `--keep`.
    #[serde(default)]
    pub keep: bool,
}

/// The ceilings that the resource probes try to pass, by a quarter and no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::exhaustive_structs,
    reason = "every limit is named by whoever stages"
)]
pub struct Limits {
    /// Processes at once.
    pub processes: u32,
    /// Memory touched, in bytes.
    pub memory: u64,
    /// Size of one file, in bytes.
    pub file_size: u64,
    /// Descriptors at once.
    pub open_files: u32,
    /// Size of `/tmp`, in bytes.
    pub tmp_size: u64,
}

/// What is left out of the workspace, because some sandbox refuses to start with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Omit {
    /// Denied files in the writable workspace.
    pub(crate) denied: bool,
    /// A git directory that is a symlink.
    pub(crate) linked: bool,
}

impl Omit {
    pub(crate) fn parse(words: &[String]) -> Result<Self, StageError> {
        let mut omit = Self::default();
        for word in words {
            match word.as_str() {
                "denied" => omit.denied = true,
                "linked" => omit.linked = true,
                _ => {
                    return Err(StageError::Omission {
                        given: word.clone(),
                    });
                }
            }
        }
        Ok(omit)
    }
}

impl Limits {
    /// Small ceilings that a free run passes without harm to a developer's machine.
    pub(crate) const HARMLESS: Self = Self {
        processes: 480,
        memory: 256 << 20,
        file_size: 1 << 30,
        open_files: 800,
        tmp_size: 64 << 20,
    };

    /// Sets one ceiling by name.
    pub(crate) fn set(&mut self, assignment: &str) -> Result<(), StageError> {
        let unknown = || StageError::Limit {
            given: assignment.to_owned(),
        };
        let (name, value) = assignment.split_once('=').ok_or_else(unknown)?;
        let value: u64 = value.parse().map_err(|_| unknown())?;
        let small = || u32::try_from(value).map_err(|_| unknown());
        match name {
            "processes" => self.processes = small()?,
            "memory" => self.memory = value,
            "file_size" => self.file_size = value,
            "open_files" => self.open_files = small()?,
            "tmp_size" => self.tmp_size = value,
            _ => return Err(unknown()),
        }
        Ok(())
    }
}

/// A stage could not be built, read or judged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StageError {
    /// A file operation failed; the stage may be half built and is removed on the way out.
    #[error("cannot set up `{path}`")]
    File {
        /// What was to be made or read.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A listener, process or key could not be made.
    #[error("cannot make the stage's {what}")]
    Channel {
        /// What was to be made.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The stage file is not one.
    #[error("`{path}` is not a stage file; make one with `stockade-probe stage`")]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The directory has content that is not ours.
    #[error("`{path}` is not empty; name a directory that does not exist yet")]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// The path cannot be written in JSON.
    #[error("`{path}` is not UTF-8; name another directory")]
    NotText {
        /// The path.
        path: PathBuf,
    },
    /// A part of the stage that cannot be left out.
    #[error("unknown part `{given}`; write denied or linked")]
    Omission {
        /// What was given.
        given: String,
    },
    /// A limit is unknown or not a number.
    #[error(
        "unknown limit `{given}`; write processes, memory, file_size, open_files or tmp_size, then `=NUMBER`"
    )]
    Limit {
        /// What was given.
        given: String,
    },
}

impl StageError {
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }

    pub(crate) fn channel(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Channel { what, source }
    }
}

impl Stage {
    /// Reads a stage file.
    ///
    /// # Errors
    ///
    /// Where the file cannot be read or is not a stage file.
    pub fn read(path: &Path) -> Result<Self, StageError> {
        let text = fs::read(path).map_err(StageError::file(path))?;
        serde_json::from_slice(&text).map_err(|source| StageError::Format {
            path: path.to_owned(),
            source,
        })
    }

    /// The file in which the listeners note what they received, on the host only.
    pub(crate) fn received_log(&self) -> PathBuf {
        self.root.join("received.log")
    }

    /// The file that holds the state of the host before the probes, on the host only.
    pub(crate) fn baseline(&self) -> PathBuf {
        self.root.join("baseline.json")
    }
}

#[cfg(test)]
impl Stage {
    /// A stage with nothing on it, for tests of what only needs one passed.
    pub(crate) fn example(root: &Path) -> Self {
        Self {
            nonce: "nonce".to_owned(),
            canary: "canary-nonce".to_owned(),
            root: root.to_owned(),
            workspace: root.join("workspace"),
            home: root.join("home"),
            outside: root.join("outside"),
            tcp_port: 1,
            tcp6_port: None,
            host_address: None,
            tcp_any_port: 1,
            udp_port: 1,
            dns_port: 1,
            unix_stream: root.join("none"),
            unix_dgram: root.join("none"),
            tmp_stream: root.join("none"),
            tmp_dgram: root.join("none"),
            run_stream: None,
            abstract_stream: "none".to_owned(),
            abstract_dgram: "none".to_owned(),
            victim_pid: 0,
            victim_address: 0,
            victim_fd: 0,
            shm_key: 0,
            mq_name: "none".to_owned(),
            key_name: String::new(),
            tmp_file: root.join("none"),
            shm_file: root.join("none"),
            tmp_identity: (0, 0),
            shm_identity: (0, 0),
            pts: None,
            namespaces: BTreeMap::new(),
            interfaces: Vec::new(),
            hostname: String::new(),
            core_pattern: String::new(),
            limits: Limits::HARMLESS,
            keep: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_file_reads_back_and_one_of_another_kind_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stage.json");
        let stage = Stage::example(folder.path());
        fs::write(&path, serde_json::to_vec(&stage).unwrap()).unwrap();
        assert_eq!(Stage::read(&path).unwrap(), stage);
        fs::write(&path, "{}").unwrap();
        let error = Stage::read(&path).unwrap_err().to_string();
        assert!(
            error.contains("stage.json") && error.contains("stockade-probe stage"),
            "{error}"
        );
    }

    #[test]
    fn limits_are_set_by_name_and_anything_else_is_an_error_that_names_it() {
        let mut limits = Limits::HARMLESS;
        limits.set("memory=1024").unwrap();
        assert_eq!(
            limits,
            Limits {
                memory: 1024,
                ..Limits::HARMLESS
            }
        );
        for bad in ["memory", "memory=x", "speed=1", "processes=99999999999"] {
            let error = limits.set(bad).unwrap_err().to_string();
            assert!(error.contains(bad), "{error}");
        }
    }
}
