//! Checks, from inside, that bubblewrap built what was asked for.
//!
//! # Invariants
//!
//! - **Trust nothing that can be looked at.** Each claim about the view in the report follows
//!   a look at it; one that is not so ends the sandbox before anything ran in it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, StatVfsMountFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::arguments::Seen;
use crate::confinement::Network;
use crate::filesystem::Access;
use crate::path::AbsPath;
use crate::plan::Plan;
use crate::report::{Layer, LayerStatus};
use crate::step::{Failure, Stage};
use crate::view::proc;

/// What the second stage gets.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) plan: Plan,
    pub(crate) seen: Vec<Seen>,
    pub(crate) hidden: Vec<AbsPath>,
    /// The supervisor's own namespaces: name and inode.
    pub(crate) namespaces: Vec<(String, u64)>,
    pub(crate) bubblewrap: String,
}

/// The namespaces that are compared, namespaces(7).
const NAMESPACES: [&str; 6] = ["cgroup", "ipc", "mnt", "net", "pid", "uts"];

/// The namespaces of this process, as far as the kernel has them.
pub(super) fn namespaces() -> Vec<(String, u64)> {
    NAMESPACES
        .iter()
        .filter_map(|name| {
            let attributes = std::fs::metadata(format!("/proc/self/ns/{name}")).ok()?;
            Some(((*name).to_owned(), attributes.ino()))
        })
        .collect()
}

/// Looks at everything; the layers that hold.
pub(crate) fn view(orders: &Orders) -> Result<Vec<(Layer, LayerStatus)>, Failure> {
    let Orders {
        plan,
        seen,
        hidden,
        namespaces: host,
        bubblewrap,
    } = orders;
    let network = plan.confinement.network;
    if rustix::process::getpid() != rustix::process::Pid::INIT {
        return Err(Errno::PERM).stage("finding a PID namespace");
    }
    unshared(host, network)?;
    read_only("/")?;
    for name in proc::READ_ONLY {
        let path = Path::new("/proc").join(name);
        if path.exists() {
            read_only(path)?;
        }
    }
    for (path, device, inode) in seen {
        same(path, *device, *inode)?;
    }
    // Landlock says the same of grants; a layer that leans on another is none.
    let filesystem = &plan.confinement.filesystem;
    let grants = filesystem
        .grants
        .iter()
        .filter(|it| it.access != Access::Write);
    let closed = grants.map(|it| &it.path).chain(&filesystem.protected);
    for path in closed.filter(|path| seen.iter().any(|it| it.0 == **path)) {
        read_only(&**path)?;
    }
    for path in hidden {
        unreadable(path)?;
    }
    let enforced = |how: &str| LayerStatus::Enforced(how.to_owned());
    let network = match network {
        Network::Off => {
            only_loopback()?;
            enforced("an empty network namespace")
        }
        Network::Host => {
            LayerStatus::Granted("the host's network, its loopback services included".to_owned())
        }
    };
    Ok(vec![
        (
            Layer::Mounts,
            enforced(&format!("a private root, read-only, by {bubblewrap}")),
        ),
        (Layer::Processes, enforced("a PID namespace")),
        (Layer::OtherNamespaces, enforced("unshared")),
        (Layer::Network, network),
        (Layer::User, user()?),
    ])
}

fn unshared(host: &[(String, u64)], network: Network) -> Result<(), Failure> {
    let own = namespaces();
    for (name, inode) in host {
        let shared_by_grant = name == "net" && network == Network::Host;
        let own = own.iter().find(|it| it.0 == *name).map(|it| it.1);
        if !shared_by_grant && (own.is_none() || own == Some(*inode)) {
            return Err(Errno::PERM).stage(&format!("unsharing the {name} namespace"));
        }
    }
    Ok(())
}

fn read_only(path: impl AsRef<Path>) -> Result<(), Failure> {
    let path = path.as_ref();
    let stage = "finding a read-only mount";
    let mount = rustix::fs::statvfs(path).stage_at(stage, path)?;
    if mount.f_flag.contains(StatVfsMountFlags::RDONLY) {
        Ok(())
    } else {
        Err(Errno::PERM).stage_at(stage, path)
    }
}

/// The name inside is the very file that the supervisor saw.
fn same(path: &AbsPath, device: u64, inode: u64) -> Result<(), Failure> {
    let stage = "comparing a mounted path";
    let found = rustix::fs::lstat(&**path).stage_at(stage, path)?;
    if (found.st_dev, found.st_ino) == (device, inode) {
        Ok(())
    } else {
        Err(Errno::STALE).stage_at(stage, path)
    }
}

fn unreadable(path: &AbsPath) -> Result<(), Failure> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match rustix::fs::openat(CWD, &**path, flags, Mode::empty()) {
        Err(Errno::ACCESS) => Ok(()),
        Err(other) => Err(other).stage_at("finding a denied name shut", path),
        Ok(_) => Err(Errno::PERM).stage_at("finding a denied name shut", path),
    }
}

/// No device but the namespace's own loopback, proc(5).
fn only_loopback() -> Result<(), Failure> {
    let text = std::fs::read_to_string("/proc/net/dev").stage("looking at the network")?;
    let foreign = text
        .lines()
        .filter_map(|it| it.split_once(':'))
        .any(|(name, _)| name.trim() != "lo");
    if foreign {
        return Err(Errno::PERM).stage("finding an empty network namespace");
    }
    Ok(())
}

/// Which user this is, from its own map, user_namespaces(7).
fn user() -> Result<LayerStatus, Failure> {
    let map = std::fs::read_to_string("/proc/self/uid_map").stage("reading the id map")?;
    let uid = rustix::process::getuid().as_raw();
    let whole = map.split_whitespace().eq(["0", "0", "4294967295"]);
    Ok(match (uid, whole) {
        (0, _) => LayerStatus::Degraded(
            "kernel uid 0: bubblewrap can not map it away; no capability, read-only /proc/sys, \
             Landlock and seccomp hold"
                .to_owned(),
        ),
        (_, true) => LayerStatus::Degraded(format!(
            "uid {uid} without a user namespace: bubblewrap is set-uid root here"
        )),
        (_, false) => LayerStatus::Enforced(format!("uid {uid} in a user namespace of its own")),
    })
}
