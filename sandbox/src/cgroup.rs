//! Control groups for one sandbox: version 2 where delegated, version 1 where writable.

use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Pid;

use crate::limits::{LimitKind, LimitStatus, Limits};

/// The groups that were made for one sandbox.
#[derive(Debug, Default)]
pub(crate) struct Cgroup {
    folders: Vec<PathBuf>,
}

/// Groups that a process may join.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) cgroup: Cgroup,
    /// The limits that hold once every seat is taken.
    pub(crate) statuses: Vec<(LimitKind, LimitStatus)>,
    /// One for each group that is to be joined.
    pub(crate) seats: Vec<OwnedFd>,
}

impl Offer {
    /// Whether one of the groups holds the memory.
    pub(crate) fn holds_memory(&self) -> bool {
        self.statuses.iter().any(|it| it.0 == LimitKind::Memory)
    }
}

/// Where this process may make groups for a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parent {
    folder: PathBuf,
    version: u8,
}

/// What is written into a new group, by version, and which limit that holds.
struct Ceiling {
    kind: LimitKind,
    controller: &'static str,
    amount: u64,
    v1: &'static [&'static str],
    v2: &'static [&'static str],
}

impl Cgroup {
    /// Makes groups for the limits that need one and puts `pid` into them.
    ///
    /// What cannot be had is absent from the answer.
    pub(crate) fn make(limits: &Limits, pid: Pid) -> (Self, Vec<(LimitKind, LimitStatus)>) {
        let (cgroup, statuses, _) = Self::make_with(limits, pid, &|folder, _| {
            move_into(folder, pid).map(|()| None)
        });
        (cgroup, statuses)
    }

    /// Makes groups for the limits that need one, for `pid` to join by itself: see [`join`].
    ///
    /// The kernel stops every fork and exit of the machine to move another process, which takes
    /// it milliseconds; a single thread that moves itself in version 1 needs none of that.
    /// Where a group cannot be joined so, `pid` is moved.
    pub(crate) fn offer(limits: &Limits, pid: Pid) -> Offer {
        let (cgroup, statuses, seats) = Self::make_with(limits, pid, &|folder, version| {
            if version == 1 {
                let file = fs::OpenOptions::new()
                    .write(true)
                    .open(folder.join("tasks"))?;
                return Ok(Some(file.into()));
            }
            move_into(folder, pid).map(|()| None)
        });
        Offer {
            cgroup,
            statuses,
            seats,
        }
    }

    fn make_with(
        limits: &Limits,
        pid: Pid,
        enter: &dyn Fn(&Path, u8) -> io::Result<Option<OwnedFd>>,
    ) -> (Self, Vec<(LimitKind, LimitStatus)>, Vec<OwnedFd>) {
        let mut cgroup = Self::default();
        let mut statuses = Vec::new();
        let mut seats = Vec::new();
        let ceilings = ceilings(limits);
        if ceilings.is_empty() {
            return (cgroup, statuses, seats);
        }
        let (Ok(membership), Ok(mounts)) = (
            fs::read_to_string("/proc/self/cgroup"),
            fs::read_to_string("/proc/self/mountinfo"),
        ) else {
            return (cgroup, statuses, seats);
        };
        for ceiling in ceilings {
            let Some(parent) = parent(&membership, &mounts, ceiling.controller) else {
                continue;
            };
            let name = format!("stockade-{}", pid.as_raw_nonzero());
            let folder = parent.folder.join(name);
            let entered = cgroup
                .furnish(&folder, parent.version, &ceiling)
                .and_then(|()| enter(&folder, parent.version));
            if let Ok(seat) = entered {
                let how = format!("cgroup v{} {}", parent.version, ceiling.controller);
                statuses.push((ceiling.kind, LimitStatus::Enforced(how)));
                seats.extend(seat);
            }
        }
        (cgroup, statuses, seats)
    }

    /// Whether this process may make groups with `controller`.
    pub(crate) fn can_hold(controller: &str) -> bool {
        let (Ok(membership), Ok(mounts)) = (
            fs::read_to_string("/proc/self/cgroup"),
            fs::read_to_string("/proc/self/mountinfo"),
        ) else {
            return false;
        };
        parent(&membership, &mounts, controller)
            .is_some_and(|it| rustix::fs::access(&it.folder, rustix::fs::Access::WRITE_OK).is_ok())
    }

    /// Makes the group `folder` if need be, and writes its ceiling.
    fn furnish(&mut self, folder: &Path, version: u8, ceiling: &Ceiling) -> io::Result<()> {
        match fs::create_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
            other => other?,
        }
        if !self.folders.iter().any(|it| it == folder) {
            self.folders.push(folder.to_owned());
        }
        let files = if version == 2 { ceiling.v2 } else { ceiling.v1 };
        let mut done = Err(io::Error::from(io::ErrorKind::NotFound));
        for (at, file) in files.iter().enumerate() {
            let amount = match *file {
                "memory.swap.max" => 0,
                _ => ceiling.amount,
            };
            let written = fs::write(folder.join(file), amount.to_string());
            // The first is the ceiling; the others close ways around it where they exist.
            if at == 0 {
                done = written;
            }
        }
        done
    }

    /// The groups that [`Cgroup::make`] may make for `pid`, whether or not they exist: for a
    /// reaper that has to live before the first of them does.
    pub(crate) fn planned(limits: &Limits, pid: Pid) -> Self {
        let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let folders = ceilings(limits)
            .iter()
            .filter_map(|it| parent(&membership, &mounts, it.controller))
            .map(|it| it.folder.join(format!("stockade-{}", pid.as_raw_nonzero())))
            .collect();
        Self { folders }
    }

    /// The groups that [`Cgroup::make`] made for `pid`, found again by name.
    pub(crate) fn of(limits: &Limits, pid: Pid) -> Self {
        let mut cgroup = Self::planned(limits, pid);
        cgroup.folders.retain(|it| it.exists());
        cgroup
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.folders.is_empty()
    }

    /// Removes the groups; the kernel lets go of a dead member a moment after its end.
    pub(crate) fn remove(&self) {
        for folder in &self.folders {
            for wait in 0..100 {
                match fs::remove_dir(folder) {
                    Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                        std::thread::sleep(Duration::from_micros(100 << (wait / 10)));
                    }
                    _ => break,
                }
            }
        }
    }
}

/// Moves the process `pid` into the group `folder`.
fn move_into(folder: &Path, pid: Pid) -> io::Result<()> {
    let pid = pid.as_raw_nonzero().to_string();
    fs::write(folder.join("cgroup.procs"), pid)
}

/// Moves the calling process, which has one thread, into the group of an offered seat.
pub(crate) fn join(seat: BorrowedFd<'_>) -> Result<(), Errno> {
    // Zero is the thread that writes, Documentation/admin-guide/cgroup-v1/cgroups.rst.
    rustix::io::retry_on_intr(|| rustix::io::write(seat, b"0")).map(drop)
}

fn ceilings(limits: &Limits) -> Vec<Ceiling> {
    let processes = limits.processes.map(|amount| Ceiling {
        kind: LimitKind::Processes,
        controller: "pids",
        // Init is a member as well.
        amount: amount.saturating_add(1),
        v1: &["pids.max"],
        v2: &["pids.max"],
    });
    let memory = limits.memory.map(|amount| Ceiling {
        kind: LimitKind::Memory,
        controller: "memory",
        amount,
        v1: &["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"],
        v2: &["memory.max", "memory.swap.max"],
    });
    processes.into_iter().chain(memory).collect()
}

/// The folder of this process's own group in the hierarchy that has `controller`.
fn parent(membership: &str, mountinfo: &str, controller: &str) -> Option<Parent> {
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':');
        let (hierarchy, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let version = if controllers.split(',').any(|it| it == controller) {
            1
        } else if hierarchy == "0" {
            2
        } else {
            continue;
        };
        let Some(mount) = mount_point(mountinfo, version, controller) else {
            continue;
        };
        let folder = mount.join(path.trim_start_matches('/'));
        if version == 2 && !delegated(&folder, controller) {
            continue;
        }
        return Some(Parent { folder, version });
    }
    None
}

/// Whether children of a version 2 group get `controller`, cgroups(7).
fn delegated(folder: &Path, controller: &str) -> bool {
    fs::read_to_string(folder.join("cgroup.subtree_control"))
        .is_ok_and(|it| it.split_whitespace().any(|it| it == controller))
}

/// Where a hierarchy is mounted, from lines of `/proc/self/mountinfo`, proc(5).
fn mount_point(mountinfo: &str, version: u8, controller: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        let (kind, options) = (right.next()?, right.nth(1)?);
        let fits = match version {
            2 => kind == "cgroup2",
            _ => kind == "cgroup" && options.split(',').any(|it| it == controller),
        };
        let point = left.split(' ').nth(4)?;
        fits.then(|| PathBuf::from(point))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
30 25 0:26 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
31 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";

    #[test]
    fn the_own_group_is_found_in_the_hierarchy_of_the_controller() {
        let membership = "4:memory:/user\n3:pids:/user/x\n0::/unified\n";
        let cases = [
            ("pids", Some("/sys/fs/cgroup/pids/user/x")),
            ("memory", Some("/sys/fs/cgroup/memory/user")),
            ("io", None),
        ];
        for (controller, expected) in cases {
            let found = parent(membership, MOUNTS, controller).map(|it| it.folder);
            assert_eq!(found, expected.map(PathBuf::from), "{controller}");
        }
    }

    #[test]
    fn version_two_is_used_only_where_the_controller_is_delegated() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().display();
        let mounts = format!("32 25 0:28 / {root} rw - cgroup2 cgroup2 rw\n");
        assert_eq!(parent("0::/\n", &mounts, "pids"), None);
        fs::write(folder.path().join("cgroup.subtree_control"), "cpu pids\n").unwrap();
        let found = parent("0::/\n", &mounts, "pids").unwrap();
        assert_eq!(found.version, 2);
    }

    #[test]
    fn a_version_two_group_gets_its_ceilings_without_swap() {
        let folder = tempfile::tempdir().unwrap();
        let group = folder.path().join("group");
        let limits = Limits {
            processes: Some(5),
            memory: Some(4096),
            cpu_time: None,
            file_size: None,
            open_files: None,
            wall_time: None,
        };
        let mut cgroup = Cgroup::default();
        for ceiling in ceilings(&limits) {
            cgroup.furnish(&group, 2, &ceiling).unwrap();
        }
        move_into(&group, Pid::INIT).unwrap();
        let read = |name: &str| fs::read_to_string(group.join(name)).unwrap();
        assert_eq!(read("pids.max"), "6");
        assert_eq!(read("memory.max"), "4096");
        assert_eq!(read("memory.swap.max"), "0");
        assert_eq!(read("cgroup.procs"), "1");
    }
}
