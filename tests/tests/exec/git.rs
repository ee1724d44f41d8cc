//! Git inside a sandbox: it works, and nothing that it would run outside can be planted.

use std::fs;
use std::path::Path;

use crate::harness::{Output, Place, has, lacks};

/// A place with a repository of one commit; nothing where there is no git.
fn repository() -> Option<Place> {
    if !has("git") && lacks("git: it is not installed") {
        return None;
    }
    let place = Place::new();
    git(
        &place,
        "init -q -b main . && echo one > file && git add file",
    );
    git(
        &place,
        "config user.name A && git config user.email a@example.com",
    );
    git(&place, "commit -qm one");
    Some(place)
}

/// `git WORDS` on the host, with no configuration of the host's.
#[track_caller]
fn git(place: &Place, words: &str) -> String {
    place.free(&format!("set -e; git {words}")).success()
}

/// Runs `script` inside, where it must fail or be undone; `path` is unchanged on the host.
#[track_caller]
fn keeps(place: &Place, path: &str, script: &str) {
    let file = place.workspace.join(path);
    let before = fs::read(&file).ok();
    let inside = place.exec(&[], script);
    assert_eq!(fs::read(&file).ok(), before, "{script}\n{}", inside.errors);
}

/// The control: free, `script` changes `path`.
#[track_caller]
fn changes(place: &Place, path: &str, script: &str) {
    let file = place.workspace.join(path);
    let before = fs::read(&file).ok();
    place.free(script).exits(0);
    assert_ne!(fs::read(&file).ok(), before, "{script}");
}

#[test]
fn a_commit_works_and_a_planted_hook_does_not_run() {
    let Some(place) = repository() else { return };
    let canary = place.home.join("ran");
    let plant = format!(
        "mkdir -p .git/hooks && printf '#!/bin/sh\\ntouch {}\\n' > .git/hooks/pre-commit \
         && chmod +x .git/hooks/pre-commit",
        canary.display()
    );
    let inside = place.exec(
        &[],
        &format!("({plant}); echo two >> file; git commit -qam two && git log --oneline | wc -l"),
    );
    assert_eq!(inside.success(), "2");
    git(&place, "fsck --strict 2>&1");
    git(&place, "commit -q --allow-empty -m three");
    assert!(!canary.exists());
    // Planted free, it runs: the canary can tell.
    place.free(&plant).exits(0);
    git(&place, "commit -q --allow-empty -m four");
    assert!(canary.exists());
}

#[test]
fn hooks_and_configuration_stay_as_they_were() {
    let Some(place) = repository() else { return };
    let cases = [
        (".git/config", "git config core.fsmonitor ./evil"),
        (".git/config", "echo '[core]' >> .git/config"),
        (".git/config", "printf x > c && mv c .git/config"),
        (".git/config", "rm -f .git/config"),
        (
            ".git/hooks/post-commit",
            "echo evil > .git/hooks/post-commit",
        ),
        (
            ".git/hooks/post-commit",
            "mv .git/hooks .git/h; mkdir .git/hooks; echo > .git/hooks/post-commit",
        ),
        (".git/config", "mv .git g && git init -q ."),
    ];
    for (path, script) in cases {
        keeps(&place, path, script);
    }
    for (path, script) in &cases[..6] {
        place.free("rm -rf .git g; git init -q .").exits(0);
        changes(&place, path, script);
    }
}

#[test]
fn commits_work_in_a_linked_worktree_and_hooks_stay_closed() {
    let Some(place) = repository() else { return };
    git(&place, "worktree add -q ../linked -b side");
    let main = place.workspace.join(".git");
    let config = fs::read(main.join("config")).unwrap();
    let linked = place.home.join("linked");
    let run = |script: &str| -> Output {
        let mut command = place.exec_command(&["--workspace", "../linked"], script);
        command.current_dir(&place.workspace);
        crate::harness::finish(command, b"")
    };
    let inside = run("echo side > new && git add new && git commit -qm side && git status -sb");
    assert_eq!(inside.success(), "## side");
    assert_eq!(git(&place, "log --oneline side | wc -l"), "2");
    let m = main.display();
    for script in [
        format!("echo evil > {m}/hooks/pre-commit"),
        format!("echo evil >> {m}/config"),
        format!("echo evil > {m}/info/attributes"),
        format!("echo /evil > {m}/worktrees/linked/commondir"),
        format!("echo evil > {m}/evil"),
        "git config core.hooksPath evil".to_owned(),
        "echo gitdir: /evil > .git".to_owned(),
    ] {
        let inside = run(&script);
        assert_ne!(inside.code(), Some(0), "{script}");
    }
    assert_eq!(fs::read(main.join("config")).unwrap(), config);
    assert!(!main.join("hooks/pre-commit").exists());
    // Git may make files there, so this one is moved aside afterwards.
    run(&format!("echo evil > {m}/worktrees/linked/config.worktree"));
    assert!(!main.join("worktrees/linked/config.worktree").exists());
    let pointer = fs::read_to_string(linked.join(".git")).unwrap();
    assert!(pointer.contains("worktrees/linked"), "{pointer}");
    // The other worktree's files are not there.
    assert_ne!(
        run(&format!("cat {}/file", place.workspace.display())).code(),
        Some(0)
    );
}

#[test]
fn a_worktree_that_points_to_a_strangers_folder_opens_nothing() {
    let Some(place) = repository() else { return };
    // The pointer of the workspace was forged: the folder no worktree of a repository that knows this one.
    let victim = place.outside.join("victim");
    fs::create_dir_all(victim.join("objects")).unwrap();
    fs::write(victim.join("commondir"), ".\n").unwrap();
    fs::write(victim.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    place.free("rm -rf .git").exits(0);
    place.write(".git", &format!("gitdir: {}\n", victim.display()));
    let script = format!("echo evil > {}/objects/new", victim.display());
    let inside = place.exec(&[], &script);
    assert_ne!(inside.code(), Some(0));
    inside.says("git will not work here");
    assert!(!victim.join("objects/new").exists());
    place.free(&script).exits(0);
}

#[test]
fn git_works_in_a_subdirectory_of_a_repository() {
    let Some(place) = repository() else { return };
    place.write("sub/file", "two");
    git(&place, "add . && git commit -qm two");
    let mut command = place.exec_command(
        &["--workspace", "sub"],
        "git log --oneline | wc -l && git status --short && git rev-parse --show-toplevel \
         && ls -A && touch ../.git/evil",
    );
    command.current_dir(&place.workspace);
    let inside = crate::harness::finish(command, b"");
    assert_ne!(
        inside.code(),
        Some(0),
        "the repository above is closed to writing"
    );
    let lines: Vec<String> = inside.text().lines().map(str::to_owned).collect();
    let top = place.workspace.to_str().unwrap();
    assert_eq!(lines.first().map(String::as_str), Some("2"), "{inside:?}");
    assert!(lines.iter().any(|it| it == top), "{inside:?}");
    assert!(!place.workspace.join("sub/.git").exists());
    assert!(!place.workspace.join(".git/evil").exists());
}

#[test]
fn a_folder_of_repositories_stays_one() {
    let Some(place) = repository() else { return };
    place
        .free("rm -rf .git file; for it in a b; do git init -q $it; done")
        .exits(0);
    let inside = place.exec(
        &[],
        "git rev-parse --git-dir; git -C a status --short --branch",
    );
    inside.exits(0);
    assert!(!inside.text().contains("work/.git"), "{inside:?}");
    assert_eq!(crate::harness::names(&place.workspace), ["a", "b"]);
    keeps(&place, "b/.git/config", "echo '[core]' >> b/.git/config");
    keeps(&place, "a/.git/hooks/x", "echo > a/.git/hooks/x");
}

#[test]
fn nested_repositories_are_held_at_any_depth() {
    let Some(place) = repository() else { return };
    place
        .free("mkdir -p a/b/c && git init -q a/b/c/deep && git init -q --bare a/bare")
        .exits(0);
    let cases = [
        (
            "a/b/c/deep/.git/config",
            "echo '[core]' >> a/b/c/deep/.git/config",
        ),
        ("a/b/c/deep/.git/hooks/x", "echo > a/b/c/deep/.git/hooks/x"),
        (
            "a/b/c/deep/.git/config",
            "mv a/b a/z; echo > a/z/c/deep/.git/config",
        ),
        ("a/bare/config", "echo '[core]' >> a/bare/config"),
        ("a/bare/hooks/x", "echo > a/bare/hooks/x"),
    ];
    for (path, script) in cases {
        keeps(&place, path, script);
        assert!(!place.workspace.join("a/z").exists());
    }
}

#[test]
fn git_status_works_with_worktree_configuration() {
    let Some(place) = repository() else { return };
    git(&place, "config extensions.worktreeConfig true");
    let run = |script: &str| place.exec(&[], script);
    assert_eq!(run("git status --short --branch").success(), "## main");
    run("echo two >> file && git commit -qam two").exits(0);
    // It does not exist, and what makes it does not keep it.
    run("printf '[core]\\n\\tfsmonitor = ./evil\\n' > .git/config.worktree");
    assert!(!place.workspace.join(".git/config.worktree").exists());
    git(&place, "config --worktree core.abbrev 12");
    assert_eq!(run("git status --short --branch").success(), "## main");
    keeps(
        &place,
        ".git/config.worktree",
        "git config --worktree core.fsmonitor ./evil",
    );
}

#[test]
fn what_the_configuration_points_to_is_held() {
    let Some(place) = repository() else { return };
    place.write("tools/hooks/pre-commit", "#!/bin/sh\n");
    place.write("tools/extra.config", "[core]\n");
    git(
        &place,
        "config core.hooksPath tools/hooks && git config include.path ../tools/extra.config",
    );
    let cases = [
        (
            "tools/hooks/pre-commit",
            "echo evil >> tools/hooks/pre-commit",
        ),
        (
            "tools/hooks/post-commit",
            "echo evil > tools/hooks/post-commit",
        ),
        ("tools/extra.config", "echo evil >> tools/extra.config"),
        (
            "tools/extra.config",
            "mv tools t; mkdir tools; echo evil > tools/extra.config",
        ),
    ];
    for (path, script) in cases {
        keeps(&place, path, script);
    }
    for (path, script) in cases.iter().take(3) {
        changes(&place, path, script);
    }
}

#[test]
fn a_folder_of_hooks_that_does_not_exist_yet_is_not_made() {
    let Some(place) = repository() else { return };
    git(&place, "config core.hooksPath later");
    let canary = place.home.join("ran");
    let script = format!(
        "mkdir later && printf '#!/bin/sh\\ntouch {}\\n' > later/pre-commit && chmod +x later/*",
        canary.display()
    );
    place.exec(&[], &script);
    git(&place, "commit -q --allow-empty -m two");
    assert!(!canary.exists());
    assert!(!place.workspace.join("later").exists());
    place.free(&script).exits(0);
    git(&place, "commit -q --allow-empty -m three");
    assert!(canary.exists());
}

#[test]
fn a_repository_that_is_made_inside_is_kept_and_an_evil_one_is_disarmed() {
    let Some(place) = repository() else { return };
    let inside = place.exec(
        &[],
        "git init -q -b main good && cd good && git config user.name A \
         && git config user.email a@example.com && echo x > x && git add x && git commit -qm x",
    );
    inside.exits(0);
    assert_eq!(git(&place, "-C good log --oneline | wc -l"), "1");
    assert_eq!(git(&place, "-C good config user.name"), "A");
    let canary = place.home.join("ran");
    let inside = place.exec(
        &[],
        &format!(
            "git init -q evil && git -C evil config core.fsmonitor 'touch {}; false'",
            canary.display()
        ),
    );
    inside.exits(0).says("evil/.git/config");
    let _ = place.free("git -C evil status");
    assert!(!canary.exists());
}

#[test]
fn a_repository_made_on_the_host_meanwhile_survives() {
    let Some(place) = repository() else { return };
    let script = "touch ready; while [ ! -e go ]; do sleep 0.02; done";
    let mut command = place.exec_command(&[], script);
    command.stdin(std::process::Stdio::null());
    let live = crate::harness::Live::start(command, Vec::new());
    crate::harness::until("it runs", std::time::Duration::from_secs(30), || {
        place.workspace.join("ready").exists()
    });
    git(
        &place,
        "init -q made && git -C made config user.name Host && mkdir -p made/.git/hooks",
    );
    git(&place, "init -q --bare bare.git");
    place.write("go", "");
    live.end().exits(0);
    assert_eq!(git(&place, "-C made config user.name"), "Host");
    assert!(place.workspace.join("made/.git/HEAD").exists());
    assert_eq!(
        git(&place, "-C bare.git rev-parse --is-bare-repository"),
        "true"
    );
}

#[test]
fn the_users_own_configuration_is_read_and_not_written() {
    let Some(place) = repository() else { return };
    fs::write(
        place.home.join(".gitconfig"),
        "[alias]\n\thello = version\n",
    )
    .unwrap();
    let inside = place.exec(&[], "git hello");
    assert!(inside.success().contains("git version"));
    let before = fs::read(place.home.join(".gitconfig")).unwrap();
    place.exec(
        &[],
        "git config --global core.editor evil; echo evil >> ~/.gitconfig",
    );
    assert_eq!(fs::read(place.home.join(".gitconfig")).unwrap(), before);
    assert!(Path::new(&place.home).join(".gitconfig").exists());
}
