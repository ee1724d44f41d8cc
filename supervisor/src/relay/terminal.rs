//! The user's terminal while the child has a pseudo-terminal of its own: raw, and put back.
//!
//! # Invariants
//!
//! - **Put back on every way out but SIGKILL**: on drop, and by a panic hook where a panic
//!   aborts and nothing is dropped.
//! - **Another job's terminal is not made raw**: while this process is in the background,
//!   [`RawGuard::resume`] changes nothing.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, Once, PoisonError};

use rustix::io::Errno;
use rustix::process::Signal;
use rustix::termios::{OptionalActions, Termios};
use sandbox::signal::{self, SignalSet};
use thiserror::Error;

/// The user's terminal could not be used for the child's.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(crate) enum TerminalError {
    /// The settings could not be changed; they are as before.
    #[error("cannot change the settings of the terminal")]
    Apply {
        /// The kernel's answer.
        source: io::Error,
    },
    /// The settings could not be read; nothing was changed.
    #[error("cannot read the settings of the terminal")]
    Read {
        /// The kernel's answer.
        source: io::Error,
    },
    /// The size could not be copied; the child sees the former one.
    #[error("cannot copy the size of the terminal")]
    Size {
        /// The kernel's answer.
        source: io::Error,
    },
}

/// What the panic hook puts back.
static SAVED: Mutex<Vec<Saved>> = Mutex::new(Vec::new());

struct Saved {
    terminal: OwnedFd,
    settings: Termios,
}

/// The user's terminal.
#[derive(Debug)]
pub(crate) struct Terminal;

impl Terminal {
    /// Makes the terminal `fd` raw until the guard is dropped.
    ///
    /// In raw mode each key goes to the child unchanged; the line discipline of the child's
    /// own pseudo-terminal echoes and makes signals of `^C` and `^Z`.
    /// While another job has the foreground nothing is changed yet: see
    /// [`RawGuard::resume`].
    ///
    /// # Errors
    ///
    /// [`TerminalError::Read`] and [`TerminalError::Apply`].
    pub(crate) fn raw(fd: BorrowedFd<'_>) -> Result<RawGuard<'_>, TerminalError> {
        let settings = rustix::termios::tcgetattr(fd).map_err(read_error)?;
        let mut guard = RawGuard {
            fd,
            settings,
            applied: false,
        };
        put_back_on_panic();
        guard.resume()?;
        Ok(guard)
    }
}

/// Holds the user's terminal in raw mode.
#[must_use = "the terminal is put back when this is dropped"]
pub(crate) struct RawGuard<'user> {
    fd: BorrowedFd<'user>,
    settings: Termios,
    applied: bool,
}

impl std::fmt::Debug for RawGuard<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("RawGuard")
            .field("fd", &self.fd)
            .field("applied", &self.applied)
            .finish_non_exhaustive()
    }
}

impl<'user> RawGuard<'user> {
    /// The terminal.
    pub(crate) fn terminal(&self) -> BorrowedFd<'user> {
        self.fd
    }

    /// Whether the terminal was raw when this guard last looked.
    pub(crate) fn is_applied(&self) -> bool {
        self.applied
    }

    /// Puts the settings back, before this process stops itself.
    ///
    /// # Errors
    ///
    /// [`TerminalError::Apply`].
    pub(crate) fn suspend(&mut self) -> Result<(), TerminalError> {
        if self.applied {
            forget(self.fd);
            self.applied = false;
            apply(self.fd, &self.settings)?;
        }
        Ok(())
    }

    /// Makes the terminal raw (again), after SIGCONT; a shell has changed it in between.
    ///
    /// In the background it changes nothing. No signal tells when the foreground is given to
    /// a job that was running, so call this also whenever [`Self::is_applied`] is false.
    ///
    /// # Errors
    ///
    /// [`TerminalError::Apply`].
    pub(crate) fn resume(&mut self) -> Result<(), TerminalError> {
        if !is_in_foreground(self.fd) {
            return Ok(());
        }
        let mut raw = self.settings.clone();
        raw.make_raw();
        if !self.applied {
            remember(self.fd, &self.settings)?;
            self.applied = true;
        }
        apply(self.fd, &raw)
    }
}

impl Drop for RawGuard<'_> {
    fn drop(&mut self) {
        // Nothing is left that could be done about a terminal that is gone.
        let _: Result<(), TerminalError> = self.suspend();
    }
}

/// Copies the size of the user's terminal to the child's, whose foreground gets SIGWINCH
/// where that is a change.
///
/// # Errors
///
/// [`TerminalError::Size`].
pub(crate) fn forward_winsize(user: impl AsFd, master: impl AsFd) -> Result<(), TerminalError> {
    rustix::termios::tcgetwinsize(user)
        .and_then(|size| rustix::termios::tcsetwinsize(master, size))
        .map_err(|error| TerminalError::Size {
            source: error.into(),
        })
}

/// Whether this process may change `fd`: its job has the foreground, or `fd` is not its
/// controlling terminal and there are no jobs on it.
fn is_in_foreground(fd: BorrowedFd<'_>) -> bool {
    rustix::termios::tcgetpgrp(fd)
        .map_or(true, |foreground| foreground == rustix::process::getpgrp())
}

/// Changes the settings at once, without being stopped for it in the background.
///
/// A blocked SIGTTOU is not sent, and tcsetattr(3) succeeds. Not TCSADRAIN, which would wait
/// for a terminal that `^S` has stopped.
fn apply(fd: BorrowedFd<'_>, settings: &Termios) -> Result<(), TerminalError> {
    let apply_error = |source| TerminalError::Apply { source };
    let mask = signal::block(&SignalSet::empty().with(Signal::TTOU)).map_err(apply_error)?;
    let result = rustix::termios::tcsetattr(fd, OptionalActions::Now, settings);
    signal::restore(&mask).map_err(apply_error)?;
    result.map_err(|error| apply_error(error.into()))
}

fn read_error(error: Errno) -> TerminalError {
    TerminalError::Read {
        source: error.into(),
    }
}

fn remember(fd: BorrowedFd<'_>, settings: &Termios) -> Result<(), TerminalError> {
    let terminal = fd
        .try_clone_to_owned()
        .map_err(|source| TerminalError::Read { source })?;
    let saved = Saved {
        terminal,
        settings: settings.clone(),
    };
    SAVED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(saved);
    Ok(())
}

fn forget(fd: BorrowedFd<'_>) {
    SAVED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .retain(|saved| !super::plan::same_file(&saved.terminal, fd).unwrap_or(false));
}

fn put_back_on_panic() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let next = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // First, so that the message is readable. A lock that is held is not waited for.
            if let Ok(saved) = SAVED.try_lock() {
                for Saved { terminal, settings } in saved.iter() {
                    let _: Result<(), TerminalError> = apply(terminal.as_fd(), settings);
                }
            }
            next(info);
        }));
    });
}

#[cfg(test)]
mod tests {
    use rustix::termios::{LocalModes, Winsize, tcgetattr, tcgetwinsize, tcsetwinsize};

    use super::super::tests::Pty;
    use super::*;

    /// The hook puts back every saved terminal, so the tests of this module take turns.
    static TURN: Mutex<()> = Mutex::new(());

    fn is_raw(pty: &Pty) -> bool {
        let modes = tcgetattr(&pty.slave).unwrap().local_modes;
        !modes.intersects(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    #[test]
    fn the_guard_makes_raw_and_puts_back() {
        let _turn = TURN.lock();
        let pty = Pty::open();
        let before = tcgetattr(&pty.slave).unwrap();
        assert!(!is_raw(&pty));
        let guard = Terminal::raw(pty.slave.as_fd()).unwrap();
        assert!(is_raw(&pty) && guard.is_applied());
        drop(guard);
        let after = tcgetattr(&pty.slave).unwrap();
        assert_eq!(after.local_modes, before.local_modes);
        assert_eq!(after.input_modes, before.input_modes);
        assert_eq!(after.output_modes, before.output_modes);
        assert_eq!(after.control_modes, before.control_modes);
    }

    #[test]
    fn suspended_it_is_as_before_and_resumed_it_is_raw_again() {
        let _turn = TURN.lock();
        let pty = Pty::open();
        let mut guard = Terminal::raw(pty.slave.as_fd()).unwrap();
        guard.suspend().unwrap();
        assert!(!is_raw(&pty) && !guard.is_applied());
        guard.resume().unwrap();
        assert!(is_raw(&pty));
        // A shell may have changed it while this process was stopped.
        apply(pty.slave.as_fd(), &guard.settings).unwrap();
        guard.resume().unwrap();
        assert!(is_raw(&pty));
    }

    #[test]
    fn a_panic_puts_back_even_where_nothing_is_dropped() {
        let _turn = TURN.lock();
        let pty = Pty::open();
        std::mem::forget(Terminal::raw(pty.slave.as_fd()).unwrap());
        assert!(is_raw(&pty));
        let panicked = std::panic::catch_unwind(|| std::panic::panic_any("on purpose"));
        assert!(panicked.is_err());
        assert!(!is_raw(&pty));
        forget(pty.slave.as_fd());
    }

    #[test]
    fn a_panic_leaves_a_terminal_alone_that_was_put_back() {
        let _turn = TURN.lock();
        let pty = Pty::open();
        let guard = Terminal::raw(pty.slave.as_fd()).unwrap();
        let mut raw = guard.settings.clone();
        raw.make_raw();
        drop(guard);
        // By now it may be a shell's, which reads keys one by one.
        apply(pty.slave.as_fd(), &raw).unwrap();
        let panicked = std::panic::catch_unwind(|| std::panic::panic_any("on purpose"));
        assert!(panicked.is_err() && is_raw(&pty));
    }

    #[test]
    fn what_is_no_terminal_is_refused() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(matches!(
            Terminal::raw(file.as_fd()),
            Err(TerminalError::Read { .. })
        ));
    }

    #[test]
    fn the_size_is_copied() {
        let user = Pty::open();
        let child = Pty::open();
        let size = Winsize {
            ws_row: 33,
            ws_col: 101,
            ws_xpixel: 7,
            ws_ypixel: 9,
        };
        tcsetwinsize(&user.slave, size).unwrap();
        forward_winsize(&user.slave, &child.master).unwrap();
        let copied = tcgetwinsize(&child.slave).unwrap();
        assert_eq!((copied.ws_row, copied.ws_col), (33, 101));
        assert_eq!((copied.ws_xpixel, copied.ws_ypixel), (7, 9));
    }
}
