//! Lists what differs between a stage's upper directory and the workspace, changing neither.

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::io::Errno;

use super::change::{Change, ChangeKind, Conflict, FileKind, Refusal, tree_order};
use super::journal::Baseline;
use super::marks::{marks, refusal_of};
use super::tree::{Node, Time, join, names, node, open_dir, open_file, target};
use super::{Protected, StagingError, content};

/// What a scan reads and compares by.
pub(super) struct Ground<'a> {
    pub(super) upper: BorrowedFd<'a>,
    pub(super) host: BorrowedFd<'a>,
    /// When the session started, on the file systems' clock.
    pub(super) stamp: Time,
    /// The clock stands before `stamp`.
    pub(super) clock_went_back: bool,
    pub(super) baseline: &'a Baseline,
    pub(super) protected: &'a Protected<'a>,
}

/// A directory of the stage that is still to be read.
pub(super) struct Visit {
    pub(super) path: Vec<u8>,
    /// The workspace has a directory there.
    host_is_dir: bool,
    /// What the workspace has in it was not visible through it, so absence means removal.
    pub(super) opaque: bool,
    pub(super) above: Above,
}

/// What is already settled for all that stands beneath a directory.
#[derive(Clone, Copy)]
pub(super) struct Above {
    pub(super) protected: bool,
    /// Holds for every entry: a directory above is gone.
    pub(super) gone: Option<Conflict>,
    /// Holds for entries that the host has too.
    pub(super) replaced: Option<Conflict>,
}

/// How a staged entry differs from the host's, before conflicts are weighed.
type Difference = Option<(ChangeKind, Option<Refusal>)>;

/// Every difference, a directory before what is in it, siblings by bytes.
pub(super) fn scan(ground: &Ground<'_>) -> Result<Vec<Change>, StagingError> {
    let mut scanner = Scanner {
        ground,
        changes: Vec::new(),
        visits: Vec::new(),
    };
    let replaced = ground.clock_went_back.then_some(Conflict::ClockWentBack);
    scanner.visits.push(Visit {
        path: Vec::new(),
        host_is_dir: true,
        opaque: false,
        above: Above {
            protected: false,
            gone: None,
            replaced,
        },
    });
    while let Some(visit) = scanner.visits.pop() {
        scanner.directory(&visit)?;
    }
    let mut changes = scanner.changes;
    changes.sort_by(|left, right| tree_order(&left.path, &right.path));
    Ok(changes)
}

/// A scan under way.
pub(super) struct Scanner<'a> {
    pub(super) ground: &'a Ground<'a>,
    pub(super) changes: Vec<Change>,
    visits: Vec<Visit>,
}

impl Scanner<'_> {
    /// Reads one directory of the stage beside the workspace's.
    fn directory(&mut self, visit: &Visit) -> Result<(), StagingError> {
        let failed = |errno| StagingError::io("read the staged directory", &visit.path, errno);
        let upper = match open_dir(self.ground.upper, &visit.path) {
            Ok(upper) => upper,
            Err(errno) => {
                let refusal = refusal_of(errno).ok_or_else(|| failed(errno))?;
                self.refuse_visit(visit, refusal);
                return Ok(());
            }
        };
        let host = if visit.host_is_dir {
            match open_dir(self.ground.host, &visit.path) {
                Ok(host) => Some(host),
                Err(errno) => {
                    let refusal = refusal_of(errno).ok_or_else(|| {
                        StagingError::io("read the directory", &visit.path, errno)
                    })?;
                    self.refuse_visit(visit, refusal);
                    return Ok(());
                }
            }
        } else {
            None
        };
        let staged = names(upper.as_fd()).map_err(failed)?;
        for name in &staged {
            let path = join(&visit.path, name);
            let here = match &host {
                Some(host) => node(host.as_fd(), name)
                    .map_err(|errno| StagingError::io("look at", &path, errno))?,
                None => None,
            };
            let host = host.as_ref().map(|host| host.as_fd());
            self.entry(visit, upper.as_fd(), host, name, path, here)?;
        }
        if let (true, Some(host)) = (visit.opaque, &host) {
            let staged: BTreeSet<_> = staged.into_iter().collect();
            let there = names(host.as_fd())
                .map_err(|errno| StagingError::io("read the directory", &visit.path, errno))?;
            for name in there.into_iter().filter(|name| !staged.contains(name)) {
                let path = join(&visit.path, &name);
                let found = node(host.as_fd(), &name)
                    .map_err(|errno| StagingError::io("look at", &path, errno))?;
                if let Some(found) = found {
                    self.removed(path, found, visit.above)?;
                }
            }
        }
        Ok(())
    }

    /// One name of a staged directory; `here` is what the workspace has under it.
    fn entry(
        &mut self,
        visit: &Visit,
        upper: BorrowedFd<'_>,
        host: Option<BorrowedFd<'_>>,
        name: &[u8],
        path: Vec<u8>,
        here: Option<Node>,
    ) -> Result<(), StagingError> {
        let failed = |errno| StagingError::io("read the staged entry", &path, errno);
        let Some(staged) = node(upper, name).map_err(failed)? else {
            return Ok(());
        };
        let protected = visit.above.protected || (self.ground.protected)(&path);
        let above = Above {
            protected,
            ..visit.above
        };
        let marks = match marks(upper, name, &staged) {
            Ok(marks) => marks,
            Err(errno) => {
                let refusal = refusal_of(errno).ok_or_else(|| failed(errno))?;
                self.push(
                    path,
                    &staged,
                    here,
                    above,
                    None,
                    kind_beside(&staged, here),
                    Some(refusal),
                );
                return Ok(());
            }
        };
        if marks.whiteout {
            return match here {
                Some(here) => self.removed(path, here, above),
                None => Ok(()),
            };
        }
        let lost = (marks.origin && here.is_none() && self.is_lost(visit, &staged, host, &path)?)
            .then_some(Conflict::HostDeleted);
        if marks.reference {
            let kind = kind_beside(&staged, here);
            self.push(
                path,
                &staged,
                here,
                above,
                lost,
                kind,
                Some(Refusal::Unsupported),
            );
            return Ok(());
        }
        let difference = match self.compare(upper, host, name, &staged, here) {
            Ok(difference) => difference,
            Err(errno) => Some((
                kind_beside(&staged, here),
                Some(refusal_of(errno).ok_or_else(|| failed(errno))?),
            )),
        };
        if let Some((kind, refusal)) = difference {
            self.push(path.clone(), &staged, here, above, lost, kind, refusal);
        }
        match here {
            // All that the workspace has beneath is gone with the directory.
            Some(here)
                if here.kind == FileKind::Directory && staged.kind != FileKind::Directory =>
            {
                self.removed_beneath(path, above)?;
            }
            _ if staged.kind == FileKind::Directory => {
                let host_is_dir = here.is_some_and(|here| here.kind == FileKind::Directory);
                let replaced = above
                    .replaced
                    .or_else(|| here.and_then(|here| self.replaced(&path, &here)));
                let above = Above {
                    gone: above.gone.or(lost),
                    replaced,
                    ..above
                };
                let opaque = visit.opaque || marks.opaque;
                self.visits.push(Visit {
                    path,
                    host_is_dir,
                    opaque,
                    above,
                });
            }
            _ => (),
        }
        Ok(())
    }

    /// How a staged entry that is no whiteout differs from what the workspace has.
    fn compare(
        &self,
        upper: BorrowedFd<'_>,
        host: Option<BorrowedFd<'_>>,
        name: &[u8],
        staged: &Node,
        here: Option<Node>,
    ) -> Result<Difference, Errno> {
        let special = !matches!(
            staged.kind,
            FileKind::File | FileKind::Directory | FileKind::Symlink
        );
        let refusal = special.then_some(Refusal::Special);
        let (Some(here), Some(host)) = (here, host) else {
            return Ok(Some((ChangeKind::Added, refusal)));
        };
        if here.kind != staged.kind {
            return Ok(Some((ChangeKind::TypeChanged, refusal)));
        }
        if special {
            return Ok(None);
        }
        let same_content = match staged.kind {
            FileKind::Symlink => {
                let same = target(upper, name)? == target(host, name)?;
                return Ok((!same).then_some((ChangeKind::Modified, None)));
            }
            FileKind::File => {
                staged.size == here.size && {
                    let (left, right) = (open_file(upper, name)?, open_file(host, name)?);
                    content::is_equal(left.as_fd(), right.as_fd(), staged.size)?
                }
            }
            _ => true,
        };
        if !same_content {
            return Ok(Some((ChangeKind::Modified, None)));
        }
        Ok((staged.permissions() != here.permissions()).then_some((ChangeKind::ModeChanged, None)))
    }

    /// Records that `here` and all beneath it is removed.
    fn removed(&mut self, path: Vec<u8>, here: Node, above: Above) -> Result<(), StagingError> {
        let protected = above.protected || (self.ground.protected)(&path);
        let above = Above { protected, ..above };
        self.push(
            path.clone(),
            &here,
            Some(here),
            above,
            None,
            ChangeKind::Deleted,
            None,
        );
        if here.kind == FileKind::Directory {
            let replaced = above.replaced.or_else(|| self.replaced(&path, &here));
            self.removed_beneath(path, Above { replaced, ..above })?;
        }
        Ok(())
    }

    /// Records that all beneath the workspace's directory `top` is removed.
    fn removed_beneath(&mut self, top: Vec<u8>, above: Above) -> Result<(), StagingError> {
        let mut open = vec![(top, above)];
        while let Some((path, above)) = open.pop() {
            let failed = |errno| StagingError::io("read the directory", &path, errno);
            let dir = match open_dir(self.ground.host, &path) {
                Ok(dir) => dir,
                Err(errno) => {
                    let refusal = refusal_of(errno).ok_or_else(|| failed(errno))?;
                    self.refuse(&path, refusal);
                    continue;
                }
            };
            for name in names(dir.as_fd()).map_err(failed)? {
                let path = join(&path, &name);
                let Some(found) = node(dir.as_fd(), &name).map_err(failed)? else {
                    continue;
                };
                let protected = above.protected || (self.ground.protected)(&path);
                let mut above = Above { protected, ..above };
                self.push(
                    path.clone(),
                    &found,
                    Some(found),
                    above,
                    None,
                    ChangeKind::Deleted,
                    None,
                );
                if found.kind == FileKind::Directory {
                    above.replaced = above.replaced.or_else(|| self.replaced(&path, &found));
                    open.push((path, above));
                }
            }
        }
        Ok(())
    }
}

/// The kind of change where content was not compared.
fn kind_beside(staged: &Node, here: Option<Node>) -> ChangeKind {
    match here {
        None => ChangeKind::Added,
        Some(here) if here.kind == staged.kind => ChangeKind::Modified,
        Some(_) => ChangeKind::TypeChanged,
    }
}
