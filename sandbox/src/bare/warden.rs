//! The process above init where no PID namespace ends everything with it.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Signal, WaitId, WaitIdOptions};

use crate::channel::Channel;
use crate::init::{self, Fence};
use crate::plan::Plan;
use crate::resident;
use crate::scratch::Scratch;
use crate::sys::process::{self, Fork};

/// Says a word to the warden: the first lets it start, each later one ends everything.
pub(crate) fn tell(lifeline: &OwnedFd) -> rustix::io::Result<()> {
    rustix::io::write(lifeline, b"x").map(drop)
}

/// Starts init, waits for its end or the supervisor's word, and leaves nothing. Never returns.
pub(super) fn run(plan: &Plan, channel: Channel, wait: &OwnedFd, scratch: &Scratch) -> ! {
    let code = keep(plan, channel, wait).unwrap_or(125);
    // What init left was adopted by this process, however deep it was.
    resident::kill_descendants();
    scratch.remove();
    process::exit(code)
}

fn keep(plan: &Plan, channel: Channel, wait: &OwnedFd) -> std::io::Result<i32> {
    // The terminal's signals are for the supervisor, and the payload has none to send.
    rustix::process::setsid()?;
    let children = process::block_all_and_watch_children()?;
    let mut word = [0];
    let told = rustix::io::retry_on_intr(|| rustix::io::read(wait, &mut word))?;
    if told == 0 {
        return Ok(125);
    }
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let init = match process::clone3(0)? {
        Fork::Child => init::run(plan, &channel, Fence::Bare, None),
        Fork::Parent { pid: _, pidfd } => pidfd,
    };
    drop(channel);
    process::close_except(&[wait.as_raw_fd(), init.as_raw_fd(), children.as_raw_fd()])?;
    let mut watched = [
        PollFd::from_borrowed_fd(wait.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(init.as_fd(), PollFlags::IN),
    ];
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut watched, None))?;
    let _ = rustix::process::pidfd_send_signal(&init, Signal::KILL);
    let status = rustix::io::retry_on_intr(|| {
        rustix::process::waitid(WaitId::PidFd(init.as_fd()), WaitIdOptions::EXITED)
    })?;
    Ok(status.and_then(|it| it.exit_status()).unwrap_or(125))
}
