//! A `/proc` that shows the sandbox's own processes, with its dangerous parts shut.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;

use super::root::{self, Root};
use crate::path::AbsPath;
use crate::step::{Failure, Stage};
use crate::sys::mount::{self, NODEV, NOEXEC, NOSUID, RDONLY};

/// Read-only whatever the payload's user: as kernel uid 0 it could write sysctls otherwise.
pub(crate) const READ_ONLY: [&str; 5] = ["bus", "fs", "irq", "sys", "sysrq-trigger"];

/// What tells of the host's kernel and its keys, proc(5).
pub(crate) const MASKED: [&str; 18] = [
    "acpi",
    "kallsyms",
    "kcore",
    "key-users",
    "keys",
    "kmsg",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "latency_stats",
    "modules",
    "mtrr",
    "pagetypeinfo",
    "sched_debug",
    "scsi",
    "slabinfo",
    "timer_list",
    "vmallocinfo",
];

/// Mounts `/proc` and returns its `sys`, writable, for settings of this sandbox's namespaces.
pub(super) fn mount(view: &Root) -> Result<OwnedFd, Failure> {
    let noexec = MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let tree = root::filesystem("proc", &[], noexec).stage("mounting a fresh /proc")?;
    let proc = AbsPath::new("/proc")
        .map_err(|_| Errno::INVAL)
        .stage("naming /proc")?;
    view.attach(tree.as_fd(), &proc, true)?;
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
    let settings = rustix::fs::openat(&tree, "sys", flags, Mode::empty())
        .stage_at("opening the settings of", &proc)?;
    for (names, masked) in [(READ_ONLY.as_slice(), false), (MASKED.as_slice(), true)] {
        for name in names {
            let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let target = match rustix::fs::openat(&tree, *name, flags, Mode::empty()) {
                Err(Errno::NOENT) => continue,
                other => other.stage_at("opening a part of", &proc)?,
            };
            let cover = if masked {
                view.empty(root::is_directory(target.as_fd(), &proc)?)?
            } else {
                let same = root::clone_tree(target.as_fd(), &proc)?;
                let attributes = RDONLY | NOSUID | NODEV | NOEXEC;
                mount::set_attributes(same.as_fd(), attributes, None, false)
                    .stage_at("shutting a part of", &proc)?;
                same
            };
            root::attach_over(cover.as_fd(), target.as_fd(), &proc)?;
        }
    }
    Ok(settings)
}
