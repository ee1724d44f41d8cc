//! What init does once it is confined: start commands, pass signals, reap, and end.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus};

use crate::channel::{self, Channel};
use crate::init::Fence;
use crate::limits::Limits;
use crate::message::{End, Notice, Request, Start, Usage};
use crate::plan::Plan;
use crate::resident;
use crate::step::{Failure, Stage};
use crate::sys;

/// How often the memory of the tree is added up, where no cgroup limits it.
const MEMORY_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

/// A command that runs.
struct Command {
    id: u32,
    pid: Pid,
}

/// Serves requests until the main command ended or the supervisor is gone.
pub(crate) fn serve(
    plan: &Plan,
    channel: &Channel,
    children: &OwnedFd,
    fence: Fence,
    poll_memory: bool,
    mut terminal: Option<Terminal>,
) -> Result<(), Failure> {
    let limits = &plan.confinement.limits;
    let memory = limits.memory.filter(|_| poll_memory);
    let mut commands: Vec<Command> = Vec::new();
    let mut started = false;
    loop {
        let mut watched = [
            PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(children.as_fd(), PollFlags::IN),
        ];
        let interval = memory.filter(|_| started).map(|_| &MEMORY_INTERVAL);
        match rustix::event::poll(&mut watched, interval) {
            Ok(_) | Err(Errno::INTR) => (),
            Err(other) => return Err(other).stage("waiting"),
        }
        let [asked, ended] = watched.map(|it| !it.revents().is_empty());
        if ended {
            let mut block = [0; 128 * 16];
            let _ = rustix::io::read(children, &mut block);
        }
        for (pid, end) in reap() {
            let Some(at) = commands.iter().position(|it| it.pid == pid) else {
                continue;
            };
            let Command { id, .. } = commands.swap_remove(at);
            let usage = usage();
            let last = commands.is_empty() && !plan.shared;
            if last {
                end_everything(fence);
                wait_for_all(fence);
            }
            let told = channel.send(&Notice::Ended { id, end, usage }, &[]);
            if last || told.is_err() {
                return Ok(());
            }
        }
        if let Some(most) = memory {
            let bytes = resident::bytes_of_tree(most, fence != Fence::Bare);
            if bytes > most {
                let _ = channel.send(&Notice::MemoryExceeded { bytes }, &[]);
                // Killed and not collected: the end of the command is noticed as any other.
                signal(&commands, 0, libc::SIGKILL, true, fence);
            }
        }
        if !asked {
            continue;
        }
        match channel.receive::<Request>() {
            Ok(Some((Request::Start, descriptors))) => {
                let terminal = terminal.take();
                if let Some(command) = start(plan, channel, descriptors, fence, terminal)? {
                    commands.push(command);
                    started = true;
                }
            }
            Ok(Some((
                Request::Signal {
                    id,
                    number,
                    everyone,
                },
                _,
            ))) => {
                signal(&commands, id, number, everyone, fence);
            }
            // It is joined already, or has its groups from elsewhere.
            Ok(Some((Request::Join { .. }, _))) => (),
            Ok(None) | Err(_) => {
                end_everything(fence);
                return Ok(());
            }
        }
    }
}

fn usage() -> Usage {
    let (user_micros, system_micros, resident_kib) =
        sys::process::usage_of_children().unwrap_or_default();
    Usage {
        user_micros,
        system_micros,
        resident_kib,
    }
}

/// Every child that has ended, orphans included.
fn reap() -> Vec<(Pid, End)> {
    let mut ended = Vec::new();
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        ended.extend(how(status).map(|end| (pid, end)));
    }
    ended
}

fn how(status: WaitStatus) -> Option<End> {
    status
        .exit_status()
        .map(End::Exited)
        .or_else(|| status.terminating_signal().map(End::Signaled))
}

/// Kills all that is left. In a PID namespace init's own end would do it as well.
fn end_everything(fence: Fence) {
    if fence == Fence::Bare {
        resident::kill_descendants();
    } else {
        signal_all(libc::SIGKILL);
    }
}

/// Waits until init is alone: whoever is told of the end can rely on it.
fn wait_for_all(fence: Fence) {
    // The orphans of a PID namespace are init's children in the end; elsewhere they were
    // hunted one by one.
    if fence == Fence::Bare {
        return;
    }
    while let Ok(_) | Err(Errno::INTR) = rustix::process::wait(WaitOptions::empty()) {}
}

fn signal_all(number: i32) {
    // In a PID namespace, kill(2) with -1 reaches all but init itself.
    sys::process::signal_everyone(number);
}

fn signal(commands: &[Command], id: u32, number: i32, everyone: bool, fence: Fence) {
    if everyone {
        if fence == Fence::Bare {
            resident::signal_descendants(number);
        } else {
            signal_all(number);
        }
        return;
    }
    let Some(command) = commands.iter().find(|it| it.id == id) else {
        return;
    };
    if let Some(signal) = Signal::from_named_raw(number) {
        // The command leads its own group.
        let _ = rustix::process::kill_process_group(command.pid, signal);
    }
}

/// Starts a command; `None` when it could not be started, which the supervisor is told.
///
/// `spare`: a terminal that was opened before, where none can be opened now.
fn start(
    plan: &Plan,
    channel: &Channel,
    mut descriptors: Vec<OwnedFd>,
    fence: Fence,
    spare: Option<Terminal>,
) -> Result<Option<Command>, Failure> {
    if descriptors.is_empty() {
        return Err(Errno::INVAL).stage("reading a command");
    }
    let sealed = descriptors.remove(0);
    let mut start: Start = channel::unseal(sealed.as_fd())
        .map_err(|_| Errno::INVAL)
        .stage("reading a command")?;
    drop(sealed);
    let limits = &plan.confinement.limits;
    if fence == Fence::Bare {
        crate::bare::adapt(&plan.confinement, &mut start.environment);
    }
    let terminal = match (start.terminal, spare) {
        (true, Some(spare)) => Some(spare),
        (true, None) => Some(open_terminal()?),
        (false, _) => None,
    };
    let (answer, report) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).stage("making a pipe")?;
    let Some(pid) = sys::process::fork().stage("starting a process")? else {
        let standard = match &terminal {
            Some((_, slave)) => Standard::Terminal(slave),
            None => Standard::Given(&descriptors),
        };
        let error = become_payload(&start, &standard, limits, fence, &report);
        let number = error.raw_os_error();
        let _ = rustix::io::write(&report, &number.to_ne_bytes());
        sys::process::exit(127);
    };
    drop(report);
    drop(descriptors);
    let mut block = [0; 4];
    // End of file: the pipe closed on exec, so the program runs.
    let failed = rustix::io::retry_on_intr(|| rustix::io::read(&answer, &mut block)) == Ok(4);
    if failed {
        let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
        let errno = i32::from_ne_bytes(block);
        let notice = Notice::NotStarted {
            id: start.id,
            errno,
        };
        channel
            .send(&notice, &[])
            .map_err(|_| Errno::PIPE)
            .stage("answering the supervisor")?;
        return Ok(None);
    }
    let master: Vec<_> = terminal.iter().map(|(master, _)| master.as_fd()).collect();
    channel
        .send(&Notice::Started { id: start.id }, &master)
        .map_err(|_| Errno::PIPE)
        .stage("answering the supervisor")?;
    Ok(Some(Command { id: start.id, pid }))
}

enum Standard<'a> {
    Given(&'a [OwnedFd]),
    Terminal(&'a OwnedFd),
}

/// A pseudo-terminal: master and slave.
pub(crate) type Terminal = (OwnedFd, OwnedFd);

/// A new pseudo-terminal of the sandbox's own `/dev/pts`.
pub(crate) fn open_terminal() -> Result<Terminal, Failure> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let master = rustix::fs::open("/dev/ptmx", flags, Mode::empty()).stage("opening a terminal")?;
    rustix::pty::unlockpt(&master).stage("unlocking a terminal")?;
    let name = rustix::pty::ptsname(&master, Vec::new()).stage("naming a terminal")?;
    let slave = rustix::fs::open(name, flags, Mode::empty()).stage("opening a terminal")?;
    Ok((master, slave))
}

/// Turns this forked child into the command; returns only the error if it cannot.
fn become_payload(
    start: &Start,
    standard: &Standard<'_>,
    limits: &Limits,
    fence: Fence,
    report: &OwnedFd,
) -> Errno {
    let prepared = prepare_payload(start, standard, limits, fence, report);
    match prepared {
        Err(error) => error,
        Ok(()) => exec(start),
    }
}

fn prepare_payload(
    start: &Start,
    standard: &Standard<'_>,
    limits: &Limits,
    fence: Fence,
    report: &OwnedFd,
) -> Result<(), Errno> {
    if fence == Fence::Bare {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    }
    rustix::process::setsid()?;
    let (stdin, stdout, stderr) = match standard {
        Standard::Terminal(slave) => {
            rustix::process::ioctl_tiocsctty(slave)?;
            (*slave, *slave, *slave)
        }
        Standard::Given(descriptors) => match descriptors {
            [stdin, stdout, stderr] => (stdin, stdout, stderr),
            _ => return Err(Errno::BADF),
        },
    };
    rustix::stdio::dup2_stdin(stdin)?;
    rustix::stdio::dup2_stdout(stdout)?;
    rustix::stdio::dup2_stderr(stderr)?;
    let keep = [0, 1, 2, std::os::fd::AsRawFd::as_raw_fd(report)];
    let raw = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    sys::process::close_except(&keep).map_err(raw)?;
    rustix::process::umask(Mode::from_raw_mode(start.umask));
    for (resource, most) in [
        (Resource::Nproc, limits.processes),
        (Resource::Cpu, limits.cpu_time),
        (Resource::Fsize, limits.file_size),
        (Resource::Nofile, limits.open_files),
        (Resource::Msgqueue, Some(0)),
        (Resource::Memlock, Some(64 * 1024 * 1024)),
    ] {
        lower(resource, most)?;
    }
    rustix::process::chdir(&*start.workdir)?;
    sys::process::reset_signals().map_err(raw)
}

/// Lowers a limit; never raises one.
fn lower(resource: Resource, most: Option<u64>) -> Result<(), Errno> {
    let Some(most) = most else { return Ok(()) };
    let now = rustix::process::getrlimit(resource);
    let most = now.maximum.map_or(most, |it| it.min(most));
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    rustix::process::setrlimit(resource, limit)
}

/// Finds the program in the view and becomes it, as execvp(3) does.
fn exec(start: &Start) -> Errno {
    let strings = |it: &mut dyn Iterator<Item = Vec<u8>>| -> Option<Vec<CString>> {
        it.map(|bytes| CString::new(bytes).ok()).collect()
    };
    let arguments = strings(&mut start.arguments.iter().map(|it| it.as_bytes().to_vec()));
    let variables = strings(
        &mut start
            .environment
            .iter()
            .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat()),
    );
    let (Some(arguments), Some(variables)) = (arguments, variables) else {
        return Errno::INVAL;
    };
    let path = start.environment.value("PATH").cloned().unwrap_or_default();
    let mut answer = Errno::NOENT;
    for candidate in candidates(&start.program, &path) {
        let Ok(candidate) = CString::new(candidate) else {
            return Errno::INVAL;
        };
        let error = sys::process::execve(&candidate, &arguments, &variables);
        let error = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        match error {
            Errno::NOENT | Errno::NOTDIR => (),
            // Another folder may have one that may be run; if not, this is the answer.
            Errno::ACCESS => answer = error,
            Errno::NOEXEC => return as_script(&candidate, &arguments, &variables),
            _ => return error,
        }
    }
    answer
}

/// A file without `#!` is a script for the shell, execvp(3).
fn as_script(file: &CString, arguments: &[CString], variables: &[CString]) -> Errno {
    let shell = c"/bin/sh";
    let mut all = vec![CString::from(shell), file.clone()];
    all.extend(arguments.iter().skip(1).cloned());
    let error = sys::process::execve(shell, &all, variables);
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// Where a program is looked for: at its path, or below each folder of `PATH`.
fn candidates(program: &OsStr, path: &OsStr) -> Vec<Vec<u8>> {
    let name = program.as_bytes();
    if name.contains(&b'/') {
        return vec![name.to_vec()];
    }
    if name.is_empty() {
        return Vec::new();
    }
    std::env::split_paths(path)
        // An empty entry would be the working directory, which the payload can write.
        .filter(|it| it.is_absolute())
        .map(|it| it.join(program).into_os_string().into_vec())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_for_in_absolute_entries_of_path_only() {
        let cases: [(&str, &str, &[&str]); 5] = [
            ("ls", "/usr/bin:/bin", &["/usr/bin/ls", "/bin/ls"]),
            ("ls", ":.:bin:/bin", &["/bin/ls"]),
            ("./ls", "/bin", &["./ls"]),
            ("/x/ls", "/bin", &["/x/ls"]),
            ("", "/bin", &[]),
        ];
        for (program, path, expected) in cases {
            let found = candidates(OsStr::new(program), OsStr::new(path));
            let expected: Vec<Vec<u8>> = expected.iter().map(|it| it.as_bytes().to_vec()).collect();
            assert_eq!(found, expected, "{program} in {path}");
        }
    }
}
