//! Probes on what the environment carries in: secrets, addresses of agents, code.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::attempt::{Attempt, contains, read_some, refused, worked};
use crate::caller::TOKEN;
use crate::probe::{Class::Environment, Probe};
use crate::stage::Stage;

#[rustfmt::skip] // One row for each probe: this is a table.
pub(crate) const PROBES: &[Probe] = &[
    Probe::held("pr16_env_secret", Environment, "Reads a secret from the environment.", secret),
    Probe::held("pr17_ssh_auth_sock_env", Environment, "Finds the address of the key agent.", ssh_agent),
    Probe::held("dx04_env_inject", Environment, "Is given start-up code for shells.", shell_code),
    Probe::by_policy("dx05_path_hijack", Environment, "Looks programs up in the workspace first.", program_path),
    Probe::held("en01_dbus", Environment, "Finds the address of the message bus.", message_bus),
    Probe::held("en02_ld_preload", Environment, "Is given code for every program by the loader.", loader),
    Probe::held("en03_git", Environment, "Is given commands and settings for git.", git),
    Probe::held("en04_node", Environment, "Is given options for Node.", node),
    Probe::held("en05_python", Environment, "Is given start-up code for Python.", python),
    Probe::held("en06_any_canary", Environment, "Finds the secret under any name.", any_canary),
    Probe::held("en07_aws", Environment, "Reads cloud credentials from the environment.", cloud),
    Probe::held("en08_forge_token", Environment, "Reads the token of a forge.", forge),
    Probe::held("en09_docker_host", Environment, "Finds the address of the container daemon.", docker),
    Probe::held("en10_display", Environment, "Finds the address of the screen.", display),
    Probe::held("en11_gpg_agent", Environment, "Finds the address of the signing agent.", gpg_agent),
    Probe::held("en12_interpreters", Environment, "Is given options for other interpreters.", interpreters),
    Probe::held("en13_proxy_password", Environment, "Reads a password from a proxy's address.", proxy),
    Probe::held("en14_proc_environ", Environment, "Finds the secret in its own process file.", proc_environ),
    Probe::held("en15_runtime_dir", Environment, "Finds the directory of the session's sockets.", runtime_directory),
    Probe::held("en16_pager_editor", Environment, "Is given commands that other programs run.", commands),
];

/// The value of a variable as it was passed to this process.
fn value(name: &str) -> Option<OsString> {
    #[expect(
        clippy::disallowed_methods,
        reason = "what was passed in is what these probes look at"
    )]
    std::env::var_os(name)
}

/// Works if any of the names is there.
fn any_of(names: &[&str]) -> Attempt {
    let found: Vec<&str> = names
        .iter()
        .copied()
        .filter(|it| value(it).is_some())
        .collect();
    if found.is_empty() {
        refused("ENOENT", "not in the environment")
    } else {
        worked(found.join(", "))
    }
}

/// Works if the variable has the canary in it.
fn has_canary(stage: &Stage, name: &str) -> Attempt {
    match value(name) {
        Some(it) if contains(it.as_bytes(), stage.canary.as_bytes()) => {
            worked(format!("{name} has the canary"))
        }
        Some(_) => refused("ENOENT", format!("{name} has another value")),
        None => refused("ENOENT", "not in the environment"),
    }
}

fn secret(stage: &Stage) -> Attempt {
    has_canary(stage, TOKEN)
}

fn cloud(stage: &Stage) -> Attempt {
    has_canary(stage, "AWS_SECRET_ACCESS_KEY")
}

fn forge(stage: &Stage) -> Attempt {
    has_canary(stage, "GITHUB_TOKEN")
}

fn ssh_agent(_: &Stage) -> Attempt {
    any_of(&["SSH_AUTH_SOCK"])
}

fn gpg_agent(_: &Stage) -> Attempt {
    any_of(&["GPG_AGENT_INFO"])
}

fn message_bus(_: &Stage) -> Attempt {
    any_of(&["DBUS_SESSION_BUS_ADDRESS"])
}

fn docker(_: &Stage) -> Attempt {
    any_of(&["DOCKER_HOST"])
}

fn display(_: &Stage) -> Attempt {
    any_of(&["DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"])
}

fn shell_code(_: &Stage) -> Attempt {
    any_of(&["BASH_ENV", "ENV", "PROMPT_COMMAND", "SHELLOPTS", "BASHOPTS"])
}

fn loader(_: &Stage) -> Attempt {
    any_of(&["LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT"])
}

fn git(_: &Stage) -> Attempt {
    any_of(&[
        "GIT_SSH_COMMAND",
        "GIT_CONFIG_COUNT",
        "GIT_EXTERNAL_DIFF",
        "GIT_DIR",
        "GIT_EXEC_PATH",
    ])
}

fn node(_: &Stage) -> Attempt {
    any_of(&["NODE_OPTIONS"])
}

fn python(_: &Stage) -> Attempt {
    any_of(&["PYTHONSTARTUP", "PYTHONPATH", "PYTHONHOME"])
}

fn interpreters(_: &Stage) -> Attempt {
    any_of(&[
        "PERL5OPT",
        "PERL5LIB",
        "RUBYOPT",
        "RUBYLIB",
        "JAVA_TOOL_OPTIONS",
    ])
}

fn commands(_: &Stage) -> Attempt {
    any_of(&["EDITOR", "VISUAL", "PAGER", "BROWSER"])
}

/// The stage's own directory of sockets; a private directory of the sandbox's is no find.
fn runtime_directory(stage: &Stage) -> Attempt {
    let host = stage.root.join("sockets");
    if value("XDG_RUNTIME_DIR").is_some_and(|it| Path::new(&it) == host) {
        return worked("XDG_RUNTIME_DIR is the host's");
    }
    refused("ENOENT", "not in the environment")
}

fn proxy(_: &Stage) -> Attempt {
    match value("HTTPS_PROXY") {
        Some(it) if contains(it.as_bytes(), b"user:secret@") => {
            worked("HTTPS_PROXY has a password")
        }
        _ => refused("ENOENT", "no password in the environment"),
    }
}

fn any_canary(stage: &Stage) -> Attempt {
    #[expect(
        clippy::disallowed_methods,
        reason = "what was passed in is what these probes look at"
    )]
    let mut all = std::env::vars_os();
    let found = all.find(|(_, it)| contains(it.as_bytes(), stage.canary.as_bytes()));
    match found {
        Some((name, _)) => worked(format!("{} has the canary", name.display())),
        None => refused("ENOENT", "not in the environment"),
    }
}

fn proc_environ(stage: &Stage) -> Attempt {
    let bytes = read_some(Path::new("/proc/self/environ"))?;
    if contains(&bytes, stage.canary.as_bytes()) {
        worked("found")
    } else {
        refused("ENOENT", "not in there")
    }
}

/// A folder that the payload may write to, before the end of the search path, decides what
/// every bare name runs.
fn program_path(stage: &Stage) -> Attempt {
    let path = value("PATH").unwrap_or_default();
    let workspace = fs::canonicalize(&stage.workspace).unwrap_or_else(|_| stage.workspace.clone());
    for folder in std::env::split_paths(&path) {
        if !folder.is_absolute() {
            return worked("a relative folder is searched");
        }
        if folder.starts_with(&workspace) {
            return worked("a folder of the workspace is searched");
        }
    }
    refused("ENOENT", "only folders outside the workspace")
}
