//! Decides what a scan may trust: which entries the host touched, and what is refused.

use std::os::fd::BorrowedFd;

use super::StagingError;
use super::change::{Change, ChangeKind, Conflict, FileKind, Refusal};
use super::scan::{Above, Scanner, Visit};
use super::tree::{Node, node_of};

impl Scanner<'_> {
    /// Whether an entry that was copied up and that the host lacks was removed by the host.
    ///
    /// A directory of the workspace is never renamed in the overlay (`EXDEV`), so for one the
    /// answer is yes. A file may as well have been copied up elsewhere and renamed to here:
    /// only if entries of its directory came or went since the start is removal possible.
    pub(super) fn is_lost(
        &self,
        visit: &Visit,
        staged: &Node,
        host: Option<BorrowedFd<'_>>,
        path: &[u8],
    ) -> Result<bool, StagingError> {
        if staged.kind == FileKind::Directory {
            return Ok(true);
        }
        match host {
            // What stands in a directory that the payload made never was the host's.
            Some(host) if !visit.opaque && !self.ground.baseline.was_absent(path) => {
                let parent = node_of(host)
                    .map_err(|errno| StagingError::io("look at", &visit.path, errno))?;
                Ok(parent.ctime >= self.ground.stamp)
            }
            _ => Ok(false),
        }
    }

    /// Whether a directory of the workspace looks exchanged for another since the start:
    /// its `ctime` moved without its `mtime`, which creating and removing entries never does.
    pub(super) fn replaced(&self, path: &[u8], here: &Node) -> Option<Conflict> {
        let moved = here.ctime >= self.ground.stamp && here.ctime != here.mtime;
        (moved && !self.ground.baseline.knows(path, here)).then_some(Conflict::DirectoryReplaced)
    }

    /// Weighs conflicts and records a change.
    #[expect(
        clippy::too_many_arguments,
        reason = "one private constructor for five callers"
    )]
    pub(super) fn push(
        &mut self,
        path: Vec<u8>,
        now: &Node,
        here: Option<Node>,
        above: Above,
        lost: Option<Conflict>,
        kind: ChangeKind,
        refusal: Option<Refusal>,
    ) {
        let edited = here.and_then(|here| {
            let settled = here.kind == FileKind::Directory
                && (kind != ChangeKind::ModeChanged || self.ground.baseline.has_mode(&path, &here));
            let moved = here.ctime >= self.ground.stamp && !settled;
            above.replaced.or(moved.then_some(Conflict::HostChanged))
        });
        let deleted = kind == ChangeKind::Deleted;
        self.changes.push(Change {
            path,
            kind,
            file: now.kind,
            size: if now.kind == FileKind::Directory {
                0
            } else {
                now.size
            },
            modes: (here.map(|here| here.mode), (!deleted).then_some(now.mode)),
            executable: !deleted && now.kind == FileKind::File && now.mode & 0o111 != 0,
            special_bits: !deleted && now.kind != FileKind::Directory && now.mode & 0o7000 != 0,
            protected: above.protected,
            conflict: above.gone.or(lost).or(edited),
            refusal,
            host: here,
        });
    }

    /// Refuses a directory of the stage that cannot be read beside the workspace's.
    pub(super) fn refuse_visit(&mut self, visit: &Visit, refusal: Refusal) {
        if !self.refuse(&visit.path, refusal) {
            self.changes.push(Change {
                path: visit.path.clone(),
                kind: ChangeKind::ModeChanged,
                file: FileKind::Directory,
                size: 0,
                modes: (None, None),
                executable: false,
                special_bits: false,
                protected: visit.above.protected,
                conflict: visit.above.gone,
                refusal: Some(refusal),
                host: None,
            });
        }
    }

    /// Marks the change of `path` refused, if there is one.
    pub(super) fn refuse(&mut self, path: &[u8], refusal: Refusal) -> bool {
        let change = self
            .changes
            .iter_mut()
            .rev()
            .find(|change| change.path == path);
        let found = change.is_some();
        if let Some(change) = change {
            change.refusal = Some(refusal);
        }
        found
    }
}
