//! Chooses the back end that carries a confinement out, and has it prepare the sandbox.

use sandbox::probe::{self, Feature, Machine};
use sandbox::stage::Executable;
use sandbox::{
    AbsPath, Backend, Bwrap, Confinement, Host, Isolation, Landlock, Native, Prepared, SandboxError,
};

use crate::caller::Caller;

/// A back end, as the command line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum BackendName {
    /// The system's bubblewrap, and our own second stage inside.
    Bwrap,
    /// Landlock and seccomp alone, for hosts without namespaces.
    Landlock,
    /// Our own namespaces.
    Native,
}

impl BackendName {
    /// The word of the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Bwrap => "bwrap",
            Self::Landlock => "landlock",
            Self::Native => "native",
        }
    }
}

/// Prepares a sandbox with the back end that was asked for, or with the strongest there is.
///
/// The native back end is tried first: what it needs is found by doing it. Only if it cannot
/// is the machine examined for another one that meets the requirement. Nothing has run then.
pub(crate) fn prepare(
    asked: Option<BackendName>,
    confinement: &Confinement,
    caller: &Caller,
    host: &dyn Fn() -> Host,
) -> Result<Prepared, SandboxError> {
    match asked {
        Some(BackendName::Native) => Native.prepare(confinement, host()),
        Some(BackendName::Bwrap) => Bwrap::find(executable(caller)?)?.prepare(confinement, host()),
        Some(BackendName::Landlock) => Landlock.prepare(confinement, host()),
        None => match Native.prepare(confinement, host()) {
            Err(error @ (SandboxError::Unsupported { .. } | SandboxError::Build { .. })) => {
                let machine = examine(confinement.workdir(), caller)?;
                if machine.isolates() {
                    // Namespaces work: the failure is another one, and its message tells it.
                    return Err(error);
                }
                probe::choose(confinement.requirement(), &machine)?.prepare(confinement, host())
            }
            other => other,
        },
    }
}

/// Whether the sandbox will have no mounts that keep protected names as they are.
pub(crate) fn is_without_mounts(
    asked: Option<BackendName>,
    confinement: &Confinement,
    caller: &Caller,
) -> Result<bool, SandboxError> {
    match asked {
        Some(BackendName::Landlock) => Ok(true),
        Some(BackendName::Bwrap | BackendName::Native) => Ok(false),
        // Only a confinement that accepts it can end there.
        None if confinement.requirement().isolation == Isolation::Full => Ok(false),
        None => {
            let machine = examine(confinement.workdir(), caller)?;
            Ok(!machine.isolates() && !machine.works(Feature::Bubblewrap))
        }
    }
}

/// What this machine offers; `workspace` is where id-mapped mounts are tried.
pub(crate) fn examine(workspace: &AbsPath, caller: &Caller) -> Result<Machine, SandboxError> {
    Ok(probe::probe(Some(workspace), &executable(caller)?))
}

/// Our own program, for bubblewrap to start inside.
fn executable(caller: &Caller) -> Result<Executable, SandboxError> {
    let program = AbsPath::new(&caller.program).map_err(|_| SandboxError::NotHeld {
        backend: "bwrap",
        what: format!(
            "the program's own path `{}` is odd",
            caller.program.display()
        ),
    })?;
    Ok(Executable::at(program))
}
