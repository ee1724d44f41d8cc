//! Reads, shows and applies *staged* work: what a payload wrote into an overlay's upper directory.
//!
//! In staged mode the workspace inside is an overlay: the real workspace below, a directory
//! of ours above. Nothing that the payload does reaches the workspace until somebody asks
//! for it here: [`Stage::scan`] lists, [`Stage::diff`] shows, [`LockedStage::apply`] carries
//! over, [`LockedStage::discard`] throws away. The mounting is done elsewhere.
//!
//! # Invariants
//!
//! - **No path is followed.** Both trees are hostile: every directory is opened beneath its
//!   root with `openat2(RESOLVE_BENEATH | NO_SYMLINKS | NO_MAGICLINKS | NO_XDEV)`, and every
//!   change is one call on that descriptor and a single name.
//! - **Host edits are never overwritten.** See *Conflicts*.
//! - **Applied first, forgotten second.** An entry leaves the stage only after the workspace
//!   was read again, found equal and synced, so a crash at any point loses nothing and a
//!   second `apply` ends in the same state.
//! - **A live session is left alone.** Applying and discarding need the stage's lock, which
//!   the session holds while it runs.
//!
//! # Conflicts
//!
//! Nothing is copied when a session starts, so what the payload saw is known by time. When
//! the stage is made, a file is created beside it and its change time kept as the *start
//! stamp*; local file systems take `ctime` from one kernel clock, and no ordinary user can
//! set it back. A host entry whose `ctime` is at or after the stamp was edited meanwhile, a
//! `chmod` and a new hard link included, and what the payload did to it is refused. A path
//! that the payload made and the host has too is a conflict unless both are equal. So is
//! one that was copied up (`overlay.origin`) and that the host removed; a file may carry that
//! mark from another name, so removal is presumed where the `ctime` of its directory is at
//! or after the stamp. The rule errs on the side of refusing. It cannot see
//!
//! - a clock that was set back and has passed the stamp again since (while it stands before
//!   the stamp, everything conflicts);
//! - the removal of a file with several hard links that the payload edited (the kernel keeps
//!   no origin for those): the payload's version comes back, nothing is overwritten;
//! - a directory exchanged for another by `rename` *and* given a new entry afterwards. The
//!   exchange alone is seen, because it moves a directory's `ctime` and not its `mtime`.
//!
//! Absent on purpose: extended attributes, ACLs, owners, set-id bits and times of
//! directories are not carried over, and neither are devices, FIFOs and sockets.
//!
//! Sources: `Documentation/filesystems/overlayfs.rst`, openat2(2), renameat2(2), statx(2).
#![forbid(unsafe_code)]

mod apply;
mod change;
mod confine;
mod content;
mod create;
mod diff;
mod error;
mod escape;
mod folder;
mod journal;
mod marks;
mod remove;
mod scan;
mod settle;
mod stage;
mod steps;
mod tree;
mod weigh;

pub use apply::{ApplyReport, Outcome, Selection, Step};
pub use change::{Change, ChangeKind, Conflict, Counts, FileKind, Refusal};
pub use confine::{Confined, confine_self};
pub use diff::DiffLimits;
pub use error::StagingError;
pub use escape::escape;
pub use folder::sweep;
pub use stage::{Listed, LockedStage, Meta, Stage, Status};

/// Says whether a path, relative to the workspace and in bytes, is a protected name.
///
/// Asked for a path and for each of its ancestors: what is beneath a protected name is
/// protected too.
pub type Protected<'a> = dyn Fn(&[u8]) -> bool + 'a;
