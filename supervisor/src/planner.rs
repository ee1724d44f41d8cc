//! From a profile and a workspace to a confinement: what exists, where it really is, and what
//! in it has to stay as it is.

mod demands;
mod environment;
pub(crate) mod expand;
mod mark;
pub(crate) mod places;
mod toolchain;
pub(crate) mod walk;
pub(crate) mod worktree;

use std::path::{Path, PathBuf};

use policy::{Anchor, Mode, PathRule, Profile, Valued, Variables};
use sandbox::{AbsPath, Access, Confinement, ConfinementError, Filesystem, Powers, Staging};

use crate::caller::Caller;
use expand::Denied;
use places::Places;
use walk::{Found, Moment, Names, WalkError};

/// What will be confined, and what the planner found on the way.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) confinement: Confinement,
    /// Every writable tree and what was found in it.
    pub(crate) searched: Vec<(AbsPath, Found)>,
    /// The names that were searched for.
    pub(crate) names: Names,
    /// Names that git's own configuration points to and that do not exist.
    pub(crate) absent: Vec<PathBuf>,
    /// What a person should know.
    pub(crate) warnings: Vec<String>,
}

/// No confinement was made, so nothing runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum PlanError {
    /// The workspace does not exist or is no folder.
    #[error("`{}` can not be the workspace", .path.display())]
    Workspace {
        path: PathBuf,
        source: std::io::Error,
    },
    /// The workspace would be too much.
    #[error("`{}` can not be the workspace: it is or holds the home", .path.display())]
    TooWide { path: PathBuf },
    /// The workspace is a part of a repository that is protected.
    #[error("`{}` can not be the workspace: it lies in a repository's own folder", .path.display())]
    InsideGit { path: PathBuf },
    /// A protected file could be changed through another name.
    #[error(
        "`{}` is protected, but has another name (hard link) through which it could be changed",
        .path.display()
    )]
    HardLink { path: PathBuf },
    /// A tree was not searched.
    #[error("the sandbox was not planned")]
    Walk {
        #[from]
        source: WalkError,
    },
    /// The parts contradict each other.
    #[error("the profile can not be carried out here")]
    Confinement {
        #[from]
        source: ConfinementError,
    },
    /// A path of the profile is not in normal form on this host.
    #[error("the profile can not be carried out here")]
    Path {
        #[from]
        source: sandbox::AbsPathError,
    },
}

impl PlanError {
    pub(crate) fn help(&self) -> Option<&'static str> {
        match self {
            Self::Workspace { .. } => Some("name a folder with --workspace DIR"),
            Self::TooWide { .. } => {
                Some("change to a project's folder, or name one with --workspace DIR")
            }
            Self::HardLink { .. } => Some("remove the other name, or replace the file by a copy"),
            Self::Walk { .. } => Some("make the folder readable, or remove it"),
            _ => None,
        }
    }
}

/// Resolves and checks the workspace.
pub(crate) fn workspace(asked: &Path, caller: &Caller) -> Result<AbsPath, PlanError> {
    let asked = caller.directory.join(asked);
    let fail = |source| PlanError::Workspace {
        path: asked.clone(),
        source,
    };
    let real = asked.canonicalize().map_err(fail)?;
    if real.iter().any(|it| it.eq_ignore_ascii_case(".git")) {
        return Err(PlanError::InsideGit { path: real });
    }
    if !real.is_dir() {
        return Err(fail(std::io::ErrorKind::NotADirectory.into()));
    }
    let home = caller.home.as_ref().and_then(|it| it.canonicalize().ok());
    if real == Path::new("/") || home.is_some_and(|it| it.starts_with(&real)) {
        return Err(PlanError::TooWide { path: real });
    }
    Ok(AbsPath::new(real)?)
}

/// Makes the confinement of `profile` for `workspace`.
///
/// `stage`: the folder that takes writes to the workspace, if they are staged.
pub(crate) fn plan(
    profile: &Profile,
    caller: &Caller,
    workspace: &AbsPath,
    stage: Option<AbsPath>,
) -> Result<Planned, PlanError> {
    let mut warnings = Vec::new();
    let variables = Variables {
        workspace: workspace.to_path_buf(),
        home: caller.home.clone(),
    };
    let mut places = Places::default();
    let is_owned = |path: &Path| {
        workspace.holds(path)
            || caller
                .home
                .as_ref()
                .is_some_and(|home| path.starts_with(home))
    };
    for path in ["/tmp", "/var/tmp"] {
        places.private(Path::new(path));
    }
    for rule in &profile.private {
        if let Some(path) = rule
            .value
            .resolve(&variables)
            .and_then(|it| it.as_literal())
        {
            places.private(&path);
        }
    }
    let lists = [
        (&profile.read, Access::Read),
        (&profile.cache, Access::Cache),
        (&profile.write, Access::Write),
    ];
    for (rules, access) in lists {
        for path in rules
            .iter()
            .flat_map(|it| expand::expand(&it.value, &variables))
        {
            places.grant(&path, access, is_owned(&path));
        }
    }
    toolchain::grant(&mut places, profile, caller, workspace);
    let shared = worktree::grant(
        &mut places,
        workspace,
        caller.home.as_deref(),
        &mut warnings,
    );
    let (grants, links, private) = places.finish();
    let writable: Vec<AbsPath> = grants
        .iter()
        .filter(|it| it.access == Access::Write)
        .map(|it| it.path.clone())
        .collect();

    // Anything below the workspace is searched, also when it can only be read.
    let names = Names::new(unanchored(&profile.protect), unanchored(&profile.deny));
    let mut roots = writable.clone();
    if !roots.iter().any(|it| workspace.is_within(it)) {
        roots.push(workspace.clone());
    }
    // A person's own grants may hold what the profile denies by name; the system's do not.
    // What can only be read has no name to protect.
    for rule in profile.read.iter().chain(&profile.cache) {
        if rule.origin.file.starts_with("built-in") || !names.denies_any() {
            continue;
        }
        for path in expand::expand(&rule.value, &variables) {
            if let Ok(root) = path
                .canonicalize()
                .map_err(|_| ())
                .and_then(|it| AbsPath::new(it).map_err(|_| ()))
            {
                roots.push(root);
            }
        }
    }
    let mut searched = Vec::new();
    for root in roots {
        // A tree inside another is searched with it.
        if !searched
            .iter()
            .any(|(known, _): &(AbsPath, Found)| root.is_within(known))
        {
            let found = walk::walk(&root, &names, Moment::Before)?;
            searched.push((root, found));
        }
    }
    let global: Vec<PathBuf> = caller
        .home
        .iter()
        .flat_map(|home| [".gitconfig", ".config/git/config"].map(|it| home.join(it)))
        .collect();
    let mut absent = Vec::new();
    let mut protected: Vec<PathBuf> = shared;
    let mut masks: Vec<PathBuf> = Vec::new();
    let mut pinned: Vec<PathBuf> = Vec::new();
    let in_writable = |path: &Path| writable.iter().any(|it| it.holds(path));
    for (_, found) in &searched {
        if let Some(path) = found.linked.iter().find(|it| in_writable(it)) {
            return Err(PlanError::HardLink { path: path.clone() });
        }
        protected.extend(found.protected.iter().cloned());
        masks.extend(found.masked.iter().cloned());
        pinned.extend(found.pinned.iter().cloned());
        for repository in &found.repositories {
            let (exist, missing) = expand::configured(repository, &global);
            protected.extend(exist);
            absent.extend(missing);
        }
    }
    for rule in anchored(&profile.protect) {
        for path in expand::expand(rule, &variables) {
            if path.symlink_metadata().is_ok() {
                protected.push(path);
            } else {
                absent.push(path);
            }
        }
    }
    for own in own_files(profile, caller) {
        if in_writable(&own) {
            warnings.push(format!(
                "`{}` is Stockade's own and lies in a writable tree; it is protected, but belongs \
                 elsewhere (make install)",
                own.display()
            ));
            protected.push(own);
        }
    }
    // What a protected link leads to is protected as well, or must not appear.
    let (targets, missing) = expand::targets(&protected);
    protected.extend(targets);
    absent.extend(missing);
    let mut denied = Denied::new(&grants);
    for rule in anchored(&profile.deny) {
        masks.extend(denied.places(rule, &variables));
    }
    let mut protected =
        expand::outermost(protected.into_iter().filter(|it| in_writable(it)).collect())?;
    protected.retain(|it| !writable.contains(it));
    let masks = expand::outermost(masks.into_iter().filter(|it| denied.shows(it)).collect())?;

    let environment = environment::of(profile, caller, &variables, &writable, &mut warnings);
    let workdir = match AbsPath::new(&caller.directory) {
        Ok(directory) if directory.starts_with(workspace) => directory,
        _ => workspace.clone(),
    };
    let mut filesystem = Filesystem {
        grants,
        masks,
        protected,
        pins: Vec::new(),
        links,
        private,
        files: environment::users(caller)?,
        tmp_size: profile.tmp_size.as_ref().map_or(1 << 30, |it| it.value),
        staging: stage.map(|stage| Staging {
            root: workspace.clone(),
            stage,
        }),
        workdir,
    };
    filesystem.pin_ancestors();
    // Renamed, such a folder would show what it hid to the next run.
    for path in pinned {
        let path = AbsPath::new(path)?;
        let within = writable.iter().any(|it| path.is_within(it));
        if within && !writable.contains(&path) && !filesystem.pins.contains(&path) {
            filesystem.pins.push(path);
        }
    }
    if demands::network(profile) == sandbox::Network::Host {
        warnings.push(
            "the network is the host's: services on its loopback and, on cloud machines, the \
             metadata service that hands out credentials can be reached"
                .to_owned(),
        );
    }
    let confinement = Confinement::build()
        .filesystem(filesystem)
        .network(demands::network(profile))
        .powers(Powers {
            nested_user_namespaces: profile
                .nested_user_namespaces
                .as_ref()
                .is_some_and(|it| it.value),
            ptrace: profile.ptrace.as_ref().is_some_and(|it| it.value),
        })
        .limits(demands::limits(profile))
        .environment(environment)
        .require(demands::requirement(profile))?;
    Ok(Planned {
        confinement,
        searched,
        names,
        absent,
        warnings,
    })
}

fn unanchored(rules: &[Valued<PathRule>]) -> impl Iterator<Item = &PathRule> {
    rules
        .iter()
        .map(|it| &it.value)
        .filter(|it| it.anchor() == Anchor::Anywhere)
}

fn anchored(rules: &[Valued<PathRule>]) -> impl Iterator<Item = &PathRule> {
    rules
        .iter()
        .map(|it| &it.value)
        .filter(|it| it.anchor() != Anchor::Anywhere)
}

/// Our own program, helpers and the profiles that were read.
fn own_files(profile: &Profile, caller: &Caller) -> Vec<PathBuf> {
    let mut own = vec![caller.program.clone()];
    if let Some(folder) = caller.program.parent() {
        own.extend(["stockade-probe", "stockade-birdcage"].map(|it| folder.join(it)));
    }
    own.extend(
        profile
            .chain
            .iter()
            .map(PathBuf::from)
            .filter(|it| it.is_absolute()),
    );
    own.extend(caller.state_folder());
    own.extend(caller.profile_folder());
    own.retain(|it| it.exists());
    own
}

/// Whether writes are staged.
pub(crate) fn is_staged(profile: &Profile) -> bool {
    profile
        .mode
        .as_ref()
        .is_some_and(|it| it.value == Mode::Staged)
}
