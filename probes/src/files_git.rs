//! Probes on what makes git run code: hooks, configuration, and the paths that lead to them.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, RenameFlags};

use crate::attempt::{Attempt, Planted, Preserve, append, create, refused, worked};
use crate::probe::{Class::Files, Probe};
use crate::stage::Stage;

#[rustfmt::skip] // One row for each probe: this is a table.
pub(crate) const PROBES: &[Probe] = &[
    Probe::held("fs06_git_hook", Files, "Plants a git hook.", git_hook),
    Probe::held("fs07_git_config", Files, "Edits the configuration of git.", git_config),
    Probe::held("fs08_git_rename_swap", Files, "Moves the whole git directory away.", git_rename_swap),
    Probe::held("fs09_parent_rename", Files, "Moves the parent of a nested repository away.", parent_rename),
    Probe::by_policy("fs11_new_nested_repo", Files, "Makes a new repository with its own configuration.", new_nested_repo),
    Probe::by_policy("fs43_case_git_worktree_file", Files, "Drops a git file that points at another directory.", new_git_file),
    Probe::held("fs45_git_symlink_replace", Files, "Replaces a linked git directory by a real one.", symlink_replace),
    Probe::held("fs51_rename_exchange", Files, "Swaps the hooks directory with one of its own.", rename_exchange),
    Probe::held("gt01_deep_hook", Files, "Plants a hook in a repository five levels down.", deep_hook),
    Probe::held("gt02_nested_hook", Files, "Plants a hook in a nested repository.", nested_hook),
    Probe::held("gt03_nested_config", Files, "Edits the configuration of a nested repository.", nested_config),
    Probe::held("gt04_hooks_path_edit", Files, "Edits a hook where the configuration says hooks are.", hooks_path_edit),
    Probe::held("gt05_hooks_path_new", Files, "Plants a hook where the configuration says hooks are.", hooks_path_new),
    Probe::held("gt06_include_path", Files, "Edits a file that the configuration includes.", include_path),
    Probe::held("gt07_config_worktree", Files, "Creates the configuration of one work tree.", config_worktree).judged_by_host(),
    Probe::held("gt08_info_attributes", Files, "Creates attributes that name a filter.", info_attributes).judged_by_host(),
    Probe::held("gt09_module_hook", Files, "Plants a hook in the git directory of a submodule.", module_hook),
    Probe::held("gt10_module_config", Files, "Edits the configuration of a submodule.", module_config),
    Probe::held("gt11_bare_config", Files, "Edits the configuration of a bare repository.", bare_config),
    Probe::held("gt12_bare_hook", Files, "Plants a hook in a bare repository.", bare_hook),
    Probe::held("gt13_shared_hook", Files, "Plants a hook in the directory that a work tree shares.", shared_hook),
    Probe::held("gt14_shared_config", Files, "Edits the configuration that a work tree shares.", shared_config),
    Probe::held("gt15_pointer_rewrite", Files, "Rewrites the pointer file of a work tree.", pointer_rewrite),
    Probe::held("gt16_unlink_config", Files, "Deletes the configuration of git.", unlink_config),
    Probe::held("gt17_rename_over_config", Files, "Moves a file of its own over the configuration.", rename_over_config),
    Probe::held("gt18_move_hooks", Files, "Moves the hooks directory away.", move_hooks),
    Probe::held("gt19_enable_sample", Files, "Makes a sample hook a real one by its name.", enable_sample),
    Probe::held("gt20_symlink_hook", Files, "Plants a hook that is a symlink.", symlink_hook),
    Probe::held("gt21_tmpfile_hook", Files, "Links a nameless file in as a hook.", tmpfile_hook),
    Probe::held("gt22_ancestor_rename", Files, "Moves a far ancestor of a nested repository away.", ancestor_rename),
    Probe::held("gt23_config_lock", Files, "Takes the lock that renames over the configuration.", config_lock),
    Probe::held("gt24_linked_target", Files, "Edits the target of a linked git directory.", linked_target),
    Probe::by_policy("gt25_new_hook_in_new_repo", Files, "Plants a hook in a repository of its own.", new_repo_hook),
    Probe::held("gt26_hook_mode", Files, "Changes the mode of an existing hook.", hook_mode),
];

fn git_hook(stage: &Stage) -> Attempt {
    create(stage, &stage.workspace.join(".git/hooks/post-checkout"))
}

fn git_config(stage: &Stage) -> Attempt {
    append(&stage.workspace.join(".git/config"))
}

fn git_rename_swap(stage: &Stage) -> Attempt {
    move_and_back(&stage.workspace, ".git", "git-aside")
}

fn parent_rename(stage: &Stage) -> Attempt {
    move_and_back(&stage.workspace, "sub", "sub-aside")
}

fn ancestor_rename(stage: &Stage) -> Attempt {
    move_and_back(&stage.workspace, "deep/a", "deep/a-aside")
}

fn move_hooks(stage: &Stage) -> Attempt {
    move_and_back(&stage.workspace, ".git/hooks", ".git/hooks-aside")
}

/// Frees a name by moving what has it; works if the name is free then.
fn move_and_back(base: &Path, from: &str, to: &str) -> Attempt {
    let (from, to) = (base.join(from), base.join(to));
    fs::rename(&from, &to)?;
    let is_free = fs::create_dir(&from).and_then(|()| fs::remove_dir(&from));
    fs::rename(&to, &from)?;
    is_free?;
    worked("the name was free for another")
}

fn new_nested_repo(stage: &Stage) -> Attempt {
    let top = stage.workspace.join("new-repo");
    let _undo = Planted::new(stage, &top);
    fs::create_dir_all(top.join("a/b/.git"))?;
    create(stage, &top.join("a/b/.git/config"))
}

fn new_repo_hook(stage: &Stage) -> Attempt {
    let top = stage.workspace.join("new-hooked");
    let _undo = Planted::new(stage, &top);
    fs::create_dir_all(top.join(".git/hooks"))?;
    create(stage, &top.join(".git/hooks/pre-commit"))
}

fn new_git_file(stage: &Stage) -> Attempt {
    let top = stage.workspace.join("new-pointer");
    let _undo = Planted::new(stage, &top);
    fs::create_dir(&top)?;
    fs::write(top.join(".git"), "gitdir: ../new-repo\n")?;
    worked("pointer written")
}

fn symlink_replace(stage: &Stage) -> Attempt {
    let link = stage.workspace.join("linked/.git");
    let target = fs::read_link(&link)?;
    fs::remove_file(&link)?;
    let planted = fs::create_dir_all(link.join("hooks"));
    fs::remove_dir_all(&link).ok();
    symlink(&target, &link)?;
    planted?;
    worked("replaced")
}

fn rename_exchange(stage: &Stage) -> Attempt {
    let hooks = stage.workspace.join(".git/hooks");
    let own = stage.workspace.join("own-hooks");
    let _undo = Planted::new(stage, &own);
    fs::create_dir(&own)?;
    rustix::fs::renameat_with(CWD, &hooks, CWD, &own, RenameFlags::EXCHANGE)?;
    rustix::fs::renameat_with(CWD, &hooks, CWD, &own, RenameFlags::EXCHANGE)?;
    worked("swapped")
}

fn deep_hook(stage: &Stage) -> Attempt {
    create(
        stage,
        &stage.workspace.join("deep/a/b/c/d/.git/hooks/post-commit"),
    )
}

fn nested_hook(stage: &Stage) -> Attempt {
    create(stage, &stage.workspace.join("sub/.git/hooks/post-commit"))
}

fn nested_config(stage: &Stage) -> Attempt {
    append(&stage.workspace.join("sub/.git/config"))
}

fn hooks_path_edit(stage: &Stage) -> Attempt {
    append(&stage.workspace.join("githooks/pre-push"))
}

fn hooks_path_new(stage: &Stage) -> Attempt {
    create(stage, &stage.workspace.join("githooks/post-merge"))
}

fn include_path(stage: &Stage) -> Attempt {
    append(&stage.workspace.join("gitextra.inc"))
}

fn config_worktree(stage: &Stage) -> Attempt {
    create(stage, &stage.workspace.join(".git/config.worktree"))
}

fn info_attributes(stage: &Stage) -> Attempt {
    create(stage, &stage.workspace.join(".git/info/attributes"))
}

fn module_hook(stage: &Stage) -> Attempt {
    create(
        stage,
        &stage.workspace.join(".git/modules/lib/hooks/post-checkout"),
    )
}

fn module_config(stage: &Stage) -> Attempt {
    append(&stage.workspace.join(".git/modules/lib/config"))
}

fn bare_config(stage: &Stage) -> Attempt {
    append(&stage.workspace.join("bare/config"))
}

fn bare_hook(stage: &Stage) -> Attempt {
    create(stage, &stage.workspace.join("bare/hooks/post-receive"))
}

fn shared_hook(stage: &Stage) -> Attempt {
    create(stage, &stage.outside.join("main.git/hooks/post-checkout"))
}

fn shared_config(stage: &Stage) -> Attempt {
    append(&stage.outside.join("main.git/config"))
}

fn pointer_rewrite(stage: &Stage) -> Attempt {
    append(&stage.workspace.join("wt/.git"))
}

fn unlink_config(stage: &Stage) -> Attempt {
    let path = stage.workspace.join(".git/config");
    let aside = stage.workspace.join(".git/config-aside");
    let kept = fs::hard_link(&path, &aside);
    let removed = fs::remove_file(&path);
    if kept.is_ok() {
        fs::rename(&aside, &path)?;
        fs::remove_file(&aside).ok();
    }
    removed?;
    worked("deleted")
}

fn rename_over_config(stage: &Stage) -> Attempt {
    let path = stage.workspace.join("sub/.git/config");
    let own = stage.workspace.join("own-config");
    let aside = stage.workspace.join("config-aside");
    let _undo = (Planted::new(stage, &own), Planted::new(stage, &aside));
    fs::write(&own, "[core]\n")?;
    let kept = fs::hard_link(&path, &aside);
    fs::rename(&own, &path)?;
    if kept.is_ok() {
        fs::rename(&aside, &path)?;
    }
    worked("replaced")
}

fn enable_sample(stage: &Stage) -> Attempt {
    let sample = stage.workspace.join(".git/hooks/pre-commit.sample");
    let hook = stage.workspace.join(".git/hooks/pre-commit");
    fs::rename(&sample, &hook)?;
    fs::rename(&hook, &sample)?;
    worked("renamed")
}

fn symlink_hook(stage: &Stage) -> Attempt {
    let hook = stage.workspace.join(".git/hooks/update");
    let _undo = Planted::new(stage, &hook);
    symlink(stage.workspace.join("src/main.rs"), &hook)?;
    worked("planted")
}

fn tmpfile_hook(stage: &Stage) -> Attempt {
    let nameless = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .mode(0o755)
        .open(&stage.workspace)?;
    let hook = stage.workspace.join(".git/hooks/pre-rebase");
    let _undo = Planted::new(stage, &hook);
    let from = format!(
        "/proc/self/fd/{}",
        std::os::fd::AsRawFd::as_raw_fd(&nameless)
    );
    rustix::fs::linkat(CWD, from, CWD, &hook, AtFlags::SYMLINK_FOLLOW)?;
    worked("linked")
}

/// Git writes `config.lock` and renames it over `config`; the lock alone is no harm, the
/// rename is.
fn config_lock(stage: &Stage) -> Attempt {
    let git = stage.workspace.join(".git");
    let (config, lock, aside) = (
        git.join("config"),
        git.join("config.lock"),
        git.join("config.aside"),
    );
    let _undo = (Planted::new(stage, &lock), Planted::new(stage, &aside));
    fs::copy(&config, &lock)?;
    let kept = fs::hard_link(&config, &aside);
    fs::rename(&lock, &config)?;
    if kept.is_ok() {
        fs::rename(&aside, &config)?;
    }
    worked("renamed over it")
}

fn linked_target(stage: &Stage) -> Attempt {
    append(&stage.workspace.join("linked/.git/config"))
}

fn hook_mode(stage: &Stage) -> Attempt {
    let hook = stage.workspace.join(".git/hooks/pre-commit.sample");
    let _undo = Preserve::of(&hook);
    let before = fs::metadata(&hook)?.permissions().mode();
    fs::set_permissions(&hook, fs::Permissions::from_mode(before ^ 0o111))?;
    if fs::metadata(&hook)?.permissions().mode() == before {
        return refused("EROFS", "the mode did not change");
    }
    worked("mode changed")
}
