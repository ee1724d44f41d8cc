//! The list of sandboxes that run, for `stockade ps` and `stockade kill`.
//!
//! One file for each, in the state folder, locked for as long as its supervisor or the reaper
//! lives: what is not locked is a remnant of a crash of both, and is removed when it is seen.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};

/// What is known of a sandbox that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) id: String,
    /// Process id of the supervisor.
    pub(crate) pid: i32,
    /// Seconds since 1970.
    pub(crate) started: u64,
    pub(crate) profile: String,
    pub(crate) workspace: String,
    pub(crate) command: Vec<String>,
}

/// This process's own entry.
#[derive(Debug)]
pub(crate) struct Entry {
    path: PathBuf,
    /// Held open, and so locked.
    _file: File,
}

impl Entry {
    /// Writes and locks the entry of `run`.
    pub(crate) fn create(state: &Path, run: &Run) -> io::Result<Self> {
        fs::create_dir_all(folder(state))?;
        let path = path(state, &run.id);
        let file = File::create_new(&path)?;
        file.lock()?;
        // In one piece: whoever lists sees all of it.
        (&file).write_all(&serde_json::to_vec(run)?)?;
        Ok(Self { path, _file: file })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Where the entry of the run `id` lies, for the reaper to remove.
pub(crate) fn path(state: &Path, id: &str) -> PathBuf {
    folder(state).join(format!("{id}.json"))
}

fn folder(state: &Path) -> PathBuf {
    state.join("run")
}

/// The sandboxes that run, oldest first.
pub(crate) fn list(state: &Path) -> io::Result<Vec<Run>> {
    let entries = match fs::read_dir(folder(state)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut runs = Vec::new();
    for entry in entries.flatten() {
        let Ok(file) = File::open(entry.path()) else {
            continue;
        };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                if let Ok(run) = serde_json::from_reader::<_, Run>(&file) {
                    runs.push(run);
                }
            }
            Ok(()) => {
                let _ = fs::remove_file(entry.path());
            }
            Err(TryLockError::Error(_)) => (),
        }
    }
    runs.sort_by(|one, other| (one.started, &one.id).cmp(&(other.started, &other.id)));
    Ok(runs)
}

/// Sends a signal to the supervisor of `run`, which ends what it runs.
pub(crate) fn signal(state: &Path, run: &Run, signal: Signal) -> io::Result<()> {
    let pid = Pid::from_raw(run.pid).ok_or(io::ErrorKind::InvalidData)?;
    let process = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    // The lock is held still, so the process behind the descriptor is the one that took it.
    if !list(state)?.contains(run) {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(rustix::process::pidfd_send_signal(&process, signal)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: &str) -> Run {
        Run {
            id: id.to_owned(),
            pid: 1,
            started: 5,
            profile: "strict".to_owned(),
            workspace: "/w".to_owned(),
            command: vec!["true".to_owned()],
        }
    }

    #[test]
    fn an_entry_is_listed_while_it_is_held_and_gone_afterwards() {
        let state = tempfile::tempdir().unwrap();
        let entry = Entry::create(state.path(), &run("a")).unwrap();
        assert_eq!(list(state.path()).unwrap(), [run("a")]);
        drop(entry);
        assert_eq!(list(state.path()).unwrap(), []);
    }

    #[test]
    fn a_remnant_that_nobody_holds_is_removed() {
        let state = tempfile::tempdir().unwrap();
        let path = folder(state.path()).join("b.json");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        serde_json::to_writer(File::create(&path).unwrap(), &run("b")).unwrap();
        assert_eq!(list(state.path()).unwrap(), []);
        assert!(!path.exists());
    }
}
