//! Carries chosen changes from a stage into the workspace, in an order that always works.

use std::fmt;
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::syncfs;

use super::change::{Change, ChangeKind, Conflict, FileKind, Refusal, is_within};
use super::journal::{Baseline, Plan, Version};
use super::settle::settle;
use super::stage::LockedStage;
use super::steps::{Hands, Stop};
use super::{Protected, StagingError};

/// Which changes to apply.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_enums, reason = "all or some: there is no third")]
pub enum Selection<'a> {
    /// Every one.
    All,
    /// These paths (bytes, relative to the workspace), what is beneath them, and the new
    /// directories that they stand in.
    Paths(&'a [Vec<u8>]),
}

/// What became of one change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The workspace has it now.
    Applied,
    /// Something that it rests on was not applied: its directory, or what it stands in for.
    Blocked,
    /// The host moved on; its version stays.
    Conflict(Conflict),
    /// A call failed, with the system's words.
    Failed(String),
    /// A protected name; nothing was tried.
    Protected,
    /// Never applied.
    Refused(Refusal),
    /// Not among those asked for.
    Unselected,
}

/// What an apply did. Whatever is not [`Outcome::Applied`] is still in the stage.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "what was not applied stands in here alone"]
pub struct ApplyReport {
    /// Each change as it was found, with its outcome, in tree order.
    pub outcomes: Vec<(Change, Outcome)>,
    /// Changes that the stage still holds.
    pub remaining: usize,
    /// Temporary files of an earlier, interrupted apply that may hold an edit of the host and
    /// were left: paths relative to the workspace, each a `.stockade-` name.
    pub leftovers: Vec<Vec<u8>>,
}

/// One step that is about to be taken.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Step<'a> {
    /// Its number, from 0.
    pub number: usize,
    /// What it does, in a word or three.
    pub action: &'static str,
    /// To which path.
    pub path: &'a [u8],
}

/// Told of each step before it is taken; may stop everything there.
pub(super) type Observer<'a> = dyn FnMut(&Step<'_>) -> ControlFlow<()> + 'a;

impl LockedStage {
    /// Applies what `selection` names, without protected names, conflicts and refusals.
    ///
    /// Each file is replaced in one step. Directories are made first, removals come after
    /// additions and from the inside out. Only what the workspace was then read to have, and
    /// synced, leaves the stage. `observer` hears of each step before it is taken; when it
    /// breaks, or the process dies, everything done stays done and the next apply goes on.
    ///
    /// # Errors
    ///
    /// [`StagingError::Interrupted`], [`StagingError::WorkspaceReplaced`], or `Io` where the
    /// stage or the workspace cannot be read or synced. The stage then still holds all that
    /// the workspace does not.
    pub fn apply(
        &self,
        selection: Selection<'_>,
        protected: &Protected<'_>,
        observer: &mut dyn FnMut(&Step<'_>) -> ControlFlow<()>,
    ) -> Result<ApplyReport, StagingError> {
        let (upper, host) = (self.open_upper()?, self.open_workspace()?);
        let mut baseline: Baseline = self.read_record("baseline")?.unwrap_or_default();
        let mut hands = Hands::new(&upper, &host, self.id(), observer);
        let leftovers = self.finish_earlier(&mut hands)?;
        let changes = self.scan_between(upper.as_fd(), host.as_fd(), &baseline, protected)?;
        let mut work: Vec<(Change, Outcome)> = changes
            .into_iter()
            .map(|change| {
                let outcome = standing(&change, selection);
                (change, outcome)
            })
            .collect();

        let mut plan = Plan::default();
        for (change, outcome) in &work {
            match (change.kind, change.file, &change.host) {
                _ if !change.is_applicable() => (),
                (ChangeKind::ModeChanged, FileKind::Directory, Some(host)) => {
                    baseline.insert(&change.path, host);
                }
                (ChangeKind::Added, FileKind::File, _) => baseline.insert_absent(&change.path),
                _ => (),
            }
            if *outcome == Outcome::Blocked {
                // A directory is never moved aside, so nothing of the host's can be left over.
                let old = change
                    .host
                    .as_ref()
                    .filter(|_| !change.was_directory())
                    .map(Version::of);
                plan.entries.push((change.path.clone(), old));
            }
        }
        if !plan.entries.is_empty() {
            self.write_record("baseline", &baseline)?;
            self.write_record("plan", &plan)?;
            self.carry_out(&mut hands, &mut work, &mut baseline)?;
            syncfs(&host).map_err(|errno| {
                StagingError::io("sync the workspace", &self.meta().workspace, errno)
            })?;
        }
        let remaining = self.scan_between(upper.as_fd(), host.as_fd(), &baseline, protected)?;
        let heap = self.open_heap()?;
        settle(
            upper.as_fd(),
            heap.as_fd(),
            &remaining,
            &mut |action, path| hands.tick(action, path),
        )?;
        self.remove_record("plan")?;
        Ok(ApplyReport {
            outcomes: work,
            remaining: remaining.len(),
            leftovers,
        })
    }

    /// Takes the changes in five rounds. Those to be tried stand at `Blocked`.
    fn carry_out(
        &self,
        hands: &mut Hands<'_>,
        work: &mut [(Change, Outcome)],
        baseline: &mut Baseline,
    ) -> Result<(), StagingError> {
        // 1. Directories, from the outside in, and modes that let us in.
        let mut shut = Vec::new();
        for (index, (change, outcome)) in work.iter_mut().enumerate() {
            if *outcome != Outcome::Blocked || change.file != FileKind::Directory {
                continue;
            }
            let done = match (change.kind, &change.host) {
                (ChangeKind::Added, _) => self.directory(hands, change, baseline),
                (ChangeKind::TypeChanged, Some(host)) => hands
                    .delete(change, host)
                    .and_then(|()| self.directory(hands, change, baseline)),
                (ChangeKind::ModeChanged, Some(host)) if lets_in(change) => {
                    hands.set_mode(change, host).map(|()| false)
                }
                (ChangeKind::ModeChanged, Some(_)) => {
                    shut.push(index);
                    continue;
                }
                _ => continue,
            };
            if let Ok(true) = done {
                shut.push(index);
            }
            *outcome = settled(done.map(drop))?;
        }
        // 2. Files and links.
        for (change, outcome) in work.iter_mut() {
            if *outcome != Outcome::Blocked
                || change.file == FileKind::Directory
                || change.was_directory()
            {
                continue;
            }
            let done = match (change.kind, &change.host) {
                (ChangeKind::Added, _) => hands.add(change),
                (ChangeKind::Modified | ChangeKind::TypeChanged, Some(host)) => {
                    hands.replace(change, host)
                }
                (ChangeKind::ModeChanged, Some(host)) => hands.set_mode(change, host),
                _ => continue,
            };
            *outcome = settled(done)?;
        }
        // 3. Removals, from the inside out, and 4. what takes a removed directory's name.
        for (change, outcome) in work.iter_mut().rev() {
            let Some(host) = change.host.filter(|_| *outcome == Outcome::Blocked) else {
                continue;
            };
            let done = match (change.kind, change.was_directory()) {
                (ChangeKind::Deleted, false) => hands.delete(change, &host),
                (ChangeKind::Deleted, true) => hands.delete_directory(change, &host),
                (ChangeKind::TypeChanged, true) => hands
                    .delete_directory(change, &host)
                    .and_then(|()| hands.add(change)),
                _ => continue,
            };
            *outcome = settled(done)?;
        }
        // 5. Modes that shut us out, from the inside out.
        for index in shut.into_iter().rev() {
            if let Some((change, outcome)) = work.get_mut(index) {
                *outcome = settled(self.shut(hands, change))?;
            }
        }
        Ok(())
    }

    /// Makes a directory; true if it still has to be shut.
    fn directory(
        &self,
        hands: &mut Hands<'_>,
        change: &Change,
        baseline: &mut Baseline,
    ) -> Result<bool, Stop> {
        hands.make_directory(change, &mut |made| {
            baseline.insert(&change.path, made);
            self.write_record("baseline", baseline)
        })
    }

    /// Gives a directory the mode that keeps us out, now that it is filled.
    fn shut(&self, hands: &mut Hands<'_>, change: &Change) -> Result<(), Stop> {
        let (dir, name) = super::tree::locate(hands.host, &change.path)?;
        match super::tree::node(dir.as_fd(), name)? {
            Some(found) if found.kind == FileKind::Directory => hands.set_mode(change, &found),
            _ => Err(Stop::Path(Outcome::Conflict(Conflict::HostChanged))),
        }
    }

    /// Removes the temporary names of an apply that did not end. Returns those left alone.
    fn finish_earlier(&self, hands: &mut Hands<'_>) -> Result<Vec<Vec<u8>>, StagingError> {
        let Some(plan) = self.read_record::<Plan>("plan")? else {
            return Ok(Vec::new());
        };
        let mut leftovers = Vec::new();
        for (path, old) in plan.entries {
            match hands.recover(&path, old) {
                Ok(true) => (),
                Ok(false) | Err(Stop::Path(_)) => {
                    let (parent, _) = super::tree::split(&path);
                    leftovers.push(super::tree::join(
                        parent,
                        &Hands::temporary(self.id(), &path),
                    ));
                }
                Err(Stop::Whole(error)) => return Err(error),
            }
        }
        Ok(leftovers)
    }

    /// [`Self::finish_earlier`] before a discard.
    pub(super) fn recover(&self, host: BorrowedFd<'_>) -> Result<(), StagingError> {
        let host = host
            .try_clone_to_owned()
            .map_err(|source| StagingError::Io {
                action: "open",
                path: "the workspace".to_owned(),
                source,
            })?;
        let mut go_on = |_: &Step<'_>| ControlFlow::Continue(());
        // Recovery never reads the stage, which may be in any state by now.
        let mut hands = Hands::new(&host, &host, self.id(), &mut go_on);
        self.finish_earlier(&mut hands).map(drop)
    }
}

impl ApplyReport {
    /// How many changes ended with an outcome for which `which` holds.
    #[must_use]
    pub fn count(&self, which: impl Fn(&Outcome) -> bool) -> usize {
        self.outcomes
            .iter()
            .filter(|(_, outcome)| which(outcome))
            .count()
    }
}

/// Whether `selection` names a change, or names something that needs it.
pub(super) fn is_selected(change: &Change, selection: Selection<'_>) -> bool {
    let makes_directory = change.file == FileKind::Directory
        && matches!(change.kind, ChangeKind::Added | ChangeKind::TypeChanged);
    match selection {
        Selection::All => true,
        Selection::Paths(paths) => paths.iter().any(|path| {
            is_within(&change.path, path) || (makes_directory && is_within(path, &change.path))
        }),
    }
}

/// What is known of a change before anything is tried; `Blocked` means that it is to be.
fn standing(change: &Change, selection: Selection<'_>) -> Outcome {
    match (
        is_selected(change, selection),
        change.protected,
        change.refusal,
        change.conflict,
    ) {
        (false, ..) => Outcome::Unselected,
        (true, true, ..) => Outcome::Protected,
        (true, false, Some(refusal), _) => Outcome::Refused(refusal),
        (true, false, None, Some(conflict)) => Outcome::Conflict(conflict),
        (true, false, None, None) => Outcome::Blocked,
    }
}

/// Whether a directory's new mode lets its owner write in it.
fn lets_in(change: &Change) -> bool {
    change.modes.1.is_some_and(|mode| mode & 0o700 == 0o700)
}

fn settled(done: Result<(), Stop>) -> Result<Outcome, StagingError> {
    match done {
        Ok(()) => Ok(Outcome::Applied),
        Err(Stop::Path(outcome)) => Ok(outcome),
        Err(Stop::Whole(error)) => Err(error),
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Applied => f.write_str("applied"),
            Self::Blocked => f.write_str("not applied: what it rests on was not applied"),
            Self::Conflict(conflict) => write!(f, "conflict: {conflict}"),
            Self::Failed(text) => write!(f, "failed: {text}"),
            Self::Protected => f.write_str("not applied: protected name"),
            Self::Refused(refusal) => write!(f, "refused: {refusal}"),
            Self::Unselected => f.write_str("not selected"),
        }
    }
}
