//! The single changes to the workspace, each on a directory descriptor and one name.
//!
//! # Invariants
//!
//! - A name that the host has is replaced or removed only after the object that stood there
//!   was moved aside and found to be the one that was scanned; any other is moved back.
//! - A name that the host lacks is taken with `RENAME_NOREPLACE` or `link`, never overwritten.
//! - Temporary names follow from the path ([`Hands::temporary`]), so a later run finds them.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, RenameFlags, Timespec, Timestamps, Uid, fchmod, fchown, fdatasync,
    futimens, linkat, mkdirat, openat, renameat, renameat_with, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::apply::{Observer, Outcome, Step};
use super::change::{Change, Conflict, FileKind, Refusal};
use super::journal::Version;
use super::tree::{Identity, Node, Time, locate, node, node_of, open_dir, open_file, target};
use super::{StagingError, content};

/// Why a change was not carried out: for this path alone, or because all must stop.
pub(super) enum Stop {
    Path(Outcome),
    Whole(StagingError),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Path(match errno {
            Errno::LOOP | Errno::NOTDIR => Outcome::Conflict(Conflict::HostChanged),
            // Its directory could not be made.
            Errno::NOENT | Errno::NOTEMPTY => Outcome::Blocked,
            Errno::XDEV => Outcome::Refused(Refusal::OtherFileSystem),
            other => Outcome::Failed(std::io::Error::from(other).to_string()),
        })
    }
}

/// Both trees, and what was done to the workspace so far.
pub(super) struct Hands<'a> {
    pub(super) upper: &'a OwnedFd,
    pub(super) host: &'a OwnedFd,
    pub(super) stage_id: &'a str,
    pub(super) observer: &'a mut Observer<'a>,
    pub(super) steps: usize,
    /// `ctime` that our own work gave to objects with several names.
    moved: HashMap<Identity, Time>,
}

type Done = Result<(), Stop>;

impl<'a> Hands<'a> {
    pub(super) fn new(
        upper: &'a OwnedFd,
        host: &'a OwnedFd,
        stage_id: &'a str,
        observer: &'a mut Observer<'a>,
    ) -> Self {
        Self {
            upper,
            host,
            stage_id,
            observer,
            steps: 0,
            moved: HashMap::new(),
        }
    }

    /// Announces a step; what it says next is not done when the observer stops.
    pub(super) fn tick(&mut self, action: &'static str, path: &[u8]) -> ControlFlow<StagingError> {
        let step = Step {
            number: self.steps,
            action,
            path,
        };
        if (self.observer)(&step).is_break() {
            return ControlFlow::Break(StagingError::Interrupted { steps: self.steps });
        }
        self.steps += 1;
        ControlFlow::Continue(())
    }

    fn step(&mut self, action: &'static str, path: &[u8]) -> Done {
        match self.tick(action, path) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(stop) => Err(Stop::Whole(stop)),
        }
    }

    /// The temporary name that stands for `path` in its directory.
    pub(super) fn temporary(stage_id: &str, path: &[u8]) -> Vec<u8> {
        let (_, name) = super::tree::split(path);
        // FNV-1a: a short name that differs by stage and path; nothing rests on it.
        let hash = stage_id
            .bytes()
            .chain(*b"/")
            .chain(path.iter().copied())
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        // A file name has at most 255 bytes.
        let name = name.get(..200).unwrap_or(name);
        [b".", name, format!(".stockade-{hash:016x}").as_bytes()].concat()
    }

    /// Makes a directory with its mode, under a temporary name first. One whose mode would
    /// keep us out stays open until it is filled: it is given to `note` before anybody can
    /// see it, and the answer is true.
    pub(super) fn make_directory(
        &mut self,
        change: &Change,
        note: &mut dyn FnMut(&Node) -> Result<(), StagingError>,
    ) -> Result<bool, Stop> {
        let (dir, name) = locate(self.host, &change.path)?;
        let wanted = change.modes.1.unwrap_or(0o755) & 0o777;
        let temporary = Self::temporary(self.stage_id, &change.path);
        self.step("make directory", &change.path)?;
        mkdirat(&dir, temporary.as_slice(), Mode::RWXU)?;
        let made = open_dir(dir.as_fd(), &temporary)?;
        give_owner(made.as_fd(), &node_of(dir.as_fd())?)?;
        fchmod(&made, Mode::from_raw_mode(wanted | 0o700))?;
        let open = wanted & 0o700 == 0o700;
        if !open {
            note(&node_of(made.as_fd())?).map_err(Stop::Whole)?;
        }
        self.step("publish directory", &change.path)?;
        match renameat_with(
            &dir,
            temporary.as_slice(),
            &dir,
            name,
            RenameFlags::NOREPLACE,
        ) {
            Ok(()) => Ok(!open),
            Err(errno) => {
                unlinkat(&dir, temporary.as_slice(), AtFlags::REMOVEDIR)?;
                Err(taken(errno))
            }
        }
    }

    /// Puts a file or link where the host has nothing.
    pub(super) fn add(&mut self, change: &Change) -> Done {
        let (dir, name) = locate(self.host, &change.path)?;
        let temporary = self.prepare(dir.as_fd(), change, &node_of(dir.as_fd())?)?;
        self.step("publish", &change.path)?;
        let temporary = temporary.as_slice();
        match renameat_with(&dir, temporary, &dir, name, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            Err(Errno::INVAL | Errno::NOSYS) => {
                let linked = linkat(&dir, temporary, &dir, name, AtFlags::empty());
                unlinkat(&dir, temporary, AtFlags::empty())?;
                linked.map_err(taken)
            }
            Err(errno) => {
                unlinkat(&dir, temporary, AtFlags::empty())?;
                Err(taken(errno))
            }
        }
    }

    /// Puts a file or link in the place of the scanned one.
    pub(super) fn replace(&mut self, change: &Change, host: &Node) -> Done {
        let (dir, name) = locate(self.host, &change.path)?;
        self.check(dir.as_fd(), name, host)?;
        let temporary = self.prepare(dir.as_fd(), change, host)?;
        let temporary = temporary.as_slice();
        self.step("publish", &change.path)?;
        if let Err(stop) = self.check(dir.as_fd(), name, host) {
            unlinkat(&dir, temporary, AtFlags::empty())?;
            return Err(stop);
        }
        match renameat_with(&dir, temporary, &dir, name, RenameFlags::EXCHANGE) {
            Ok(()) => (),
            // No exchange on this file system: the check a moment ago is the last one.
            Err(Errno::INVAL | Errno::NOSYS) => return Ok(renameat(&dir, temporary, &dir, name)?),
            Err(errno) => {
                unlinkat(&dir, temporary, AtFlags::empty())?;
                return Err(errno.into());
            }
        }
        if !node(dir.as_fd(), temporary)?.is_some_and(|found| found.is_same_version(host)) {
            renameat_with(&dir, temporary, &dir, name, RenameFlags::EXCHANGE)?;
            unlinkat(&dir, temporary, AtFlags::empty())?;
            return Err(changed());
        }
        self.step("drop the old one", &change.path)?;
        self.unlink(dir.as_fd(), temporary, host)
    }

    /// Removes a file, link or other non-directory.
    pub(super) fn delete(&mut self, change: &Change, host: &Node) -> Done {
        let (dir, name) = locate(self.host, &change.path)?;
        self.check(dir.as_fd(), name, host)?;
        let temporary = Self::temporary(self.stage_id, &change.path);
        let temporary = temporary.as_slice();
        self.step("move aside", &change.path)?;
        match renameat_with(&dir, name, &dir, temporary, RenameFlags::NOREPLACE) {
            Ok(()) => (),
            Err(Errno::INVAL | Errno::NOSYS) => return self.unlink(dir.as_fd(), name, host),
            Err(errno) => return Err(errno.into()),
        }
        if !node(dir.as_fd(), temporary)?.is_some_and(|found| found.is_same_version(host)) {
            renameat_with(&dir, temporary, &dir, name, RenameFlags::NOREPLACE)?;
            return Err(changed());
        }
        self.step("remove", &change.path)?;
        self.unlink(dir.as_fd(), temporary, host)
    }

    /// Removes a directory that must be empty by now.
    pub(super) fn delete_directory(&mut self, change: &Change, host: &Node) -> Done {
        let (dir, name) = locate(self.host, &change.path)?;
        self.check(dir.as_fd(), name, host)?;
        self.step("remove directory", &change.path)?;
        Ok(unlinkat(&dir, name, AtFlags::REMOVEDIR)?)
    }

    /// Sets permission bits; a directory keeps its three special ones.
    pub(super) fn set_mode(&mut self, change: &Change, host: &Node) -> Done {
        let (dir, name) = locate(self.host, &change.path)?;
        let wanted = change.modes.1.ok_or(Errno::INVAL)? & 0o777;
        let (fd, kept) = match host.kind {
            FileKind::Directory => (open_dir(dir.as_fd(), name)?, host.mode & 0o7000),
            _ => (open_file(dir.as_fd(), name)?, 0),
        };
        let found = node_of(fd.as_fd())?;
        if !self.is_unchanged(&found, host) || found.mode != host.mode {
            return Err(changed());
        }
        self.step("set mode", &change.path)?;
        fchmod(&fd, Mode::from_raw_mode(wanted | kept))?;
        self.moved.insert(host.id, node_of(fd.as_fd())?.ctime);
        Ok(())
    }

    /// Removes a temporary name that an earlier run left, if that loses nothing. Says false
    /// where it may hold an edit of the host, which then stays.
    pub(super) fn recover(&mut self, path: &[u8], old: Option<Version>) -> Result<bool, Stop> {
        let (dir, name) = match locate(self.host, path) {
            Ok(place) => place,
            // No directory, no leftover.
            Err(_) => return Ok(true),
        };
        let temporary = Self::temporary(self.stage_id, path);
        let temporary = temporary.as_slice();
        let Some(left) = node(dir.as_fd(), temporary)? else {
            return Ok(true);
        };
        if left.kind == FileKind::Directory {
            self.step("recover", path)?;
            return Ok(unlinkat(&dir, temporary, AtFlags::REMOVEDIR).is_ok());
        }
        // Ours if nothing stood at the name, or what stood there is still in its place or is
        // the very object left here.
        let there = node(dir.as_fd(), name)?.map(|there| Version::of(&there));
        let ours = old.is_none() || there == old || Some(Version::of(&left)) == old;
        if ours {
            self.step("recover", path)?;
            unlinkat(&dir, temporary, AtFlags::empty())?;
        }
        Ok(ours)
    }

    /// Writes the staged file or link under a temporary name of `dir`, as `owner` owns.
    fn prepare(
        &mut self,
        dir: BorrowedFd<'_>,
        change: &Change,
        owner: &Node,
    ) -> Result<Vec<u8>, Stop> {
        let (source, name) = locate(self.upper, &change.path)?;
        let temporary = Self::temporary(self.stage_id, &change.path);
        self.step("write", &change.path)?;
        if change.file == FileKind::Symlink {
            symlinkat(target(source.as_fd(), name)?, dir, temporary.as_slice())?;
            return Ok(temporary);
        }
        let from = open_file(source.as_fd(), name)?;
        let staged = node_of(from.as_fd())?;
        if staged.kind != FileKind::File {
            return Err(Stop::Path(Outcome::Refused(Refusal::Special)));
        }
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let to = openat(dir, temporary.as_slice(), flags, Mode::RUSR | Mode::WUSR)?;
        let written = (|| {
            content::copy(from.as_fd(), to.as_fd(), staged.size)?;
            give_owner(to.as_fd(), owner)?;
            fchmod(&to, Mode::from_raw_mode(staged.permissions()))?;
            let time = Timespec {
                tv_sec: staged.mtime.0,
                tv_nsec: staged.mtime.1.into(),
            };
            futimens(
                &to,
                &Timestamps {
                    last_access: time,
                    last_modification: time,
                },
            )?;
            fdatasync(&to)
        })();
        if let Err(errno) = written {
            unlinkat(dir, temporary.as_slice(), AtFlags::empty())?;
            return Err(errno.into());
        }
        Ok(temporary)
    }

    /// Refuses unless `name` is still what was scanned.
    fn check(&self, dir: BorrowedFd<'_>, name: &[u8], host: &Node) -> Done {
        match node(dir, name)? {
            Some(found) if self.is_unchanged(&found, host) => Ok(()),
            _ => Err(changed()),
        }
    }

    fn is_unchanged(&self, found: &Node, host: &Node) -> bool {
        if host.kind == FileKind::Directory {
            // Our own work in it moves its times; what is in it is checked one by one.
            return found.kind == host.kind && found.id == host.id;
        }
        let expected = self.moved.get(&host.id).unwrap_or(&host.ctime);
        found.is_same_version(host) && found.ctime == *expected
    }

    /// Removes a name; if the object has others, notes the `ctime` that this gives it.
    fn unlink(&mut self, dir: BorrowedFd<'_>, name: &[u8], host: &Node) -> Done {
        let others = if host.links > 1 {
            Some(openat(
                dir,
                name,
                OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
            )?)
        } else {
            None
        };
        unlinkat(dir, name, AtFlags::empty())?;
        if let Some(others) = others {
            self.moved.insert(host.id, node_of(others.as_fd())?.ctime);
        }
        Ok(())
    }
}

/// Gives a new object the owner of what it replaces or stands in, where we may (root does).
fn give_owner(fd: BorrowedFd<'_>, like: &Node) -> Result<(), Errno> {
    let made = node_of(fd)?;
    if (made.uid, made.gid) == (like.uid, like.gid) {
        return Ok(());
    }
    match fchown(
        fd,
        Some(Uid::from_raw(like.uid)),
        Some(Gid::from_raw(like.gid)),
    ) {
        Err(Errno::PERM | Errno::INVAL) => Ok(()),
        answer => answer,
    }
}

fn changed() -> Stop {
    Stop::Path(Outcome::Conflict(Conflict::HostChanged))
}

/// What it means that a name which was free could not be taken.
fn taken(errno: Errno) -> Stop {
    if errno == Errno::EXIST {
        changed()
    } else {
        errno.into()
    }
}
