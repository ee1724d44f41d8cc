//! The first process of a sandbox: builds the view, confines itself, starts and reaps.
//!
//! # Invariants
//!
//! - **Confined before the payload exists.** Nothing is forked before [`confine`] returned, so
//!   the payload inherits every layer and finds no unfiltered process to write into.
//! - **Its end is the end of everything.** It leaves when the main command ended, or when the
//!   supervisor's end of the channel closes; the kernel then kills the PID namespace.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal};

use crate::channel::Channel;
use crate::confinement::{Confinement, Network};
use crate::identity::{Identity, RESERVED_ID};
use crate::lockdown;
use crate::message::{Notice, Request};
use crate::plan::Plan;
use crate::report::{Layer, LayerStatus};
use crate::serve;
use crate::step::{Failure, Stage};
use crate::sys;
use crate::view;

/// How this init is fenced from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    /// It was cloned into namespaces and builds its own view.
    Namespaces,
    /// Another program made the namespaces and the view (bubblewrap).
    Prebuilt,
    /// There are no namespaces.
    Bare,
}

/// Runs as the first process of a sandbox. Never returns.
pub(crate) fn run(plan: &Plan, channel: &Channel, fence: Fence, idmap: Option<OwnedFd>) -> ! {
    let answer = start(plan, channel, fence, idmap);
    let code = match answer {
        Ok(()) => 0,
        Err(failure) => {
            // If the supervisor is gone there is nobody to tell.
            let _ = channel.send(&Notice::Failed(failure), &[]);
            1
        }
    };
    sys::process::exit(code)
}

fn start(
    plan: &Plan,
    channel: &Channel,
    fence: Fence,
    idmap: Option<OwnedFd>,
) -> Result<(), Failure> {
    shed_descriptors(channel, idmap.as_ref())?;
    let children =
        sys::process::block_all_and_watch_children().stage("watching for ended children")?;
    // Remembered from here on: the filter and the closed /proc/self/auxv hide it later.
    let _ = rustix::param::page_size();
    // Without a root of its own nothing below /dev/pts may be opened once it is confined.
    let terminal = match fence {
        Fence::Bare => serve::open_terminal().ok(),
        Fence::Namespaces | Fence::Prebuilt => None,
    };
    let Confined {
        layers,
        notes,
        poll_memory,
    } = confine(
        plan,
        channel,
        fence,
        idmap.as_ref().map(AsFd::as_fd),
        terminal.as_ref(),
    )?;
    drop(idmap);
    let ready = Notice::Ready { layers, notes };
    channel.send(&ready, &[]).map_err(|_| gone())?;
    serve::serve(plan, channel, &children, fence, poll_memory, terminal)
}

fn gone() -> Failure {
    Failure {
        stage: "answering the supervisor".to_owned(),
        path: None,
        errno: libc::EPIPE,
    }
}

/// Closes whatever the supervisor had open; standard descriptors become `/dev/null`.
fn shed_descriptors(channel: &Channel, idmap: Option<&OwnedFd>) -> Result<(), Failure> {
    let mut keep = vec![0, 1, 2, channel.as_fd().as_raw_fd()];
    keep.extend(idmap.map(AsRawFd::as_raw_fd));
    sys::process::close_except(&keep).stage("closing inherited descriptors")?;
    let flags = rustix::fs::OFlags::RDWR;
    let null = rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty())
        .stage("opening /dev/null")?;
    rustix::stdio::dup2_stdin(&null)
        .and_then(|()| rustix::stdio::dup2_stdout(&null))
        .and_then(|()| rustix::stdio::dup2_stderr(&null))
        .stage("closing standard descriptors")
}

/// What was applied.
struct Confined {
    layers: Vec<(Layer, LayerStatus)>,
    notes: Vec<String>,
    /// Whether the memory of the tree has to be watched.
    poll_memory: bool,
}

/// Applies every dimension of the confinement to this process.
fn confine(
    plan: &Plan,
    channel: &Channel,
    fence: Fence,
    idmap: Option<BorrowedFd<'_>>,
    terminal: Option<&serve::Terminal>,
) -> Result<Confined, Failure> {
    // Taken apart without `..`: a new dimension breaks this until it is carried out.
    let Confinement {
        filesystem,
        network,
        powers,
        limits: _,
        environment: _,
        requirement,
    } = &plan.confinement;
    let mut layers = plan.layers.clone();
    let mut notes = Vec::new();
    let mut poll_memory = plan.poll_memory;
    die_with_parent()?;
    if fence == Fence::Namespaces {
        if let Identity::Own { uid, gid } = plan.identity {
            map_ids(uid, gid)?;
        }
        let (settings, more) = view::build(filesystem, plan.identity, idmap)?;
        notes.extend(more);
        layers.push((Layer::Mounts, enforced("a private root, read-only")));
        let held = format!("{} read-only, ancestors pinned", filesystem.protected.len());
        layers.push((Layer::ProtectedNames, enforced(&held)));
        layers.push((Layer::Processes, enforced("a PID namespace")));
        poll_memory = join_groups(channel)?;
        rustix::system::sethostname(b"localhost").stage("naming the host")?;
        layers.push((Layer::OtherNamespaces, enforced("unshared")));
        layers.push((Layer::Network, open_loopback(*network)?));
        if let Identity::Reserved { .. } = plan.identity {
            become_reserved()?;
        }
        layers.push((Layer::User, user_status(plan.identity)));
        if !powers.nested_user_namespaces {
            forbid_user_namespaces(&settings)?;
        }
    }
    let core = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    rustix::process::setrlimit(Resource::Core, core).stage("forbidding core dumps")?;
    layers.push(lockdown::drop_powers()?);
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .stage("closing init to tracing")?;
    // Changing ids and powers cleared it, prctl(2).
    die_with_parent()?;
    let least = requirement.landlock_abi;
    layers.push(if fence == Fence::Bare {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .stage("adopting orphans")?;
        let rules = crate::bare::rules(filesystem, terminal);
        lockdown::landlock(&rules, least.max(1), *network == Network::Off)?
    } else {
        lockdown::landlock(&lockdown::view_rules(filesystem), least, false)?
    });
    let fenced = fence != Fence::Bare;
    layers.push(lockdown::filter(&lockdown::syscall_policy(
        *powers, *network, fenced,
    ))?);
    Ok(Confined {
        layers,
        notes,
        poll_memory,
    })
}

/// Joins the control groups that the supervisor made meanwhile; whether init has to watch the
/// memory of the tree.
fn join_groups(channel: &Channel) -> Result<bool, Failure> {
    let Ok(Some((Request::Join { poll_memory }, seats))) = channel.receive() else {
        return Err(gone());
    };
    for seat in &seats {
        crate::cgroup::join(seat.as_fd()).stage("joining a control group")?;
    }
    Ok(poll_memory)
}

fn enforced(how: &str) -> LayerStatus {
    LayerStatus::Enforced(how.to_owned())
}

fn die_with_parent() -> Result<(), Failure> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .stage("tying init to its parent")
}

/// Maps the caller's own ids, and nothing else, user_namespaces(7).
pub(crate) fn map_ids(uid: u32, gid: u32) -> Result<(), Failure> {
    // A process that cannot be dumped does not own its files in /proc.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)
        .stage("opening the id maps")?;
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/gid_map", &format!("{gid} {gid} 1"))?;
    write("/proc/self/uid_map", &format!("{uid} {uid} 1"))
}

fn write(file: &str, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text).stage_at("writing", std::path::Path::new(file))
}

/// Becomes the reserved user, in a user namespace that maps only it.
fn become_reserved() -> Result<(), Failure> {
    let (uid, gid) = (
        rustix::fs::Uid::from_raw(RESERVED_ID),
        rustix::fs::Gid::from_raw(RESERVED_ID),
    );
    rustix::thread::set_keep_capabilities(true).stage("leaving uid 0")?;
    rustix::thread::set_thread_groups(&[]).stage("leaving every group")?;
    rustix::thread::set_thread_res_gid(gid, gid, gid).stage("leaving gid 0")?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).stage("leaving uid 0")?;
    sys::process::enter_new_user_namespace().stage("making a user namespace")?;
    map_ids(RESERVED_ID, RESERVED_ID)
}

fn user_status(identity: Identity) -> LayerStatus {
    match identity {
        Identity::Own { uid: 0, .. } => LayerStatus::Degraded(
            "kernel uid 0: no capability, read-only /proc/sys, Landlock and seccomp hold"
                .to_owned(),
        ),
        Identity::Own { uid, .. } => enforced(&format!("uid {uid} in a user namespace of its own")),
        Identity::Reserved { .. } => enforced(&format!("uid {RESERVED_ID}, which owns nothing")),
    }
}

pub(crate) fn open_loopback(network: Network) -> Result<LayerStatus, Failure> {
    if network == Network::Host {
        return Ok(LayerStatus::Granted(
            "the host's network, its loopback services included".to_owned(),
        ));
    }
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )
    .stage("opening a socket")?;
    match sys::network::raise_loopback(socket.as_fd()) {
        Ok(()) => Ok(enforced("an empty network namespace")),
        // A security module may forbid it; the namespace is as empty without.
        Err(error) => Ok(LayerStatus::Enforced(format!(
            "an empty network namespace, its own loopback down ({error})"
        ))),
    }
}

/// Sets the number of user namespaces below this one to none, namespaces(7).
fn forbid_user_namespaces(settings: &OwnedFd) -> Result<(), Failure> {
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC;
    let name = "user/max_user_namespaces";
    match rustix::fs::openat(settings, name, flags, rustix::fs::Mode::empty()) {
        Ok(file) => rustix::io::write(&file, b"0")
            .map(drop)
            .stage("forbidding nested user namespaces"),
        // The filter refuses them as well; a kernel without the setting has no other way.
        Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(other) => Err(other).stage("forbidding nested user namespaces"),
    }
}

/// Takes over a descriptor that a launching program left open for this process.
///
/// # Errors
///
/// When nothing is open there.
pub(crate) fn inherited(number: i32) -> Result<OwnedFd, Failure> {
    sys::process::take_descriptor(number).stage("taking over a descriptor")
}
