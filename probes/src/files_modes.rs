//! Probes on dangerous modes and on running what was just written.

use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, MemfdFlags, Mode, XattrFlags, makedev, memfd_create};
use rustix::process::{Signal, WaitOptions, kill_process, waitpid};

use crate::attempt::{Attempt, Planted, c_path, failed, in_child, pause, refused, worked};
use crate::probe::{Class::Files, Probe};
use crate::stage::Stage;
use crate::sys::{self, Fork};

#[rustfmt::skip] // One row for each probe: this is a table.
pub(crate) const PROBES: &[Probe] = &[
    Probe::held("fs27_mknod_dev", Files, "Creates a character device in the workspace.", mknod_dev),
    Probe::held("fs36_setuid_bin", Files, "Gains privileges from a set-uid program.", setuid_bin),
    Probe::held("fs37_leave_setuid", Files, "Leaves a set-uid file behind by chmod.", leave_setuid),
    Probe::by_policy("fs44_exec_from_ws", Files, "Runs a file written in the workspace.", exec_from_ws),
    Probe::held("fm01_fchmod_setuid", Files, "Leaves a set-uid file behind by fchmod.", fchmod_setuid),
    Probe::held("fm02_open_setuid", Files, "Creates a file that is set-uid from the start.", open_setuid),
    Probe::held("fm03_setgid", Files, "Leaves a set-gid program behind.", setgid),
    Probe::held("fm04_mkdir_setgid", Files, "Makes a directory set-gid.", setgid_directory),
    Probe::held("fm05_fchmodat2", Files, "Leaves a set-uid file behind by the newest chmod.", fchmodat2),
    Probe::held("fm06_mknod_setuid", Files, "Creates a set-uid file by mknod.", mknod_setuid),
    Probe::held("fm07_file_capability", Files, "Gives a file capabilities.", file_capability),
    Probe::held("fm08_mknod_block", Files, "Creates a block device in the workspace.", mknod_block),
    Probe::held("fm09_whiteout", Files, "Creates the device that an overlay takes for deletion.", whiteout),
    Probe::by_policy("pr12_memfd_exec", Files, "Runs code that was never a file.", memfd_exec),
    Probe::held("fm10_memfd_setuid", Files, "Makes a nameless file set-uid.", memfd_setuid),
];

/// A file of the probe's own in the workspace, and its removal.
fn own_file(stage: &Stage, name: &str) -> Result<(PathBuf, Planted), crate::attempt::Stop> {
    let path = stage.workspace.join(name);
    let undo = Planted::new(stage, &path);
    fs::write(&path, "#!/bin/sh\n")?;
    Ok((path, undo))
}

fn has_mode(path: &Path, bits: u32) -> Attempt {
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & bits == bits {
        return worked(format!("mode is {:o}", mode & 0o7777));
    }
    refused("EPERM", format!("mode is {:o}", mode & 0o7777))
}

fn mknod_dev(stage: &Stage) -> Attempt {
    device(stage, FileType::CharacterDevice, 1, 3)
}

fn mknod_block(stage: &Stage) -> Attempt {
    device(stage, FileType::BlockDevice, 7, 0)
}

fn whiteout(stage: &Stage) -> Attempt {
    device(stage, FileType::CharacterDevice, 0, 0)
}

fn device(stage: &Stage, kind: FileType, major: u32, minor: u32) -> Attempt {
    let path = stage.workspace.join("probe-device");
    let _undo = Planted::new(stage, &path);
    rustix::fs::mknodat(
        CWD,
        &path,
        kind,
        Mode::from_raw_mode(0o600),
        makedev(major, minor),
    )?;
    worked("node made")
}

fn mknod_setuid(stage: &Stage) -> Attempt {
    let path = stage.workspace.join("probe-mknod");
    let _undo = Planted::new(stage, &path);
    rustix::fs::mknodat(
        CWD,
        &path,
        FileType::RegularFile,
        Mode::from_raw_mode(0o4755),
        0,
    )?;
    has_mode(&path, 0o4000)
}

/// Starts a set-uid program of the system and looks whether it runs as root.
fn setuid_bin(_: &Stage) -> Attempt {
    if rustix::process::geteuid().is_root() {
        return refused("EPERM", "root already: nothing to gain");
    }
    let is_setuid =
        |path: &&&str| fs::metadata(path).is_ok_and(|it| it.permissions().mode() & 0o4000 != 0);
    let candidates = [
        "/usr/bin/su",
        "/bin/su",
        "/usr/bin/passwd",
        "/usr/bin/newgrp",
    ];
    let Some(program) = candidates.iter().find(is_setuid) else {
        return refused("ENOENT", "no set-uid program in sight");
    };
    let program = CString::new(*program)?;
    let (reader, _writer) = rustix::pipe::pipe()?;
    match sys::fork()? {
        Fork::Child => {
            // It waits for a password on a pipe that stays silent, and asks nobody for it.
            let quiet = OpenOptions::new().write(true).open("/dev/null");
            if sys::exec::place(&reader, 0).is_ok()
                && quiet.is_ok_and(|it| {
                    sys::exec::place(&it, 2).is_ok() && sys::exec::place(&it, 1).is_ok()
                })
            {
                sys::exec::execve(&program, std::slice::from_ref(&program), &[]);
            }
            sys::exit_now(127)
        }
        Fork::Parent(pid) => {
            pause(150);
            let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()));
            // It may have ended by itself.
            kill_process(pid, Signal::KILL).ok();
            waitpid(Some(pid), WaitOptions::empty())?;
            let status = status?;
            let ids = status
                .lines()
                .find(|it| it.starts_with("Uid:"))
                .unwrap_or_default();
            match ids.split_whitespace().nth(2) {
                Some("0") => worked("runs as root"),
                Some(other) => refused("EPERM", format!("runs as {other}")),
                None => failed("no uid in the status file"),
            }
        }
    }
}

fn leave_setuid(stage: &Stage) -> Attempt {
    let (path, _undo) = own_file(stage, "probe-setuid")?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4755))?;
    has_mode(&path, 0o4000)
}

fn fchmod_setuid(stage: &Stage) -> Attempt {
    let (path, _undo) = own_file(stage, "probe-fchmod")?;
    let file = OpenOptions::new().write(true).open(&path)?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(0o6755))?;
    has_mode(&path, 0o4000)
}

fn open_setuid(stage: &Stage) -> Attempt {
    let path = stage.workspace.join("probe-open");
    let _undo = Planted::new(stage, &path);
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o4755)
        .open(&path)?;
    has_mode(&path, 0o4000)
}

fn setgid(stage: &Stage) -> Attempt {
    let (path, _undo) = own_file(stage, "probe-setgid")?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o2755))?;
    has_mode(&path, 0o2000)
}

fn setgid_directory(stage: &Stage) -> Attempt {
    let path = stage.workspace.join("probe-setgid-dir");
    let _undo = Planted::new(stage, &path);
    fs::create_dir(&path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o2777))?;
    has_mode(&path, 0o2000)
}

fn fchmodat2(stage: &Stage) -> Attempt {
    let (path, _undo) = own_file(stage, "probe-fchmodat2")?;
    sys::files::fchmodat2(&c_path(&path)?, 0o4755)?;
    has_mode(&path, 0o4000)
}

fn file_capability(stage: &Stage) -> Attempt {
    let (path, _undo) = own_file(stage, "probe-capability")?;
    // `struct vfs_cap_data`, revision 2, effective, CAP_NET_RAW permitted.
    let mut value = [0_u8; 20];
    let (head, body) = value.split_at_mut(4);
    head.copy_from_slice(&0x0200_0001_u32.to_le_bytes());
    if let Some(permitted) = body.first_chunk_mut::<4>() {
        *permitted = (1_u32 << 13).to_le_bytes();
    }
    rustix::fs::setxattr(&path, "security.capability", &value, XattrFlags::empty())?;
    worked("capability set")
}

fn exec_from_ws(stage: &Stage) -> Attempt {
    let path = stage.workspace.join("probe-program");
    let _undo = Planted::new(stage, &path);
    let program = fs::read("/proc/self/exe")?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o755)
        .open(&path)?;
    file.write_all(&program)?;
    drop(file);
    run_program(&path)?;
    worked("it ran")
}

fn memfd_exec(_: &Stage) -> Attempt {
    let program = fs::read("/proc/self/exe")?;
    let nameless = memfd_create("probe", MemfdFlags::empty())?;
    let mut file = fs::File::from(nameless);
    file.write_all(&program)?;
    run_program(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))?;
    worked("it ran")
}

fn memfd_setuid(_: &Stage) -> Attempt {
    let nameless = memfd_create("probe", MemfdFlags::empty())?;
    rustix::fs::fchmod(&nameless, Mode::from_raw_mode(0o4755))?;
    worked("set-uid")
}

/// Runs a copy of this program with `--help`, its output thrown away.
fn run_program(path: &Path) -> Result<(), crate::attempt::Stop> {
    let program = c_path(path)?;
    let arguments = [program.clone(), CString::new("--help")?];
    let null = OpenOptions::new().write(true).open("/dev/null")?;
    in_child(|| {
        sys::exec::place(&null, 1)?;
        Err(sys::exec::execve(&program, &arguments, &[]))
    })?;
    Ok(())
}
