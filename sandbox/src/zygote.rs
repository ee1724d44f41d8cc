//! A small, single-threaded process that makes sandboxes for a supervisor with threads.
//!
//! It is our own program, executed again before the supervisor starts a thread. For each
//! request it clones an init, which builds and confines itself as for one command alone.
//!
//! # Invariants
//!
//! - **No secret.** It starts with an empty environment; values go from the supervisor to the
//!   one init that needs them.
//! - **A fresh network namespace each.** The zygote sits in an empty one that nobody has used.
//!   The next init inherits it, and the zygote makes another while nobody waits.
//! - **It outlives its supervisor** just long enough to see every sandbox end and to remove
//!   what they leave on the host.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, WaitOptions};
use serde::{Deserialize, Serialize};

use crate::backend::{Backend, Host};
use crate::cgroup::Cgroup;
use crate::channel::{self, Channel};
use crate::confinement::{Confinement, Network};
use crate::error::SandboxError;
use crate::limits::Limits;
use crate::native::{self, Identified};
use crate::plan::Plan;
use crate::report::{Layer, LayerStatus};
use crate::running::{Prepared, Tree};
use crate::step::{Failure, Stage};
use crate::sys;
use crate::sys::process::Fork;

/// The argument by which our own program knows that it is to be a zygote.
pub const ARGUMENT: &CStr = c"__zygote";

/// Where the zygote finds its end of the channel.
const CHANNEL: i32 = 3;

/// Announces an [`Order`]: an empty packet would read as the end of the channel.
#[derive(Debug, Serialize, Deserialize)]
enum Ask {
    One,
}

/// A request, which travels as a sealed file beside one end of the new init's channel.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    confinement: Confinement,
    layers: Vec<(Layer, LayerStatus)>,
    shared: bool,
}

/// The answer; with `Cloned` travels the init's descriptor.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Cloned { pid: i32, superuser: bool },
    Refused(Failure),
}

/// The supervisor's handle on its zygote: a back end like any other.
#[derive(Debug)]
pub struct Zygote {
    channel: Channel,
    pid: Pid,
    pidfd: OwnedFd,
}

impl Zygote {
    /// Starts `program`, which is our own executable and answers to [`ARGUMENT`] by calling
    /// [`run`], before this process starts a thread.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Threaded`] when it has one already.
    pub fn start(program: &Path, network: Network) -> Result<Self, SandboxError> {
        let threads = sys::process::threads()
            .map_err(|error| SandboxError::build("counting threads", error))?;
        if threads != 1 {
            return Err(SandboxError::Threaded { threads });
        }
        let program = CString::new(program.as_os_str().as_bytes())
            .map_err(|_| SandboxError::build("naming the zygote", rustix::io::Errno::INVAL))?;
        let mode = match network {
            Network::Host => c"host",
            Network::Off => c"off",
        };
        let arguments = [program.clone(), ARGUMENT.to_owned(), mode.to_owned()];
        let (ours, theirs) = Channel::pair()?;
        let failed = |error| SandboxError::build("starting the zygote", error);
        match sys::process::clone3(0).map_err(failed)? {
            Fork::Child => {
                if sys::process::inherit_as(theirs.as_fd(), CHANNEL).is_ok()
                    && sys::process::close_except(&[0, 1, 2, CHANNEL]).is_ok()
                {
                    sys::process::execve(&program, &arguments, &[]);
                }
                sys::process::exit(125)
            }
            Fork::Parent { pid, pidfd } => Ok(Self {
                channel: ours,
                pid,
                pidfd,
            }),
        }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Asks for a sandbox and does not wait until it is confined.
    pub(crate) fn order(
        &self,
        confinement: &Confinement,
        host: Host,
    ) -> Result<Ordered, SandboxError> {
        let Host {
            shared,
            when_orphaned: _,
            layers,
        } = host;
        let order = Order {
            confinement: confinement.clone(),
            layers,
            shared,
        };
        let sealed = channel::seal(&order)?;
        let (ours, theirs) = Channel::pair()?;
        self.channel
            .send(&Ask::One, &[sealed.as_fd(), theirs.as_fd()])?;
        drop(theirs);
        match self.channel.receive::<Answer>()? {
            Some((Answer::Cloned { pid, superuser }, mut descriptors)) => {
                let (Some(pid), Some(pidfd)) = (Pid::from_raw(pid), descriptors.pop()) else {
                    return Err(SandboxError::Message);
                };
                let (cgroup, held) = native::group(&confinement.limits, pid, &ours)?;
                let limits = native::statuses(&confinement.limits, &held, superuser);
                let tree = Tree::new(
                    ours,
                    pid,
                    pidfd,
                    cgroup,
                    None,
                    crate::running::Ending::Direct,
                );
                Ok(Ordered { tree, limits })
            }
            Some((Answer::Refused(failure), _)) => Err(failure.into()),
            None => Err(SandboxError::InitDied {
                detail: "the zygote is gone".to_owned(),
            }),
        }
    }
}

/// A sandbox that is being built.
#[derive(Debug)]
pub(crate) struct Ordered {
    tree: Tree,
    limits: Vec<(crate::limits::LimitKind, crate::limits::LimitStatus)>,
}

impl Ordered {
    /// Waits until it is confined.
    pub(crate) fn ready(self, confinement: &Confinement) -> Result<Prepared, SandboxError> {
        let required = &confinement.requirement.limits;
        self.tree.ready("native", self.limits, required)
    }
}

impl Backend for Zygote {
    fn name(&self) -> &'static str {
        "native"
    }

    fn prepare(&self, confinement: &Confinement, host: Host) -> Result<Prepared, SandboxError> {
        self.order(confinement, host)?.ready(confinement)
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        // Its end of the channel closes with ours; what it made ends before it does.
        let _ = rustix::net::shutdown(self.channel.as_fd(), rustix::net::Shutdown::Both);
        let _ = rustix::io::retry_on_intr(|| {
            rustix::process::waitid(
                rustix::process::WaitId::PidFd(self.pidfd.as_fd()),
                rustix::process::WaitIdOptions::EXITED,
            )
        });
    }
}

/// Is the zygote. Never returns.
///
/// Our own program calls it, first thing, when its first argument is [`ARGUMENT`].
pub fn run(network: Network) -> ! {
    let code = match sys::process::take_descriptor(CHANNEL) {
        Ok(descriptor) => {
            let channel = Channel::from_descriptor(descriptor);
            match prepare_self(network) {
                Ok(()) => serve(&channel, network),
                Err(failure) => refuse_all(&channel, &failure),
            }
            0
        }
        Err(_) => 125,
    };
    sys::process::exit(code)
}

fn prepare_self(network: Network) -> Result<(), Failure> {
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .stage("closing the zygote to tracing")?;
    // Its own session: a signal to the supervisor's group does not reach it.
    let _ = rustix::process::setsid();
    let _ = sys::process::block_all_and_watch_children();
    if network == Network::Off {
        if !rustix::process::geteuid().is_root() {
            let uid = rustix::process::geteuid().as_raw();
            let gid = rustix::process::getegid().as_raw();
            sys::process::enter_new_user_namespace().stage("making a user namespace")?;
            crate::init::map_ids(uid, gid)?;
            rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
                .stage("closing the zygote to tracing")?;
        }
        fresh_network()?;
    }
    Ok(())
}

/// Moves the zygote into an empty network namespace that nobody has used.
fn fresh_network() -> Result<(), Failure> {
    sys::process::enter_new_network_namespace().stage("making a network namespace")?;
    crate::init::open_loopback(Network::Off).map(drop)
}

/// Answers every request with why there will be none.
fn refuse_all(channel: &Channel, failure: &Failure) {
    while let Ok(Some((_, _))) = channel.receive::<Ask>() {
        let _ = channel.send(&Answer::Refused(failure.clone()), &[]);
    }
}

/// Makes sandboxes until the supervisor is gone, then waits for the end of each.
fn serve(channel: &Channel, network: Network) {
    let mut inits: HashMap<Pid, (OwnedFd, Limits)> = HashMap::new();
    let mut idmaps: HashMap<(u32, u32), OwnedFd> = HashMap::new();
    while let Ok(Some((Ask::One, descriptors))) = channel.receive::<Ask>() {
        let answer = match clone_one(descriptors, network, &mut idmaps) {
            Ok(Cloned {
                pid,
                pidfd,
                superuser,
                limits,
                proofs,
            }) => {
                let answer = Answer::Cloned {
                    pid: pid.as_raw_nonzero().get(),
                    superuser,
                };
                let sent = channel.send(&answer, &[pidfd.as_fd()]);
                // Closing them takes the kernel a while: after the answer.
                drop(proofs);
                inits.insert(pid, (pidfd, limits));
                sent
            }
            Err(failure) => channel.send(&Answer::Refused(failure), &[]),
        };
        if answer.is_err() {
            break;
        }
        if network == Network::Off && fresh_network().is_err() {
            break;
        }
        while let Ok(Some((pid, _))) = rustix::process::wait(WaitOptions::NOHANG) {
            inits.remove(&pid);
        }
    }
    for (pid, (pidfd, limits)) in &inits {
        let _ = rustix::process::pidfd_send_signal(pidfd, rustix::process::Signal::KILL);
        let mut watched = [PollFd::new(pidfd, PollFlags::IN)];
        let _ = rustix::io::retry_on_intr(|| rustix::event::poll(&mut watched, None));
        Cgroup::of(limits, *pid).remove();
    }
}

/// An init that was cloned.
struct Cloned {
    pid: Pid,
    pidfd: OwnedFd,
    superuser: bool,
    limits: Limits,
    proofs: Vec<OwnedFd>,
}

fn clone_one(
    descriptors: Vec<OwnedFd>,
    network: Network,
    idmaps: &mut HashMap<(u32, u32), OwnedFd>,
) -> Result<Cloned, Failure> {
    let malformed = || Err(rustix::io::Errno::BADMSG).stage("reading an order");
    let mut descriptors = descriptors.into_iter();
    let (Some(sealed), Some(channel)) = (descriptors.next(), descriptors.next()) else {
        return malformed();
    };
    let Ok(order) = channel::unseal::<Order>(sealed.as_fd()) else {
        return malformed();
    };
    let Order {
        confinement,
        layers,
        shared,
    } = order;
    let told = |error: SandboxError| Failure {
        stage: error.to_string(),
        path: None,
        errno: libc::EPERM,
    };
    if confinement.network != network {
        return Err(rustix::io::Errno::INVAL).stage("serving another network");
    }
    let Identified {
        identity,
        idmap,
        proofs,
    } = native::identity(&confinement, &mut |owner, group| {
        let known = match idmaps.entry((owner, group)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => vacant.insert(native::idmap(owner, group)?.0),
        };
        Ok(rustix::io::fcntl_dupfd_cloexec(known, 0)?)
    })
    .map_err(told)?;
    let limits = confinement.limits.clone();
    let plan = Plan {
        poll_memory: false,
        confinement,
        identity,
        layers,
        shared,
    };
    let channel = Channel::from_descriptor(channel);
    // The network namespace is the zygote's own, and fresh: see `serve`.
    let (pid, pidfd) = native::clone_init(&plan, &channel, Network::Host, idmap).map_err(told)?;
    Ok(Cloned {
        pid,
        pidfd,
        superuser: identity.is_superuser(),
        limits,
        proofs,
    })
}
