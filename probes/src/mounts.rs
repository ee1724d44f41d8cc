//! Probes on the view itself: new mounts, masks taken off, other roots.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{
    FsOpenFlags, MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, fsopen, mount,
    mount_bind, mount_remount, move_mount, open_tree, unmount,
};

use crate::attempt::{
    Attempt, Stop, c_path, contains, in_host_namespace, init, read_some, refused, worked,
};
use crate::probe::{Class::Mounts, Probe};
use crate::stage::Stage;
use crate::sys::{self, surface};

#[rustfmt::skip] // One row for each probe: this is a table.
pub(crate) const PROBES: &[Probe] = &[
    Probe::held("fs23_nested_userns_mount", Mounts, "Mounts in a user namespace of its own.", nested_mount),
    Probe::held("fs24_unmask_nested", Mounts, "Takes a mask off from a namespace of its own.", unmask_nested),
    Probe::held("fs25_mount_direct", Mounts, "Mounts a file system without a new namespace.", mount_direct),
    Probe::held("fs26_remount_rw_direct", Mounts, "Makes the read-only root writable again.", remount_direct),
    Probe::held("fs42_chroot", Mounts, "Changes its root directory.", chroot),
    Probe::held("fs46_submount_rw", Mounts, "Writes in a mount below a read-only one.", submount),
    Probe::held("ks10_newmount", Mounts, "Makes a file system by the new mount calls.", new_mount),
    Probe::held("mt01_umount_mask", Mounts, "Unmounts whatever lies over a denied file.", umount_mask),
    Probe::held("mt02_open_tree", Mounts, "Clones the tree of mounts.", clone_tree),
    Probe::held("mt03_mount_setattr", Mounts, "Clears the read-only attribute of a mount.", set_attribute),
    Probe::held("mt04_pivot_root", Mounts, "Moves the root of the whole namespace.", pivot),
    Probe::held("mt05_move_mount", Mounts, "Moves a cloned tree over a protected directory.", move_over),
    Probe::held("mt06_bind_over", Mounts, "Binds a directory of its own over the hooks.", bind_over),
    Probe::held("mt07_nested_proc", Mounts, "Mounts a proc of its own in nested namespaces.", nested_proc),
    Probe::held("mt08_nested_bind", Mounts, "Binds the host's root in a namespace of its own.", nested_bind),
    Probe::held("mt09_setns_init", Mounts, "Joins the mount namespace of the init process.", setns_init),
    Probe::held("mt10_nested_overlay", Mounts, "Lays an overlay over a protected directory.", nested_overlay),
    Probe::held("mt11_bare_calls", Mounts, "Reaches the new mount calls with empty arguments.", bare_calls),
    Probe::held("mt12_mountinfo", Mounts, "Learns where the stage lies on the host from the mount table.", mount_table),
];

/// New user and mount namespaces for this process, with root's powers over both.
fn enter_nested() -> io::Result<()> {
    let (user, group) = (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    surface::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}

fn mount_tmpfs(at: &Path) -> Result<(), Stop> {
    Ok(mount("tmpfs", at, "tmpfs", MountFlags::empty(), None)?)
}

fn nested_mount(stage: &Stage) -> Attempt {
    enter_nested()?;
    mount_tmpfs(&stage.workspace.join("src"))?;
    worked("mounted in its own namespace")
}

fn unmask_nested(stage: &Stage) -> Attempt {
    enter_nested()?;
    unmount(stage.workspace.join(".env"), UnmountFlags::DETACH)?;
    let bytes = read_some(&stage.workspace.join(".env"))?;
    if contains(&bytes, stage.canary.as_bytes()) {
        worked("unmasked")
    } else {
        refused("EINVAL", "masked still")
    }
}

fn mount_direct(stage: &Stage) -> Attempt {
    let at = stage.workspace.join("src");
    mount_tmpfs(&at)?;
    unmount(&at, UnmountFlags::DETACH)?;
    worked("mounted")
}

/// Binds a stage directory read-only first where it is free, so that the host's own root is
/// never touched; inside, it is the sandbox's root that is remounted.
fn remount_direct(stage: &Stage) -> Attempt {
    let is_free = in_host_namespace(stage, "mnt");
    let target = if is_free {
        stage.workspace.join("src")
    } else {
        "/".into()
    };
    if is_free {
        mount_bind(&target, &target)?;
        let sealed = mount_remount(&target, MountFlags::BIND | MountFlags::RDONLY, "");
        if let Err(error) = sealed {
            unmount(&target, UnmountFlags::DETACH)?;
            return Err(error.into());
        }
    }
    let answer = mount_remount(&target, MountFlags::BIND, "");
    if is_free {
        unmount(&target, UnmountFlags::DETACH)?;
    } else if answer.is_ok() {
        // A writable root would help the probes that come later.
        mount_remount(&target, MountFlags::BIND | MountFlags::RDONLY, "")?;
    }
    answer?;
    worked("writable again")
}

fn chroot(stage: &Stage) -> Attempt {
    rustix::process::chroot(&stage.workspace)?;
    worked("root changed")
}

/// `/dev/shm` is a mount below `/dev`; inside it must be private or read-only.
fn submount(stage: &Stage) -> Attempt {
    use std::os::unix::fs::MetadataExt;
    let path = format!("/dev/shm/{}.sub", stage.nonce);
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)?;
    fs::remove_file(&path)?;
    let here = fs::metadata("/dev/shm")?;
    if (here.dev(), here.ino()) == stage.shm_identity {
        return worked("wrote to the host's");
    }
    refused("ENOENT", "a private one")
}

fn new_mount(_: &Stage) -> Attempt {
    fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    worked("file system context made")
}

/// Free there is no mask, so a mount of the probe's own stands for it.
fn umount_mask(stage: &Stage) -> Attempt {
    if in_host_namespace(stage, "mnt") {
        let at = stage.workspace.join("conf");
        mount_tmpfs(&at)?;
        unmount(&at, UnmountFlags::DETACH)?;
        return worked("a stand-in was unmounted");
    }
    unmount(stage.workspace.join(".env"), UnmountFlags::DETACH)?;
    worked("unmounted")
}

fn clone_tree(stage: &Stage) -> Attempt {
    open_tree(
        CWD,
        &stage.workspace,
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC,
    )?;
    worked("tree cloned")
}

fn set_attribute(stage: &Stage) -> Attempt {
    if in_host_namespace(stage, "mnt") {
        let at = stage.workspace.join("src");
        mount_bind(&at, &at)?;
        let answer = c_path(&at).and_then(|it| Ok(sys::files::set_mount_writable(&it, true)?));
        unmount(&at, UnmountFlags::DETACH)?;
        answer?;
        return worked("attribute of a stand-in cleared");
    }
    sys::files::set_mount_writable(c"/", true)?;
    // A writable root would help the probes that come later.
    sys::files::set_mount_writable(c"/", false)?;
    worked("attribute of the root cleared")
}

/// The new root is a plain directory and no mount point, so the call can never succeed (a moved
/// root would spoil every later probe); it works if the kernel gets as far as to say so.
fn pivot(stage: &Stage) -> Attempt {
    let root = stage.workspace.join("src");
    match rustix::process::pivot_root(&root, &root) {
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::BUSY) => {
            worked("permitted, and asked for a mount point")
        }
        Err(error) => Err(error.into()),
        Ok(()) => worked("root moved"),
    }
}

fn move_over(stage: &Stage) -> Attempt {
    let hooks = stage.workspace.join(".git/hooks");
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(CWD, stage.workspace.join("src"), flags)?;
    move_mount(
        tree,
        "",
        CWD,
        &hooks,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )?;
    unmount(&hooks, UnmountFlags::DETACH)?;
    worked("moved over it")
}

fn bind_over(stage: &Stage) -> Attempt {
    let hooks = stage.workspace.join(".git/hooks");
    mount_bind(stage.workspace.join("src"), &hooks)?;
    unmount(&hooks, UnmountFlags::DETACH)?;
    worked("bound over it")
}

fn nested_proc(stage: &Stage) -> Attempt {
    enter_nested()?;
    surface::unshare(libc::CLONE_NEWPID)?;
    let at = stage.workspace.join("src");
    crate::attempt::in_child(|| Ok(mount("proc", &at, "proc", MountFlags::empty(), None)?))?;
    worked("proc mounted")
}

fn nested_bind(stage: &Stage) -> Attempt {
    enter_nested()?;
    rustix::mount::mount_bind_recursive("/", stage.workspace.join("src"))?;
    worked("root bound")
}

fn setns_init(stage: &Stage) -> Attempt {
    let init = init(stage)?.as_raw_nonzero();
    let namespace = fs::File::open(format!("/proc/{init}/ns/mnt"))?;
    surface::setns(namespace)?;
    worked("joined")
}

fn nested_overlay(stage: &Stage) -> Attempt {
    enter_nested()?;
    let base = stage.workspace.join("src");
    mount_tmpfs(&base)?;
    let (upper, work) = (base.join("upper"), base.join("work"));
    fs::create_dir(&upper)?;
    fs::create_dir(&work)?;
    let hooks = stage.workspace.join(".git/hooks");
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        hooks.display(),
        upper.display(),
        work.display()
    );
    let options = std::ffi::CString::new(options)?;
    mount(
        "overlay",
        &hooks,
        "overlay",
        MountFlags::empty(),
        Some(options.as_c_str()),
    )?;
    worked("overlaid in its own namespace")
}

/// A refusal for what was asked, not for asking, shows that the calls are reachable.
fn bare_calls(_: &Stage) -> Attempt {
    for call in [surface::Call::FsmountBare, surface::Call::OpenTreeBare] {
        let Err(error) = surface::numeric(call, [0; 6]) else {
            return worked("it went through");
        };
        if !matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) {
            return worked(format!("{call:?} is there: {error}"));
        }
    }
    refused("ENOSYS", "not there")
}

fn mount_table(stage: &Stage) -> Attempt {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let is_host = in_host_namespace(stage, "mnt");
    if is_host {
        worked(format!("{} mounts of the host", table.lines().count()))
    } else {
        refused("ENOENT", "its own table")
    }
}
