//! A small process that outlives the supervisor and removes what a killed one leaves.

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, WaitId, WaitIdOptions};

use crate::cgroup::Cgroup;
use crate::error::SandboxError;
use crate::sys::process::{self, Fork};

/// The supervisor's hold on its reaper.
pub(crate) struct Reaper {
    /// Its closing without a word means that the supervisor died.
    lifeline: OwnedFd,
    pid: Pid,
    pidfd: OwnedFd,
}

impl Reaper {
    /// Starts one that waits for the end of this process and of the sandbox behind `init`.
    pub(crate) fn start(
        init: BorrowedFd<'_>,
        cgroup: &Cgroup,
        when_orphaned: Option<Box<dyn FnOnce()>>,
    ) -> Result<Option<Self>, SandboxError> {
        Self::watch(init, true, cgroup, when_orphaned)
    }

    /// The same behind a warden, which ends by itself once what is below it is gone.
    pub(crate) fn start_behind(
        warden: BorrowedFd<'_>,
        cgroup: &Cgroup,
        when_orphaned: Option<Box<dyn FnOnce()>>,
    ) -> Result<Option<Self>, SandboxError> {
        Self::watch(warden, false, cgroup, when_orphaned)
    }

    fn watch(
        init: BorrowedFd<'_>,
        kills: bool,
        cgroup: &Cgroup,
        when_orphaned: Option<Box<dyn FnOnce()>>,
    ) -> Result<Option<Self>, SandboxError> {
        if cgroup.is_empty() && when_orphaned.is_none() {
            return Ok(None);
        }
        let (watch, lifeline) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|error| SandboxError::build("making the reaper's lifeline", error))?;
        match process::clone3(0)
            .map_err(|error| SandboxError::build("starting the reaper", error))?
        {
            Fork::Child => {
                drop(lifeline);
                keep_watch(&watch, init, kills, cgroup, when_orphaned);
                process::exit(0)
            }
            Fork::Parent { pid, pidfd } => Ok(Some(Self {
                lifeline,
                pid,
                pidfd,
            })),
        }
    }

    /// The sandbox is gone and all is removed: the reaper has nothing to do.
    pub(crate) fn dismiss(self) {
        let Self {
            lifeline,
            pid: _,
            pidfd,
        } = self;
        let _ = rustix::io::write(&lifeline, b"x");
        let _ = rustix::io::retry_on_intr(|| {
            rustix::process::waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED)
        });
    }
}

fn keep_watch(
    watch: &OwnedFd,
    init: BorrowedFd<'_>,
    kills: bool,
    cgroup: &Cgroup,
    when_orphaned: Option<Box<dyn FnOnce()>>,
) {
    // Its own session: a signal to the supervisor's group does not reach it. The terminal and
    // the standard descriptors belong to the supervisor's caller, who may wait for their end.
    let _ = rustix::process::setsid();
    let _ = process::close_except(&[watch.as_raw_fd(), init.as_raw_fd()]);
    let _ = process::block_all_and_watch_children();
    let mut word = [0];
    let said = rustix::io::retry_on_intr(|| rustix::io::read(watch, &mut word));
    if said == Ok(1) {
        return;
    }
    // Init dies with its parent; this is for one that was stopped or lost its death signal.
    if kills {
        let _ = rustix::process::pidfd_send_signal(init, rustix::process::Signal::KILL);
    }
    let mut watched = [PollFd::from_borrowed_fd(init, PollFlags::IN)];
    let _ = rustix::io::retry_on_intr(|| rustix::event::poll(&mut watched, None));
    cgroup.remove();
    if let Some(work) = when_orphaned {
        work();
    }
}

impl fmt::Debug for Reaper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reaper").field(&self.pid).finish()
    }
}
