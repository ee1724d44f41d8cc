//! Overlays: caches whose writes are private, and workspaces whose writes are staged.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, Uid};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use rustix::thread::CapabilitiesSecureBits;

use super::root::{self, Root};
use crate::filesystem::Staging;
use crate::path::AbsPath;
use crate::step::{Failure, Stage};
use crate::sys::mount::{self, NODEV, NOSUID};

/// Lays `tree` at `path` so that writes stay in scratch space.
///
/// Where the kernel cannot, the cache is read-only and a note says so.
pub(super) fn cache(
    view: &Root,
    tree: &OwnedFd,
    path: &AbsPath,
    is_directory: bool,
) -> Result<Option<String>, Failure> {
    if is_directory {
        let upper = view.scratch_directory(0o755)?;
        match layered(view, tree, &upper, path, true) {
            Ok(()) => return Ok(None),
            Err(failure) => {
                view.attach(tree.as_fd(), path, true)?;
                let errno = std::io::Error::from_raw_os_error(failure.errno);
                return Ok(Some(format!(
                    "`{}` is read-only: no overlay could be laid over it ({errno})",
                    path.display()
                )));
            }
        }
    }
    view.attach(tree.as_fd(), path, false)?;
    Ok(None)
}

/// Lays the staged workspace over its root.
pub(super) fn staged(
    view: &Root,
    staging: &Staging,
    idmap: Option<BorrowedFd<'_>>,
) -> Result<(), Failure> {
    let Staging { root, stage } = staging;
    let lower = view.open(root)?;
    let lower = root::clone_tree(lower.as_fd(), root)?;
    let folder = root::open_host(stage)?;
    let folder = root::clone_tree(folder.as_fd(), stage)?;
    mount::set_attributes(folder.as_fd(), NOSUID | NODEV, idmap, true)
        .stage_at("mounting the stage", stage)?;
    layered(view, &lower, &folder, root, false)
}

/// Mounts an overlay at `path`: reads from `lower`, writes to `upper` below `folder`.
fn layered(
    view: &Root,
    lower: &OwnedFd,
    folder: &OwnedFd,
    path: &AbsPath,
    make: bool,
) -> Result<(), Failure> {
    // Overlayfs takes layers that are attached in this namespace alone.
    for layer in [lower, folder] {
        view.set_aside(layer.as_fd())
            .stage_at("attaching a layer for", path)?;
    }
    overlay(view, lower, folder, path, make)
}

fn overlay(
    view: &Root,
    lower: &OwnedFd,
    folder: &OwnedFd,
    path: &AbsPath,
    make: bool,
) -> Result<(), Failure> {
    if make {
        let attributes = rustix::fs::fstat(lower).stage_at("looking at a cache", path)?;
        for name in ["upper", "work"] {
            rustix::fs::mkdirat(folder, name, Mode::RWXU).stage("making an upper layer")?;
        }
        let mode = Mode::from_raw_mode(attributes.st_mode & 0o777);
        rustix::fs::chmodat(folder, "upper", mode, AtFlags::empty())
            .stage("making an upper layer")?;
        view.give(folder.as_fd(), Path::new("upper"), path)?;
    }
    // A descriptor's name in /proc has no character that overlayfs treats specially.
    let lower = format!("/proc/self/fd/{}", lower.as_raw_fd());
    let upper = format!("/proc/self/fd/{}/upper", folder.as_raw_fd());
    let work = format!("/proc/self/fd/{}/work", folder.as_raw_fd());
    let options = [
        ("lowerdir", lower.as_str()),
        ("upperdir", upper.as_str()),
        ("workdir", work.as_str()),
        ("userxattr", ""),
    ];
    // Overlayfs works in the layers as whoever mounts it: on an idmapped upper layer that has
    // to be the user whom the map knows.
    let tree = match (make, view.ids()) {
        (false, (uid, gid)) if rustix::process::geteuid().is_root() && uid != 0 => {
            as_user(uid, gid, || {
                root::filesystem("overlay", &options, MountAttrFlags::empty())
            })
        }
        _ => root::filesystem("overlay", &options, MountAttrFlags::empty()),
    }
    .stage_at("laying an overlay over", path)?;
    view.attach(tree.as_fd(), path, true)
}

/// Does `work` with another effective user and every capability, credentials(7).
fn as_user<T>(uid: u32, gid: u32, work: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let bits = rustix::thread::capabilities_secure_bits()?;
    // Without this, leaving uid 0 would take the capabilities.
    let keep = CapabilitiesSecureBits::NO_SETUID_FIXUP;
    rustix::thread::set_capabilities_secure_bits(bits | keep)?;
    rustix::thread::set_thread_res_gid(None, Gid::from_raw(gid), None)?;
    rustix::thread::set_thread_res_uid(None, Uid::from_raw(uid), None)?;
    let result = work();
    rustix::thread::set_thread_res_uid(None, Uid::ROOT, None)?;
    rustix::thread::set_thread_res_gid(None, Gid::ROOT, None)?;
    rustix::thread::set_capabilities_secure_bits(bits)?;
    result
}
