//! Runs a program of the host for Stockade itself: at an absolute path, outside any sandbox.
//!
//! # Invariants
//!
//! - **No inheritance.** A program gets the variables that are named for it, or none.
//! - **No search.** A program is named by its path; `PATH` is never read.
//! - **Bounded.** What it says and how long it takes are limited by the caller.

mod child;

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use rustix::pipe::PipeFlags;
use rustix::process::{Signal, WaitId, WaitIdOptions};

use crate::sys::process::{self, Fork};
pub use child::{HostEnd, HostProcess, HostProgram, trusted};

/// What a program said, and how it ended.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) text: Vec<u8>,
}

/// Longest answer in bytes.
const LONGEST: usize = 64 * 1024;

/// Runs `program` and collects what it prints on both streams.
///
/// # Errors
///
/// The kernel's, `EBUSY` in a process with several threads, and `ETIMEDOUT`.
pub(crate) fn ask(program: &OsStr, arguments: &[&str], within: Duration) -> io::Result<Answer> {
    let deadline = Instant::now() + within;
    let words = words(
        [program]
            .into_iter()
            .chain(arguments.iter().map(OsStr::new)),
    )?;
    let (answer, tell) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let null = null()?;
    match process::clone3(0)? {
        Fork::Child => {
            let standard = [null.as_fd(), tell.as_fd(), tell.as_fd()];
            become_program(&words, standard, &[]);
            process::exit(127)
        }
        Fork::Parent { pid: _, pidfd } => {
            drop(tell);
            let text = read_until(&answer, LONGEST, deadline, |_| false);
            if text.is_err() {
                let _ = rustix::process::pidfd_send_signal(&pidfd, Signal::KILL);
            }
            let status = rustix::io::retry_on_intr(|| {
                rustix::process::waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED)
            })?;
            Ok(Answer {
                code: status.and_then(|it| it.exit_status()),
                text: text?,
            })
        }
    }
}

/// The arguments of a program as the kernel takes them.
pub(crate) fn words<'a>(words: impl IntoIterator<Item = &'a OsStr>) -> io::Result<Vec<CString>> {
    words
        .into_iter()
        .map(|it| CString::new(it.as_bytes()).map_err(io::Error::from))
        .collect()
}

/// `/dev/null`, open for both.
pub(crate) fn null() -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::open("/dev/null", flags, Mode::empty())?)
}

/// Turns this forked child into a program, the first of `words`; returns only the error.
///
/// It gets the standard descriptors, those in `keep` under their own numbers, a session of its
/// own, default signals and an empty environment; nothing else.
pub(crate) fn become_program(
    words: &[CString],
    standard: [BorrowedFd<'_>; 3],
    keep: &[BorrowedFd<'_>],
) -> io::Error {
    let prepared = || -> io::Result<()> {
        // A signal from the caller's terminal would end it before its time.
        rustix::process::setsid()?;
        let [stdin, stdout, stderr] = standard;
        rustix::stdio::dup2_stdin(stdin)?;
        rustix::stdio::dup2_stdout(stdout)?;
        rustix::stdio::dup2_stderr(stderr)?;
        let mut numbers = vec![0, 1, 2];
        numbers.extend(keep.iter().map(AsRawFd::as_raw_fd));
        process::close_except(&numbers)?;
        for descriptor in keep {
            rustix::io::fcntl_setfd(descriptor, FdFlags::empty())?;
        }
        process::reset_signals()
    };
    if let Err(error) = prepared() {
        return error;
    }
    match words.first() {
        Some(program) => process::execve(program, words, &[]),
        None => io::Error::from(io::ErrorKind::InvalidInput),
    }
}

/// Reads until the end, until `enough` says so, or until `most` bytes came.
///
/// # Errors
///
/// The kernel's, and `ETIMEDOUT` when the deadline passed first.
pub(crate) fn read_until(
    source: &OwnedFd,
    most: usize,
    deadline: Instant,
    enough: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut block = [0; 4096];
    while text.len() < most && !enough(&text) {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut watched = [PollFd::new(source, PollFlags::IN)];
        match rustix::event::poll(&mut watched, Some(&timeout)) {
            Ok(0) => return Err(Errno::TIMEDOUT.into()),
            Ok(_) => (),
            Err(Errno::INTR) => continue,
            Err(other) => return Err(other.into()),
        }
        match rustix::io::read(source, &mut block) {
            Ok(0) => break,
            Ok(length) => text.extend(block.iter().take(length)),
            Err(Errno::INTR) => (),
            Err(other) => return Err(other.into()),
        }
    }
    Ok(text)
}
