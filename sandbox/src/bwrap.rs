//! The back end over the system's bubblewrap, with our own second stage inside.
//!
//! Bubblewrap makes the namespaces and the view; our own binary, started by it as the first
//! process inside, checks the view and takes every power away before anything else runs.
//!
//! # Invariants
//!
//! - **Nothing in the process list.** The arguments and the plan travel in sealed memory files.
//! - **Nothing inherited.** Bubblewrap passes on every open descriptor, so it gets only those
//!   that it needs.
//! - **Nothing on the host.** Only with very many denies there is an empty folder in `/tmp`
//!   while the sandbox is being built, and for that the reaper answers.

mod arguments;
mod find;
pub(crate) mod verify;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags};

use crate::backend::{Backend, Host};
use crate::cgroup::Cgroup;
use crate::channel::{self, Channel};
use crate::confinement::Confinement;
use crate::error::SandboxError;
use crate::host_program;
use crate::identity::Identity;
use crate::native;
use crate::path::AbsPath;
use crate::plan::Plan;
use crate::reaper::Reaper;
use crate::running::{Ending, Prepared, Tree};
use crate::scratch::Scratch;
use crate::stage::Executable;
use crate::sys;
use crate::sys::process::Fork;
use arguments::{Arguments, Order, not_held};
pub(crate) use verify::Orders;

/// The name in reports and on the command line.
const NAME: &str = "bwrap";

/// How long bubblewrap may take to say which process is the sandbox's first.
const PATIENCE: Duration = Duration::from_secs(20);

/// The back end over bubblewrap.
#[derive(Clone, Debug)]
pub struct Bwrap {
    found: find::Found,
    stage: Executable,
}

impl Bwrap {
    /// The system's own bubblewrap, from its usual places.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Unsupported`] when there is none that can be trusted.
    pub fn find(stage: Executable) -> Result<Self, SandboxError> {
        let mut why = find::absent("not installed");
        for place in find::present() {
            match find::check(place) {
                Ok(found) => return Ok(Self { found, stage }),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// The bubblewrap at `program`, after the same checks.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Unsupported`] when it cannot be trusted.
    pub fn at(program: &AbsPath, stage: Executable) -> Result<Self, SandboxError> {
        let found = find::check(program)?;
        Ok(Self { found, stage })
    }

    /// What it says of itself, for example `bubblewrap 0.8.0`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.found.version
    }

    /// Whether it is set-uid root, and so works where user namespaces are forbidden.
    #[must_use]
    pub fn is_set_uid(&self) -> bool {
        self.found.set_uid
    }
}

/// A program that is not there: when bubblewrap comes to say so, it built all the rest.
const NOTHING_THERE: &str = "/.stockade-trial";

impl Bwrap {
    /// Has it build an empty sandbox, to find out whether it can here.
    pub(crate) fn trial(&self, within: Duration) -> Result<(), String> {
        let user = if self.found.set_uid {
            "--unshare-user-try"
        } else {
            "--unshare-user"
        };
        let words = [
            user,
            "--unshare-pid",
            "--unshare-ipc",
            "--unshare-uts",
            "--unshare-cgroup",
            "--unshare-net",
            "--die-with-parent",
            "--tmpfs",
            "/",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
            "--",
            NOTHING_THERE,
        ];
        let answer = host_program::ask(self.found.program.as_os_str(), &words, within)
            .map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&answer.text).trim().to_owned();
        if text.contains("execvp") && text.contains(NOTHING_THERE) {
            Ok(())
        } else {
            Err(text)
        }
    }
}

impl Backend for Bwrap {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&self, confinement: &Confinement, host: Host) -> Result<Prepared, SandboxError> {
        let Host {
            shared,
            when_orphaned,
            layers,
        } = host;
        let threads = sys::process::threads()
            .map_err(|error| SandboxError::build("counting threads", error))?;
        if threads != 1 {
            return Err(SandboxError::Threaded { threads });
        }
        find::outside(&self.found.program, &confinement.filesystem)?;
        let identity = Identity::Own {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        };
        if identity.is_superuser() && sys::landlock::abi().is_err() {
            return Err(SandboxError::Unsupported {
                feature: "Landlock, without which kernel uid 0 is not confined by bubblewrap"
                    .to_owned(),
                remedy: crate::probe::landlock_remedy(),
            });
        }
        let plan = Plan {
            confinement: confinement.clone(),
            identity,
            layers,
            poll_memory: confinement.limits.memory.is_some() && !Cgroup::can_hold("memory"),
            shared,
        };
        let scratch = Empty::if_many(confinement)?;
        let launch = self.launch(plan, scratch.as_ref())?;
        let Launched {
            channel,
            pid,
            pidfd,
            complaint,
            first,
            cgroup,
            held,
            notes,
        } = launch;
        let (shown, ending) = match first {
            Some((first, descriptor)) => (first, Ending::First(descriptor)),
            None => (pid, Ending::Direct),
        };
        let leftover = scratch.as_ref().map(|it| it.0.clone());
        let orphaned: Option<Box<dyn FnOnce()>> = match (leftover, when_orphaned) {
            (None, work) => work,
            (Some(leftover), work) => Some(Box::new(move || {
                Empty::clear(&leftover);
                if let Some(work) = work {
                    work();
                }
            })),
        };
        let watched = match &ending {
            Ending::First(first) => first.as_fd(),
            Ending::Direct | Ending::Warden(_) => pidfd.as_fd(),
        };
        let reaper = Reaper::start(watched, &cgroup, orphaned)?;
        let limits = native::statuses(&confinement.limits, &held, identity.is_superuser());
        let tree = Tree {
            channel,
            pid: shown,
            pidfd,
            cgroup,
            reaper,
            reaped: false,
            pending: std::cell::RefCell::default(),
            ending,
        };
        match tree.ready(NAME, limits, &confinement.requirement.limits) {
            Err(SandboxError::InitDied { detail }) => Err(self.explain(&complaint, detail)),
            Ok(mut prepared) => {
                prepared.note(notes);
                Ok(prepared)
            }
            Err(other) => Err(other),
        }
    }
}

/// What a launch leaves to the caller.
struct Launched {
    channel: Channel,
    pid: Pid,
    pidfd: OwnedFd,
    /// Where bubblewrap says what went wrong.
    complaint: OwnedFd,
    first: Option<(Pid, OwnedFd)>,
    cgroup: Cgroup,
    held: Vec<(crate::LimitKind, crate::LimitStatus)>,
    notes: Vec<String>,
}

impl Bwrap {
    fn launch(&self, plan: Plan, scratch: Option<&Empty>) -> Result<Launched, SandboxError> {
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

    fn words(&self, options: &str, numbers: &[String; 2]) -> io::Result<Vec<std::ffi::CString>> {
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

    /// Turns what bubblewrap said into an error that names the remedy.
    fn explain(&self, complaint: &OwnedFd, ended: String) -> SandboxError {
        let deadline = Instant::now() + Duration::from_millis(200);
        let text = host_program::read_until(complaint, 4096, deadline, |_| false);
        let text = String::from_utf8_lossy(&text.unwrap_or_default())
            .trim()
            .to_owned();
        let says = |words: &[&str]| words.iter().any(|it| text.contains(it));
        if text.is_empty() {
            return SandboxError::InitDied { detail: ended };
        }
        if says(&["execvp", "No such file or directory"]) && says(&[arguments::STAGE]) {
            return not_held(format!(
                "Stockade's own second stage `{}` can not start in the view ({text}); grant the \
                 folders of its libraries for reading, or install a statically linked one",
                self.stage.program.display()
            ));
        }
        if says(&["Exceeded maximum number of arguments"]) {
            return not_held(format!("{text}; use the native back end"));
        }
        let refused = [
            "uid map",
            "namespace",
            "loopback",
            "mount proc",
            "proc on /newroot",
        ];
        if says(&refused) {
            return SandboxError::Unsupported {
                feature: format!("what bubblewrap needs ({text})"),
                remedy: crate::probe::user_namespace_remedy(),
            };
        }
        SandboxError::InitDied {
            detail: format!("{ended}; {text}"),
        }
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
struct Empty(Scratch);

impl Empty {
    fn if_many(confinement: &Confinement) -> Result<Option<Self>, SandboxError> {
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
    fn clear(scratch: &Scratch) {
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
