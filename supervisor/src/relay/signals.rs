//! The signals that the supervisor reacts to while a command runs, and how.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::Signal;
use sandbox::signal::{self, SignalSet};
use thiserror::Error;

/// What is held back and read from a descriptor.
const WATCHED: [Signal; 10] = [
    Signal::CHILD,
    Signal::CONT,
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::TSTP,
    Signal::USR1,
    Signal::USR2,
    Signal::WINCH,
];

/// Signals could not be turned into something to read; no command was started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(crate) enum SignalsError {
    /// The mask is as before.
    #[error("cannot hold signals back")]
    Block {
        /// The kernel's answer.
        source: io::Error,
    },
    /// The signals are held back; nobody reads them.
    #[error("cannot open a descriptor for signals")]
    Open {
        /// The kernel's answer.
        source: io::Error,
    },
    /// A signal may be waiting, unread.
    #[error("cannot read a signal")]
    Read {
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Signals held back for the calling thread, to be read from a descriptor.
#[derive(Debug)]
pub(crate) struct Signals {
    fd: OwnedFd,
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "init gives the payload a mask of its own")
    )]
    previous: SignalSet,
}

impl Signals {
    /// Holds the signals back; to be called before the first thread is started.
    ///
    /// Those that this process was told to ignore (by `nohup`, or in the background of a
    /// shell without job control) are left out and stay ignored.
    ///
    /// # Errors
    ///
    /// [`SignalsError::Block`] and [`SignalsError::Open`].
    pub(crate) fn block_and_open() -> Result<Self, SignalsError> {
        let block_error = |source| SignalsError::Block { source };
        // Ignored, it would have the kernel reap children before they are waited for.
        signal::reset_child_signal().map_err(block_error)?;
        let mut set = SignalSet::empty();
        for watched in WATCHED {
            if !signal::is_ignored(watched).map_err(block_error)? {
                set = set.with(watched);
            }
        }
        let previous = signal::block(&set).map_err(block_error)?;
        let fd = signal::signalfd(&set).map_err(|source| SignalsError::Open { source })?;
        Ok(Self { fd, previous })
    }

    /// The next signal, or `None` if none is waiting.
    ///
    /// # Errors
    ///
    /// [`SignalsError::Read`].
    pub(crate) fn next(&self) -> Result<Option<Signal>, SignalsError> {
        signal::read_signal(&self.fd).map_err(|source| SignalsError::Read { source })
    }

    /// The mask from before, which a child should start with.
    #[cfg(test)]
    pub(crate) fn previous(&self) -> &SignalSet {
        &self.previous
    }

    /// Lets the signals through again; one that waits takes its effect at once.
    ///
    /// # Errors
    ///
    /// [`SignalsError::Block`].
    #[cfg(test)]
    pub(crate) fn restore(self) -> Result<(), SignalsError> {
        signal::restore(&self.previous).map_err(|source| SignalsError::Block { source })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What the child's streams are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Pipes; the user's terminal makes signals of keys, for this process alone.
    Pipes,
    /// A pseudo-terminal; keys reach it as bytes.
    Terminal,
}

/// What a signal asks of the supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Send this signal to the command.
    Forward(Signal),
    /// Nothing.
    Ignore,
    /// Look which child has changed its state.
    Reap,
    /// Copy the terminal's size.
    Resize,
    /// Continue the command; make the terminal raw and copy its size where there is one.
    Resume,
    /// Stop the command by SIGSTOP, put the terminal back, then raise SIGSTOP.
    ///
    /// Not SIGTSTP: the command leads a session, so its process group is an orphan, on which
    /// the stop signals of a terminal have no effect (setpgid(2), POSIX).
    Suspend,
}

/// Decides what `signal` asks for. A signal that is not among those watched asks nothing.
#[must_use]
pub(crate) fn reaction(signal: Signal, mode: Mode) -> Reaction {
    match signal {
        Signal::CHILD => Reaction::Reap,
        Signal::CONT => Reaction::Resume,
        Signal::TSTP => Reaction::Suspend,
        Signal::WINCH => match mode {
            Mode::Pipes => Reaction::Ignore,
            Mode::Terminal => Reaction::Resize,
        },
        Signal::HUP | Signal::INT | Signal::QUIT | Signal::TERM | Signal::USR1 | Signal::USR2 => {
            Reaction::Forward(signal)
        }
        _ => Reaction::Ignore,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_watched_signal_has_its_reaction() {
        let table = [
            (Signal::CHILD, Reaction::Reap, Reaction::Reap),
            (Signal::CONT, Reaction::Resume, Reaction::Resume),
            (Signal::TSTP, Reaction::Suspend, Reaction::Suspend),
            (Signal::WINCH, Reaction::Ignore, Reaction::Resize),
            (Signal::PIPE, Reaction::Ignore, Reaction::Ignore),
        ];
        for (signal, pipes, terminal) in table {
            assert_eq!(reaction(signal, Mode::Pipes), pipes, "{signal:?}");
            assert_eq!(reaction(signal, Mode::Terminal), terminal, "{signal:?}");
        }
        for signal in [
            Signal::HUP,
            Signal::INT,
            Signal::QUIT,
            Signal::TERM,
            Signal::USR1,
            Signal::USR2,
        ] {
            for mode in [Mode::Pipes, Mode::Terminal] {
                assert_eq!(reaction(signal, mode), Reaction::Forward(signal));
            }
        }
    }

    #[test]
    fn a_signal_is_read_instead_of_delivered() {
        std::thread::spawn(|| {
            let signals = Signals::block_and_open().unwrap();
            assert!(!signals.previous().contains(Signal::TERM));
            assert_eq!(signals.next().unwrap(), None);
            // Delivered, either would end the test process.
            signal::raise(Signal::TERM).unwrap();
            assert_eq!(signals.next().unwrap(), Some(Signal::TERM));
            signal::raise(Signal::USR2).unwrap();
            assert_eq!(signals.next().unwrap(), Some(Signal::USR2));
            signals.restore().unwrap();
            let mask = signal::block(&SignalSet::empty()).unwrap();
            assert!(!mask.contains(Signal::TERM));
        })
        .join()
        .unwrap();
    }
}
