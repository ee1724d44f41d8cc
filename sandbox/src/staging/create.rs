//! Makes a new stage, whole or not at all.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, RenameFlags, chmodat, flock, fsync, mkdirat, openat,
    renameat_with,
};
use rustix::io::Errno;

use super::StagingError;
use super::folder::{check_id, discard_locked, discard_name, open_above, workspace_path};
use super::stage::{FORMAT, LockedStage, Meta, Stage, Stored};
use super::tree::{node_of, open_dir, open_root};

impl Stage {
    /// Makes the stage `id` beneath `state`, which must exist, and takes the start stamp:
    /// call it before the payload starts. The stage is locked from the first moment.
    ///
    /// # Errors
    ///
    /// [`StagingError::BadId`], [`StagingError::Exists`], or `Io` when a folder or record
    /// cannot be written or the workspace cannot be opened. Nothing is left behind that
    /// [`super::sweep`] does not remove.
    pub fn create(state: &Path, id: &str, meta: &Meta) -> Result<LockedStage, StagingError> {
        check_id(id)?;
        let failed = |errno| StagingError::io("make the stage", id.as_bytes(), errno);
        let workspace = workspace_path(&meta.workspace);
        let workspace = open_root(&workspace)
            .and_then(|fd| node_of(fd.as_fd()))
            .map_err(|errno| StagingError::io("open the workspace", &meta.workspace, errno))?;
        let above = open_above(state, true)?;
        let draft = format!(".new-{id}");
        discard_name(above.as_fd(), &draft, true)?;
        let make = || -> Result<(OwnedFd, OwnedFd, Stored), Errno> {
            mkdirat(&above, draft.as_str(), Mode::RWXU)?;
            let dir = open_dir(above.as_fd(), draft.as_bytes())?;
            let lock = openat(
                &dir,
                c"lock",
                OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC,
                Mode::RUSR | Mode::WUSR,
            )?;
            flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            mkdirat(&dir, c"upper", Mode::RWXU)?;
            // The upper directory's mode is the one that the payload sees on the workspace.
            chmodat(
                &dir,
                c"upper",
                Mode::from_raw_mode(workspace.permissions()),
                AtFlags::empty(),
            )?;
            mkdirat(&dir, c"work", Mode::RWXU)?;
            let stored = Stored {
                format: FORMAT,
                meta: meta.clone(),
                inode: workspace.id.inode,
                stamp: node_of(lock.as_fd())?.ctime,
            };
            Ok((dir, lock, stored))
        };
        let (dir, lock, stored) = make().map_err(failed)?;
        let folder = state.join("staged").join(id);
        let stage = Self {
            id: id.to_owned(),
            above,
            dir,
            folder,
            stored,
        };
        stage.write_record("meta", &stage.stored)?;
        match renameat_with(
            &stage.above,
            draft.as_str(),
            &stage.above,
            id,
            RenameFlags::NOREPLACE,
        ) {
            Ok(()) => fsync(&stage.above).map_err(failed)?,
            Err(Errno::EXIST) => {
                discard_locked(stage.above.as_fd(), &draft)?;
                return Err(StagingError::Exists { id: id.to_owned() });
            }
            Err(errno) => return Err(failed(errno)),
        }
        Ok(LockedStage { stage, lock })
    }
}
