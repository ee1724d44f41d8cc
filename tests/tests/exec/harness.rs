//! Scratch folders, and `stockade` run in them: with an environment of its own, and a time limit.
#![expect(
    clippy::disallowed_methods,
    reason = "the suite starts the programs that it tests, and reads what CI requires"
)]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// What a person's shell would have, and nothing of this test's.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// After this, a child counts as hung. Long, since two cores run all suites at once.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A home with a workspace in it, below `/var/tmp`, removed at the end.
///
/// Inside a sandbox `/tmp` and `/var/tmp` are private, so what is seen of it was granted.
pub(crate) struct Place {
    /// Removes all of it when it is dropped.
    _root: tempfile::TempDir,
    /// A folder of a home.
    pub(crate) home: PathBuf,
    /// A folder of the home.
    pub(crate) workspace: PathBuf,
    /// Beside the home; nothing grants it.
    pub(crate) outside: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::below(Path::new("/var/tmp"), OsStr::new("work"))
    }

    /// In a folder of its own below `parent`, with a workspace of the name `name`.
    pub(crate) fn below(parent: &Path, name: &OsStr) -> Self {
        let root = tempfile::Builder::new()
            .prefix("stockade-suite-")
            .tempdir_in(parent)
            .unwrap();
        let path = root.path().canonicalize().unwrap();
        let home = path.join("home");
        let place = Self {
            workspace: home.join(name),
            outside: path.join("outside"),
            home,
            _root: root,
        };
        fs::create_dir_all(&place.workspace).unwrap();
        fs::create_dir(&place.outside).unwrap();
        place
    }

    /// Writes a file of the workspace, and the folders above it.
    pub(crate) fn write(&self, name: impl AsRef<Path>, text: &str) -> PathBuf {
        let path = self.workspace.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Reads a file of the workspace.
    pub(crate) fn read(&self, name: impl AsRef<Path>) -> String {
        let path = self.workspace.join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// A profile of its own, outside of everything that is granted.
    pub(crate) fn profile(&self, text: &str) -> String {
        let path = self.outside.join("profile.toml");
        fs::write(&path, text).unwrap();
        path.into_os_string().into_string().unwrap()
    }

    /// A program as the user would start it: in the workspace, with `PATH` and `HOME` alone.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", &self.home)
            .current_dir(&self.workspace);
        command
    }

    /// `stockade` with `words`.
    pub(crate) fn stockade<W: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = W>) -> Command {
        let mut command = if interrupts_are_ignored() {
            // Started in the background, and so would be what this starts: see env(1).
            let mut command = self.command("env");
            command
                .arg("--default-signal=INT,QUIT,HUP,TERM")
                .arg(stockade());
            command
        } else {
            self.command(stockade())
        };
        command.args(words);
        command
    }

    /// `stockade exec OPTIONS -- sh -c SCRIPT`, to its end.
    pub(crate) fn exec(&self, options: &[&str], script: &str) -> Output {
        finish(self.exec_command(options, script), b"")
    }

    /// The same, not started yet.
    pub(crate) fn exec_command(&self, options: &[&str], script: &str) -> Command {
        let mut command = self.stockade(["exec"]);
        command.args(options).args(["--", "sh", "-c", script]);
        command
    }

    /// The control: the same script without a sandbox.
    pub(crate) fn free(&self, script: &str) -> Output {
        let mut command = self.command("sh");
        command.args(["-c", script]);
        finish(command, b"")
    }
}

/// Whether this process ignores SIGINT, from the mask in `/proc/self/status`, proc(5).
fn interrupts_are_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|it| it.strip_prefix("SigIgn:"));
    u64::from_str_radix(mask.unwrap().trim(), 16).unwrap() & 0b10 != 0
}

/// What a child left.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) status: ExitStatus,
    pub(crate) bytes: Vec<u8>,
    pub(crate) errors: String,
}

impl Output {
    /// The exit code; a signal that ended Stockade itself counts as none.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Standard output as text, without white space at its ends.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).trim().to_owned()
    }

    /// Fails the test, unless the code is 0; answers the text.
    #[track_caller]
    pub(crate) fn success(&self) -> String {
        self.exits(0);
        self.text()
    }

    /// Fails the test, unless the code is `code`.
    #[track_caller]
    pub(crate) fn exits(&self, code: i32) -> &Self {
        assert_eq!(
            self.code(),
            Some(code),
            "signal {:?}\n--- output\n{}\n--- errors\n{}",
            self.status.signal(),
            self.text(),
            self.errors
        );
        self
    }

    /// Fails the test, unless standard error holds `part`.
    #[track_caller]
    pub(crate) fn says(&self, part: &str) -> &Self {
        assert!(
            self.errors.contains(part),
            "`{part}` is not said\n--- output\n{}\n--- errors\n{}",
            self.text(),
            self.errors
        );
        self
    }
}

/// The built `stockade`.
pub(crate) fn stockade() -> PathBuf {
    program("stockade")
}

/// A program that is built beside this one.
pub(crate) fn program(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let folder = own.parent().and_then(Path::parent).unwrap();
    let path = folder.join(name);
    assert!(
        path.exists(),
        "`{}` is missing; build first: cargo build --workspace --bins",
        path.display()
    );
    path
}

/// Says what was not tested and why; a failure where CI requires everything.
///
/// Answers true, for `if something_is_missing && lacks(…) { return; }`.
pub(crate) fn lacks(what: &str) -> bool {
    assert!(
        std::env::var_os("STOCKADE_REQUIRE_ENFORCEMENT").is_none_or(|it| it.is_empty()),
        "not tested here, and enforcement is required: {what}"
    );
    eprintln!("not tested here: {what}");
    true
}

/// Whether this runs as root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether a program lies on [`PATH`].
pub(crate) fn has(program: &str) -> bool {
    PATH.split(':')
        .any(|it| Path::new(it).join(program).exists())
}

/// Runs `command` with `input` to its end, within [`LIMIT`].
#[track_caller]
pub(crate) fn finish(mut command: Command, input: &[u8]) -> Output {
    command.stdin(if input.is_empty() {
        Stdio::null()
    } else {
        Stdio::piped()
    });
    Live::start(command, input.to_vec()).end()
}

/// A child that runs, with threads that collect what it writes.
pub(crate) struct Live {
    pub(crate) child: Child,
    output: Receiver<Vec<u8>>,
    errors: Receiver<Vec<u8>>,
    shown: String,
    ended: bool,
}

impl Live {
    /// Starts `command`. What it does with standard input is its caller's choice; `input` goes
    /// there where it is a pipe.
    pub(crate) fn start(mut command: Command, input: Vec<u8>) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let shown = format!("{command:?}").chars().take(600).collect();
        let mut child = command.spawn().unwrap();
        if !input.is_empty()
            && let Some(mut stdin) = child.stdin.take()
        {
            // A child need not read what it is given.
            std::thread::spawn(move || stdin.write_all(&input).ok());
        }
        let output = collect(child.stdout.take().unwrap());
        let errors = collect(child.stderr.take().unwrap());
        Self {
            child,
            output,
            errors,
            shown,
            ended: false,
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits for the end of the child and of both its streams.
    #[track_caller]
    pub(crate) fn end(self) -> Output {
        self.end_within(LIMIT)
    }

    /// The same, with another limit.
    #[track_caller]
    pub(crate) fn end_within(mut self, limit: Duration) -> Output {
        let status = wait(&mut self.child, limit);
        self.ended = status.is_some();
        if status.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        let output = self.output.recv_timeout(Duration::from_secs(10));
        let errors = self.errors.recv_timeout(Duration::from_secs(10));
        let held = output.is_err() || errors.is_err();
        let bytes = output.unwrap_or_default();
        let errors = String::from_utf8_lossy(&errors.unwrap_or_default()).into_owned();
        let Some(status) = status else {
            panic!(
                "no end within {limit:?}: {}\n--- output\n{}\n--- errors\n{errors}",
                self.shown,
                String::from_utf8_lossy(&bytes)
            );
        };
        assert!(!held, "ended, but its output is held open: {}", self.shown);
        Output {
            status,
            bytes,
            errors,
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn collect(mut stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        sender.send(bytes)
    });
    receiver
}

/// Waits for a child's end; nothing where the time is over.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).unwrap();
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).unwrap();
        let mut polled = [PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN)];
        match poll(&mut polled, Some(&timeout)) {
            Ok(0) => return None,
            Ok(_) => return Some(child.wait().unwrap()),
            Err(rustix::io::Errno::INTR) => (),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Asks again and again until `holds`, for at most `limit`.
#[track_caller]
pub(crate) fn until(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < end, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<OsString> {
    let mut names: Vec<OsString> = fs::read_dir(folder)
        .unwrap()
        .map(|it| it.unwrap().file_name())
        .collect();
    names.sort();
    names
}
