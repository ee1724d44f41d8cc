//! Which streams need a relay at all. Decisions only; the questions they rest on are asked
//! by [`StdinKind::of`] and [`same_file`].

use std::os::fd::AsFd;

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

/// What the user's standard input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StdinKind {
    /// `/dev/null`.
    Null,
    /// Anything else: a socket, a device, a directory.
    Other,
    /// A pipe or FIFO, opened only for reading.
    Pipe,
    /// A regular file, opened only for reading.
    ReadOnlyFile,
    /// A terminal.
    Terminal,
    /// A regular file or pipe through which one can write.
    Writable,
}

/// Whether the child can open its standard input anew, with more rights.
///
/// `/proc/self/fd/0` leads to the user's file itself, past every mount of the sandbox: a file
/// that the child's user may write can be *written* through a descriptor that may only read.
/// A Landlock ruleset that handles writing and grants nothing above that file stops it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reopening {
    /// Nothing is known to prevent it.
    Possible,
    /// Landlock, or the lack of `/proc`, prevents it.
    Stopped,
}

/// How the child gets its standard input, where it has no pseudo-terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StdinPlan {
    /// The descriptor itself: nothing is copied, and nothing is read ahead.
    PassThrough,
    /// A pipe that the relay fills.
    Relay,
}

/// Decides how the child gets an input of `kind`.
///
/// A terminal is never handed over: what can be done to it by ioctl(2) reaches the user's
/// shell. Neither is a socket, whose other end is no stream but a peer.
#[must_use]
pub(crate) fn stdin_plan(kind: StdinKind, reopening: Reopening) -> StdinPlan {
    match kind {
        // A pipe that is opened anew for writing leads back to its own reader alone.
        StdinKind::Null | StdinKind::Pipe => StdinPlan::PassThrough,
        StdinKind::ReadOnlyFile => match reopening {
            Reopening::Possible => StdinPlan::Relay,
            Reopening::Stopped => StdinPlan::PassThrough,
        },
        StdinKind::Other | StdinKind::Terminal | StdinKind::Writable => StdinPlan::Relay,
    }
}

/// Whether the child gets a pseudo-terminal: only if it would talk to a person both ways.
#[must_use]
pub(crate) fn is_interactive(stdin_is_terminal: bool, stdout_is_terminal: bool) -> bool {
    stdin_is_terminal && stdout_is_terminal
}

impl StdinKind {
    /// What `fd` refers to.
    ///
    /// # Errors
    ///
    /// The kernel's answer to fstat(2) or fcntl(2).
    pub(crate) fn of(fd: impl AsFd) -> Result<Self, Errno> {
        /// The device number of `/dev/null`, null(4).
        const NULL: (u32, u32) = (1, 3);
        let status = rustix::fs::fstat(&fd)?;
        let access = rustix::fs::fcntl_getfl(&fd)? & OFlags::RWMODE;
        let device = (
            rustix::fs::major(status.st_rdev),
            rustix::fs::minor(status.st_rdev),
        );
        Ok(match FileType::from_raw_mode(status.st_mode) {
            FileType::CharacterDevice if device == NULL => Self::Null,
            FileType::CharacterDevice if rustix::termios::isatty(&fd) => Self::Terminal,
            FileType::Fifo | FileType::RegularFile if access != OFlags::RDONLY => Self::Writable,
            FileType::Fifo => Self::Pipe,
            FileType::RegularFile => Self::ReadOnlyFile,
            _ => Self::Other,
        })
    }
}

/// Whether two descriptors lead to one file, as after `2>&1`.
///
/// Then one pipe serves for both of the child's outputs, which keeps their order.
///
/// # Errors
///
/// The kernel's answer to fstat(2).
pub(crate) fn same_file(one: impl AsFd, other: impl AsFd) -> Result<bool, Errno> {
    let one = rustix::fs::fstat(one)?;
    let other = rustix::fs::fstat(other)?;
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn only_harmless_inputs_are_handed_over() {
        use Reopening::{Possible, Stopped};
        use StdinPlan::{PassThrough, Relay};
        let table = [
            (StdinKind::Null, PassThrough, PassThrough),
            (StdinKind::Other, Relay, Relay),
            (StdinKind::Pipe, PassThrough, PassThrough),
            (StdinKind::ReadOnlyFile, PassThrough, Relay),
            (StdinKind::Terminal, Relay, Relay),
            (StdinKind::Writable, Relay, Relay),
        ];
        for (kind, stopped, possible) in table {
            assert_eq!(stdin_plan(kind, Stopped), stopped, "{kind:?}");
            assert_eq!(stdin_plan(kind, Possible), possible, "{kind:?}");
        }
    }

    #[test]
    fn a_pseudo_terminal_takes_a_terminal_on_both_sides() {
        assert!(is_interactive(true, true));
        assert!(!is_interactive(true, false));
        assert!(!is_interactive(false, true));
        assert!(!is_interactive(false, false));
    }

    #[test]
    fn kinds_are_told_apart() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (read, write) = rustix::pipe::pipe().unwrap();
        let (socket, _peer) = UnixStream::pair().unwrap();
        let both = OpenOptions::new()
            .read(true)
            .write(true)
            .open(file.path())
            .unwrap();
        let pty = super::super::tests::Pty::open();
        let of = |fd: &dyn AsFd| StdinKind::of(fd.as_fd()).unwrap();
        assert_eq!(of(&File::open("/dev/null").unwrap()), StdinKind::Null);
        assert_eq!(of(&File::open("/dev/zero").unwrap()), StdinKind::Other);
        assert_eq!(of(&File::open("/").unwrap()), StdinKind::Other);
        assert_eq!(of(&socket), StdinKind::Other);
        assert_eq!(of(&read), StdinKind::Pipe);
        assert_eq!(of(&write), StdinKind::Writable);
        assert_eq!(
            of(&File::open(file.path()).unwrap()),
            StdinKind::ReadOnlyFile
        );
        assert_eq!(of(&both), StdinKind::Writable);
        assert_eq!(of(&pty.slave), StdinKind::Terminal);
    }

    #[test]
    fn a_duplicate_is_the_same_file_and_a_neighbour_is_not() {
        let (one, write) = rustix::pipe::pipe().unwrap();
        let (other, _write) = rustix::pipe::pipe().unwrap();
        assert!(same_file(&one, one.try_clone().unwrap()).unwrap());
        assert!(same_file(&one, &write).unwrap());
        assert!(!same_file(&one, &other).unwrap());
    }

    /// The reason for [`Reopening`]: a descriptor for reading becomes one for writing.
    #[test]
    fn a_file_handed_over_for_reading_can_be_opened_for_writing() {
        use std::io::Write;
        use std::os::fd::AsRawFd;
        let file = tempfile::NamedTempFile::new().unwrap();
        let read_only = File::open(file.path()).unwrap();
        let path = format!("/proc/self/fd/{}", read_only.as_raw_fd());
        let mut again = OpenOptions::new().write(true).open(path).unwrap();
        again.write_all(b"written").unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), b"written");
    }
}
