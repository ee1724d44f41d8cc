//! Builds the directories and files of a stage: a repository, a home, and things outside.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::{Omit, StageError};

/// The directories that [`plant`] fills.
pub(crate) struct Places {
    pub(crate) root: PathBuf,
    pub(crate) workspace: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) outside: PathBuf,
    pub(crate) sockets: PathBuf,
}

impl Places {
    /// Makes `root` and the places below it.
    pub(crate) fn make(root: &Path) -> Result<Self, StageError> {
        fs::create_dir_all(root).map_err(StageError::file(root))?;
        let root = fs::canonicalize(root).map_err(StageError::file(root))?;
        if root.to_str().is_none() {
            return Err(StageError::NotText { path: root });
        }
        let mut inside = fs::read_dir(&root).map_err(StageError::file(&root))?;
        if inside.next().is_some() {
            return Err(StageError::NotEmpty { path: root });
        }
        let place = |name: &str| root.join(name);
        let places = Self {
            workspace: place("workspace"),
            home: place("home"),
            outside: place("outside"),
            sockets: place("sockets"),
            root,
        };
        for path in [
            &places.workspace,
            &places.home,
            &places.outside,
            &places.sockets,
        ] {
            fs::create_dir(path).map_err(StageError::file(path))?;
        }
        Ok(places)
    }
}

/// Fills the places with files that a thief or vandal would look for.
pub(crate) fn plant(places: &Places, canary: &str, omit: Omit) -> Result<(), StageError> {
    plant_home(&places.home, canary)?;
    plant_outside(&places.outside, canary)?;
    plant_workspace(places, canary, omit)
}

fn plant_home(home: &Path, canary: &str) -> Result<(), StageError> {
    for name in [
        ".ssh/id_rsa",
        ".aws/credentials",
        ".config/gh/hosts.yml",
        ".gnupg/secring.gpg",
        ".netrc",
        ".npmrc",
        ".git-credentials",
        ".kube/config",
        ".docker/config.json",
    ] {
        secret(&home.join(name), canary)?;
    }
    for name in [
        ".bashrc",
        ".profile",
        ".gitconfig",
        ".config/autostart/demo.desktop",
    ] {
        file(&home.join(name), "# start-up file\n")?;
    }
    Ok(())
}

fn plant_outside(outside: &Path, canary: &str) -> Result<(), StageError> {
    file(&outside.join("target.txt"), &format!("{canary}\n"))?;
    file(&outside.join("linked.txt"), "has a second name inside\n")?;
    file(&outside.join("leak.txt"), &format!("{canary}\n"))?;
    file(&outside.join("dir/inner.txt"), &format!("{canary}\n"))?;
    repository(&outside.join("main.git"))?;
    let linked = outside.join("main.git/worktrees/wt");
    file(&linked.join("HEAD"), "ref: refs/heads/wt\n")?;
    file(&linked.join("commondir"), "../..\n")
}

fn plant_workspace(places: &Places, canary: &str, omit: Omit) -> Result<(), StageError> {
    let workspace = &places.workspace;
    let inside = |name: &str| workspace.join(name);
    file(&inside("src/main.rs"), "fn main() {}\n")?;
    repository(&inside(".git"))?;
    file(
        &inside(".git/config"),
        "[core]\n\tbare = false\n\thooksPath = githooks\n[include]\n\tpath = ../gitextra.inc\n\
         [extensions]\n\tworktreeConfig = true\n",
    )?;
    repository(&inside(".git/modules/lib"))?;
    file(&inside("githooks/pre-push"), "#!/bin/sh\nexit 0\n")?;
    file(&inside("gitextra.inc"), "[user]\n\tname = stage\n")?;
    for name in ["sub/.git", "deep/a/b/c/d/.git", "gitdirs/linked", "bare"] {
        repository(&inside(name))?;
    }
    fs::create_dir(inside("linked")).map_err(StageError::file(&inside("linked")))?;
    if !omit.linked {
        link(Path::new("../gitdirs/linked"), &inside("linked/.git"))?;
    }
    let pointer = format!(
        "gitdir: {}\n",
        places.outside.join("main.git/worktrees/wt").display()
    );
    file(&inside("wt/.git"), &pointer)?;
    if !omit.denied {
        secret(&inside(".env"), canary)?;
        secret(&inside("conf/deep/.env"), canary)?;
    }
    file(&inside(".bashrc"), "# start-up file\n")?;
    file(&inside(".claude/settings.json"), "{}\n")?;
    file(&inside("pkg/.vscode/settings.json"), "{}\n")?;
    link(&places.outside.join("target.txt"), &inside("out-link"))?;
    let (from, to) = (places.outside.join("linked.txt"), inside("hard-link"));
    fs::hard_link(&from, &to).map_err(StageError::file(&to))
}

fn repository(at: &Path) -> Result<(), StageError> {
    file(&at.join("HEAD"), "ref: refs/heads/main\n")?;
    file(&at.join("config"), "[core]\n\tbare = false\n")?;
    file(&at.join("info/exclude"), "")?;
    file(&at.join("hooks/pre-commit.sample"), "#!/bin/sh\nexit 0\n")?;
    for name in ["objects", "refs/heads"] {
        let path = at.join(name);
        fs::create_dir_all(&path).map_err(StageError::file(&path))?;
    }
    Ok(())
}

/// Writes a file and the directories above it.
pub(crate) fn file(path: &Path, content: &str) -> Result<(), StageError> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(StageError::file(parent))?;
    }
    fs::write(path, content).map_err(StageError::file(path))
}

/// Writes a file that only its owner may read.
pub(crate) fn secret(path: &Path, canary: &str) -> Result<(), StageError> {
    file(path, &format!("TOKEN={canary}\n"))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(StageError::file(path))
}

fn link(target: &Path, at: &Path) -> Result<(), StageError> {
    symlink(target, at).map_err(StageError::file(at))
}
