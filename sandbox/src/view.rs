//! Builds the private root of a sandbox from detached mounts, inside its own namespaces.
//!
//! # Invariants
//!
//! - **Nothing is inherited.** The root is an empty tmpfs; only what an [`Entry`] names appears.
//! - **Shallow first.** A deeper entry is laid over a shallower one, never under it.
//! - **No link is followed.** Each path is opened once, beneath a root, without links; what is
//!   mounted is what was opened.
//! - **Nothing is left on the host.** A mount point is made in our own tmpfs or already exists.

mod dev;
pub(crate) mod entry;
mod overlay;
pub(crate) mod proc;
pub(crate) mod root;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::filesystem::{Access, Filesystem};
use crate::identity::Identity;
use crate::path::AbsPath;
use crate::step::{Failure, Stage};
use crate::sys::mount::{self, NODEV, NOEXEC, NOSUID, RDONLY};
use entry::{Entry, Kind};
use root::Root;

/// Builds the view of `filesystem` and makes it this process's root.
///
/// Returns a descriptor of a writable `/proc/sys` for the last settings, and notes on what was
/// done in a second-best way.
///
/// `idmap` is the user namespace whose maps owned trees get.
pub(crate) fn build(
    filesystem: &Filesystem,
    identity: Identity,
    idmap: Option<BorrowedFd<'_>>,
) -> Result<(OwnedFd, Vec<String>), Failure> {
    root::make_private()?;
    let root = Root::mount(identity, filesystem.tmp_size)?;
    let mut notes = Vec::new();
    for entry in entry::sorted(filesystem) {
        if let Some(note) = place(&root, &entry, filesystem, idmap)? {
            notes.push(note);
        }
    }
    // Last, since a private directory would hide those that lie in it.
    for link in &filesystem.links {
        root.link(link)?;
    }
    dev::mount(&root)?;
    let settings = proc::mount(&root)?;
    root.enter()?;
    Ok((settings, notes))
}

/// Lays one entry over the view; a note when it was done in a second-best way.
fn place(
    root: &Root,
    entry: &Entry<'_>,
    filesystem: &Filesystem,
    idmap: Option<BorrowedFd<'_>>,
) -> Result<Option<String>, Failure> {
    let path = entry.path;
    match entry.kind {
        Kind::Private => {
            let tree = root.scratch_directory(private_mode(path))?;
            root.attach(tree.as_fd(), path, true)?;
        }
        Kind::Host { access, owned } => {
            let source = root::open_host(path)?;
            let is_directory = root::is_directory(source.as_fd(), path)?;
            let tree = root::clone_tree(source.as_fd(), path)?;
            let idmap = idmap.filter(|_| owned);
            match access {
                Access::Read => {
                    mount::set_attributes(tree.as_fd(), RDONLY | NOSUID | NODEV, idmap, true)
                        .stage_at("making a granted tree read-only", path)?;
                    root.attach(tree.as_fd(), path, is_directory)?;
                }
                Access::Write => {
                    mount::set_attributes(tree.as_fd(), NOSUID | NODEV, idmap, true)
                        .stage_at("mounting a granted tree", path)?;
                    root.attach(tree.as_fd(), path, is_directory)?;
                }
                Access::Cache => {
                    mount::set_attributes(tree.as_fd(), RDONLY | NOSUID | NODEV, idmap, true)
                        .stage_at("making a cache read-only", path)?;
                    return overlay::cache(root, &tree, path, is_directory);
                }
            }
        }
        Kind::Staged(staging) => overlay::staged(root, staging, idmap)?,
        Kind::Pin => {
            let target = root.open(path)?;
            let tree = root::clone_tree(target.as_fd(), path)?;
            root::attach_over(tree.as_fd(), target.as_fd(), path)?;
        }
        Kind::Protected => {
            let target = root.open(path)?;
            let tree = root::clone_tree(target.as_fd(), path)?;
            // A link keeps its text and cannot be replaced; only its own mount is read-only.
            mount::set_attributes(tree.as_fd(), RDONLY | NOSUID | NODEV, None, true)
                .stage_at("making a protected name read-only", path)?;
            root::attach_over(tree.as_fd(), target.as_fd(), path)?;
        }
        Kind::Mask => {
            let target = root.open(path)?;
            let empty = root.empty(root::is_directory(target.as_fd(), path)?)?;
            root::attach_over(empty.as_fd(), target.as_fd(), path)?;
        }
        Kind::Made(content) => {
            // A made file stands in for one of the host's; without that one it is not needed.
            if filesystem.grant_over(path).is_some() && root.open(path).is_err() {
                return Ok(None);
            }
            let tree = root.scratch_file(content)?;
            mount::set_attributes(tree.as_fd(), RDONLY | NOSUID | NODEV | NOEXEC, None, false)
                .stage_at("laying a made file", path)?;
            root.attach(tree.as_fd(), path, false)?;
        }
    }
    Ok(None)
}

/// The mode of a private directory: shared names such as `/tmp` are open to every user inside.
pub(crate) fn private_mode(path: &AbsPath) -> u32 {
    if path.ends_with("tmp") { 0o1777 } else { 0o700 }
}

/// The tree at `path` with the maps of `idmap`, mounted nowhere; `None` where they cannot be
/// had.
///
/// Only a privileged process can ask. Closing the last descriptor of the tree waits for a grace
/// period of the kernel: do it when nobody waits.
pub(crate) fn mapped(path: &AbsPath, idmap: BorrowedFd<'_>) -> Option<OwnedFd> {
    let tree = root::open_host(path)
        .and_then(|source| root::clone_tree(source.as_fd(), path))
        .ok()?;
    mount::set_attributes(tree.as_fd(), NOSUID, Some(idmap), true).ok()?;
    Some(tree)
}
