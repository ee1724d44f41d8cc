//! Starting bubblewrap with its arguments, and finding the first process inside.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags};

use super::arguments::{self, Arguments, Order};
use super::{Bwrap, Orders, verify};
use crate::cgroup::Cgroup;
use crate::channel::{self, Channel};
use crate::confinement::Confinement;
use crate::error::SandboxError;
use crate::host_program;
use crate::limits::{LimitKind, LimitStatus};
use crate::plan::Plan;
use crate::resident;
use crate::running::Tree;
use crate::scratch::Scratch;
use crate::sys;
use crate::sys::process::Fork;

/// How long bubblewrap may take to say which process is the sandbox's first.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a launch leaves to the caller.
pub(super) struct Launched {
    pub(super) channel: Channel,
    pub(super) pid: Pid,
    pub(super) pidfd: OwnedFd,
    /// Where bubblewrap says what went wrong.
    pub(super) complaint: OwnedFd,
    pub(super) first: Option<(Pid, OwnedFd)>,
    pub(super) cgroup: Cgroup,
    pub(super) held: Vec<(LimitKind, LimitStatus)>,
    pub(super) notes: Vec<String>,
}

impl Bwrap {
    pub(super) fn launch(
        &self,
        plan: Plan,
        scratch: Option<&Empty>,
    ) -> Result<Launched, SandboxError> {
        let make = |error: rustix::io::Errno| SandboxError::build("making a pipe", error);
        let (complaint, complain) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(make)?;
        let (info, inform) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(make)?;
        let (wait, go) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(make)?;
        let mut arguments = Arguments::build(&Order {
            confinement: &plan.confinement,
            stage: &self.stage.program,
            set_uid: self.found.set_uid,
            scratch: scratch.map(|it| &it.0),
            info: inform.as_raw_fd(),
        })?;
        let notes = std::mem::take(&mut arguments.notes);
        // Bubblewrap's own process outside counts as well.
        let mut limits = plan.confinement.limits.clone();
        limits.processes = limits.processes.map(|it| it.saturating_add(1));
        let orders = Orders {
            seen: arguments.seen(),
            hidden: std::mem::take(&mut arguments.hidden),
            namespaces: verify::namespaces(),
            bubblewrap: self.found.version.clone(),
            plan,
        };
        let options = channel::seal_bytes(&arguments.bytes())?;
        let orders = channel::seal(&orders)?;
        let (channel, theirs) = Channel::pair()?;
        let numbers = [&theirs.as_fd(), &orders.as_fd()].map(|it| it.as_raw_fd().to_string());
        let stop = |error| SandboxError::build("starting bubblewrap", error);
        let words = self
            .words(&options.as_raw_fd().to_string(), &numbers)
            .map_err(stop)?;
        let null = host_program::null().map_err(stop)?;
        let (pid, pidfd) = match sys::process::clone3(0).map_err(stop)? {
            Fork::Child => {
                let mut word = [0];
                drop(go);
                let told = rustix::io::retry_on_intr(|| rustix::io::read(&wait, &mut word));
                if told == Ok(1) {
                    let mut keep = vec![
                        options.as_fd(),
                        orders.as_fd(),
                        theirs.as_fd(),
                        inform.as_fd(),
                    ];
                    keep.extend(arguments.descriptors.iter().map(AsFd::as_fd));
                    let standard = [null.as_fd(), null.as_fd(), complain.as_fd()];
                    let error = host_program::become_program(&words, standard, &keep);
                    let _ =
                        rustix::io::write(rustix::stdio::stderr(), error.to_string().as_bytes());
                }
                sys::process::exit(125)
            }
            Fork::Parent { pid, pidfd } => (pid, pidfd),
        };
        // From here on the child waits for a word, so the groups hold all that it starts.
        let (cgroup, held) = Cgroup::make(&limits, pid);
        let _ = rustix::io::write(&go, b"g");
        drop((go, theirs, complain, inform, arguments));
        let said = host_program::read_until(&info, 4096, Instant::now() + PATIENCE, |text| {
            text.contains(&b'}')
        });
        let first = said.ok().and_then(|it| first_process(&it, pid));
        Ok(Launched {
            channel,
            pid,
            pidfd,
            complaint,
            first,
            cgroup,
            held,
            notes,
        })
    }

    fn words(&self, options: &str, numbers: &[String; 2]) -> io::Result<Vec<CString>> {
        let mut words: Vec<&OsStr> = vec![
            self.found.program.as_os_str(),
            OsStr::new("--args"),
            OsStr::new(options),
            OsStr::new("--"),
            OsStr::new(arguments::STAGE),
        ];
        words.extend(self.stage.arguments.iter().map(OsString::as_os_str));
        words.extend(numbers.iter().map(OsStr::new));
        host_program::words(words)
    }
}

/// Waits until the second stage answers, or bubblewrap ended without it.
///
/// Bubblewrap's own half inside waits for the one outside for ever, and would keep the channel
/// open, if that one fails in between: so it is ended here.
pub(super) fn wait_for_answer(tree: &Tree, monitor: Pid) {
    let mut watched = [
        PollFd::new(&tree.channel, PollFlags::IN),
        PollFd::new(&tree.pidfd, PollFlags::IN),
    ];
    let _ = rustix::io::retry_on_intr(|| rustix::event::poll(&mut watched, None));
    let [answered, ended] = watched.map(|it| !it.revents().is_empty());
    if ended && !answered {
        resident::kill_session(monitor);
    }
}

/// The sandbox's first process, as bubblewrap told its number, and a descriptor for it.
fn first_process(said: &[u8], monitor: Pid) -> Option<(Pid, OwnedFd)> {
    let text = std::str::from_utf8(said).ok()?;
    let (_, rest) = text.split_once("\"child-pid\":")?;
    let digits: String = rest
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    let pid = Pid::from_raw(digits.parse().ok()?)?;
    let descriptor = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
    // Opened first, asked then: a number that was given out anew has another parent.
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
    let parent = status.lines().find_map(|it| it.strip_prefix("PPid:"))?;
    let parent: i32 = parent.trim().parse().ok()?;
    (parent == monitor.as_raw_nonzero().get()).then_some((pid, descriptor))
}

/// An empty directory and an empty file of the host, to be bound over many denies.
#[derive(Debug)]
pub(super) struct Empty(pub(super) Scratch);

impl Empty {
    pub(super) fn if_many(confinement: &Confinement) -> Result<Option<Self>, SandboxError> {
        if confinement.filesystem.masks.len() <= arguments::MANY {
            return Ok(None);
        }
        let made = || -> io::Result<Self> {
            let empty = Self(Scratch::make()?);
            let folder = empty.0.path();
            rustix::fs::mkdir(folder.join(arguments::NONE), Mode::empty())?;
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            let name: &Path = &folder.join(arguments::NOTHING);
            rustix::fs::open(name, flags, Mode::empty())?;
            Ok(empty)
        };
        made()
            .map(Some)
            .map_err(|error| SandboxError::build("making an empty folder", error))
    }
}

impl Empty {
    /// Removes the names; what was bound lives on in the sandbox's own mounts, with its mode.
    pub(super) fn clear(scratch: &Scratch) {
        let folder = scratch.path();
        let _ = rustix::fs::unlink(folder.join(arguments::NOTHING));
        let _ = rustix::fs::rmdir(folder.join(arguments::NONE));
        let _ = rustix::fs::rmdir(&**folder);
    }
}

impl Drop for Empty {
    fn drop(&mut self) {
        Self::clear(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_no_child_of_bubblewrap_is_not_believed() {
        let own = rustix::process::getpid();
        let said = format!("{{ \"child-pid\": {} }}", own.as_raw_nonzero());
        let parent = rustix::process::getppid().unwrap();
        assert!(first_process(said.as_bytes(), parent).is_some());
        assert!(first_process(said.as_bytes(), own).is_none());
        assert!(first_process(b"{ \"child-pid\": x }", parent).is_none());
        assert!(first_process(b"", parent).is_none());
    }
}
