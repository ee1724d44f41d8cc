//! Watches a live command: its streams, its signals, its time, and its end.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use sandbox::{End, Event, Running, SandboxError, Usage};

use crate::relay::signals::{Mode, Reaction, Signals, SignalsError, reaction};
use crate::relay::streams::RelayError;
use crate::relay::terminal::{RawGuard, TerminalError, forward_winsize};
use crate::relay::{Drained, Relay};

/// From TERM to KILL.
const GRACE: Duration = Duration::from_secs(2);
/// How long a stream of a tree that is dead may stay silent without an end.
const QUIET: Duration = Duration::from_secs(2);
/// This many interrupts without an end mean that the command does not heed them.
const INTERRUPTS: u32 = 3;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) end: End,
    pub(crate) usage: Usage,
    /// What Stockade ended it for, if it did.
    pub(crate) cause: Option<Cause>,
}

/// Why Stockade ended a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Its tree used this many bytes of memory.
    Memory(u64),
    /// Its wall time was over.
    WallTime,
}

/// The command was ended because it could no longer be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum MonitorError {
    #[error("the command was ended: its streams could not be served")]
    Relay(#[from] RelayError),
    #[error("the command was ended: its sandbox failed")]
    Sandbox(#[from] SandboxError),
    #[error("the command was ended: signals could not be read")]
    Signals(#[from] SignalsError),
    #[error("the command was ended: the terminal could not be set")]
    Terminal(#[from] TerminalError),
}

/// The user's terminal while the command has one of its own.
#[derive(Debug)]
pub(crate) struct Screen<'user> {
    /// Raw while the command runs.
    pub(crate) guard: RawGuard<'user>,
    /// The master of the command's terminal, to be told the size.
    pub(crate) master: std::os::fd::OwnedFd,
}

/// Watches until the end of everything inside.
pub(crate) fn watch(
    running: &mut Running,
    relay: &mut Relay<'_>,
    signals: &Signals,
    screen: &mut Option<Screen<'_>>,
    wall_time: Option<u64>,
) -> Result<Ended, MonitorError> {
    let started = Instant::now();
    let mut timer = Timer {
        deadline: wall_time.and_then(|it| started.checked_add(Duration::from_secs(it))),
        kill_at: None,
        cause: None,
        interrupts: 0,
    };
    loop {
        let timeout = timer.next();
        let watched = [signals.as_fd(), running.descriptor()];
        let ready = match relay.step(&watched, timeout) {
            Ok(ready) => ready,
            Err(error) => {
                running.kill();
                let _ = running.event();
                return Err(error.into());
            }
        };
        if ready.contains(0) {
            while let Some(signal) = signals.next()? {
                obey(signal, running, screen, &mut timer)?;
            }
        }
        if let Some(screen) = screen
            && !screen.guard.is_applied()
        {
            screen.guard.resume()?;
        }
        if ready.contains(1) {
            match running.event()? {
                Event::Ended(end, usage) => {
                    let cause = timer.cause;
                    drain(relay, signals)?;
                    return Ok(Ended { end, usage, cause });
                }
                Event::MemoryExceeded(bytes) => timer.cause = Some(Cause::Memory(bytes)),
                _ => {
                    drain(relay, signals)?;
                    return Ok(Ended {
                        end: End::Signaled(Signal::KILL.as_raw()),
                        usage: Usage::default(),
                        cause: timer.cause,
                    });
                }
            }
        }
        timer.act(running);
    }
}

/// Delivers what the command wrote before its end. An interrupt gives up a reader that does
/// not read.
fn drain(relay: &mut Relay<'_>, signals: &Signals) -> Result<(), MonitorError> {
    loop {
        match relay.drain(&[signals.as_fd()], QUIET)? {
            Drained::Complete | Drained::Late => return Ok(()),
            Drained::Interrupted(_) => {
                while let Some(signal) = signals.next()? {
                    if matches!(signal, Signal::INT | Signal::TERM | Signal::HUP) {
                        return Ok(());
                    }
                }
            }
        }
    }
}

struct Timer {
    deadline: Option<Instant>,
    kill_at: Option<Instant>,
    cause: Option<Cause>,
    interrupts: u32,
}

impl Timer {
    /// Until when nothing has to be done.
    fn next(&self) -> Option<Duration> {
        let next = [self.deadline, self.kill_at].into_iter().flatten().min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// TERM, and two seconds later KILL, for everything inside.
    fn end(&mut self, running: &Running) {
        running.signal_everyone(Signal::TERM.as_raw());
        self.kill_at.get_or_insert_with(|| Instant::now() + GRACE);
    }

    fn act(&mut self, running: &Running) {
        let now = Instant::now();
        if self.deadline.is_some_and(|it| it <= now) {
            self.deadline = None;
            self.cause = Some(Cause::WallTime);
            self.end(running);
        }
        if self.kill_at.is_some_and(|it| it <= now) {
            self.kill_at = None;
            running.kill();
        }
    }
}

fn obey(
    signal: Signal,
    running: &Running,
    screen: &mut Option<Screen<'_>>,
    timer: &mut Timer,
) -> Result<(), MonitorError> {
    let mode = if screen.is_some() {
        Mode::Terminal
    } else {
        Mode::Pipes
    };
    match reaction(signal, mode) {
        Reaction::Forward(Signal::TERM) => timer.end(running),
        Reaction::Forward(Signal::HUP) => {
            running.signal_everyone(Signal::HUP.as_raw());
            timer.end(running);
        }
        Reaction::Forward(signal) => {
            if signal == Signal::INT {
                timer.interrupts += 1;
            }
            running.signal(signal.as_raw());
            if timer.interrupts >= INTERRUPTS {
                timer.end(running);
            }
        }
        Reaction::Ignore | Reaction::Reap => (),
        Reaction::Resize => {
            if let Some(screen) = screen {
                forward_winsize(screen.guard.terminal(), &screen.master)?;
            }
        }
        Reaction::Resume => {
            running.signal_everyone(Signal::CONT.as_raw());
            if let Some(screen) = screen {
                screen.guard.resume()?;
                forward_winsize(screen.guard.terminal(), &screen.master)?;
            }
        }
        Reaction::Suspend => {
            running.signal_everyone(Signal::STOP.as_raw());
            if let Some(screen) = screen {
                screen.guard.suspend()?;
            }
            let _ = sandbox::signal::raise(Signal::STOP);
        }
    }
    Ok(())
}
