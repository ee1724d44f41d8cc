//! Toolchains outside the usual places: what the caller's own `PATH` and variables name.

use std::path::{Path, PathBuf};

use policy::Profile;
use sandbox::{AbsPath, Access};

use super::places::Places;
use crate::caller::Caller;

/// Variables that name a toolchain's folder, the part of it that is needed, and how.
///
/// Each counts only if the profile passes the variable on.
const FOLDERS: [(&str, &str, Access); 10] = [
    ("CARGO_HOME", "bin", Access::Read),
    ("CARGO_HOME", "config.toml", Access::Read),
    ("CARGO_HOME", "git", Access::Cache),
    ("CARGO_HOME", "registry", Access::Cache),
    ("GOPATH", "pkg/mod", Access::Cache),
    ("JAVA_HOME", "", Access::Read),
    ("NVM_DIR", "", Access::Read),
    ("PYENV_ROOT", "", Access::Read),
    ("RUSTUP_HOME", "", Access::Read),
    ("VIRTUAL_ENV", "", Access::Read),
];

/// What lies beside a `bin` folder and belongs to the same installation.
const BESIDE_BIN: [&str; 5] = ["bin", "include", "lib", "libexec", "share"];

/// Grants them.
pub(super) fn grant(places: &mut Places, profile: &Profile, caller: &Caller, workspace: &AbsPath) {
    let owned = |path: &Path| {
        caller
            .home
            .as_ref()
            .is_some_and(|home| path.starts_with(home))
    };
    let passes = |name: &str| {
        profile
            .pass
            .iter()
            .any(|it| it.value.matches(name.as_bytes()))
    };
    for (variable, part, access) in FOLDERS {
        let Some(folder) = caller.variable(variable).map(PathBuf::from) else {
            continue;
        };
        if passes(variable)
            && is_modest(&folder, caller)
            && !folder.starts_with(workspace)
            && is_itself(&folder, caller)
        {
            let path = if part.is_empty() {
                folder.clone()
            } else {
                folder.join(part)
            };
            places.grant(&path, access, owned(&path));
            if variable == "CARGO_HOME" {
                // Cargo locks files of its home.
                places.private(&folder);
            }
        }
    }
    let path = caller.variable("PATH").unwrap_or_default();
    for folder in std::env::split_paths(path) {
        let inside = folder.starts_with(workspace);
        if inside || !is_modest(&folder, caller) || !is_itself(&folder, caller) {
            continue;
        }
        places.grant(&folder, Access::Read, owned(&folder));
        let Some(prefix) = folder.parent().filter(|_| folder.ends_with("bin")) else {
            continue;
        };
        if !is_modest(prefix, caller) {
            continue;
        }
        // Below the home, `share` and a prefix of many programs hold more than toolchains.
        let home = caller.home.as_deref();
        let is_own = home.is_some_and(|it| prefix.starts_with(it));
        if is_own && home.is_some_and(|it| prefix == it.join(".local")) {
            continue;
        }
        for part in BESIDE_BIN.iter().filter(|it| !is_own || **it != "share") {
            let path = prefix.join(part);
            places.grant(&path, Access::Read, owned(&path));
        }
    }
}

/// Whether no link below the home leads to a folder: in a workspace of before, a payload could
/// have made one that leads anywhere.
fn is_itself(folder: &Path, caller: &Caller) -> bool {
    let Some(home) = &caller.home else {
        return true;
    };
    let Ok(below) = folder.strip_prefix(home) else {
        // Links outside the home are the system's.
        return folder
            .canonicalize()
            .is_ok_and(|it| !home.canonicalize().is_ok_and(|home| it.starts_with(home)));
    };
    let mut place = home.clone();
    below.iter().all(|name| {
        place.push(name);
        !place.is_symlink()
    })
}

/// Whether a folder can be a toolchain's: absolute, and neither `/` nor the home nor above it.
fn is_modest(folder: &Path, caller: &Caller) -> bool {
    let holds_home = caller
        .home
        .as_ref()
        .is_some_and(|home| home.starts_with(folder));
    let private = ["/tmp", "/var/tmp", "/proc", "/dev", "/run"]
        .iter()
        .any(|it| folder.starts_with(it));
    folder.is_absolute() && folder.parent().is_some() && !holds_home && !private
}
