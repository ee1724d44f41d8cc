//! One command, from the words of the caller to its end: the whole story on one screen.
//!
//! ```text
//! load ─► plan ─► prepare ─► start ─► watch ─► look at what appeared ─► answer
//! ```
//!
//! # Invariants
//!
//! - **Nothing runs before everything holds.** The sandbox is built and confined, and what
//!   the kernel enforced was compared with what the profile requires, before the command's
//!   first instruction.
//! - **One thread.** The supervisor of one command forks; it never starts a thread.

mod streams;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use policy::{Catalog, Profile, ProfileError};
use rustix::process::Signal;
use sandbox::{
    AbsPath, End, EnforcementReport, Host, Layer, LayerStatus, SandboxError, SandboxedCommand,
    Stdio, Usage,
};

use crate::aftermath::{Aftermath, Quarantined};
use crate::backends::{self, BackendName};
use crate::caller::Caller;
use crate::catalog::Profiles;
use crate::exit::Outcome;
use crate::keepsake::KeepsakeError;
use crate::monitor::{self, Cause, Ended, MonitorError};
use crate::overrides::{OverrideError, Overrides};
use crate::planner::walk::WalkError;
use crate::planner::{self, PlanError, Planned};
use crate::receipt::Receipt;
use crate::relay::Relay;
use crate::relay::filter::Identity;
use crate::relay::signals::{Signals, SignalsError};
use crate::runs::{self, Entry, Run};
use crate::stage::{self, StageError};

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) profile: String,
    pub(crate) workspace: PathBuf,
    pub(crate) overrides: Overrides,
    pub(crate) backend: Option<BackendName>,
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
}

/// What a command did, and what Stockade knows about it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    pub(crate) report: EnforcementReport,
    pub(crate) usage: Usage,
    pub(crate) cause: Option<Cause>,
    pub(crate) quarantined: Vec<Quarantined>,
    pub(crate) unsearched: Option<WalkError>,
    pub(crate) receipt: Receipt,
    /// The stage that holds what the command wrote, if its writes were staged.
    pub(crate) staged: Option<String>,
}

/// The command was not started, or was ended for a failure of ours.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum SessionError {
    #[error("the profile was not loaded")]
    Profile(#[from] ProfileError),
    #[error("there is no profile `{name}`")]
    UnknownProfile { name: String },
    #[error("the profile `{name}` can not be read: {why}")]
    UnreadableProfile { name: String, why: String },
    #[error("an option is wrong")]
    Override(#[from] OverrideError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error("the standard streams can not be set up")]
    Streams(#[source] std::io::Error),
    #[error("signals can not be watched")]
    Signals(#[from] SignalsError),
    #[error("no stage could be made, so nothing ran")]
    Stage(#[from] StageError),
    #[error(transparent)]
    Keepsake(#[from] KeepsakeError),
    #[error(transparent)]
    Monitor(#[from] MonitorError),
}

impl SessionError {
    /// What can be done about it.
    pub(crate) fn help(&self) -> Option<&str> {
        match self {
            Self::Profile(error) => error.help(),
            Self::UnknownProfile { .. } => Some("`stockade profile list` names those that exist"),
            Self::Plan(error) => error.help(),
            Self::Sandbox(error) => error.help(),
            _ => None,
        }
    }
}

/// Loads the profile `name` with what it extends and what the command line adds.
pub(crate) fn load(
    name: &str,
    overrides: &Overrides,
    caller: &Caller,
) -> Result<Profile, SessionError> {
    let profiles = Profiles::new(caller);
    let source = profiles
        .fetch(name)
        .map_err(|why| SessionError::UnreadableProfile {
            name: name.to_owned(),
            why,
        })?
        .ok_or_else(|| SessionError::UnknownProfile {
            name: name.to_owned(),
        })?;
    let mut profile = Profile::load(&source, &profiles)?;
    overrides.apply(&mut profile, caller)?;
    Ok(profile)
}

/// Runs one command.
///
/// `before` sees what the kernel enforces when everything is in place and nothing runs yet.
pub(crate) fn run(
    request: Request,
    caller: &Caller,
    before: &mut dyn FnMut(&EnforcementReport, &[String]),
) -> Result<Answer, SessionError> {
    // Load: a mistake in a profile ends here, with its place.
    let profile = load(&request.profile, &request.overrides, caller)?;
    let workspace = planner::workspace(&request.workspace, caller)?;
    let id = session_id();

    // Plan: what exists of what is granted, and which names in it have to stay.
    let stage = if planner::is_staged(&profile) {
        Some(stage::create(caller, &id, &workspace, &request, &profile)?)
    } else {
        None
    };
    let folder = stage.as_ref().and_then(|it| AbsPath::new(it.folder()).ok());
    let planned = planner::plan(&profile, caller, &workspace, folder)?;

    // Prepare: the back end that holds what the profile requires, or none, builds the
    // sandbox; its init confines itself and says what the kernel did.
    let signals = Signals::block_and_open()?;
    let run = describe(&id, &profile, &workspace, &request);
    let Planned {
        confinement,
        warnings,
        ..
    } = &planned;
    let command = SandboxedCommand::new(request.program, request.arguments, confinement.clone());
    let warnings = warnings.clone();
    let mut aftermath = Aftermath::new(&id, planned, stage.is_some().then_some(&workspace));
    if backends::is_without_mounts(request.backend, command.confinement(), caller)? {
        aftermath.keep()?;
    }
    let state = caller.state_folder();
    let entry = state.as_deref().map(|it| runs::path(it, &id));
    let host = || host(&aftermath, entry.as_deref(), stage.is_some());
    let receipt = Receipt::begin(&workspace);
    let prepared = backends::prepare(request.backend, command.confinement(), caller, &host)?;
    // Visible to `stockade ps` once there is a reaper that would remove the entry; where no
    // state can be kept it is not.
    let _entry = state.and_then(|it| Entry::create(&it, &run).ok());
    before(prepared.report(), &warnings);

    // Start and watch, until nothing inside is left.
    let wall_time = command.confinement().limits().wall_time;
    let (stdio, ends) = streams::open(prepared.report()).map_err(SessionError::Streams)?;
    let interactive = matches!(stdio, Stdio::Terminal);
    let mut running = command.start_in(prepared, stdio)?;
    let report = running.report().clone();
    let terminal = running.take_terminal().filter(|_| interactive);
    let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let user = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    let ended: Result<Ended, MonitorError> = (|| {
        let (streams, mut screen) = streams::connect(ends, terminal, user)?;
        let mut relay = Relay::new(streams, Box::new(Identity))?;
        monitor::watch(&mut running, &mut relay, &signals, &mut screen, wall_time)
    })();
    // Nothing but its init is left inside, or it is killed now. While the kernel clears up, and
    // as long as the reaper would do it in our stead:
    let running = ended.is_ok().then_some(running);

    // Look at what appeared, whatever the end was.
    let (quarantined, unsearched) = aftermath.quarantine();
    let ended = ended?;
    let receipt = receipt.end(&workspace);
    drop(running);
    let staged = stage.and_then(stage::finish);
    Ok(Answer {
        // What the command left has to be known to be harmless.
        outcome: if unsearched.is_some() || quarantined.iter().any(|it| it.moved.is_err()) {
            Outcome::Failed
        } else {
            outcome(ended)
        },
        report,
        usage: ended.usage,
        cause: ended.cause,
        quarantined,
        unsearched,
        receipt,
        staged,
    })
}

/// Builds the sandbox that a command would get in `workspace`, and takes it down again; what
/// the kernel enforced, and what a person should know.
pub(crate) fn trial(
    profile: &Profile,
    backend: Option<BackendName>,
    workspace: &AbsPath,
    caller: &Caller,
) -> Result<(EnforcementReport, Vec<String>), SessionError> {
    // Where staged work is kept is no matter of what the kernel can do.
    let planned = planner::plan(profile, caller, workspace, None)?;
    let warnings = planned.warnings.clone();
    let confinement = planned.confinement.clone();
    let aftermath = Aftermath::new("trial", planned, None);
    let staged = planner::is_staged(profile);
    let host = || host(&aftermath, None, staged);
    let prepared = backends::prepare(backend, &confinement, caller, &host)?;
    Ok((prepared.report().clone(), warnings))
}

fn outcome(ended: Ended) -> Outcome {
    match (ended.cause, ended.end) {
        (Some(Cause::WallTime), _) => Outcome::TimedOut,
        (_, End::Exited(code)) => Outcome::Exited(u8::try_from(code).unwrap_or(u8::MAX)),
        (_, End::Signaled(number)) => {
            Outcome::Signalled(Signal::from_named_raw(number).unwrap_or(Signal::KILL))
        }
    }
}

/// What the supervisor does around the sandbox, and what its reaper does in its stead.
fn host(aftermath: &Aftermath, entry: Option<&Path>, staged: bool) -> Host {
    let missing = if staged {
        "staged: nothing reaches the workspace before it is applied"
    } else {
        "quarantined: moved aside before the call answers"
    };
    let path = entry.map(Path::to_owned);
    let orphan = aftermath.clone();
    Host {
        shared: false,
        when_orphaned: Some(Box::new(move || {
            orphan.quarantine();
            if let Some(path) = path {
                let _ = std::fs::remove_file(path);
            }
        })),
        layers: vec![(
            Layer::MissingNames,
            LayerStatus::Enforced(missing.to_owned()),
        )],
    }
}

/// What `stockade ps` says of this run.
fn describe(id: &str, profile: &Profile, workspace: &AbsPath, request: &Request) -> Run {
    Run {
        id: id.to_owned(),
        pid: rustix::process::getpid().as_raw_nonzero().get(),
        started: now(),
        profile: profile.name.clone(),
        workspace: workspace.display().to_string(),
        command: [&request.program]
            .into_iter()
            .chain(&request.arguments)
            .take(8)
            .map(|it| it.to_string_lossy().chars().take(80).collect())
            .collect(),
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |it| it.as_secs())
}

/// Eight hexadecimal digits, unlike any other session's.
pub(crate) fn session_id() -> String {
    let mut bytes = [0_u8; 4];
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    format!("{:08x}", u32::from_ne_bytes(bytes))
}

/// Whether a person reads standard error.
pub(crate) fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}
