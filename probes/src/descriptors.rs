//! Probes on descriptors that a careless caller left open: 8, a file, and 9, a directory.

use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags};

use crate::attempt::{Attempt, Preserve, Stop, contains, refused, worked};
use crate::caller::{LEAKED_DIRECTORY, LEAKED_FILE};
use crate::probe::{Class::Descriptors, Probe};
use crate::stage::Stage;
use crate::sys::{exec, memory};

#[rustfmt::skip] // One row for each probe: this is a table.
pub(crate) const PROBES: &[Probe] = &[
    Probe::held("fs16_inherited_dirfd", Descriptors, "Creates a file by a leaked directory.", create_by_directory),
    Probe::held("fs17_inherited_fd_read", Descriptors, "Reads a leaked file.", read_leaked),
    Probe::held("fs18_reopen_fd_rw", Descriptors, "Opens a leaked file again for writing.", reopen),
    Probe::held("fs53_mmap_shared", Descriptors, "Writes a leaked file through shared memory.", map_shared),
    Probe::held("fd01_any_extra", Descriptors, "Finds any descriptor beyond the standard ones.", any_extra),
    Probe::held("fd02_fchdir", Descriptors, "Enters a leaked directory and climbs out of it.", enter_and_climb),
    Probe::held("fd03_proc_self_fd", Descriptors, "Names a file below a leaked directory by its link.", by_link),
    Probe::held("fd04_read_by_directory", Descriptors, "Reads a file by a leaked directory.", read_by_directory),
    Probe::held("fd05_unlink_by_directory", Descriptors, "Renames a file by a leaked directory.", rename_by_directory),
    Probe::held("fd06_fchmod", Descriptors, "Changes the mode of a leaked file.", change_mode),
    Probe::held("fd07_flock", Descriptors, "Locks a leaked file against its owner.", lock),
];

/// The leaked descriptor, if it is the one that the stage's caller leaked: inside, the number
/// may stand for something of the sandbox's own.
fn leaked(stage: &Stage, number: i32, name: &str) -> Result<OwnedFd, Stop> {
    use std::os::unix::fs::MetadataExt;
    let copy = exec::inherited(number)?;
    let here = rustix::fs::fstat(&copy)?;
    // Where the outside is hidden, any descriptor at that number counts.
    if let Ok(real) = fs::metadata(stage.outside.join(name))
        && (real.dev(), real.ino()) != (here.st_dev, here.st_ino)
    {
        return Err(Stop::Refused(
            "EBADF".to_owned(),
            "the number stands for another file".to_owned(),
        ));
    }
    Ok(copy)
}

fn file(stage: &Stage) -> Result<OwnedFd, Stop> {
    leaked(stage, LEAKED_FILE, "leak.txt")
}

fn directory(stage: &Stage) -> Result<OwnedFd, Stop> {
    leaked(stage, LEAKED_DIRECTORY, "dir")
}

fn create_by_directory(stage: &Stage) -> Attempt {
    let directory = directory(stage)?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
    rustix::fs::openat(&directory, "leaked-in", flags, Mode::from_raw_mode(0o644))?;
    if !stage.keep {
        rustix::fs::unlinkat(&directory, "leaked-in", rustix::fs::AtFlags::empty())?;
    }
    worked("created")
}

fn read_leaked(stage: &Stage) -> Attempt {
    let mut buffer = [0_u8; 256];
    let length = rustix::io::pread(file(stage)?, &mut buffer, 0)?;
    has_canary(stage, buffer.get(..length).unwrap_or_default())
}

fn has_canary(stage: &Stage, bytes: &[u8]) -> Attempt {
    if contains(bytes, stage.canary.as_bytes()) {
        worked("read the canary")
    } else {
        refused("EBADF", "other bytes")
    }
}

fn open_again(stage: &Stage) -> Result<File, Stop> {
    let copy = file(stage)?;
    let link = format!("/proc/self/fd/{}", copy.as_raw_fd());
    Ok(OpenOptions::new().read(true).write(true).open(link)?)
}

fn reopen(stage: &Stage) -> Attempt {
    open_again(stage)?;
    worked("open for writing")
}

/// Stores the byte that is there already, so only the times can change.
fn map_shared(stage: &Stage) -> Attempt {
    let _undo = Preserve::of(&stage.outside.join("leak.txt"));
    let file = open_again(stage)?;
    let first = stage.canary.as_bytes().first().copied().unwrap_or_default();
    memory::store_through_mapping(&file, first)?;
    worked("stored")
}

/// The pipe for the probe's own answer and the directory that is read are the only ones.
fn any_extra(_: &Stage) -> Attempt {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")?.flatten() {
        let number = entry
            .file_name()
            .to_string_lossy()
            .parse::<i32>()
            .unwrap_or(0);
        let target = fs::read_link(entry.path()).unwrap_or_default();
        let target = target.to_string_lossy();
        let is_own = target.starts_with("pipe:") || target.contains("/fd");
        if number > 2 && !is_own {
            found.push(number.to_string());
        }
    }
    if found.is_empty() {
        refused("EBADF", "none")
    } else {
        worked(found.join(", "))
    }
}

fn enter_and_climb(stage: &Stage) -> Attempt {
    rustix::process::fchdir(directory(stage)?)?;
    let bytes = fs::read(Path::new("../target.txt"))?;
    has_canary(stage, &bytes)
}

fn by_link(stage: &Stage) -> Attempt {
    let copy = directory(stage)?;
    let bytes = fs::read(format!("/proc/self/fd/{}/inner.txt", copy.as_raw_fd()))?;
    has_canary(stage, &bytes)
}

fn read_by_directory(stage: &Stage) -> Attempt {
    let inner = rustix::fs::openat(
        directory(stage)?,
        "inner.txt",
        OFlags::RDONLY,
        Mode::empty(),
    )?;
    let mut buffer = [0_u8; 256];
    let length = rustix::io::read(inner, &mut buffer)?;
    has_canary(stage, buffer.get(..length).unwrap_or_default())
}

fn rename_by_directory(stage: &Stage) -> Attempt {
    let directory = directory(stage)?;
    rustix::fs::renameat(&directory, "inner.txt", &directory, "inner.moved")?;
    rustix::fs::renameat(&directory, "inner.moved", &directory, "inner.txt")?;
    worked("renamed")
}

/// Sets the mode that the file has.
fn change_mode(stage: &Stage) -> Attempt {
    let file = file(stage)?;
    let mode = rustix::fs::fstat(&file)?.st_mode;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o7777))?;
    worked("may change it")
}

fn lock(stage: &Stage) -> Attempt {
    let file = file(stage)?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    rustix::fs::flock(&file, FlockOperation::Unlock)?;
    worked("locked")
}
