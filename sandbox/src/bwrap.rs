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
mod launch;
pub(crate) mod verify;

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::backend::{Backend, Host};
use crate::cgroup::Cgroup;
use crate::confinement::Confinement;
use crate::error::SandboxError;
use crate::host_program;
use crate::identity::Identity;
use crate::limits::{LimitKind, LimitStatus};
use crate::native;
use crate::path::AbsPath;
use crate::plan::Plan;
use crate::reaper::Reaper;
use crate::running::{Ending, Prepared, Tree};
use crate::stage::Executable;
use crate::sys;
use arguments::not_held;
use launch::{Empty, Launched};
pub(crate) use verify::Orders;

/// The name in reports and on the command line.
const NAME: &str = "bwrap";

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
        let mut limits = native::statuses(&confinement.limits, &held, identity.is_superuser());
        for (kind, status) in &mut limits {
            if *kind == LimitKind::TmpSize && self.found.set_uid {
                *status = LimitStatus::Absent(
                    "a set-uid bubblewrap does not limit private folders".to_owned(),
                );
            }
        }
        let tree = Tree::new(channel, shown, pidfd, cgroup, reaper, ending);
        launch::wait_for_answer(&tree, pid);
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

impl Bwrap {
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
