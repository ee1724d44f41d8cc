//! Staged work: made by a session, shown and applied by `stockade changes`.

use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use policy::{Anchor, PathRule, Profile, Source, builtin};
use sandbox::AbsPath;
use sandbox::staging::{
    self, ApplyReport, Change, Counts, DiffLimits, LockedStage, Meta, Selection, Stage,
    StagingError, Status,
};

use crate::caller::Caller;
use crate::planner::walk::Names;
use crate::session::{self, Request};

/// Staged work could not be kept, shown or applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum StageError {
    #[error("there is no folder for staged work: neither HOME nor XDG_STATE_HOME is set")]
    NoState,
    #[error("staged work can not be handled")]
    Staging(#[from] StagingError),
    #[error("the folder for staged work can not be made")]
    Folder(#[source] std::io::Error),
    #[error(
        "staged work was not touched: this kernel offers no Landlock, without which a process \
         that reads what a payload wrote can not be confined; see docs/KERNEL_SUPPORT.md"
    )]
    Unconfined,
    #[error("output can not be written")]
    Output(#[source] std::io::Error),
}

/// Makes the stage of a session, locked while the session lives.
pub(crate) fn create(
    caller: &Caller,
    id: &str,
    workspace: &AbsPath,
    request: &Request,
) -> Result<LockedStage, StageError> {
    let state = state(caller)?;
    std::fs::create_dir_all(&state).map_err(StageError::Folder)?;
    let state = state.canonicalize().map_err(StageError::Folder)?;
    let command: Vec<String> = [&request.program]
        .into_iter()
        .chain(&request.arguments)
        .map(|it| it.to_string_lossy().into_owned())
        .collect();
    let meta = Meta {
        workspace: workspace.as_os_str().as_bytes().to_vec(),
        session: id.to_owned(),
        command: command.join(" ").chars().take(200).collect(),
        created: session::now(),
        uid: rustix::process::geteuid().as_raw(),
        status: Status::Running,
    };
    Ok(Stage::create(&state, id, &meta)?)
}

/// Closes the stage of a session that ended; one without a change is thrown away.
///
/// Returns its name if it holds something.
pub(crate) fn finish(mut stage: LockedStage) -> Option<String> {
    let names = protected_names();
    let protected = |path: &[u8]| names.protects(Path::new(std::ffi::OsStr::from_bytes(path)));
    let is_empty = stage.scan(&protected).is_ok_and(|it| it.is_empty());
    let id = stage.id().to_owned();
    if is_empty {
        let _ = stage.discard();
        return None;
    }
    let _ = stage.set_status(Status::Ended);
    Some(id)
}

/// The names that are not applied: those that the shipped profiles protect.
fn protected_names() -> Names {
    let source = Source {
        origin: "built-in base".to_owned(),
        text: builtin("base").unwrap_or_default().to_owned(),
    };
    let nothing = NoCatalog;
    let rules: Vec<PathRule> = Profile::load(&source, &nothing)
        .map(|profile| profile.protect)
        .unwrap_or_default()
        .into_iter()
        .map(|it| it.value)
        .filter(|it| it.anchor() == Anchor::Anywhere)
        .collect();
    Names::new(rules.iter(), [].iter())
}

struct NoCatalog;

impl policy::Catalog for NoCatalog {
    fn fetch(&self, _: &str) -> Result<Option<Source>, String> {
        Ok(None)
    }
}

fn state(caller: &Caller) -> Result<PathBuf, StageError> {
    caller.state_folder().ok_or(StageError::NoState)
}

/// One stage, for a list.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) id: String,
    pub(crate) state: Result<Listed, StagingError>,
}

/// What a list says of one stage.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) live: bool,
    pub(crate) meta: Meta,
    pub(crate) counts: Option<Counts>,
}

/// Every stage.
pub(crate) fn list(caller: &Caller) -> Result<Vec<Summary>, StageError> {
    let state = state(caller)?;
    let _ = staging::sweep(&state);
    let names = protected_names();
    let protected = |path: &[u8]| names.protects(Path::new(std::ffi::OsStr::from_bytes(path)));
    Ok(Stage::list(&state)?
        .into_iter()
        .map(|it| Summary {
            id: it.id,
            state: it.stage.map(|stage| Listed {
                live: stage.is_live(),
                meta: stage.meta().clone(),
                counts: stage.scan(&protected).ok().map(|it| Counts::of(&it)),
            }),
        })
        .collect())
}

/// Opens a stage, and confines this process to it and its workspace: what is read from now on
/// was written by a payload.
fn open(caller: &Caller, id: &str) -> Result<Stage, StageError> {
    let state = state(caller)?;
    let state = state.canonicalize().map_err(StageError::Folder)?;
    let stage = Stage::open(&state, id)?;
    if !staging::confine_self(&[&state, &stage.workspace()])?.files {
        return Err(StageError::Unconfined);
    }
    Ok(stage)
}

/// Writes the difference that applying would make.
pub(crate) fn diff(
    caller: &Caller,
    id: &str,
    paths: &[Vec<u8>],
    out: &mut impl Write,
) -> Result<Vec<Change>, StageError> {
    let names = protected_names();
    let protected = |path: &[u8]| names.protects(Path::new(std::ffi::OsStr::from_bytes(path)));
    let stage = open(caller, id)?;
    stage.diff(selection(paths), &protected, DiffLimits::default(), out)?;
    out.flush().map_err(StageError::Output)?;
    Ok(stage.scan(&protected)?)
}

/// Applies what is staged; conflicts and protected names stay in the stage.
pub(crate) fn apply(
    caller: &Caller,
    id: &str,
    paths: &[Vec<u8>],
) -> Result<ApplyReport, StageError> {
    let names = protected_names();
    let protected = |path: &[u8]| names.protects(Path::new(std::ffi::OsStr::from_bytes(path)));
    let stage = open(caller, id)?.lock()?;
    let go_on = &mut |_: &staging::Step<'_>| ControlFlow::Continue(());
    let report = stage.apply(selection(paths), &protected, go_on)?;
    if report.remaining == 0 {
        stage.discard()?;
    }
    Ok(report)
}

/// Throws staged work away.
pub(crate) fn discard(caller: &Caller, id: &str) -> Result<(), StageError> {
    let state = state(caller)?;
    match Stage::open(&state, id) {
        Err(StagingError::Record { .. }) => Ok(Stage::discard_damaged(&state, id)?),
        other => {
            drop(other?);
            Ok(open(caller, id)?.lock()?.discard()?)
        }
    }
}

fn selection(paths: &[Vec<u8>]) -> Selection<'_> {
    if paths.is_empty() {
        Selection::All
    } else {
        Selection::Paths(paths)
    }
}

/// How many stages wait for an answer, for the hint at the next start.
pub(crate) fn waiting(caller: &Caller, workspace: &Path) -> usize {
    let Ok(state) = state(caller) else { return 0 };
    let Ok(stages) = Stage::list(&state) else {
        return 0;
    };
    stages
        .into_iter()
        .filter_map(|it| it.stage.ok())
        .filter(|it| it.workspace() == workspace && !it.is_live())
        .count()
}
