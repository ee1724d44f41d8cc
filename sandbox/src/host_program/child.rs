//! A program of the host that runs beside Stockade, with everything it gets named.

use std::ffi::{CString, OsStr, OsString};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{Signal, WaitId, WaitIdOptions};

use super::{null, read_until, words};
use crate::path::AbsPath;
use crate::sys::process::{self, Fork};

/// A program of the host, and everything that it gets.
///
/// The one way to run something outside a sandbox, for programs of Stockade itself and those
/// that its configuration names; never for what a payload or a workspace asks for. It starts
/// in a session of its own with default signals, no descriptor but the standard three, and
/// exactly the variables that are named.
#[derive(Clone, Debug)]
pub struct HostProgram {
    program: AbsPath,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    directory: AbsPath,
    errors: Option<std::sync::Arc<OwnedFd>>,
}

/// A program of the host that runs. Dropping it kills it.
#[derive(Debug)]
pub struct HostProcess {
    pidfd: OwnedFd,
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    pending: Vec<u8>,
    ended: Option<HostEnd>,
}

/// How a program of the host ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "waitid(2) knows no third way to end"
)]
pub enum HostEnd {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
}

/// Whose end takes the program along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tie {
    /// Ours: it is killed when this process dies.
    ToUs,
    /// Nobody's: it has to notice the end of its standard input.
    ToInput,
}

impl HostProgram {
    /// The program at `program`, with these arguments, no variables, in `/`.
    ///
    /// # Errors
    ///
    /// Never in practice: `/` is a path in normal form.
    pub fn new(
        program: AbsPath,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, crate::AbsPathError> {
        Ok(Self {
            program,
            arguments: arguments.into_iter().collect(),
            variables: Vec::new(),
            directory: AbsPath::new("/")?,
            errors: None,
        })
    }

    /// Exactly these variables.
    #[must_use]
    pub fn variables(mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        self.variables = variables.into_iter().collect();
        self
    }

    /// The directory in which it starts.
    #[must_use]
    pub fn directory(mut self, directory: AbsPath) -> Self {
        self.directory = directory;
        self
    }

    /// Where its standard error goes; without this, where ours goes.
    #[must_use]
    pub fn errors(mut self, errors: OwnedFd) -> Self {
        self.errors = Some(std::sync::Arc::new(errors));
        self
    }

    /// Starts it with pipes for standard input and output. It outlives us for as long as it takes to notice that its input has ended.
    ///
    /// # Errors
    ///
    /// The kernel's, and `EBUSY` in a process with several threads.
    pub fn serve(&self) -> io::Result<HostProcess> {
        let (theirs, ours) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        self.spawn(Tie::ToInput, &theirs, Some(ours))
    }

    /// Runs it with an empty input, and collects at most `most` bytes of what it prints.
    ///
    /// # Errors
    ///
    /// As [`Self::serve`], and `ETIMEDOUT` when it has not ended `within` that time; then it
    /// was killed.
    pub fn run(&self, most: usize, within: Duration) -> io::Result<(HostEnd, Vec<u8>)> {
        let deadline = Instant::now() + within;
        let mut process = self.spawn(Tie::ToUs, &null()?, None)?;
        let text = read_until(&process.stdout, most, deadline, |_| false)?;
        let left = deadline.saturating_duration_since(Instant::now());
        Ok((process.end(left)?, text))
    }

    fn spawn(&self, tie: Tie, theirs: &OwnedFd, stdin: Option<OwnedFd>) -> io::Result<HostProcess> {
        let arguments = words(
            [self.program.as_os_str()]
                .into_iter()
                .chain(self.arguments.iter().map(OsString::as_os_str)),
        )?;
        let variables = self
            .variables
            .iter()
            .map(|(name, value)| {
                let pair = [name.as_bytes(), b"=", value.as_bytes()].concat();
                CString::new(pair).map_err(io::Error::from)
            })
            .collect::<io::Result<Vec<CString>>>()?;
        let (stdout, tell) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        match process::clone3(0)? {
            Fork::Child => {
                let standard = [theirs.as_fd(), tell.as_fd()];
                if self.settle(tie, standard).is_ok()
                    && let Some(program) = arguments.first()
                {
                    process::execve(program, &arguments, &variables);
                }
                process::exit(127)
            }
            Fork::Parent { pid: _, pidfd } => Ok(HostProcess {
                pidfd,
                stdin,
                stdout,
                pending: Vec::new(),
                ended: None,
            }),
        }
    }

    /// Sets up the forked child.
    fn settle(&self, tie: Tie, standard: [BorrowedFd<'_>; 2]) -> io::Result<()> {
        let [stdin, stdout] = standard;
        // A signal from the caller's terminal would end it before its time.
        rustix::process::setsid()?;
        if tie == Tie::ToUs {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        }
        rustix::process::chdir(self.directory.as_os_str())?;
        rustix::stdio::dup2_stdin(stdin)?;
        rustix::stdio::dup2_stdout(stdout)?;
        if let Some(errors) = &self.errors {
            rustix::stdio::dup2_stderr(errors.as_fd())?;
        }
        process::close_except(&[0, 1, 2])?;
        process::reset_signals()
    }
}

impl HostProcess {
    /// Writes to its standard input.
    ///
    /// # Errors
    ///
    /// The kernel's; `EPIPE` where its input is closed.
    pub fn write(&mut self, text: &[u8]) -> io::Result<()> {
        match self.stdin.take() {
            Some(stdin) => {
                let mut file = std::fs::File::from(stdin);
                let result = file.write_all(text);
                self.stdin = Some(file.into());
                result
            }
            None => Err(Errno::PIPE.into()),
        }
    }

    /// The next line of its standard output, without the newline.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT`; `EPIPE` where it ended instead; `EFBIG` where the line is longer than a
    /// mebibyte.
    pub fn line(&mut self, within: Duration) -> io::Result<Vec<u8>> {
        const LONGEST: usize = 1 << 20;
        let deadline = Instant::now() + within;
        let has_line = |text: &[u8]| text.contains(&b'\n');
        if !has_line(&self.pending) {
            let most = LONGEST.saturating_sub(self.pending.len());
            let more = read_until(&self.stdout, most, deadline, has_line)?;
            self.pending.extend(more);
        }
        match self.pending.iter().position(|it| *it == b'\n') {
            Some(at) => {
                let mut line: Vec<u8> = self.pending.drain(..=at).collect();
                line.pop();
                Ok(line)
            }
            None if self.pending.len() >= LONGEST => Err(Errno::FBIG.into()),
            None => Err(Errno::PIPE.into()),
        }
    }

    /// Closes its standard input and waits for its end.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT`; then it was killed.
    pub fn end(&mut self, within: Duration) -> io::Result<HostEnd> {
        self.stdin = None;
        if let Some(end) = self.ended {
            return Ok(end);
        }
        let timeout = Timespec {
            tv_sec: i64::try_from(within.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: within.subsec_nanos().into(),
        };
        let mut watched = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let ready = rustix::io::retry_on_intr(|| rustix::event::poll(&mut watched, Some(&timeout)));
        if ready? == 0 {
            self.kill();
            return Err(Errno::TIMEDOUT.into());
        }
        self.reap()
    }

    fn kill(&mut self) {
        // ESRCH: it is gone already.
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
        let _ = self.reap();
    }

    fn reap(&mut self) -> io::Result<HostEnd> {
        let status = rustix::io::retry_on_intr(|| {
            rustix::process::waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED)
        })?;
        let end = match status {
            Some(status) => match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => HostEnd::Exited(code),
                (_, Some(signal)) => HostEnd::Signaled(signal),
                _ => HostEnd::Signaled(0),
            },
            None => HostEnd::Signaled(0),
        };
        self.ended = Some(end);
        Ok(end)
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.kill();
        }
    }
}

/// Whether nobody but root and this user could replace the program at `path`: it belongs to one
/// of them, as does each folder above it, and others can write to none of it.
///
/// # Errors
///
/// Why not, in words that follow the path.
pub fn trusted(path: &OsStr) -> Result<AbsPath, String> {
    use std::os::unix::fs::MetadataExt;
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let real =
        std::fs::canonicalize(path).map_err(|error| format!("can not be found ({error})"))?;
    let own = rustix::process::geteuid().as_raw();
    for place in real.ancestors() {
        let attributes = std::fs::symlink_metadata(place)
            .map_err(|error| format!("can not be looked at ({error})"))?;
        let is_program = place == real;
        if is_program && !attributes.is_file() {
            return Err("is not a regular file".to_owned());
        }
        let place = place.display();
        if attributes.uid() != 0 && attributes.uid() != own {
            return Err(format!("is not used: `{place}` belongs to another user"));
        }
        // In a sticky folder only the owner of a name may replace it, and owners were checked.
        let sticky = !is_program && attributes.mode() & STICKY != 0;
        // A group of which the owner is the only member is usual; write access of everybody
        // is not.
        let others = if is_program {
            WRITABLE_BY_OTHERS
        } else {
            0o002
        };
        if attributes.mode() & others != 0 && !sticky {
            return Err(format!("is not used: others can write to `{place}`"));
        }
    }
    AbsPath::new(real).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_else_can_replace_is_trusted() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        std::fs::write(&program, "").unwrap();
        let allow = |path: &std::path::Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        allow(&program, 0o755);
        trusted(program.as_os_str()).unwrap();
        allow(&program, 0o777);
        trusted(program.as_os_str()).unwrap_err();
        allow(&program, 0o755);
        allow(folder.path(), 0o777);
        trusted(program.as_os_str()).unwrap_err();
        allow(folder.path(), 0o755);
        assert!(
            trusted(folder.path().as_os_str()).is_err(),
            "a folder is no program"
        );
        trusted(folder.path().join("none").as_os_str()).unwrap_err();
    }
}
