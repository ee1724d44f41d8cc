//! What the probes share: how an attempt ends, and how its traces are undone.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions};

use crate::errno;
use crate::stage::Stage;
use crate::sys::{Fork, exit_now, fork};

/// An attack that worked, with what it reached; or how it was stopped.
pub(crate) type Attempt = Result<String, Stop>;

/// Why an attack did not work.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The probe could not be made, and says nothing about the sandbox.
    Failed(String),
    /// It was stopped: errno's name and detail.
    Refused(String, String),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(number) => Self::Refused(errno::name(number), error.to_string()),
            None => Self::Failed(error.to_string()),
        }
    }
}

impl From<Errno> for Stop {
    fn from(error: Errno) -> Self {
        io::Error::from(error).into()
    }
}

impl From<std::ffi::NulError> for Stop {
    fn from(error: std::ffi::NulError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// The attack worked.
pub(crate) fn worked(detail: impl Into<String>) -> Attempt {
    Ok(detail.into())
}

/// The attack was stopped without an error of the kernel; `errno` is the nearest one.
pub(crate) fn refused(errno: &str, detail: impl Into<String>) -> Attempt {
    Err(Stop::Refused(errno.to_owned(), detail.into()))
}

/// The probe cannot tell.
pub(crate) fn failed(detail: impl Into<String>) -> Attempt {
    Err(Stop::Failed(detail.into()))
}

/// A path as the kernel takes it.
pub(crate) fn c_path(path: &Path) -> Result<CString, Stop> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// Reads a file to its end, 64 KiB at most, without waiting on a pipe.
pub(crate) fn read_some(path: &Path) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    let mut bytes = Vec::new();
    file.take(64 * 1024).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Works if the file at `path` holds the canary.
pub(crate) fn read_canary(path: &Path, canary: &str) -> Attempt {
    let bytes = read_some(path)?;
    if contains(&bytes, canary.as_bytes()) {
        return worked("read the canary");
    }
    refused(
        "ENOENT",
        format!("{} bytes without the canary: masked", bytes.len()),
    )
}

/// Whether `needle` occurs in `haystack`.
pub(crate) fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    !needle.is_empty() && haystack.windows(needle.len()).any(|it| it == needle)
}

/// Appends a line to an existing file and puts the file back.
pub(crate) fn append(path: &Path) -> Attempt {
    let _undo = Preserve::of(path);
    let mut file = OpenOptions::new().append(true).open(path)?;
    file.write_all(b"# probe\n")?;
    worked("appended a line")
}

/// Creates a file that must not exist, writes to it, and removes it unless the stage keeps.
pub(crate) fn create(stage: &Stage, path: &Path) -> Attempt {
    let _undo = Planted::new(stage, path);
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(b"planted by a probe\n")?;
    worked("created the file")
}

/// Whether this process is in the host's namespace of `kind` (`net`, `pid`, …), as the stage
/// recorded it; nothing where that cannot be read.
pub(crate) fn host_namespace(stage: &Stage, kind: &str) -> Option<bool> {
    let here = fs::metadata(format!("/proc/self/ns/{kind}")).ok()?.ino();
    Some(here == *stage.namespaces.get(kind)?)
}

/// The same, where doubt counts as the host's: a false alarm is better than a false pass.
pub(crate) fn in_host_namespace(stage: &Stage, kind: &str) -> bool {
    host_namespace(stage, kind).unwrap_or(true)
}

/// The victim's pid, if it can be the victim: inside a PID namespace the number may be ours.
pub(crate) fn victim(stage: &Stage) -> Result<Pid, Stop> {
    let number = stage.victim_pid;
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let parent = rustix::process::getppid().map_or(0, |it| it.as_raw_nonzero().get());
    match Pid::from_raw(number) {
        Some(pid) if number != own && number != parent && number != 1 => Ok(pid),
        _ => Err(Stop::Refused(
            "ESRCH".to_owned(),
            "the number names a process in here".to_owned(),
        )),
    }
}

/// The process that plays PID 1: the sandbox's init, or the victim where there is no PID
/// namespace, since the host's real PID 1 is nobody's to try.
pub(crate) fn init(stage: &Stage) -> Result<Pid, Stop> {
    if in_host_namespace(stage, "pid") {
        victim(stage)
    } else {
        Ok(Pid::INIT)
    }
}

/// Runs `action` in a child and returns its answer; a signal's name stands for an errno.
pub(crate) fn in_child(action: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    match fork()? {
        Fork::Child => {
            let code = match action() {
                Ok(()) => 0,
                Err(error) => error
                    .raw_os_error()
                    .and_then(|it| u8::try_from(it).ok())
                    .unwrap_or(255),
            };
            exit_now(code)
        }
        Fork::Parent(pid) => child_answer(pid),
    }
}

/// Waits for a child of [`in_child`]'s kind.
pub(crate) fn child_answer(pid: Pid) -> io::Result<()> {
    let status = rustix::process::waitpid(Some(pid), WaitOptions::empty())?.map(|(_, it)| it);
    match status.and_then(rustix::process::WaitStatus::exit_status) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code)),
        None => Err(io::Error::from_raw_os_error(libc::ENOSYS)),
    }
}

/// Waits.
pub(crate) fn pause(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// Puts a file's content, mode and times back when dropped, as far as it may.
pub(crate) struct Preserve {
    path: PathBuf,
    before: Option<(Vec<u8>, fs::Metadata)>,
}

impl Preserve {
    /// Remembers the file as it is now; where it cannot be read, nothing is put back.
    pub(crate) fn of(path: &Path) -> Self {
        let before = fs::metadata(path).ok().filter(fs::Metadata::is_file);
        let before = before.and_then(|it| Some((read_some(path).ok()?, it)));
        Self {
            path: path.to_owned(),
            before,
        }
    }
}

impl Drop for Preserve {
    fn drop(&mut self) {
        let Some((content, metadata)) = &self.before else {
            return;
        };
        // Undoing is best effort: `verify` reports what it could not undo.
        if read_some(&self.path).is_ok_and(|it| it != *content)
            && let Ok(mut file) = File::create(&self.path)
        {
            file.write_all(content).ok();
        }
        if fs::metadata(&self.path).is_ok_and(|it| it.mode() != metadata.mode()) {
            fs::set_permissions(&self.path, fs::Permissions::from_mode(metadata.mode())).ok();
        }
        if fs::metadata(&self.path).is_ok_and(|it| modified(&it) != modified(metadata)) {
            let access = Timespec {
                tv_sec: metadata.atime(),
                tv_nsec: metadata.atime_nsec(),
            };
            let modification = Timespec {
                tv_sec: metadata.mtime(),
                tv_nsec: metadata.mtime_nsec(),
            };
            let times = Timestamps {
                last_access: access,
                last_modification: modification,
            };
            rustix::fs::utimensat(CWD, &self.path, &times, AtFlags::empty()).ok();
        }
    }
}

fn modified(metadata: &fs::Metadata) -> (i64, i64) {
    (metadata.mtime(), metadata.mtime_nsec())
}

/// Removes what a probe created when dropped, unless the stage keeps it for the host to judge.
pub(crate) struct Planted {
    path: PathBuf,
    remove: bool,
}

impl Planted {
    /// Watches a path; if something is there already, it is not ours and stays.
    pub(crate) fn new(stage: &Stage, path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            remove: !stage.keep && fs::symlink_metadata(path).is_err(),
        }
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        if !self.remove {
            return;
        }
        let removed = match fs::symlink_metadata(&self.path) {
            Ok(it) if it.is_dir() => fs::remove_dir_all(&self.path),
            Ok(_) => fs::remove_file(&self.path),
            Err(_) => Ok(()),
        };
        // Undoing is best effort: `verify` reports what it could not undo.
        removed.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_probe_changed_or_planted_is_gone_afterwards_unless_it_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (file, planted) = (folder.path().join("file"), folder.path().join("planted"));
        fs::write(&file, "before").unwrap();
        let before = fs::metadata(&file).unwrap();
        let stage = Stage::example(folder.path());

        append(&file).unwrap();
        create(&stage, &planted).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"before");
        assert_eq!(modified(&fs::metadata(&file).unwrap()), modified(&before));
        assert!(!planted.exists());

        create(
            &Stage {
                keep: true,
                ..stage
            },
            &planted,
        )
        .unwrap();
        assert!(planted.exists(), "kept for the host to judge");
    }

    #[test]
    fn a_mask_is_a_refusal_and_so_is_an_errno() {
        let folder = tempfile::tempdir().unwrap();
        let mask = folder.path().join("mask");
        fs::write(&mask, "").unwrap();
        let is_refused = |attempt: Attempt, errno: &str| match attempt {
            Err(Stop::Refused(name, _)) => name == errno,
            _ => false,
        };
        assert!(is_refused(read_canary(&mask, "canary-x"), "ENOENT"));
        assert!(is_refused(
            read_canary(&folder.path().join("none"), "canary-x"),
            "ENOENT"
        ));
        fs::write(&mask, "TOKEN=canary-x").unwrap();
        read_canary(&mask, "canary-x").unwrap();
    }
}
