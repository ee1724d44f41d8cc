//! One end of a stream, read and written without ever waiting.
//!
//! # Invariants
//!
//! - **The user's descriptors keep their flags.** O_NONBLOCK belongs to the open file
//!   description, which the user's shell shares; it is set on the child's ends alone.
//! - **An end that could wait is used only after poll(2) said it would not**, and then for at
//!   most what poll promises.
//!
//! SIGPIPE must be ignored, as the Rust runtime has it, so that a closed reader is an answer
//! and not the end of this process.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::pipe::{PIPE_BUF, SpliceFlags};

/// What poll(2) promises for a terminal is less than for a pipe: that some bytes fit.
const TERMINAL_CHUNK: usize = 256;

/// The offset that makes preadv2(2) and pwritev2(2) use the file's own.
const AT_THE_FILE_OFFSET: u64 = u64::MAX;

/// What a descriptor refers to, as far as moving bytes depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The master of the child's pseudo-terminal.
    Master,
    /// `/dev/null` or one of its kind, mem(4): no process is at its other end.
    Memory,
    /// Another device, a socket, or anything else.
    Other,
    /// A pipe or FIFO.
    Pipe,
    /// A regular file.
    Regular,
    /// A terminal.
    Terminal,
}

/// How an end is kept from waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Discipline {
    /// One call for each poll, of a size that poll's answer covers.
    Bounded,
    /// The open file description is ours and has O_NONBLOCK.
    NonBlocking,
    /// Each call asks for it with RWF_NOWAIT.
    NoWait,
    /// It never waits for another process.
    Plain,
}

/// Which way bytes go through an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Bytes are read from it.
    Source,
    /// Bytes are written to it.
    Sink,
}

#[derive(Debug)]
enum Fd<'user> {
    Borrowed(BorrowedFd<'user>),
    Owned(OwnedFd),
}

/// The answer of one attempt to move bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// No byte will ever pass again: end of file, or nobody is left to read.
    Ended,
    /// The slave of the pseudo-terminal is open nowhere at the moment.
    HungUp,
    /// So many bytes went through; at least one.
    Moved(usize),
    /// None would go through without waiting.
    Wait,
}

/// One end of a stream.
#[derive(Debug)]
pub(super) struct End<'user> {
    fd: Fd<'user>,
    kind: Kind,
    discipline: Discipline,
}

impl<'user> End<'user> {
    /// Our end of a pipe or socket whose other end the child has.
    pub(super) fn of_child(fd: OwnedFd) -> Result<Self, Errno> {
        let kind = kind(fd.as_fd())?;
        Self::non_blocking(fd, kind)
    }

    /// The master of the child's pseudo-terminal.
    pub(super) fn of_master(fd: OwnedFd) -> Result<Self, Errno> {
        Self::non_blocking(fd, Kind::Master)
    }

    fn non_blocking(fd: OwnedFd, kind: Kind) -> Result<Self, Errno> {
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
        Ok(Self {
            fd: Fd::Owned(fd),
            kind,
            discipline: Discipline::NonBlocking,
        })
    }

    /// An end that the user gave us, and whose description others share.
    pub(super) fn of_user(fd: BorrowedFd<'user>, direction: Direction) -> Result<Self, Errno> {
        let kind = kind(fd)?;
        let (fd, discipline) = match kind {
            Kind::Memory | Kind::Regular => (Fd::Borrowed(fd), Discipline::Plain),
            Kind::Pipe | Kind::Other => (Fd::Borrowed(fd), Discipline::NoWait),
            Kind::Terminal | Kind::Master => match reopen(fd, direction) {
                Some(own) => (Fd::Owned(own), Discipline::NonBlocking),
                None => (Fd::Borrowed(fd), Discipline::Bounded),
            },
        };
        Ok(Self {
            fd,
            kind,
            discipline,
        })
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Shrinks the pipe `self` to one page where the input for it is typed at a terminal, so
    /// that little of what was typed ahead is taken from whoever reads there next.
    pub(super) fn limit_read_ahead(&self, source: &End<'_>) {
        if self.kind == Kind::Pipe && source.kind == Kind::Terminal {
            // Refused, the pipe merely stays as it is.
            let _: Result<usize, Errno> = rustix::pipe::fcntl_setpipe_size(self, PIPE_BUF);
        }
    }

    /// Whether an attempt is safe although poll(2) has not been asked.
    pub(super) fn may_try(&self) -> bool {
        self.discipline != Discipline::Bounded
    }

    /// Whether this is the controlling terminal and another job has the foreground.
    ///
    /// Reading it would then stop this process (SIGTTIN), although the child may not want
    /// any input at all.
    pub(super) fn is_in_background(&self) -> bool {
        self.kind == Kind::Terminal
            && rustix::termios::tcgetpgrp(self)
                .is_ok_and(|foreground| foreground != rustix::process::getpgrp())
    }

    /// Reads once into `buffer`.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<Attempt, Errno> {
        let result = match self.discipline {
            Discipline::NoWait => rustix::io::preadv2(
                &*self,
                &mut [IoSliceMut::new(buffer)],
                AT_THE_FILE_OFFSET,
                ReadWriteFlags::NOWAIT,
            ),
            Discipline::Bounded | Discipline::NonBlocking | Discipline::Plain => {
                rustix::io::read(&*self, buffer)
            }
        };
        if self.lacks_nowait(result) {
            return Ok(Attempt::Wait);
        }
        match result {
            Ok(0) => Ok(Attempt::Ended),
            Ok(length) => Ok(Attempt::Moved(length)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Attempt::Wait),
            // pty(7): the master's answer while no process has the slave open.
            Err(Errno::IO) if self.kind == Kind::Master => Ok(Attempt::HungUp),
            // The user's terminal is gone, or will not be read by an orphaned job.
            Err(Errno::IO) if self.kind == Kind::Terminal => Ok(Attempt::Ended),
            Err(error) => Err(error),
        }
    }

    /// Writes once from `bytes`, which is not empty.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<Attempt, Errno> {
        let result = match self.discipline {
            Discipline::NoWait => rustix::io::pwritev2(
                &*self,
                &[IoSlice::new(bytes)],
                AT_THE_FILE_OFFSET,
                ReadWriteFlags::NOWAIT,
            ),
            Discipline::Bounded => rustix::io::write(&*self, self.chunk(bytes)),
            Discipline::NonBlocking | Discipline::Plain => rustix::io::write(&*self, bytes),
        };
        if self.lacks_nowait(result) {
            return Ok(Attempt::Wait);
        }
        match result {
            // Not an error by write(2), yet nothing went: as good as a full pipe.
            Ok(0) | Err(Errno::AGAIN | Errno::INTR) => Ok(Attempt::Wait),
            Ok(length) => Ok(Attempt::Moved(length)),
            Err(Errno::PIPE | Errno::CONNRESET) => Ok(Attempt::Ended),
            Err(Errno::IO) if self.kind == Kind::Master => Ok(Attempt::HungUp),
            Err(Errno::IO) if self.kind == Kind::Terminal => Ok(Attempt::Ended),
            Err(error) => Err(error),
        }
    }

    /// Whether bytes may go from `self` to `sink` without passing through this process.
    pub(super) fn can_splice_to(&self, sink: &Self) -> bool {
        self.kind == Kind::Pipe && matches!(sink.kind, Kind::Pipe | Kind::Regular)
    }

    /// Moves up to `length` bytes from the pipe `self` to `sink` inside the kernel.
    ///
    /// `None` means that the two cannot be joined so (splice(2), EINVAL: the file was opened
    /// for appending, or its file system cannot).
    pub(super) fn splice_to(&self, sink: &Self, length: usize) -> Option<Result<Attempt, Errno>> {
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        match rustix::pipe::splice(self, None, sink, None, length, flags) {
            Ok(0) => Some(Ok(Attempt::Ended)),
            Ok(length) => Some(Ok(Attempt::Moved(length))),
            Err(Errno::AGAIN | Errno::INTR) => Some(Ok(Attempt::Wait)),
            Err(Errno::INVAL) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Notes whether `result` says that this file knows no RWF_NOWAIT.
    ///
    /// The attempt may have come without a poll, so it isn't repeated at once.
    fn lacks_nowait(&mut self, result: Result<usize, Errno>) -> bool {
        let lacks = self.discipline == Discipline::NoWait
            && matches!(
                result,
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::SPIPE | Errno::INVAL)
            );
        if lacks {
            self.discipline = Discipline::Bounded;
        }
        lacks
    }

    /// As much of `bytes` as a descriptor that poll called writable takes without waiting.
    fn chunk<'bytes>(&self, bytes: &'bytes [u8]) -> &'bytes [u8] {
        let length = match self.kind {
            // pipe(7): poll reports a pipe writable only if PIPE_BUF bytes fit.
            Kind::Pipe => PIPE_BUF,
            Kind::Master | Kind::Other | Kind::Terminal => TERMINAL_CHUNK,
            Kind::Memory | Kind::Regular => usize::MAX,
        };
        bytes.get(..length).unwrap_or(bytes)
    }
}

impl AsFd for End<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.fd {
            Fd::Borrowed(fd) => *fd,
            Fd::Owned(fd) => fd.as_fd(),
        }
    }
}

fn kind(fd: BorrowedFd<'_>) -> Result<Kind, Errno> {
    let status = rustix::fs::fstat(fd)?;
    /// The major number of `/dev/null`, `/dev/zero` and `/dev/full`, mem(4).
    const MEMORY: u32 = 1;
    let device = status.st_rdev;
    Ok(match FileType::from_raw_mode(status.st_mode) {
        FileType::CharacterDevice if rustix::fs::major(device) == MEMORY => Kind::Memory,
        FileType::CharacterDevice if rustix::termios::isatty(fd) => Kind::Terminal,
        FileType::Fifo => Kind::Pipe,
        FileType::RegularFile => Kind::Regular,
        _ => Kind::Other,
    })
}

/// Opens the same terminal again, so that O_NONBLOCK is on a description of our own.
///
/// `None` where that fails, for example without `/proc`; and for a master, whose device
/// node would open a new pseudo-terminal instead.
fn reopen(fd: BorrowedFd<'_>, direction: Direction) -> Option<OwnedFd> {
    /// The device number of `/dev/ptmx`, pts(4).
    const MASTERS: (u32, u32) = (5, 2);
    let device = rustix::fs::fstat(fd).ok()?.st_rdev;
    if (rustix::fs::major(device), rustix::fs::minor(device)) == MASTERS {
        return None;
    }
    let access = match direction {
        Direction::Source => OFlags::RDONLY,
        Direction::Sink => OFlags::WRONLY,
    };
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let own = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    (rustix::fs::fstat(&own).ok()?.st_rdev == device).then_some(own)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::super::tests::Pty;
    use super::*;

    fn user_sink(fd: &OwnedFd) -> End<'_> {
        End::of_user(fd.as_fd(), Direction::Sink).unwrap()
    }

    #[test]
    fn a_pipe_that_another_writer_has_filled_is_not_waited_for() {
        let (_read, write) = rustix::pipe::pipe().unwrap();
        let mut other = user_sink(&write);
        while other.write(&[b'o'; 4096]).unwrap() != Attempt::Wait {}
        // Without a poll: as if the other had written between our poll and our write.
        assert_eq!(
            user_sink(&write).write(&[b'x'; 9000]).unwrap(),
            Attempt::Wait
        );
        assert_eq!(other.discipline, Discipline::NoWait);
    }

    #[test]
    fn an_empty_pipe_is_not_waited_for() {
        let (read, _write) = rustix::pipe::pipe().unwrap();
        let mut end = End::of_user(read.as_fd(), Direction::Source).unwrap();
        assert_eq!(end.read(&mut [0; 10]).unwrap(), Attempt::Wait);
        assert_eq!(end.discipline, Discipline::NoWait);
    }

    #[test]
    fn a_full_socket_is_not_waited_for() {
        let (one, _other) = UnixStream::pair().unwrap();
        let one = OwnedFd::from(one);
        let mut end = user_sink(&one);
        while end.write(&[b'x'; 4096]).unwrap() != Attempt::Wait {}
        assert_eq!(end.discipline, Discipline::NoWait);
    }

    #[test]
    fn where_the_kernel_knows_no_nowait_a_write_is_what_poll_promises() {
        let (_read, write) = rustix::pipe::pipe().unwrap();
        let mut end = user_sink(&write);
        assert!(end.lacks_nowait(Err(Errno::OPNOTSUPP)));
        assert!(!end.may_try());
        assert_eq!(end.write(&[b'x'; 9000]).unwrap(), Attempt::Moved(PIPE_BUF));
        let pty = Pty::open();
        let mut end = user_sink(&pty.slave);
        end.discipline = Discipline::Bounded;
        assert_eq!(end.write(&[b'x'; 9000]).unwrap(), Attempt::Moved(256));
    }

    #[test]
    fn a_terminal_is_opened_again_and_a_master_is_not() {
        let pty = Pty::open();
        assert_eq!(user_sink(&pty.slave).discipline, Discipline::NonBlocking);
        assert_eq!(user_sink(&pty.master).discipline, Discipline::Bounded);
    }

    #[test]
    fn the_null_device_takes_everything_at_once() {
        let null = std::fs::File::options()
            .write(true)
            .open("/dev/null")
            .unwrap();
        let null = OwnedFd::from(null);
        assert_eq!(
            user_sink(&null).write(&[0; 70_000]).unwrap(),
            Attempt::Moved(70_000)
        );
    }
}
