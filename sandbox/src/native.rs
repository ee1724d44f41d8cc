//! The embedded back end: our own namespaces and mounts, with nothing installed.

use std::os::fd::{AsFd, OwnedFd};

use rustix::process::Pid;
use rustix::thread::CapabilitySet;

use crate::backend::{Backend, Host};
use crate::cgroup::Cgroup;
use crate::channel::Channel;
use crate::confinement::{Confinement, Network};
use crate::error::SandboxError;
use crate::filesystem::Access;
use crate::identity::{Identity, RESERVED_ID};
use crate::init::{self, Fence};
use crate::limits::{LimitKind, LimitStatus, Limits};
use crate::message::Request;
use crate::plan::Plan;
use crate::reaper::Reaper;
use crate::running::{Ending, Prepared, Tree};
use crate::sys;
use crate::sys::process::Fork;

/// The embedded back end.
#[derive(Clone, Copy, Debug)]
pub struct Native;

impl Backend for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn prepare(&self, confinement: &Confinement, host: Host) -> Result<Prepared, SandboxError> {
        let Host {
            shared,
            when_orphaned,
            layers,
        } = host;
        let mut holder = None;
        let Identified {
            identity,
            idmap,
            proofs,
        } = identity(confinement, &mut |owner, group| {
            let (namespace, process) = idmap(owner, group)?;
            holder = Some(process);
            Ok(namespace)
        })?;
        let plan = Plan {
            confinement: confinement.clone(),
            identity,
            layers,
            poll_memory: false,
            shared,
        };
        let (channel, theirs) = Channel::pair()?;
        let network = confinement.network;
        let (pid, pidfd) = clone_init(&plan, &theirs, network, idmap)?;
        drop(theirs);
        // First the one who removes it, then what has to be removed.
        let planned = Cgroup::planned(&confinement.limits, pid);
        let reaper = Reaper::start(pidfd.as_fd(), &planned, when_orphaned)?;
        // The reaper has them too, and is the one that waits when it closes them.
        drop(proofs);
        let (cgroup, held) = group(&confinement.limits, pid, &channel)?;
        let tree = Tree::new(channel, pid, pidfd, cgroup, reaper, Ending::Direct);
        let superuser = plan.identity.is_superuser();
        let limits = statuses(&confinement.limits, &held, superuser);
        let prepared = tree.ready(self.name(), limits, &confinement.requirement.limits);
        drop(holder);
        prepared
    }
}

/// Makes the control groups of the init `pid` and has it join them, while it builds its view.
pub(crate) fn group(
    limits: &Limits,
    pid: Pid,
    channel: &Channel,
) -> Result<(Cgroup, Vec<(LimitKind, LimitStatus)>), SandboxError> {
    let offer = Cgroup::offer(limits, pid);
    let poll_memory = limits.memory.is_some() && !offer.holds_memory();
    let seats: Vec<_> = offer.seats.iter().map(AsFd::as_fd).collect();
    let sent = channel.send(&Request::Join { poll_memory }, &seats);
    match sent {
        // Init is gone; what it said before it went tells why.
        Err(SandboxError::Channel { ref source })
            if source.kind() == std::io::ErrorKind::BrokenPipe => {}
        Err(error) => {
            offer.cgroup.remove();
            return Err(error);
        }
        Ok(()) => {}
    }
    Ok((offer.cgroup, offer.statuses))
}

/// Clones an init into the namespaces of `plan`; in the child this never returns.
///
/// `network` says whether it gets a new network namespace, or stays in this process's.
pub(crate) fn clone_init(
    plan: &Plan,
    channel: &Channel,
    network: Network,
    idmap: Option<OwnedFd>,
) -> Result<(Pid, OwnedFd), SandboxError> {
    let threads =
        sys::process::threads().map_err(|error| SandboxError::build("counting threads", error))?;
    if threads != 1 {
        return Err(SandboxError::Threaded { threads });
    }
    match sys::process::clone3(namespaces(plan.identity, network)).map_err(refused)? {
        Fork::Child => init::run(plan, channel, Fence::Namespaces, idmap),
        Fork::Parent { pid, pidfd } => Ok((pid, pidfd)),
    }
}

/// All that a sandbox of an ordinary caller without network is cloned into.
pub(crate) fn every_namespace() -> u64 {
    namespaces(Identity::Own { uid: 0, gid: 0 }, Network::Off)
}

/// The namespaces of a sandbox, namespaces(7).
fn namespaces(identity: Identity, network: Network) -> u64 {
    let mut flags = libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    if network == Network::Off {
        flags |= libc::CLONE_NEWNET;
    }
    // A privileged init builds the view first and enters its user namespace last, so that no
    // capability of the payload's namespace ever reaches the mounts.
    if let Identity::Own { .. } = identity {
        flags |= libc::CLONE_NEWUSER;
    }
    u64::try_from(flags).unwrap_or_default()
}

fn refused(source: std::io::Error) -> SandboxError {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::ENOSPC | libc::EUSERS | libc::EINVAL | libc::ENOSYS) => {
            SandboxError::Unsupported {
                feature: format!("user namespaces ({source})"),
                remedy: crate::probe::user_namespace_remedy(),
            }
        }
        _ => SandboxError::build("making namespaces", source),
    }
}

/// Who the payload is.
#[derive(Debug)]
pub(crate) struct Identified {
    pub(crate) identity: Identity,
    /// The maps of its owned trees.
    pub(crate) idmap: Option<OwnedFd>,
    /// What shows that these can be mapped; see [`crate::view::mapped`] on closing them.
    pub(crate) proofs: Vec<OwnedFd>,
}

impl Identified {
    fn own(identity: Identity) -> Self {
        Self {
            identity,
            idmap: None,
            proofs: Vec::new(),
        }
    }
}

/// Who the payload is, and the maps of its owned trees, which `idmap` makes for an owner and a
/// group.
pub(crate) fn identity(
    confinement: &Confinement,
    idmap: &mut dyn FnMut(u32, u32) -> std::io::Result<OwnedFd>,
) -> Result<Identified, SandboxError> {
    let own = Identity::Own {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
    };
    // A root that lacks one of these, as in a container, makes a user namespace like others.
    let needed = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::SETGID
        | CapabilitySet::SETUID
        | CapabilitySet::SYS_ADMIN;
    let privileged = rustix::process::geteuid().is_root()
        && rustix::thread::capabilities(None).is_ok_and(|it| it.effective.contains(needed));
    if !privileged {
        return Ok(Identified::own(own));
    }
    let owned = |it: &&crate::filesystem::Grant| it.owned;
    let workspace = confinement
        .filesystem
        .grants
        .iter()
        .filter(owned)
        .max_by_key(|it| it.access == Access::Write);
    let (owner, group) = match workspace.map(|it| rustix::fs::stat(&*it.path)) {
        Some(Ok(attributes)) => (attributes.st_uid, attributes.st_gid),
        _ => (0, 0),
    };
    let Ok(idmap) = idmap(owner, group) else {
        return superuser(own);
    };
    let mut trees = confinement
        .filesystem
        .grants
        .iter()
        .filter(owned)
        .map(|it| &it.path);
    let stage = confinement.filesystem.staging.as_ref().map(|it| &it.stage);
    let proofs: Option<Vec<OwnedFd>> = trees
        .by_ref()
        .chain(stage)
        .map(|path| crate::view::mapped(path, idmap.as_fd()))
        .collect();
    match proofs {
        Some(proofs) => Ok(Identified {
            identity: Identity::Reserved { owner, group },
            idmap: Some(idmap),
            proofs,
        }),
        None => superuser(own),
    }
}

/// Staying kernel uid 0 is accepted only with every other layer, Landlock included.
fn superuser(own: Identity) -> Result<Identified, SandboxError> {
    if sys::landlock::abi().is_err() {
        return Err(SandboxError::Unsupported {
            feature: "id-mapped mounts of the workspace, or Landlock instead".to_owned(),
            remedy: "run as an ordinary user, or put the workspace on a file system with \
                     id-mapped mounts (ext4, xfs, btrfs, tmpfs)"
                .to_owned(),
        });
    }
    Ok(Identified::own(own))
}

/// A user namespace that maps `owner` on disk to the reserved user, mount_setattr(2), and the
/// process that it was made with.
pub(crate) fn idmap(owner: u32, group: u32) -> std::io::Result<(OwnedFd, Holder)> {
    let (wait, go) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let flags = u64::try_from(libc::CLONE_NEWUSER).unwrap_or_default();
    match sys::process::clone3(flags)? {
        Fork::Child => {
            drop(go);
            let _ = rustix::io::retry_on_intr(|| rustix::io::read(&wait, &mut [0]));
            sys::process::exit(0)
        }
        Fork::Parent { pid, pidfd } => {
            // It ends once `go` is closed, which happens before the holder is dropped.
            let holder = Holder(pidfd);
            let namespace = map_and_open(pid, owner, group);
            drop(go);
            Ok((namespace?, holder))
        }
    }
}

/// A process that ends by itself; whoever drops this waits for that, and so should do it late.
#[derive(Debug)]
pub(crate) struct Holder(OwnedFd);

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = rustix::io::retry_on_intr(|| {
            rustix::process::waitid(
                rustix::process::WaitId::PidFd(self.0.as_fd()),
                rustix::process::WaitIdOptions::EXITED,
            )
        });
    }
}

fn map_and_open(pid: Pid, owner: u32, group: u32) -> std::io::Result<OwnedFd> {
    let folder = format!("/proc/{}", pid.as_raw_nonzero());
    std::fs::write(
        format!("{folder}/uid_map"),
        format!("{owner} {RESERVED_ID} 1"),
    )?;
    std::fs::write(
        format!("{folder}/gid_map"),
        format!("{group} {RESERVED_ID} 1"),
    )?;
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    Ok(rustix::fs::open(
        format!("{folder}/ns/user"),
        flags,
        rustix::fs::Mode::empty(),
    )?)
}

/// What holds each limit.
pub(crate) fn statuses(
    limits: &Limits,
    held: &[(LimitKind, LimitStatus)],
    superuser: bool,
) -> Vec<(LimitKind, LimitStatus)> {
    let Limits {
        processes,
        memory,
        cpu_time,
        file_size,
        open_files,
        wall_time,
    } = limits;
    let rlimit = |name: &str| LimitStatus::Enforced(format!("rlimit {name}"));
    // RLIMIT_NPROC does not bind kernel uid 0, setrlimit(2).
    let by_rlimit = if superuser {
        LimitStatus::Absent(
            "RLIMIT_NPROC does not bind uid 0, and no pids cgroup can be had".into(),
        )
    } else {
        rlimit("NPROC, in a user namespace of its own")
    };
    let polled =
        LimitStatus::Polled("the tree is ended when its memory is found to pass it".into());
    let all = [
        (LimitKind::Processes, processes, by_rlimit),
        (LimitKind::Memory, memory, polled),
        (LimitKind::CpuTime, cpu_time, rlimit("CPU, each process")),
        (LimitKind::FileSize, file_size, rlimit("FSIZE")),
        (
            LimitKind::OpenFiles,
            open_files,
            rlimit("NOFILE, each process"),
        ),
        (
            LimitKind::WallTime,
            wall_time,
            LimitStatus::Enforced("supervisor's timer".into()),
        ),
    ];
    let mut statuses: Vec<_> = all
        .into_iter()
        .map(|(kind, amount, status)| {
            let by_group = held.iter().find(|it| it.0 == kind).map(|it| it.1.clone());
            let status = match (amount, by_group) {
                (None, _) => LimitStatus::Unlimited,
                (_, Some(by_group)) => by_group,
                (_, None) => status,
            };
            (kind, status)
        })
        .collect();
    statuses.push((
        LimitKind::TmpSize,
        LimitStatus::Enforced("tmpfs size".into()),
    ));
    statuses
}
