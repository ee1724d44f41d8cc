//! The back end for hosts without namespaces: Landlock and seccomp over the host's own view.
//!
//! What it cannot hold is computed from the confinement before anything runs: the run is
//! refused where the confinement rests on it, and the report names the rest.
//!
//! # Invariants
//!
//! - **No namespace, no pretence.** What only a namespace can hold is refused or reported.
//! - **A warden outlives init.** It stands outside the domain, adopts what init leaves, ends it,
//!   and removes the private folder: at the end, and when the supervisor was killed.

mod loss;
mod warden;

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;

use rustix::pipe::PipeFlags;

use crate::backend::{Backend, Host};
use crate::cgroup::Cgroup;
use crate::channel::Channel;
use crate::confinement::{Confinement, Environment, Isolation, Network};
use crate::error::SandboxError;
use crate::filesystem::Filesystem;
use crate::identity::Identity;
use crate::limits::{LimitKind, LimitStatus, Limits};
use crate::lockdown::{self, Right, Rules};
use crate::native;
use crate::path::AbsPath;
use crate::plan::Plan;
use crate::reaper::Reaper;
use crate::report::{Layer, LayerStatus};
use crate::running::{Ending, Prepared, Tree, absent};
use crate::scratch::Scratch;
use crate::serve::Terminal;
use crate::sys;
use crate::sys::process::Fork;

pub(crate) use warden::tell;

/// The name in reports and on the command line.
const NAME: &str = "landlock";

/// The back end over Landlock and seccomp alone.
#[derive(Clone, Copy, Debug)]
pub struct Landlock;

impl Backend for Landlock {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&self, confinement: &Confinement, host: Host) -> Result<Prepared, SandboxError> {
        let Host {
            shared,
            when_orphaned,
            mut layers,
        } = host;
        let threads = sys::process::threads()
            .map_err(|error| SandboxError::build("counting threads", error))?;
        if threads != 1 {
            return Err(SandboxError::Threaded { threads });
        }
        let abi = accepted(confinement)?;
        let lost = loss::of(confinement, abi)?;
        let superuser = rustix::process::geteuid().is_root();
        let mut inner = confinement.clone();
        let scratch = Scratch::make()
            .map_err(|error| SandboxError::build("making a private folder", error))?;
        inner.filesystem.private = vec![scratch.path().clone()];
        let others = count_own(&mut inner.limits, superuser);
        replace(&mut layers, lost.layers);
        layers.splice(0..0, lacking(confinement.network, superuser));
        let plan = Plan {
            confinement: inner,
            identity: Identity::Own {
                uid: rustix::process::geteuid().as_raw(),
                gid: rustix::process::getegid().as_raw(),
            },
            layers,
            poll_memory: confinement.limits.memory.is_some() && !Cgroup::can_hold("memory"),
            shared,
        };
        let (tree, held) = match launch(&plan, confinement, &scratch, when_orphaned) {
            Ok(launched) => launched,
            Err(error) => {
                scratch.remove();
                return Err(error);
            }
        };
        let mut limits = native::statuses(&confinement.limits, &held, superuser);
        amend(&mut limits, confinement, others);
        let mut prepared = tree.ready(NAME, limits, &confinement.requirement.limits)?;
        prepared.note(lost.notes);
        Ok(prepared)
    }
}

/// Starts the warden, and init below it.
fn launch(
    plan: &Plan,
    confinement: &Confinement,
    scratch: &Scratch,
    when_orphaned: Option<Box<dyn FnOnce()>>,
) -> Result<(Tree, Vec<(LimitKind, LimitStatus)>), SandboxError> {
    let (channel, theirs) = Channel::pair()?;
    let (wait, lifeline) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
        .map_err(|error| SandboxError::build("making the warden's lifeline", error))?;
    let fork = sys::process::clone3(0)
        .map_err(|error| SandboxError::build("starting the warden", error))?;
    let (pid, pidfd) = match fork {
        Fork::Child => {
            drop((channel, lifeline));
            warden::run(plan, theirs, &wait, scratch)
        }
        Fork::Parent { pid, pidfd } => (pid, pidfd),
    };
    drop((theirs, wait));
    // The warden counts as well.
    let mut limits = confinement.limits.clone();
    limits.processes = limits.processes.map(|it| it.saturating_add(1));
    // First the one who removes it, then what has to be removed.
    let planned = Cgroup::planned(&limits, pid);
    let reaper = Reaper::start_behind(pidfd.as_fd(), &planned, when_orphaned)?;
    let (cgroup, held) = Cgroup::make(&limits, pid);
    let _ = tell(&lifeline);
    let tree = Tree::new(
        channel,
        pid,
        pidfd,
        cgroup,
        reaper,
        Ending::Warden(lifeline),
    );
    Ok((tree, held))
}

/// Refuses what wants more than this; the Landlock ABI otherwise.
fn accepted(confinement: &Confinement) -> Result<u32, SandboxError> {
    if confinement.requirement.isolation == Isolation::Full {
        return Err(SandboxError::Unsupported {
            feature: "namespaces, which full isolation requires and the landlock back end does \
                      without"
                .to_owned(),
            remedy: crate::probe::user_namespace_remedy(),
        });
    }
    sys::landlock::abi().map_err(|error| SandboxError::Unsupported {
        feature: format!("Landlock ({error})"),
        remedy: crate::probe::landlock_remedy(),
    })
}

/// `RLIMIT_NPROC` counts all that the user runs, so what already runs is added.
fn count_own(limits: &mut Limits, superuser: bool) -> u64 {
    let (Some(most), false) = (limits.processes, superuser) else {
        return 0;
    };
    let others = crate::resident::tasks_of(rustix::process::getuid().as_raw());
    limits.processes = Some(most.saturating_add(others));
    others
}

/// Says what holds each limit where that differs from a sandbox with namespaces.
fn amend(limits: &mut [(LimitKind, LimitStatus)], confinement: &Confinement, others: u64) {
    for (kind, status) in limits {
        match (*kind, &*status) {
            (LimitKind::Processes, LimitStatus::Enforced(how)) if how.starts_with("rlimit") => {
                *status = LimitStatus::Enforced(format!(
                    "rlimit NPROC, above the {others} tasks that the user had at the start"
                ));
            }
            (LimitKind::TmpSize, _) => {
                *status = LimitStatus::Absent(format!(
                    "the private folder is on the host's disk and is not held to {} bytes",
                    confinement.filesystem.tmp_size
                ));
            }
            _ => (),
        }
    }
}

/// The layers that need a namespace, and what stands in for them.
fn lacking(network: Network, superuser: bool) -> Vec<(Layer, LayerStatus)> {
    let network = match network {
        Network::Host => LayerStatus::Granted(
            "the host's network, its loopback services included; no unix sockets".to_owned(),
        ),
        Network::Off => LayerStatus::Enforced(
            "no socket but connected pairs, by the system call filter".to_owned(),
        ),
    };
    let user = if superuser {
        LayerStatus::Degraded("kernel uid 0: no capability, Landlock and seccomp hold".to_owned())
    } else {
        LayerStatus::Degraded("the caller's own user, outside Landlock's reach as well".to_owned())
    };
    vec![
        absent(
            Layer::Mounts,
            "no mount namespace: names and attributes of all files show",
        ),
        absent(
            Layer::Processes,
            "no PID namespace: the host's processes show",
        ),
        absent(
            Layer::OtherNamespaces,
            "no namespaces: System V IPC is shared with the host",
        ),
        (Layer::Network, network),
        (Layer::User, user),
    ]
}

/// Puts `new` in the place of what was said about the same layers before.
fn replace(layers: &mut Vec<(Layer, LayerStatus)>, new: Vec<(Layer, LayerStatus)>) {
    layers.retain(|(layer, _)| !new.iter().any(|it| it.0 == *layer));
    layers.extend(new);
}

/// Devices that hold no state of the host.
const DEVICES: [&str; 6] = ["full", "null", "random", "tty", "urandom", "zero"];

/// What may be reached on the host as it is.
pub(crate) fn rules(filesystem: &Filesystem, terminal: Option<&Terminal>) -> Rules {
    let mut rules = vec![(PathBuf::from("/proc"), Right::See)];
    rules.extend(
        DEVICES
            .iter()
            .map(|it| (PathBuf::from("/dev").join(it), Right::Device)),
    );
    // Its own terminal and no other of the user's: another could be typed into.
    if let Some((_, slave)) = terminal
        && let Ok(name) = std::fs::read_link(format!("/proc/self/fd/{}", slave.as_raw_fd()))
    {
        rules.push((name, Right::Device));
    }
    rules.extend(
        filesystem
            .private
            .iter()
            .map(|it| (it.to_path_buf(), Right::All)),
    );
    rules.extend(
        lockdown::grant_rules(filesystem)
            .zip(&filesystem.grants)
            .map(|(rule, grant)| {
                let (path, right) = rule;
                // There is nowhere else for the writes to go.
                let right = match grant.access {
                    crate::Access::Cache => Right::Read,
                    crate::Access::Read | crate::Access::Write => right,
                };
                (path, right)
            }),
    );
    rules
}

/// Points `TMPDIR`, and a `HOME` that no grant shows, to the private folder.
pub(crate) fn adapt(confinement: &Confinement, environment: &mut Environment) {
    let Some(folder) = confinement.filesystem.private.first() else {
        return;
    };
    let home = environment
        .value("HOME")
        .and_then(|it| AbsPath::new(it).ok());
    let hidden = home.is_some_and(|it| confinement.filesystem.grant_over(&it).is_none());
    let folder = folder.as_os_str().to_owned();
    let mut pairs: Vec<(OsString, OsString)> = environment
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    pairs.push(("TMPDIR".into(), folder.clone()));
    if hidden {
        pairs.push(("HOME".into(), folder));
    }
    *environment = Environment::new(pairs);
}
