//! A `/dev` with the few devices that programs need, and terminals of its own.

use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, MoveMountFlags};

use super::root::{self, Root};
use crate::path::AbsPath;
use crate::step::{Failure, Stage};
use crate::sys::mount::{self, NOEXEC, NOSUID, RDONLY};

/// Devices that hold no state of the host. `tty` answers ENXIO without a terminal of its own.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

pub(super) fn mount(view: &Root) -> Result<(), Failure> {
    let dev = path("/dev")?;
    let tree = root::tmpfs("64k", "64", "755").stage("mounting /dev")?;
    view.attach(tree.as_fd(), &dev, true)?;
    for name in DEVICES {
        let source = root::open_host(&path(&format!("/dev/{name}"))?)?;
        let node = root::clone_tree(source.as_fd(), &dev)?;
        mount::set_attributes(node.as_fd(), NOSUID | NOEXEC, None, false)
            .stage("mounting a device")?;
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::openat(&tree, name, flags, mode).stage("making a device's mount point")?;
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        rustix::mount::move_mount(&node, "", &tree, name, flags).stage("mounting a device")?;
    }
    for (name, target) in LINKS {
        rustix::fs::symlinkat(target, &tree, name).stage("making a link in /dev")?;
    }
    let mode = Mode::RWXU | Mode::XGRP | Mode::RGRP | Mode::XOTH | Mode::ROTH;
    for name in ["pts", "shm"] {
        rustix::fs::mkdirat(&tree, name, mode).stage("making a directory in /dev")?;
    }
    let options = [("ptmxmode", "0666"), ("mode", "0620")];
    let noexec = MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let terminals = match root::filesystem("devpts", &options, noexec) {
        // A host without pseudo-terminals has none to give.
        Err(Errno::NODEV) => None,
        other => Some(other.stage("mounting /dev/pts")?),
    };
    if let Some(terminals) = terminals {
        view.attach(terminals.as_fd(), &path("/dev/pts")?, true)?;
    }
    let shm = view.scratch_directory(0o1777)?;
    view.attach(shm.as_fd(), &path("/dev/shm")?, true)?;
    mount::set_attributes(tree.as_fd(), RDONLY, None, false).stage("making /dev read-only")
}

fn path(text: &str) -> Result<AbsPath, Failure> {
    AbsPath::new(text)
        .map_err(|_| Errno::INVAL)
        .stage("naming a device")
}
