//! The trials: each in a process that ends with it, and in namespaces of its own.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Instant;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, MoveMountFlags};
use rustix::process::{Signal, WaitId, WaitIdOptions};

use super::{Feature, Finding, LONGEST, Outcome, finding, remedy};
use crate::bwrap::Bwrap;
use crate::confinement::{Network, Powers};
use crate::host_program;
use crate::init;
use crate::lockdown;
use crate::native;
use crate::path::AbsPath;
use crate::stage::Executable;
use crate::step::{Failure, Stage as _};
use crate::sys::network;
use crate::sys::process::{self, Fork};
use crate::view::root;

/// What is tried one after the other in one set of namespaces.
const STEPS: [Feature; 6] = [
    Feature::IdMaps,
    Feature::Mounts,
    Feature::Proc,
    Feature::Loopback,
    Feature::Overlay,
    Feature::NestedLimit,
];

/// Tries namespaces, and in them what a sandbox does there.
pub(super) fn namespaces(deadline: Instant) -> Vec<Finding> {
    let ids = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    let answers = attempt(native::every_namespace(), deadline, |tell| {
        inside(ids, tell)
    });
    let remedy = remedy::user_namespaces;
    let answers = match answers {
        Ok(answers) => answers,
        Err(error) => {
            let mut findings = vec![finding(
                Feature::Namespaces,
                Outcome::Fails(error.to_string()),
                remedy,
            )];
            findings.extend(STEPS.iter().map(|it| {
                finding(
                    *it,
                    Outcome::NotTried("there are no namespaces".to_owned()),
                    remedy,
                )
            }));
            return findings;
        }
    };
    let mut findings = vec![finding(
        Feature::Namespaces,
        Outcome::Works(String::new()),
        remedy,
    )];
    for (at, feature) in STEPS.iter().enumerate() {
        let outcome = match answers.get(at) {
            None => Outcome::NotTried("an earlier trial did not come to an end".to_owned()),
            Some(0) => Outcome::Works(String::new()),
            Some(errno) => Outcome::Fails(io::Error::from_raw_os_error(*errno).to_string()),
        };
        findings.push(finding(*feature, outcome, remedy));
    }
    findings
}

/// Runs `work` in a process with new namespaces; the numbers that it told.
fn attempt(
    namespaces: u64,
    deadline: Instant,
    work: impl FnOnce(&mut dyn FnMut(i32)),
) -> io::Result<Vec<i32>> {
    let (answer, report) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    match process::clone3(namespaces)? {
        Fork::Child => {
            let _ = process::close_except(&[report.as_raw_fd()]);
            let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
            work(&mut |number| {
                let _ = rustix::io::write(&report, &number.to_ne_bytes());
            });
            process::exit(0)
        }
        Fork::Parent { pid: _, pidfd } => {
            drop(report);
            let bytes = host_program::read_until(&answer, 4096, deadline, |_| false);
            // One that hangs is ended; one that ended is not there any more.
            let _ = rustix::process::pidfd_send_signal(&pidfd, Signal::KILL);
            let _ = rustix::io::retry_on_intr(|| {
                rustix::process::waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED)
            });
            let bytes = bytes?;
            let (numbers, _) = bytes.as_chunks::<4>();
            Ok(numbers.iter().map(|it| i32::from_ne_bytes(*it)).collect())
        }
    }
}

fn inside((uid, gid): (u32, u32), tell: &mut dyn FnMut(i32)) {
    let number = |result: &Result<(), Failure>| result.as_ref().err().map_or(0, |it| it.errno);
    tell(number(&init::map_ids(uid, gid)));
    let mounted = mount();
    tell(mounted.as_ref().err().map_or(0, |it| it.errno));
    let Ok(tree) = mounted else {
        // Told as the failure of what needs it.
        for _ in STEPS.iter().skip(2) {
            tell(libc::EPERM);
        }
        return;
    };
    let proc = proc(&tree);
    tell(proc.as_ref().err().map_or(0, |it| it.errno));
    tell(number(&loopback()));
    tell(number(&overlay(&tree)));
    tell(number(&proc.and_then(|it| limit_nested(&it))));
}

fn mount() -> Result<OwnedFd, Failure> {
    root::make_private()?;
    let tree = root::tmpfs("64k", "64", "755").stage("mounting")?;
    rustix::mount::move_mount(&tree, "", CWD, "/", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .stage("mounting")?;
    Ok(tree)
}

fn proc(tree: &OwnedFd) -> Result<OwnedFd, Failure> {
    let stage = "mounting a fresh /proc";
    let noexec = MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let proc = root::filesystem("proc", &[], noexec).stage(stage)?;
    rustix::fs::mkdirat(tree, "proc", Mode::RWXU).stage(stage)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(&proc, "", tree, "proc", flags).stage(stage)?;
    Ok(proc)
}

fn loopback() -> Result<(), Failure> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )
    .stage("opening a socket")?;
    network::raise_loopback(socket.as_fd()).stage("raising the loopback device")
}

fn overlay(tree: &OwnedFd) -> Result<(), Failure> {
    let stage = "laying an overlay";
    let mut layers = Vec::new();
    for name in ["lower", "upper", "work"] {
        rustix::fs::mkdirat(tree, name, Mode::RWXU).stage(stage)?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        layers.push(rustix::fs::openat(tree, name, flags, Mode::empty()).stage(stage)?);
    }
    let names: Vec<String> = layers
        .iter()
        .map(|it| format!("/proc/self/fd/{}", it.as_raw_fd()))
        .collect();
    let mut options: Vec<(&str, &str)> = ["lowerdir", "upperdir", "workdir"]
        .into_iter()
        .zip(names.iter().map(String::as_str))
        .collect();
    options.push(("userxattr", ""));
    root::filesystem("overlay", &options, MountAttrFlags::empty())
        .stage(stage)
        .map(drop)
}

fn limit_nested(proc: &OwnedFd) -> Result<(), Failure> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let name = "sys/user/max_user_namespaces";
    rustix::fs::openat(proc, name, flags, Mode::empty())
        .and_then(|file| rustix::io::write(&file, b"0"))
        .stage("limiting nested namespaces")
        .map(drop)
}

/// Tries whether a file system mounts with mapped ids, which only root can.
pub(super) fn id_mapped_mounts(workspace: Option<&AbsPath>, deadline: Instant) -> Finding {
    let not_tried = |why: &str| {
        finding(
            Feature::IdMappedMounts,
            Outcome::NotTried(why.to_owned()),
            String::new,
        )
    };
    if !rustix::process::geteuid().is_root() {
        return not_tried("an ordinary user needs none");
    }
    let Some(path) = workspace else {
        return not_tried("no workspace was named");
    };
    let answers = attempt(0, deadline, |tell| {
        let mapped = native::idmap(0, 0)
            .is_ok_and(|(namespace, _)| crate::view::mapped(path, namespace.as_fd()).is_some());
        tell(if mapped {
            0
        } else {
            Errno::INVAL.raw_os_error()
        });
    });
    let outcome = match answers.as_deref() {
        Ok([0]) => Outcome::Works(format!("for `{}`", path.display())),
        Ok(_) => Outcome::Fails(format!("for `{}`", path.display())),
        Err(error) => Outcome::Fails(error.to_string()),
    };
    finding(Feature::IdMappedMounts, outcome, || {
        "run as an ordinary user, or put the workspace on a file system with id-mapped mounts \
         (ext4, xfs, btrfs, tmpfs); until then Stockade stays uid 0 and needs Landlock"
            .to_owned()
    })
}

/// Tries the system call filter itself.
pub(super) fn filter(deadline: Instant) -> Finding {
    let answers = attempt(0, deadline, |tell| {
        let powers = Powers {
            nested_user_namespaces: false,
            ptrace: false,
        };
        let policy = lockdown::syscall_policy(powers, Network::Off, true);
        let installed = rustix::thread::set_no_new_privs(true)
            .stage("setting no_new_privs")
            .and_then(|()| lockdown::filter(&policy));
        tell(installed.as_ref().err().map_or(0, |it| it.errno));
    });
    let outcome = match answers.as_deref() {
        Ok([0]) => Outcome::Works(String::new()),
        Ok([errno]) => Outcome::Fails(io::Error::from_raw_os_error(*errno).to_string()),
        Ok(_) => Outcome::Fails("the trial was killed".to_owned()),
        Err(error) => Outcome::Fails(error.to_string()),
    };
    finding(Feature::Seccomp, outcome, || {
        "use a kernel that is built with CONFIG_SECCOMP_FILTER, on x86_64 or aarch64".to_owned()
    })
}

/// Finds bubblewrap and has it build a sandbox in which nothing can be started.
pub(super) fn bubblewrap(stage: &Executable, deadline: Instant) -> (Option<Bwrap>, Finding) {
    let found = match Bwrap::find(stage.clone()) {
        Ok(found) => found,
        Err(error) => {
            let remedy = error.help().unwrap_or_default().to_owned();
            let outcome = Outcome::Fails(error.to_string());
            return (None, finding(Feature::Bubblewrap, outcome, || remedy));
        }
    };
    let left = deadline
        .saturating_duration_since(Instant::now())
        .min(LONGEST);
    let outcome = match found.trial(left) {
        Ok(()) => Outcome::Works(found.version().to_owned()),
        Err(why) => Outcome::Fails(why),
    };
    (
        Some(found),
        finding(Feature::Bubblewrap, outcome, remedy::user_namespaces),
    )
}
