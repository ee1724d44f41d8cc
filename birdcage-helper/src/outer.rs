//! The outer stage: applies birdcage, starts the inner stage in it, and waits for its end.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};

use birdcage::process::Command;
use birdcage::{Birdcage, Exception, Sandbox as _};
use nix::sys::memfd::{MemFdCreateFlag, memfd_create};
use nix::unistd::{geteuid, pipe};

use crate::exit::{CANNOT_CONFINE, HelperError};
use crate::inner::{STARTED, descriptors, enter};
use crate::plan::Plan;

/// Where birdcage 0.8 mounts the new root: a fixed name in a folder that all users share.
const BIRDCAGE_ROOT: &str = "/tmp/birdcage-root";

/// Runs the plan in descriptor `fd` and gives the status to end with.
pub(crate) fn run(fd: &OsStr) -> Result<u8, HelperError> {
    let fd = fd.to_str().and_then(|it| it.parse::<i32>().ok());
    let fd = fd.ok_or(HelperError::Usage)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "it is asked only whether it is empty"
    )]
    let environment_is_empty = std::env::vars_os().next().is_none();
    if !environment_is_empty {
        return Err(HelperError::NotEmptyEnvironment);
    }
    let plan = Plan::read(fd)?;
    close_inherited()?;
    check_birdcage_root()?;
    let sandbox = sandbox(&plan)?;

    let handed = hand_over(&plan)?;
    let (report, reporter) = pipe().map_err(HelperError::io("make a pipe"))?;
    enter(&plan).map_err(HelperError::io("enter the working directory"))?;
    let mut command = Command::new(own_program()?);
    command.arg("--inside");
    command.arg(number(&handed)).arg(number(&reporter));
    let mut child = (sandbox.spawn(command)).map_err(|source| HelperError::Birdcage { source })?;
    drop(reporter);
    let status = child
        .wait()
        .map_err(HelperError::io("wait for the sandbox"))?;

    // Every writer has gone with the sandbox, so this does not block.
    let mut started = [0];
    match File::from(report).read(&mut started) {
        Ok(1) if started == [STARTED] => (),
        Ok(_) => return Err(HelperError::NeverStarted),
        Err(source) => {
            return Err(HelperError::io("read the inner stage's report")(source));
        }
    }
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).ok(),
        (None, Some(signal)) => u8::try_from(128 + signal).ok(),
        (None, None) => None,
    };
    Ok(code.unwrap_or(CANNOT_CONFINE))
}

fn sandbox(plan: &Plan) -> Result<Birdcage, HelperError> {
    let mut exceptions = Vec::new();
    for path in &plan.read {
        exceptions.push(Exception::ExecuteAndRead(path.to_path()));
    }
    for path in &plan.write {
        exceptions.push(Exception::WriteAndRead(path.to_path()));
        exceptions.push(Exception::ExecuteAndRead(path.to_path()));
    }
    exceptions.push(Exception::ExecuteAndRead(own_program()?));
    // It is empty, and otherwise birdcage would walk it and panic where it is not Unicode.
    exceptions.push(Exception::FullEnvironment);
    if plan.network {
        exceptions.push(Exception::Networking);
    }
    let mut sandbox = Birdcage::new();
    for exception in exceptions {
        sandbox
            .add_exception(exception)
            .map_err(|source| HelperError::Birdcage { source })?;
    }
    Ok(sandbox)
}

/// Closes what was inherited, the plan included. Nothing here has opened anything yet.
fn close_inherited() -> Result<(), HelperError> {
    for fd in descriptors()? {
        // The descriptor that listed the others is gone already.
        match nix::unistd::close(fd) {
            Ok(()) | Err(nix::errno::Errno::EBADF) => (),
            Err(errno) => return Err(HelperError::io("close a descriptor")(errno)),
        }
    }
    Ok(())
}

/// birdcage mounts over this folder whoever made it, and follows a link that lies there.
fn check_birdcage_root() -> Result<(), HelperError> {
    let Ok(found) = std::fs::symlink_metadata(BIRDCAGE_ROOT) else {
        return Ok(());
    };
    let ours = found.uid() == 0 || found.uid() == geteuid().as_raw();
    if found.is_dir() && ours {
        return Ok(());
    }
    Err(HelperError::ForeignRoot {
        path: Path::new(BIRDCAGE_ROOT).to_owned(),
    })
}

/// The plan in a memory file that the inner stage inherits.
fn hand_over(plan: &Plan) -> Result<OwnedFd, HelperError> {
    let fd = memfd_create(c"plan", MemFdCreateFlag::empty())
        .map_err(HelperError::io("make a memory file"))?;
    let text = serde_json::to_vec(plan).map_err(|source| HelperError::Plan { source })?;
    let mut file = File::from(fd);
    file.write_all(&text)
        .map_err(HelperError::io("write the memory file"))?;
    Ok(OwnedFd::from(file))
}

fn own_program() -> Result<PathBuf, HelperError> {
    std::env::current_exe().map_err(HelperError::io("find this program"))
}

fn number(fd: &OwnedFd) -> OsString {
    OsString::from(fd.as_raw_fd().to_string())
}
