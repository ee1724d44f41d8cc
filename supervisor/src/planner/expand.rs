//! From rules to places: patterns expanded on disk, and what git's configuration points to.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use policy::{GitConfig, PathRule, Variables};
use sandbox::AbsPath;

use super::{PlanError, worktree};

/// The paths that a rule means; those with a glob exist.
pub(super) fn expand(rule: &PathRule, variables: &Variables) -> Vec<PathBuf> {
    let Some(resolved) = rule.resolve(variables) else {
        return Vec::new();
    };
    if let Some(path) = resolved.as_literal() {
        return vec![path];
    }
    let mut found = Vec::new();
    let depth = resolved.depth_below_prefix();
    matching(&resolved.static_prefix(), &resolved, depth, &mut found);
    found
}

/// Collects matches below `folder`, at most `depth` names down; no link is followed.
fn matching(
    folder: &Path,
    rule: &policy::Resolved,
    depth: Option<usize>,
    found: &mut Vec<PathBuf>,
) {
    if depth == Some(0) {
        return;
    }
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if rule.matches(&path) {
            found.push(path);
        } else if entry.file_type().is_ok_and(|it| it.is_dir()) {
            matching(&path, rule, depth.map(|it| it - 1), found);
        }
    }
}

/// The real places of denied rules, where a grant shows them.
#[derive(Debug)]
pub(super) struct Denied<'g> {
    grants: &'g [sandbox::Grant],
    /// The grant that held the last path: rules come in heaps.
    over: Option<&'g AbsPath>,
    /// Folders and where they really are.
    folders: HashMap<PathBuf, Option<PathBuf>>,
}

impl<'g> Denied<'g> {
    pub(super) fn new(grants: &'g [sandbox::Grant]) -> Self {
        Self {
            grants,
            over: None,
            folders: HashMap::new(),
        }
    }

    /// The real places of what `rule` means.
    pub(super) fn places(&mut self, rule: &PathRule, variables: &Variables) -> Vec<PathBuf> {
        let Some(resolved) = rule.resolve(variables) else {
            return Vec::new();
        };
        // Only what some grant shows is searched: a glob over the home does not walk the home.
        let prefix = resolved.static_prefix();
        let shown = self.shows(&prefix)
            || self.holds_a_grant(&prefix)
            || self.real(&prefix).is_some_and(|it| self.shows(&it.0));
        if !shown {
            return Vec::new();
        }
        let mut places = Vec::new();
        for path in expand(rule, variables) {
            if let Some((real, is_link)) = self.real(&path) {
                places.push(real);
                if !is_link {
                    places.push(path);
                }
            }
        }
        places
    }

    /// Whether a grant holds `path`.
    pub(super) fn shows(&mut self, path: &Path) -> bool {
        if !self.over.is_some_and(|it| it.holds(path)) {
            let mut grants = self.grants.iter().map(|it| &it.path);
            self.over = grants.find(|it| it.holds(path));
        }
        self.over.is_some()
    }

    fn holds_a_grant(&self, path: &Path) -> bool {
        match AbsPath::new(path) {
            Ok(path) => self.grants.iter().any(|it| it.path.is_within(&path)),
            Err(_) => self.grants.iter().any(|it| it.path.starts_with(path)),
        }
    }

    /// Where `path` really is, as realpath(3) says, and whether its last name is a link.
    fn real(&mut self, path: &Path) -> Option<(PathBuf, bool)> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Some((path.canonicalize().ok()?, false));
        };
        let folder = match self.folders.get(folder) {
            Some(known) => known.clone(),
            None => {
                let real = folder.canonicalize().ok();
                self.folders.insert(folder.to_owned(), real.clone());
                real
            }
        };
        let place = folder?.join(name);
        if place.symlink_metadata().ok()?.is_symlink() {
            return Some((place.canonicalize().ok()?, true));
        }
        Some((place, false))
    }
}

/// How many files one repository's configuration may include.
const MOST_INCLUDES: usize = 64;

/// What a repository's configuration points to, and that of what it includes: what exists, and
/// what does not.
///
/// `global` are a person's own configuration files, whose relative paths git applies in every
/// repository.
pub(crate) fn configured(repository: &Path, global: &[PathBuf]) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let top = if repository.ends_with(".git") {
        repository.parent().unwrap_or(repository)
    } else {
        repository
    };
    let mut files: Vec<PathBuf> = ["config", "config.worktree"]
        .iter()
        .map(|it| repository.join(it))
        .chain(global.iter().cloned())
        .collect();
    let mut found = BTreeSet::new();
    let mut at = 0;
    while let Some(file) = files.get(at).cloned() {
        at += 1;
        let Some(text) = worktree::read_small(&file) else {
            continue;
        };
        let config = GitConfig::parse(&text);
        let folder = file.parent().unwrap_or(repository);
        for path in config.paths().into_iter().chain(config.programs()) {
            // Relative includes start at the file, hooks and programs at the work tree.
            for place in [normal(&folder.join(path)), normal(&top.join(path))] {
                let Some(place) = place else { continue };
                if files.len() < MOST_INCLUDES && !files.contains(&place) {
                    files.push(place.clone());
                }
                found.insert(place);
            }
        }
    }
    found
        .into_iter()
        .partition(|it| it.symlink_metadata().is_ok())
}

/// Where links lead that are protected themselves or lie right in a protected folder: what
/// exists, and what does not.
pub(super) fn targets(protected: &[PathBuf]) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let inside = protected
        .iter()
        .filter(|it| !it.is_symlink())
        .filter_map(|it| std::fs::read_dir(it).ok())
        .flat_map(|entries| entries.flatten().map(|it| it.path()));
    let links = protected
        .iter()
        .cloned()
        .chain(inside)
        .filter(|it| it.is_symlink());
    let (mut exist, mut missing) = (Vec::new(), Vec::new());
    for link in links {
        match link.canonicalize() {
            Ok(target) => exist.push(target),
            Err(_) => {
                let target = std::fs::read_link(&link).unwrap_or_default();
                let folder = link.parent().and_then(|it| it.canonicalize().ok());
                missing.extend(folder.and_then(|it| normal(&it.join(target))));
            }
        }
    }
    (exist, missing)
}

/// A path without `.` and `..`, read as text: what is not there cannot be asked.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            std::path::Component::ParentDir => {
                out.pop();
            }
            std::path::Component::CurDir => (),
            other => out.push(other),
        }
    }
    out.is_absolute().then_some(out)
}

/// Drops what lies below another of the same list: the outer one covers it.
pub(super) fn outermost(mut paths: Vec<PathBuf>) -> Result<Vec<AbsPath>, PlanError> {
    paths.sort();
    paths.dedup();
    let mut kept: Vec<AbsPath> = Vec::new();
    for path in paths {
        if !kept.last().is_some_and(|it| path.starts_with(it)) {
            kept.push(AbsPath::new(path)?);
        }
    }
    Ok(kept)
}
