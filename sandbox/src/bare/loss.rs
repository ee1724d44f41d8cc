//! What a confinement loses without namespaces, computed before anything runs.

use std::path::Path;

use crate::confinement::Confinement;
use crate::error::SandboxError;
use crate::filesystem::{Access, Filesystem, Grant};
use crate::lockdown::SCOPES_SINCE;
use crate::path::AbsPath;
use crate::report::{Layer, LayerStatus};

/// What is lost, and how far the layers about names hold.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) notes: Vec<String>,
    pub(super) layers: Vec<(Layer, LayerStatus)>,
}

/// Refuses what the confinement rests on; names the rest.
pub(super) fn of(confinement: &Confinement, abi: u32) -> Result<Loss, SandboxError> {
    let Confinement {
        filesystem,
        network: _,
        powers: _,
        limits: _,
        environment: _,
        requirement: _,
    } = confinement;
    let Filesystem {
        grants,
        masks,
        protected,
        pins: _,
        links,
        private,
        files,
        tmp_size: _,
        staging,
        workdir,
    } = filesystem;
    for mask in masks {
        if let Some(grant) = filesystem.grant_over(mask) {
            return Err(inside("deny", mask, &grant.path));
        }
    }
    for grant in grants {
        if let Some(wider) = wider_over(grants, grant) {
            return Err(inside("read-only grant", &grant.path, &wider.path));
        }
    }
    for path in private {
        let over = filesystem.grant_over(path);
        if let Some(grant) = over {
            return Err(inside("private folder", path, &grant.path));
        }
    }
    if let Some(staging) = staging {
        return Err(not_held(format!(
            "staged writes to `{}` need an overlay; write directly, or use a host with user \
             namespaces",
            staging.root.display()
        )));
    }
    let mut notes = fixed(abi);
    let mut lost = |what: String| notes.push(format!("lost: {what}"));
    for path in private {
        lost(format!(
            "a private `{}`; TMPDIR is a fresh private folder instead",
            path.display()
        ));
    }
    for grant in grants.iter().filter(|it| it.access == Access::Cache) {
        lost(format!(
            "private writes to the cache `{}`: it is read-only",
            grant.path.display()
        ));
    }
    for file in files {
        lost(format!(
            "the made file `{}`: the host's own shows, if granted",
            file.path.display()
        ));
    }
    for link in links {
        let there = std::fs::read_link(&*link.path).is_ok_and(|it| it.as_os_str() == link.target);
        if !there {
            lost(format!("the link `{}`", link.path.display()));
        }
    }
    if filesystem.grant_over(workdir).is_none() {
        lost(format!(
            "access to the working directory `{}`",
            workdir.display()
        ));
    }
    let open: Vec<&AbsPath> = protected
        .iter()
        .filter(|it| is_writable(filesystem, it))
        .collect();
    let mut layers = Vec::new();
    if let Some(first) = open.first() {
        layers.push((
            Layer::ProtectedNames,
            LayerStatus::Degraded(format!(
                "{} inside writable grants (`{}` first) can be changed, and are only verified \
                 after the run",
                open.len(),
                first.display()
            )),
        ));
    }
    Ok(Loss { notes, layers })
}

/// What is lost whatever the confinement says.
fn fixed(abi: u32) -> Vec<String> {
    let mut notes: Vec<String> = [
        "names, sizes and times of all files that the user can look up",
        "chmod, chown, times and extended attributes of the user's own files",
        "the list of the host's processes and their arguments",
        "System V IPC and POSIX message queues apart from the host's",
        "the end of a daemon when the warden itself is killed by force",
    ]
    .iter()
    .map(|it| format!("lost: {it}"))
    .collect();
    if abi < SCOPES_SINCE {
        notes.push(format!(
            "lost: signals and abstract sockets of the user's other processes (Landlock abi \
             {abi}, needs {SCOPES_SINCE})"
        ));
    }
    notes
}

/// A grant above this one that allows more: Landlock adds rights up and cannot take one away.
fn wider_over<'g>(grants: &'g [Grant], grant: &Grant) -> Option<&'g Grant> {
    grants.iter().find(|it| {
        it.access == Access::Write
            && grant.access != Access::Write
            && grant.path.starts_with(&it.path)
    })
}

fn is_writable(filesystem: &Filesystem, path: &Path) -> bool {
    let mut grants = filesystem.grants.iter();
    grants.any(|it| it.access == Access::Write && path.starts_with(&it.path))
}

fn inside(what: &str, path: &AbsPath, grant: &AbsPath) -> SandboxError {
    not_held(format!(
        "the {what} `{}` lies inside the granted `{}`, and Landlock can not take back what it \
         grants; move it out of the granted tree, or use a host with user namespaces",
        path.display(),
        grant.display()
    ))
}

fn not_held(what: String) -> SandboxError {
    SandboxError::NotHeld {
        backend: super::NAME,
        what,
    }
}
