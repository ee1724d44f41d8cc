//! The inner stage: confined already, it reports that, and becomes the command.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use crate::exit::HelperError;
use crate::plan::Plan;

/// The byte that the inner stage sends when nothing is left to do but to execute.
pub(crate) const STARTED: u8 = b'S';

/// Executes the command of the plan in descriptor `plan`, after a word to `report`.
///
/// Comes back only if that fails.
pub(crate) fn run(plan: &OsStr, report: &OsStr) -> Result<u8, HelperError> {
    let number = |fd: &OsStr| fd.to_str().and_then(|it| it.parse::<i32>().ok());
    let (Some(plan), Some(report)) = (number(plan), number(report)) else {
        return Err(HelperError::Usage);
    };
    let plan = Plan::read(plan)?;
    let mut report = File::options()
        .write(true)
        .open(format!("/proc/self/fd/{report}"))
        .map_err(HelperError::io("open the report"))?;
    // birdcage goes to `/` when the working directory is not there; that is not what was asked.
    enter(&plan).map_err(HelperError::io("enter the working directory inside"))?;
    for fd in descriptors()? {
        match fcntl(fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)) {
            Ok(_) | Err(nix::errno::Errno::EBADF) => (),
            Err(errno) => return Err(HelperError::io("mark a descriptor")(errno)),
        }
    }
    let mut argv = plan.argv.iter().map(|it| it.to_os_string());
    let program = argv.next().ok_or(HelperError::NoProgram)?;
    report
        .write_all(&[STARTED])
        .map_err(HelperError::io("report"))?;
    #[expect(
        clippy::disallowed_methods,
        reason = "this process is confined and becomes the command"
    )]
    let mut command = std::process::Command::new(&program);
    let env = plan.env.iter();
    let source = command
        .args(argv)
        .env_clear()
        .envs(env.map(|(name, value)| (name.to_os_string(), value.to_os_string())))
        .exec();
    Err(HelperError::Execute {
        program: program.to_string_lossy().escape_debug().to_string(),
        source,
    })
}

/// Enters the plan's working directory.
pub(crate) fn enter(plan: &Plan) -> io::Result<()> {
    #[expect(
        clippy::disallowed_methods,
        reason = "neither birdcage nor exec takes a folder, and this process does nothing else"
    )]
    std::env::set_current_dir(plan.cwd.to_path())
}

/// The numbers of all open descriptors but the standard three.
pub(crate) fn descriptors() -> Result<Vec<i32>, HelperError> {
    let failed = HelperError::io("list the open descriptors");
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd").map_err(&failed)? {
        let name = entry.map_err(&failed)?.file_name();
        let number = name.to_str().and_then(|it| it.parse::<i32>().ok());
        all.extend(number.filter(|fd| *fd > 2));
    }
    Ok(all)
}
