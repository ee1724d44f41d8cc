//! A sandbox seen from the supervisor: prepared, then running, then gone.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use crate::cgroup::Cgroup;
use crate::channel::{self, Channel};
use crate::command::Stdio;
use crate::error::SandboxError;
use crate::limits::{LimitKind, LimitStatus};
use crate::message::{End, Notice, Request, Start, Usage};
use crate::reaper::Reaper;
use crate::report::{EnforcementReport, Layer, LayerStatus};

/// A sandbox that is built, confined and empty.
#[derive(Debug)]
#[must_use]
pub struct Prepared {
    tree: Tree,
    report: EnforcementReport,
}

/// A sandbox in which a command runs.
#[derive(Debug)]
#[must_use]
pub struct Running {
    tree: Tree,
    report: EnforcementReport,
    terminal: Option<OwnedFd>,
}

/// What happened in a sandbox.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The command ended, and everything else inside with it.
    Ended(End, Usage),
    /// The sandbox is gone without a word: its init was killed.
    Gone,
    /// The tree used this many bytes of memory, more than it may, and was ended.
    MemoryExceeded(u64),
}

/// The processes of a sandbox, and what they hold on the host.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) channel: Channel,
    pub(crate) pid: Pid,
    pub(crate) pidfd: OwnedFd,
    pub(crate) cgroup: Cgroup,
    pub(crate) reaper: Option<Reaper>,
    pub(crate) reaped: bool,
    /// What init said while it was asked for something else.
    pub(crate) pending: RefCell<VecDeque<Pending>>,
    pub(crate) ending: Ending,
}

/// How everything inside is killed at once.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The process that is waited for is the first one inside: its end is the end of all.
    Direct,
    /// This is the first one inside; the process that is waited for follows it.
    First(OwnedFd),
    /// A word tells the process that is waited for to end all that is below it.
    Warden(OwnedFd),
}

/// A notice that waits to be read.
#[derive(Debug)]
pub(crate) struct Pending(pub(crate) Notice);

impl Tree {
    /// A tree of which nothing has been heard or waited for yet.
    pub(crate) fn new(
        channel: Channel,
        pid: Pid,
        pidfd: OwnedFd,
        cgroup: Cgroup,
        reaper: Option<Reaper>,
        ending: Ending,
    ) -> Self {
        Self {
            channel,
            pid,
            pidfd,
            cgroup,
            reaper,
            reaped: false,
            pending: RefCell::default(),
            ending,
        }
    }

    /// Waits until init is confined, and puts the report together.
    pub(crate) fn ready(
        mut self,
        backend: &str,
        mut limits: Vec<(LimitKind, LimitStatus)>,
        required: &[LimitKind],
    ) -> Result<Prepared, SandboxError> {
        limits.sort_by_key(|(kind, _)| *kind);
        for (kind, status) in &limits {
            if let (true, LimitStatus::Absent(reason)) = (required.contains(kind), status) {
                return Err(SandboxError::LimitNotEnforced {
                    limit: kind.name(),
                    reason: reason.clone(),
                });
            }
        }
        match self.channel.receive::<Notice>()? {
            Some((Notice::Ready { layers, notes }, _)) => Ok(Prepared {
                tree: self,
                report: EnforcementReport {
                    backend: backend.to_owned(),
                    layers,
                    limits,
                    notes,
                },
            }),
            Some((Notice::Failed(failure), _)) => Err(failure.into()),
            Some(_) => Err(SandboxError::Message),
            None => Err(SandboxError::InitDied {
                detail: self.wait_gone(),
            }),
        }
    }

    /// Kills everything inside.
    fn kill(&self) {
        // ESRCH and EPIPE: it is gone already.
        match &self.ending {
            Ending::Direct => {
                let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
            }
            Ending::First(first) => {
                let _ = rustix::process::pidfd_send_signal(first, Signal::KILL);
            }
            Ending::Warden(lifeline) => {
                let _ = crate::bare::tell(lifeline);
            }
        }
    }

    /// Waits until nothing inside is left, and says how init ended.
    fn wait_gone(&mut self) -> String {
        if self.reaped {
            return "already over".to_owned();
        }
        let status = rustix::io::retry_on_intr(|| {
            rustix::process::waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED)
        });
        self.reaped = true;
        match status {
            Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => format!("exit status {code}"),
                (_, Some(signal)) => format!("signal {signal}"),
                _ => "unknown".to_owned(),
            },
            // The zygote's child, not ours: it reaps, and we see the end alone.
            _ => {
                let mut watched = [PollFd::new(&self.pidfd, PollFlags::IN)];
                let _ = rustix::io::retry_on_intr(|| rustix::event::poll(&mut watched, None));
                "ended".to_owned()
            }
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill();
            self.wait_gone();
        }
        self.cgroup.remove();
        if let Some(reaper) = self.reaper.take() {
            reaper.dismiss();
        }
    }
}

impl Prepared {
    /// What the kernel enforces for whatever will run here.
    pub fn report(&self) -> &EnforcementReport {
        &self.report
    }

    /// Adds what a reader of the report should know.
    pub(crate) fn note(&mut self, notes: impl IntoIterator<Item = String>) {
        self.report.notes.extend(notes);
    }

    /// Starts the one command of this sandbox.
    pub(crate) fn start(self, start: &Start, stdio: Stdio) -> Result<Running, SandboxError> {
        let Self { tree, report } = self;
        let terminal = tree.start(start, stdio)?;
        Ok(Running {
            tree,
            report,
            terminal,
        })
    }

    /// Opens this sandbox to several commands.
    pub(crate) fn into_parts(self) -> (Tree, EnforcementReport) {
        (self.tree, self.report)
    }
}

impl Tree {
    /// Has init start a command; its terminal's master, if it has one.
    pub(crate) fn start(
        &self,
        start: &Start,
        stdio: Stdio,
    ) -> Result<Option<OwnedFd>, SandboxError> {
        let sealed = channel::seal(start)?;
        let mut descriptors = vec![sealed.as_fd()];
        if let Stdio::Given(given) = &stdio {
            descriptors.extend(given.iter().map(AsFd::as_fd));
        }
        self.channel.send(&Request::Start, &descriptors)?;
        drop(stdio);
        let answer = loop {
            match self.channel.receive::<Notice>()? {
                // Another command of a shared sandbox ended meanwhile.
                Some((notice @ (Notice::Ended { .. } | Notice::MemoryExceeded { .. }), _)) => {
                    self.pending.borrow_mut().push_back(Pending(notice));
                }
                other => break other,
            }
        };
        match answer {
            Some((Notice::Started { id }, mut descriptors)) if id == start.id => {
                Ok(descriptors.pop())
            }
            Some((Notice::NotStarted { errno, id }, _)) if id == start.id => {
                Err(SandboxError::Exec {
                    program: start.program.to_string_lossy().into_owned(),
                    source: std::io::Error::from_raw_os_error(errno),
                })
            }
            Some((Notice::Failed(failure), _)) => Err(failure.into()),
            Some(_) => Err(SandboxError::Message),
            None => Err(SandboxError::InitDied {
                detail: "while starting the command".to_owned(),
            }),
        }
    }
}

impl Tree {
    /// Whether a notice waits.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.borrow().is_empty()
    }

    /// The oldest notice that waits.
    pub(crate) fn take_pending(&self) -> Option<Pending> {
        self.pending.borrow_mut().pop_front()
    }
}

impl Running {
    /// What the kernel enforces.
    pub fn report(&self) -> &EnforcementReport {
        &self.report
    }

    /// The master of the command's terminal, if it has one; once.
    pub fn take_terminal(&mut self) -> Option<OwnedFd> {
        self.terminal.take()
    }

    /// Process id of the sandbox's init on the host.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.tree.pid.as_raw_nonzero().get()
    }

    /// Readable when [`Running::event`] has something to say.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.tree.channel.as_fd()
    }

    /// Waits for the next event.
    ///
    /// # Errors
    ///
    /// [`SandboxError`] when init speaks nonsense.
    pub fn event(&mut self) -> Result<Event, SandboxError> {
        let notice = match self.tree.take_pending() {
            Some(Pending(notice)) => Some(notice),
            None => self.tree.channel.receive::<Notice>()?.map(|it| it.0),
        };
        match notice {
            Some(Notice::Ended { end, usage, .. }) => {
                // Where init is the first process inside, it has waited for all others. Its own
                // end, and the kernel's work on the namespaces, are waited for on dropping this.
                if !matches!(self.tree.ending, Ending::Direct) {
                    self.tree.wait_gone();
                }
                Ok(Event::Ended(end, usage))
            }
            Some(Notice::MemoryExceeded { bytes }) => Ok(Event::MemoryExceeded(bytes)),
            Some(Notice::Failed(failure)) => Err(failure.into()),
            Some(_) => Err(SandboxError::Message),
            None => {
                self.tree.wait_gone();
                Ok(Event::Gone)
            }
        }
    }

    /// Passes a signal to the command's process group.
    pub fn signal(&self, number: i32) {
        self.request(number, false);
    }

    /// Passes a signal to every process inside but init.
    pub fn signal_everyone(&self, number: i32) {
        self.request(number, true);
    }

    fn request(&self, number: i32, everyone: bool) {
        let request = Request::Signal {
            id: 0,
            number,
            everyone,
        };
        // If init is gone the next event says so.
        let _ = self.tree.channel.send(&request, &[]);
    }

    /// Kills everything inside at once.
    pub fn kill(&self) {
        self.tree.kill();
    }

    /// Waits at most `time` for the end; whether it came.
    #[must_use]
    pub fn ends_within(&self, time: Duration) -> bool {
        let timeout = Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        };
        let mut watched = [PollFd::new(&self.tree.pidfd, PollFlags::IN)];
        rustix::event::poll(&mut watched, Some(&timeout)).is_ok_and(|ready| ready > 0)
    }
}

/// The status of a layer that a back end does not have.
pub(crate) fn absent(layer: Layer, why: &str) -> (Layer, LayerStatus) {
    (layer, LayerStatus::Absent(why.to_owned()))
}
