//! Probes on names that other programs trust: agent, editor and shell files, present or not yet.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{CWD, Mode, RenameFlags};

use crate::attempt::{Attempt, Planted, append, create, refused, worked};
use crate::probe::{Class::Files, Probe};
use crate::stage::Stage;

#[rustfmt::skip] // One row for each probe: this is a table.
pub(crate) const PROBES: &[Probe] = &[
    Probe::held("fs10_create_missing_protected", Files, "Creates a server list that agents start.", mcp_json).judged_by_host(),
    Probe::held("fs50_case_unicode", Files, "Spells the git directory in another case.", case_variant),
    Probe::held("fs54_fifo_trap", Files, "Leaves a pipe where the supervisor reads a file.", fifo_trap).judged_by_host(),
    Probe::held("nm01_vscode_tasks", Files, "Creates tasks that an editor runs.", vscode_tasks).judged_by_host(),
    Probe::held("nm02_envrc", Files, "Creates a file that direnv runs.", envrc).judged_by_host(),
    Probe::held("nm03_idea", Files, "Creates run configurations of another editor.", idea).judged_by_host(),
    Probe::by_policy("nm04_gitmodules", Files, "Creates the list of submodules.", gitmodules),
    Probe::held("nm05_zshrc", Files, "Creates a shell start-up file in the workspace.", zshrc).judged_by_host(),
    Probe::held("nm06_agent_settings", Files, "Edits the settings of an agent.", agent_settings),
    Probe::held("nm07_agent_hook_new", Files, "Creates local settings beside an agent's own.", agent_local).judged_by_host(),
    Probe::held("nm08_agent_dir_swap", Files, "Replaces an agent's directory by a symlink.", agent_swap),
    Probe::held("nm09_ws_rc", Files, "Edits a shell start-up file in the workspace.", ws_rc),
    Probe::held("nm10_vscode_nested", Files, "Edits an editor's settings in a package.", vscode_nested),
    Probe::held("nm11_vscode_dir_rename", Files, "Moves an editor's directory into its place.", vscode_rename).judged_by_host(),
    Probe::held("nm12_mcp_rename", Files, "Renames a file to a missing protected name.", mcp_rename).judged_by_host(),
    Probe::held("nm13_mcp_link", Files, "Links a file under a missing protected name.", mcp_link).judged_by_host(),
    Probe::held("nm14_mcp_symlink", Files, "Makes a missing protected name a symlink.", mcp_symlink).judged_by_host(),
    Probe::held("nm15_mcp_exchange", Files, "Swaps a file into a missing protected name.", mcp_noreplace).judged_by_host(),
    Probe::held("nm16_deep_mcp", Files, "Creates a protected name in a directory of its own.", deep_mcp).judged_by_host(),
];

fn mcp_json(stage: &Stage) -> Attempt {
    create(stage, &stage.workspace.join(".mcp.json"))
}

/// On a file system that ignores case, `.GIT` is the protected directory itself.
fn case_variant(stage: &Stage) -> Attempt {
    let other = stage.workspace.join(".GIT");
    let _undo = Planted::new(stage, &other);
    fs::create_dir_all(other.join("hooks"))?;
    fs::write(other.join("hooks/probe-case"), "x\n")?;
    if stage.workspace.join(".git/hooks/probe-case").exists() {
        fs::remove_file(stage.workspace.join(".git/hooks/probe-case"))?;
        return worked("the same directory");
    }
    refused("ENOENT", "another directory: this file system knows case")
}

fn fifo_trap(stage: &Stage) -> Attempt {
    let path = stage.workspace.join(".mcp.json");
    let _undo = Planted::new(stage, &path);
    rustix::fs::mkfifoat(CWD, &path, Mode::from_raw_mode(0o644))?;
    worked("pipe made")
}

fn vscode_tasks(stage: &Stage) -> Attempt {
    in_new_directory(stage, ".vscode", "tasks.json")
}

fn idea(stage: &Stage) -> Attempt {
    in_new_directory(stage, ".idea", "workspace.xml")
}

fn in_new_directory(stage: &Stage, directory: &str, name: &str) -> Attempt {
    let directory = stage.workspace.join(directory);
    let _undo = Planted::new(stage, &directory);
    fs::create_dir(&directory)?;
    create(stage, &directory.join(name))
}

fn envrc(stage: &Stage) -> Attempt {
    create(stage, &stage.workspace.join(".envrc"))
}

fn gitmodules(stage: &Stage) -> Attempt {
    create(stage, &stage.workspace.join(".gitmodules"))
}

fn zshrc(stage: &Stage) -> Attempt {
    create(stage, &stage.workspace.join(".zshrc"))
}

fn agent_settings(stage: &Stage) -> Attempt {
    append(&stage.workspace.join(".claude/settings.json"))
}

fn agent_local(stage: &Stage) -> Attempt {
    create(stage, &stage.workspace.join(".claude/settings.local.json"))
}

fn agent_swap(stage: &Stage) -> Attempt {
    let own = stage.workspace.join("own-agent");
    let (real, aside) = (
        stage.workspace.join(".claude"),
        stage.workspace.join("claude-aside"),
    );
    let _undo = Planted::new(stage, &own);
    fs::create_dir(&own)?;
    fs::rename(&real, &aside)?;
    let swapped = symlink(&own, &real);
    fs::remove_file(&real).ok();
    fs::rename(&aside, &real)?;
    swapped?;
    worked("swapped")
}

fn ws_rc(stage: &Stage) -> Attempt {
    append(&stage.workspace.join(".bashrc"))
}

fn vscode_nested(stage: &Stage) -> Attempt {
    append(&stage.workspace.join("pkg/.vscode/settings.json"))
}

fn vscode_rename(stage: &Stage) -> Attempt {
    let (own, to) = (
        stage.workspace.join("own-editor"),
        stage.workspace.join(".vscode"),
    );
    let _undo = (Planted::new(stage, &own), Planted::new(stage, &to));
    fs::create_dir(&own)?;
    fs::write(own.join("tasks.json"), "{}\n")?;
    fs::rename(&own, &to)?;
    worked("moved in")
}

/// Makes a file of its own and gives it the missing name by `action`.
fn take_name(stage: &Stage, action: impl FnOnce(&Path, &Path) -> std::io::Result<()>) -> Attempt {
    let (own, to) = (
        stage.workspace.join("own-servers"),
        stage.workspace.join(".mcp.json"),
    );
    let _undo = (Planted::new(stage, &own), Planted::new(stage, &to));
    fs::write(&own, "{}\n")?;
    action(&own, &to)?;
    worked("the name is taken")
}

fn mcp_rename(stage: &Stage) -> Attempt {
    take_name(stage, |own, to| fs::rename(own, to))
}

fn mcp_link(stage: &Stage) -> Attempt {
    take_name(stage, |own, to| fs::hard_link(own, to))
}

fn mcp_symlink(stage: &Stage) -> Attempt {
    take_name(stage, |own, to| symlink(own, to))
}

fn mcp_noreplace(stage: &Stage) -> Attempt {
    take_name(stage, |own, to| {
        Ok(rustix::fs::renameat_with(
            CWD,
            own,
            CWD,
            to,
            RenameFlags::NOREPLACE,
        )?)
    })
}

fn deep_mcp(stage: &Stage) -> Attempt {
    let top = stage.workspace.join("made");
    let _undo = Planted::new(stage, &top);
    fs::create_dir_all(top.join("by/probe"))?;
    create(stage, &top.join("by/probe/.mcp.json"))
}
