//! A stage on disk: its folder, its records, its lock and its end.
//!
//! `<state>/staged/<id>/` holds `upper` and `work` (the overlay's), `meta`, `lock`, and while
//! something is being applied `baseline`, `plan` and `heap`. Names beside it that start with
//! a dot are stages being made or thrown away.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, FlockOperation, Mode, chmodat, unlinkat};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::change::Change;
use super::escape::escape;
use super::folder::{
    self, check_id, discard_locked, discard_name, open_above, read_record, take_lock,
    workspace_path,
};
use super::journal::Baseline;
use super::remove::{empty, open_heap};
use super::scan::{Ground, scan};
use super::tree::{Time, names, node, node_of, open_dir, open_root};
use super::{Protected, StagingError};

/// How far a session came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Status {
    /// It ended and left work behind.
    Ended,
    /// It runs, or was killed: [`Stage::is_live`] tells which.
    Running,
}

/// What a session says of itself when its stage is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// The workspace's absolute path, in bytes.
    pub workspace: Vec<u8>,
    /// The session's name.
    pub session: String,
    /// The command line, for people: not exact.
    pub command: String,
    /// When the session started, seconds since 1970.
    pub created: u64,
    /// The user who started it.
    pub uid: u32,
    /// How far it came.
    pub status: Status,
}

/// What `meta` holds: a format number, what the caller said, and what was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Stored {
    pub(super) format: u32,
    pub(super) meta: Meta,
    /// The workspace's inode. The device number is not kept: it may differ after a reboot.
    pub(super) inode: u64,
    pub(super) stamp: Time,
}

/// The layout of the records; another one is not read.
pub(super) const FORMAT: u32 = 1;

/// The work of one session, on disk. Reading it needs no lock.
#[derive(Debug)]
pub struct Stage {
    pub(super) id: String,
    pub(super) above: OwnedFd,
    pub(super) dir: OwnedFd,
    pub(super) folder: PathBuf,
    pub(super) stored: Stored,
}

/// One line of [`Stage::list`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Listed {
    /// The stage's name.
    pub id: String,
    /// The stage, or why it cannot be opened.
    pub stage: Result<Stage, StagingError>,
}

/// A stage that nobody else runs, applies or discards while this value lives.
///
/// The lock is flock(2) on the descriptor of [`AsFd`]: a child that inherits it holds the
/// stage as well, until the last copy is closed.
#[derive(Debug)]
pub struct LockedStage {
    pub(super) stage: Stage,
    pub(super) lock: OwnedFd,
}

impl Stage {
    /// Opens the stage `id` beneath `state`.
    ///
    /// # Errors
    ///
    /// [`StagingError::Unknown`], [`StagingError::BadId`], [`StagingError::Record`] for one
    /// whose record is damaged (see [`Stage::discard_damaged`]), or `Io`.
    pub fn open(state: &Path, id: &str) -> Result<Self, StagingError> {
        check_id(id)?;
        let above = open_above(state, false)?;
        let dir = match open_dir(above.as_fd(), id.as_bytes()) {
            Ok(dir) => dir,
            Err(Errno::NOENT) => return Err(StagingError::Unknown { id: id.to_owned() }),
            Err(errno) => return Err(StagingError::io("open the stage", id.as_bytes(), errno)),
        };
        let stored: Option<Stored> = read_record(dir.as_fd(), "meta", id)?;
        let stored = stored.filter(|stored| stored.format == FORMAT);
        let stored = stored.ok_or_else(|| StagingError::Record {
            record: "meta",
            id: id.to_owned(),
        })?;
        Ok(Self {
            id: id.to_owned(),
            above,
            dir,
            folder: state.join("staged").join(id),
            stored,
        })
    }

    /// All stages beneath `state`, by name; a damaged one is listed with its error.
    ///
    /// # Errors
    ///
    /// `Io` if the folder cannot be read. A folder that does not exist is an empty list.
    pub fn list(state: &Path) -> Result<Vec<Listed>, StagingError> {
        let above = match open_above(state, false) {
            Ok(above) => above,
            Err(StagingError::Unknown { .. }) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let found = names(above.as_fd())
            .map_err(|errno| StagingError::io("read the stages in", b"staged", errno))?;
        let found = found
            .into_iter()
            .filter_map(|name| String::from_utf8(name).ok());
        Ok(found
            .filter(|name| check_id(name).is_ok())
            .map(|id| {
                let stage = Self::open(state, &id);
                Listed { id, stage }
            })
            .collect())
    }

    /// The stage's name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What the session said of itself.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.stored.meta
    }

    /// The stage's folder, all of it ours.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The overlay's upper directory.
    #[must_use]
    pub fn upper(&self) -> PathBuf {
        self.folder.join("upper")
    }

    /// The overlay's work directory.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.folder.join("work")
    }

    /// The workspace that the work belongs to.
    #[must_use]
    pub fn workspace(&self) -> PathBuf {
        workspace_path(&self.stored.meta.workspace)
    }

    /// Whether a session, an apply or a discard holds the stage right now.
    #[must_use]
    pub fn is_live(&self) -> bool {
        take_lock(self.dir.as_fd(), FlockOperation::NonBlockingLockShared).is_err()
    }

    /// Takes the stage for oneself, without waiting.
    ///
    /// # Errors
    ///
    /// [`StagingError::InUse`] while a session has it, [`StagingError::Unknown`] if it was
    /// discarded meanwhile, or `Io`.
    pub fn lock(self) -> Result<LockedStage, StagingError> {
        let failed = |errno| StagingError::io("lock the stage", self.id.as_bytes(), errno);
        let lock = match take_lock(self.dir.as_fd(), FlockOperation::NonBlockingLockExclusive) {
            Ok(lock) => lock,
            Err(Errno::WOULDBLOCK) => return Err(StagingError::InUse { id: self.id }),
            Err(errno) => return Err(failed(errno)),
        };
        // It may have been renamed away between opening and locking.
        let here = node(self.above.as_fd(), self.id.as_bytes()).map_err(failed)?;
        let mine = node_of(self.dir.as_fd()).map_err(failed)?;
        if here.is_none_or(|here| here.id != mine.id) {
            return Err(StagingError::Unknown { id: self.id });
        }
        Ok(LockedStage { stage: self, lock })
    }

    /// Every difference between the stage and the workspace as both are now, a directory
    /// before what is in it. Changes nothing and follows nothing; of a live session's stage
    /// it shows a moment that never was whole.
    ///
    /// # Errors
    ///
    /// [`StagingError::WorkspaceReplaced`], or `Io` where a directory cannot be read for a
    /// reason that no single entry accounts for.
    pub fn scan(&self, protected: &Protected<'_>) -> Result<Vec<Change>, StagingError> {
        let (upper, host) = (self.open_upper()?, self.open_workspace()?);
        let baseline: Baseline = self.read_record("baseline")?.unwrap_or_default();
        self.scan_between(upper.as_fd(), host.as_fd(), &baseline, protected)
    }

    pub(super) fn scan_between(
        &self,
        upper: BorrowedFd<'_>,
        host: BorrowedFd<'_>,
        baseline: &Baseline,
        protected: &Protected<'_>,
    ) -> Result<Vec<Change>, StagingError> {
        let stamp = self.stored.stamp;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let clock_went_back = (seconds, now.subsec_nanos()) < stamp;
        scan(&Ground {
            upper,
            host,
            stamp,
            clock_went_back,
            baseline,
            protected,
        })
    }

    /// Throws away a stage whose record is damaged, without knowing its workspace.
    ///
    /// # Errors
    ///
    /// As [`LockedStage::discard`].
    pub fn discard_damaged(state: &Path, id: &str) -> Result<(), StagingError> {
        check_id(id)?;
        let above = open_above(state, false)?;
        match discard_name(above.as_fd(), id, true)? {
            true => Ok(()),
            false => Err(StagingError::Unknown { id: id.to_owned() }),
        }
    }

    pub(super) fn open_upper(&self) -> Result<OwnedFd, StagingError> {
        let opened = open_dir(self.dir.as_fd(), b"upper").or_else(|errno| {
            if errno != Errno::ACCESS {
                return Err(errno);
            }
            // The payload shut its workspace. That mode is never applied, so it may go; the
            // name stands directly in a folder that only we write, so it is no link.
            chmodat(&self.dir, c"upper", Mode::RWXU, AtFlags::empty())?;
            open_dir(self.dir.as_fd(), b"upper")
        });
        opened.map_err(|errno| StagingError::io("open the stage", self.id.as_bytes(), errno))
    }

    pub(super) fn open_workspace(&self) -> Result<OwnedFd, StagingError> {
        let path = &self.stored.meta.workspace;
        let failed = |errno| StagingError::io("open the workspace", path, errno);
        let host = open_root(&self.workspace()).map_err(failed)?;
        if node_of(host.as_fd()).map_err(failed)?.id.inode != self.stored.inode {
            return Err(StagingError::WorkspaceReplaced {
                path: escape(path),
                id: self.id.clone(),
            });
        }
        Ok(host)
    }

    pub(super) fn read_record<T: DeserializeOwned>(
        &self,
        name: &'static str,
    ) -> Result<Option<T>, StagingError> {
        read_record(self.dir.as_fd(), name, &self.id)
    }

    pub(super) fn write_record(
        &self,
        name: &'static str,
        value: &impl Serialize,
    ) -> Result<(), StagingError> {
        folder::write_record(self.dir.as_fd(), name, value, &self.id)
    }

    pub(super) fn remove_record(&self, name: &'static str) -> Result<(), StagingError> {
        match unlinkat(&self.dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(StagingError::io(
                "remove the record",
                name.as_bytes(),
                errno,
            )),
        }
    }

    /// A folder of ours in which removed trees are taken apart.
    pub(super) fn open_heap(&self) -> Result<OwnedFd, StagingError> {
        let failed = |errno| StagingError::io("prepare the stage", self.id.as_bytes(), errno);
        let heap = open_heap(self.dir.as_fd(), b"heap").map_err(failed)?;
        empty(heap.as_fd()).map_err(failed)?;
        Ok(heap)
    }
}

impl LockedStage {
    /// Notes how far the session came.
    ///
    /// # Errors
    ///
    /// `Io` if the record cannot be written; the old one is then still there.
    pub fn set_status(&mut self, status: Status) -> Result<(), StagingError> {
        let mut stored = self.stage.stored.clone();
        stored.meta.status = status;
        self.stage.write_record("meta", &stored)?;
        self.stage.stored = stored;
        Ok(())
    }

    /// Throws the work away, whatever the payload made of it: any depth, any mode.
    ///
    /// The stage is gone from [`Stage::list`] at once; should the removal be cut short,
    /// [`super::sweep`] finishes it. Leftovers of an apply that crashed are taken out of the
    /// workspace first, as far as it can be opened.
    ///
    /// # Errors
    ///
    /// `Io` naming what could not be removed.
    pub fn discard(self) -> Result<(), StagingError> {
        if let Ok(host) = self.stage.open_workspace() {
            self.recover(host.as_fd())?;
        }
        discard_locked(self.stage.above.as_fd(), &self.stage.id)
    }
}

impl std::ops::Deref for LockedStage {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl AsFd for LockedStage {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }
}
