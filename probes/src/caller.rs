//! A careless caller: leaks descriptors, environment and terminal into what it runs.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{WaitOptions, setsid, waitpid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::stage::Stage;
use crate::sys;

/// Number of the leaked file descriptor, open for reading.
pub(crate) const LEAKED_FILE: i32 = 8;
/// Number of the leaked directory descriptor.
pub(crate) const LEAKED_DIRECTORY: i32 = 9;
/// The environment variable that holds the canary.
pub(crate) const TOKEN: &str = "DEPLOY_TOKEN";

/// Runs `command` with everything leaked, and returns its exit code (128 and the signal's
/// number where one ended it).
pub(crate) fn call(stage: &Stage, command: &[OsString]) -> io::Result<u8> {
    let arguments: Result<Vec<CString>, _> = command
        .iter()
        .map(|it| CString::new(it.as_bytes()))
        .collect();
    let arguments = arguments?;
    let environment = environment(stage)?;
    let [program, ..] = arguments.as_slice() else {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    };
    let program = resolve(program)?;
    let file = File::open(stage.outside.join("leak.txt"))?;
    let directory = File::open(stage.outside.join("dir"))?;
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let slave = ptsname(&master, Vec::new())?;
    let slave = rustix::fs::open(&slave, OFlags::RDWR | OFlags::NOCTTY, Mode::empty())?;
    let pid = match sys::fork()? {
        sys::Fork::Child => {
            let placed = leak(&file, &directory, slave);
            if placed.is_ok() {
                sys::exec::execve(&program, &arguments, &environment);
            }
            sys::exit_now(127)
        }
        sys::Fork::Parent(pid) => pid,
    };
    drop(slave);
    loop {
        // The terminal is drained so that nothing written to it blocks.
        let mut polled = [PollFd::new(&master, PollFlags::IN)];
        let moment = Timespec {
            tv_sec: 0,
            tv_nsec: 20_000_000,
        };
        if poll(&mut polled, Some(&moment))? > 0 {
            let mut buffer = [0_u8; 4096];
            // EIO says that nobody has the other end open, which is no error here.
            if rustix::io::read(&master, &mut buffer).is_err() {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
        if let Some((_, status)) = waitpid(Some(pid), WaitOptions::NOHANG)? {
            let signal = status.terminating_signal().map(|it| it + 128);
            let code = status.exit_status().or(signal).unwrap_or(1);
            return Ok(u8::try_from(code).unwrap_or(1));
        }
    }
}

fn leak(file: &File, directory: &File, slave: rustix::fd::OwnedFd) -> io::Result<()> {
    setsid()?;
    sys::terminal::take_terminal(&slave, false)?;
    sys::exec::place(slave, 0)?;
    sys::exec::place(file, LEAKED_FILE)?;
    sys::exec::place(directory, LEAKED_DIRECTORY)
}

/// Secrets, addresses of agents, and variables that are code to the programs that read them.
fn environment(stage: &Stage) -> io::Result<Vec<CString>> {
    let canary = &stage.canary;
    let socket = stage.unix_stream.display();
    let bin = stage.workspace.join("bin");
    let variables = [
        format!("{TOKEN}={canary}"),
        format!("AWS_SECRET_ACCESS_KEY={canary}"),
        format!("GITHUB_TOKEN={canary}"),
        format!("SSH_AUTH_SOCK={socket}"),
        format!("GPG_AGENT_INFO={socket}"),
        format!("DBUS_SESSION_BUS_ADDRESS=unix:path={socket}"),
        format!("XDG_RUNTIME_DIR={}", stage.root.join("sockets").display()),
        format!("DOCKER_HOST=unix://{socket}"),
        "DISPLAY=:0".to_owned(),
        "WAYLAND_DISPLAY=wayland-0".to_owned(),
        "LD_PRELOAD=libc.so.6".to_owned(),
        "LD_LIBRARY_PATH=/usr/lib".to_owned(),
        "BASH_ENV=/dev/null".to_owned(),
        "ENV=/dev/null".to_owned(),
        "GIT_SSH_COMMAND=true".to_owned(),
        "GIT_CONFIG_COUNT=0".to_owned(),
        "NODE_OPTIONS=--no-warnings".to_owned(),
        "PYTHONSTARTUP=/dev/null".to_owned(),
        "PERL5OPT=-w".to_owned(),
        "RUBYOPT=-W0".to_owned(),
        "JAVA_TOOL_OPTIONS=".to_owned(),
        "PROMPT_COMMAND=:".to_owned(),
        "EDITOR=true".to_owned(),
        "PAGER=cat".to_owned(),
        "HTTPS_PROXY=http://user:secret@127.0.0.1:9".to_owned(),
        format!("HOME={}", stage.home.display()),
        format!(
            "PATH={}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            bin.display()
        ),
        "TERM=dumb".to_owned(),
        "LANG=C.UTF-8".to_owned(),
    ];
    variables
        .into_iter()
        .map(|it| CString::new(it).map_err(Into::into))
        .collect()
}

/// Looks a bare name up in the system's folders; anything with a slash stays as it is.
fn resolve(program: &CString) -> io::Result<CString> {
    let name = OsString::from_vec(program.as_bytes().to_vec());
    if program.as_bytes().contains(&b'/') {
        return Ok(program.clone());
    }
    let folders = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];
    let found = folders
        .iter()
        .map(|it| Path::new(it).join(&name))
        .find(|it| it.is_file());
    let found = found.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
    Ok(CString::new(found.as_os_str().as_bytes())?)
}
