//! Judges the host after the probes: what changed, what arrived, who survived.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::attempt::contains;

use super::{Stage, StageError, snapshot};

/// Names that are protected at any depth, besides those inside a git directory.
const PROTECTED: &[&str] = &[
    ".bashrc",
    ".claude",
    ".direnv",
    ".env",
    ".envrc",
    ".git-credentials",
    ".gitconfig",
    ".idea",
    ".mcp.json",
    ".profile",
    ".vscode",
    ".zshrc",
    "gitextra.inc",
    "githooks",
];

/// Parts of a git directory whose change makes git run something.
const PROTECTED_IN_GIT: &[&str] = &["attributes", "config", "config.worktree", "hooks"];

/// What survivors write into the workspace, with the stage's flag names.
pub(crate) const SURVIVOR: &str = "survivor-";

/// What the host looks like after the probes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_structs,
    reason = "the fields are the documented format"
)]
pub struct Verdict {
    /// What differs outside the workspace, and in protected names inside it. Must be empty.
    pub differences: Vec<String>,
    /// What the stage's listeners received. Must be empty after a confined run.
    pub received: Vec<String>,
    /// Processes of the run that were alive after it. Must be empty after a confined run.
    pub survivors: Vec<String>,
    /// What differs in the rest of the workspace, where the payload may write.
    pub workspace: Vec<String>,
}

/// Compares the host with the stage's baseline.
pub(crate) fn judge(stage: &Stage) -> Result<Verdict, StageError> {
    let before = snapshot::load(stage)?;
    let after = snapshot::take(stage)?;
    let mut verdict = Verdict {
        received: received(stage),
        ..Verdict::default()
    };
    for (path, how) in before.differences(&after) {
        let line = format!("{}: {how}", path.display());
        let inside = path.strip_prefix(&stage.workspace).ok();
        match inside {
            Some(name) if name.to_string_lossy().starts_with(SURVIVOR) => {
                verdict.survivors.push(line)
            }
            Some(name) if !is_protected(name) => verdict.workspace.push(line),
            _ => verdict.differences.push(line),
        }
    }
    verdict.differences.extend(host_differences(stage));
    Ok(verdict)
}

/// What the listeners noted, one line each.
pub(crate) fn received(stage: &Stage) -> Vec<String> {
    let text = fs::read_to_string(stage.received_log()).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Whether a path in the workspace is one that no payload may change. A nested repository
/// that is new is the payload's own.
fn is_protected(name: &Path) -> bool {
    let parts: Vec<String> = name
        .iter()
        .map(|it| it.to_string_lossy().into_owned())
        .collect();
    if parts.iter().any(|it| PROTECTED.contains(&it.as_str())) {
        return true;
    }
    let Some(git) = parts
        .iter()
        .position(|it| it == ".git" || it == "bare" || it == "gitdirs")
    else {
        return false;
    };
    let is_new = parts.iter().any(|it| it.starts_with("new-"));
    let below = parts.get(git + 1..).unwrap_or_default();
    !is_new
        && (below.is_empty()
            || below
                .iter()
                .any(|it| PROTECTED_IN_GIT.contains(&it.as_str())))
}

fn host_differences(stage: &Stage) -> Vec<String> {
    let mut found = Vec::new();
    // A zombie has an empty command line.
    let command = fs::read(format!("/proc/{}/cmdline", stage.victim_pid)).unwrap_or_default();
    if !contains(&command, stage.canary.as_bytes()) {
        found.push("the victim is dead".to_owned());
    }
    let hostname = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    if hostname != stage.hostname {
        found.push(format!(
            "host name: `{}` became `{hostname}`",
            stage.hostname
        ));
    }
    let core_pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if core_pattern != stage.core_pattern {
        found.push("core_pattern: changed".to_owned());
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if let Some(line) = mounts
        .lines()
        .find(|it| it.contains(&*stage.root.to_string_lossy()))
    {
        found.push(format!("a mount is left on the stage: {line}"));
    }
    found
}

/// The flag that a survivor of probe `id` writes.
pub(crate) fn survivor_flag(stage: &Stage, id: &str) -> PathBuf {
    stage.workspace.join(format!("{SURVIVOR}{id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_others_run_code_is_protected_and_the_rest_of_the_workspace_is_not() {
        let cases = [
            (".git/hooks/post-checkout", true),
            (".git/config", true),
            (".git", true),
            ("sub/.git/hooks", true),
            ("deep/a/b/c/d/.git/config.worktree", true),
            ("bare/config", true),
            (".mcp.json", true),
            ("pkg/.vscode/tasks.json", true),
            (".env", true),
            (".git/objects/pack/x", false),
            (".git/index", false),
            ("new-repo/.git/config", false),
            ("src/main.rs", false),
            ("config", false),
        ];
        for (name, expected) in cases {
            assert_eq!(is_protected(Path::new(name)), expected, "{name}");
        }
    }
}
