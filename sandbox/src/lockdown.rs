//! Takes every power from the calling process, for good: capabilities, Landlock, seccomp.
//!
//! # Invariants
//!
//! - **Order.** Keyring and capabilities first, then `no_new_privs`, Landlock, and the filter
//!   last: after it no set-up call is needed, and none is possible.
//! - **All or nothing.** A step that fails ends the sandbox before anything ran in it.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

use crate::confinement::{Network, Powers};
use crate::filesystem::{Access, Filesystem};
use crate::report::{Layer, LayerStatus};
use crate::seccomp::{self, Architecture, SocketFamilies, SyscallPolicy};
use crate::step::{Failure, Stage};
use crate::sys;

/// The last capability of linux/capability.h that is dropped by number; the kernel says
/// EINVAL past its own last one.
const LAST_CAPABILITY: u32 = 63;

/// Leaves no capability, no way to get one, and nothing for the host's processes to read.
pub(crate) fn drop_powers() -> Result<(Layer, LayerStatus), Failure> {
    match sys::process::new_session_keyring() {
        // A kernel without keyrings, or a container's filter: there is nothing to inherit.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => (),
        other => other.stage("leaving the session keyring")?,
    }
    rustix::thread::clear_ambient_capability_set()
        .or_else(|error| {
            if error == Errno::INVAL {
                Ok(())
            } else {
                Err(error)
            }
        })
        .stage("clearing ambient capabilities")?;
    for number in 0..=LAST_CAPABILITY {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Err(Errno::INVAL) => break,
            // Without CAP_SETPCAP (the `landlock` back end) `no_new_privs` does the work.
            Err(Errno::PERM) => break,
            other => other.stage("emptying the bounding set")?,
        }
    }
    let bits = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED;
    match rustix::thread::set_capabilities_secure_bits(bits) {
        Err(Errno::PERM) => (),
        other => other.stage("locking the secure bits")?,
    }
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none).stage("dropping capabilities")?;
    rustix::thread::set_no_new_privs(true).stage("setting no_new_privs")?;
    let left = rustix::thread::capabilities(None).stage("reading capabilities back")?;
    let bounding = (0..=LAST_CAPABILITY)
        .map(|number| CapabilitySet::from_bits_retain(1 << number))
        .map(rustix::thread::capability_is_in_bounding_set)
        // EINVAL: past the kernel's last one.
        .take_while(|it| *it != Err(Errno::INVAL))
        .any(|it| it != Ok(false));
    let status = match (left.permitted.is_empty(), bounding) {
        (false, _) => return Err(Errno::PERM).stage("dropping capabilities"),
        (true, true) => LayerStatus::Degraded(
            "none held and no_new_privs set, but the bounding set is not empty".to_owned(),
        ),
        (true, false) => LayerStatus::Enforced("none held, bounding set empty".to_owned()),
    };
    Ok((Layer::Capabilities, status))
}

/// What a rule allows beneath a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// Everything that Landlock knows.
    All,
    /// Reading and writing a device, and its own ioctls.
    Device,
    /// Reading and executing.
    Read,
    /// Reading and listing, without executing.
    See,
}

/// Paths and what is allowed beneath each; everything else is refused.
pub(crate) type Rules = Vec<(PathBuf, Right)>;

/// The rules that say once more what a private root shows.
///
/// All of it can be read: beneath the private root lies nothing but what was granted, and what
/// lies elsewhere is refused. What can be written has a rule each.
pub(crate) fn view_rules(filesystem: &Filesystem) -> Rules {
    let mut rules = vec![
        (PathBuf::from("/"), Right::Read),
        (PathBuf::from("/dev"), Right::All),
    ];
    rules.extend(
        filesystem
            .private
            .iter()
            .map(|it| (it.to_path_buf(), Right::All)),
    );
    rules.extend(grant_rules(filesystem).filter(|it| it.1 != Right::Read));
    rules
}

/// The rules of the grants.
pub(crate) fn grant_rules(filesystem: &Filesystem) -> impl Iterator<Item = (PathBuf, Right)> {
    filesystem.grants.iter().map(|grant| {
        let right = match grant.access {
            Access::Read => Right::Read,
            Access::Cache | Access::Write => Right::All,
        };
        (grant.path.to_path_buf(), right)
    })
}

/// Restricts files, abstract sockets and signals to `rules`.
///
/// `tcp_shut`: whether TCP is refused as well, where no namespace holds the network.
pub(crate) fn landlock(
    rules: &Rules,
    least: u32,
    tcp_shut: bool,
) -> Result<(Layer, LayerStatus), Failure> {
    let offered = match sys::landlock::abi() {
        Ok(abi) if abi >= least => abi,
        Ok(_) | Err(_) if least > 0 => {
            return Err(Errno::OPNOTSUPP).stage("finding the Landlock that is required");
        }
        Ok(abi) => abi,
        Err(_) => {
            let why = "this kernel offers no Landlock".to_owned();
            return Ok((Layer::Landlock, LayerStatus::Absent(why)));
        }
    };
    let abi = ABI::from(i32::try_from(offered).unwrap_or(0));
    let status = restrict(rules, abi, tcp_shut).map_err(|error| Failure {
        stage: format!("restricting by Landlock ({error})"),
        path: None,
        errno: libc::EPERM,
    })?;
    if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
        return Err(Errno::PERM).stage("restricting by Landlock");
    }
    let mut what = "files".to_owned();
    if tcp_shut && offered >= TCP_SINCE {
        what.push_str(", TCP");
    }
    if offered >= SCOPES_SINCE {
        what.push_str(", abstract sockets and signals by scope");
    }
    Ok((
        Layer::Landlock,
        LayerStatus::Enforced(format!("abi {offered}: {what}")),
    ))
}

/// The first ABI with rules for TCP, landlock(7).
pub(crate) const TCP_SINCE: u32 = 4;
/// The first ABI that scopes abstract sockets and signals.
pub(crate) const SCOPES_SINCE: u32 = 6;

fn restrict(
    rules: &Rules,
    abi: ABI,
    tcp_shut: bool,
) -> Result<RestrictionStatus, landlock::RulesetError> {
    let everything = AccessFs::from_all(abi);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(everything)?
        .scope(Scope::from_all(abi))?;
    if tcp_shut {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi))?;
    }
    let mut ruleset = ruleset.create()?;
    for (path, right) in rules {
        let access = match right {
            Right::All => everything,
            Right::Device => AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev,
            Right::Read => AccessFs::from_read(abi),
            Right::See => AccessFs::ReadFile | AccessFs::ReadDir,
        };
        ruleset = allow(ruleset, path, access & everything, abi)?;
    }
    ruleset.restrict_self()
}

/// Adds a rule for what the view shows at `path`, if it shows anything.
fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    access: landlock::BitFlags<AccessFs>,
    abi: ABI,
) -> Result<RulesetCreated, landlock::RulesetError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let Ok(fd) = rustix::fs::openat(CWD, path, flags, Mode::empty()) else {
        return Ok(ruleset);
    };
    // Rights of directories are refused for a file.
    let access = if is_directory(fd.as_fd()) {
        access
    } else {
        access & AccessFs::from_file(abi)
    };
    if access.is_empty() {
        return Ok(ruleset);
    }
    ruleset.add_rule(PathBeneath::new(fd, access))
}

fn is_directory(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fstat(fd).is_ok_and(|it| {
        rustix::fs::FileType::from_raw_mode(it.st_mode) == rustix::fs::FileType::Directory
    })
}

/// Installs the system call filter. Nothing can be set up after it.
pub(crate) fn filter(policy: &SyscallPolicy) -> Result<(Layer, LayerStatus), Failure> {
    let program = seccomp::compile(policy, Architecture::native());
    sys::seccomp::install(program.instructions()).stage("installing the system call filter")?;
    Ok((
        Layer::Seccomp,
        LayerStatus::Enforced(format!(
            "allow-list, {} instructions",
            program.instructions().len()
        )),
    ))
}

/// Which calls the filter lets through.
///
/// `fenced`: a private root hides the host's sockets and a network namespace holds the network;
/// without them the filter has to, and refuses every socket that could reach the host.
pub(crate) fn syscall_policy(powers: Powers, network: Network, fenced: bool) -> SyscallPolicy {
    let inet = fenced || network == Network::Host;
    SyscallPolicy {
        families: SocketFamilies {
            unix: fenced,
            inet,
            netlink_route: inet,
        },
        nested_user_namespaces: powers.nested_user_namespaces,
        ptrace: powers.ptrace,
    }
}
