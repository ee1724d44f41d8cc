//! Staged work: made by a session, shown and applied by `stockade changes`.

use std::ffi::OsStr;
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

use crate::aftermath::{Aftermath, Quarantined};
use crate::caller::Caller;
use crate::planner::walk::{Names, WalkError};
use crate::session::{self, Request};
use serde::{Deserialize, Serialize};

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
    #[error(transparent)]
    Path(#[from] sandbox::AbsPathError),
    #[error("the workspace could not be searched for protected names")]
    Walk(#[from] WalkError),
    #[error("output can not be written")]
    Output(#[source] std::io::Error),
}

/// Makes the stage of a session, locked while the session lives.
pub(crate) fn create(
    caller: &Caller,
    id: &str,
    workspace: &AbsPath,
    request: &Request,
    profile: &Profile,
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
        session: serde_json::to_string(&Judgement::of(profile)).unwrap_or_default(),
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
    let names = names_of(&stage);
    let protected = |path: &[u8]| is_protected(&names, path);
    let is_empty = stage.scan(&protected).is_ok_and(|it| it.is_empty());
    let id = stage.id().to_owned();
    if is_empty {
        let _ = stage.discard();
        return None;
    }
    let _ = stage.set_status(Status::Ended);
    Some(id)
}

/// What a stage knows of the profile under which it was made, so that its work is judged by
/// the same rules when it is applied.
#[derive(Debug, Deserialize, Serialize)]
struct Judgement {
    /// Protected names at any depth, as the profile wrote them.
    protect: Vec<String>,
}

impl Judgement {
    fn of(profile: &Profile) -> Self {
        let protect = profile
            .protect
            .iter()
            .filter(|it| it.value.anchor() == Anchor::Anywhere)
            .map(|it| it.value.to_string())
            .collect();
        Self { protect }
    }
}

/// The names that are not applied from `stage`: those that its profile protected, and in any
/// case those that the shipped profiles do.
fn names_of(stage: &Stage) -> Names {
    let own: Vec<String> = serde_json::from_str::<Judgement>(&stage.meta().session)
        .map(|it| it.protect)
        .unwrap_or_default();
    let source = Source {
        origin: "built-in base".to_owned(),
        text: builtin("base").unwrap_or_default().to_owned(),
    };
    let shipped = Profile::load(&source, &NoCatalog)
        .map(|profile| Judgement::of(&profile).protect)
        .unwrap_or_default();
    let rules: Vec<PathRule> = own
        .iter()
        .chain(&shipped)
        .filter_map(|it| PathRule::parse(it).ok())
        .collect();
    Names::new(rules.iter(), [].iter())
}

/// Whether a path of a stage, relative to the workspace, is one of `names`.
fn is_protected(names: &Names, path: &[u8]) -> bool {
    names.protects(Path::new(OsStr::from_bytes(path)))
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
    let counted = |stage: &Stage| {
        let names = names_of(stage);
        let protected = |path: &[u8]| is_protected(&names, path);
        stage.scan(&protected).ok().map(|it| Counts::of(&it))
    };
    Ok(Stage::list(&state)?
        .into_iter()
        .map(|it| Summary {
            id: it.id,
            state: it.stage.map(|stage| Listed {
                live: stage.is_live(),
                meta: stage.meta().clone(),
                counts: counted(&stage),
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
    let stage = open(caller, id)?;
    let names = names_of(&stage);
    let protected = |path: &[u8]| is_protected(&names, path);
    stage.diff(selection(paths), &protected, DiffLimits::default(), out)?;
    out.flush().map_err(StageError::Output)?;
    Ok(stage.scan(&protected)?)
}

/// Applies what is staged; conflicts and protected names stay in the stage.
///
/// What was applied is then looked at as after a run: a name that only the whole tree shows to
/// be one that git would run programs from is moved aside.
pub(crate) fn apply(
    caller: &Caller,
    id: &str,
    paths: &[Vec<u8>],
) -> Result<(ApplyReport, Vec<Quarantined>), StageError> {
    let stage = open(caller, id)?.lock()?;
    let names = names_of(&stage);
    let protected = |path: &[u8]| is_protected(&names, path);
    let root = AbsPath::new(stage.workspace())?;
    let aftermath = Aftermath::before_change(id, &root, names.clone())?;
    let go_on = &mut |_: &staging::Step<'_>| ControlFlow::Continue(());
    let report = stage.apply(selection(paths), &protected, go_on)?;
    if report.remaining == 0 {
        stage.discard()?;
    }
    let (quarantined, failed) = aftermath.quarantine();
    failed.map_or(Ok((report, quarantined)), |error| Err(error.into()))
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
