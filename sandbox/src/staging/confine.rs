//! Restricts the calling process to the folders that it is about to work on.

use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, Scope, path_beneath_rules,
};

use rustix::thread::{CapabilitySet, CapabilitySets};

use super::StagingError;

/// What the kernel took on when a process restricted itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Confined {
    /// Files outside the roots cannot be opened, made or removed; nothing can be executed.
    /// False on a kernel without Landlock.
    pub files: bool,
    /// All that this version knows of Landlock holds: files, moves between directories,
    /// truncation, device calls, TCP, abstract sockets and signals.
    pub complete: bool,
    /// No program that is started can gain privileges.
    pub no_new_privileges: bool,
}

/// Restricts the calling thread and all that it starts to reading and writing beneath
/// `roots`: no execution, no devices, no TCP, no abstract sockets, no signals to others, and
/// of a superuser's capabilities only those over files.
///
/// Open descriptors stay usable, so standard output still works. For a scan or an apply the
/// roots are [`super::Stage::folder`] and the workspace; for a discard, the folder above the
/// stage and, where something was applied before, the workspace. A root that does not exist
/// grants nothing. Must run before the process has other threads, which would stay free.
///
/// # Errors
///
/// [`StagingError::Confine`] if the rules cannot be built or put on. A kernel without
/// Landlock is no error: the caller reads the answer and decides.
pub fn confine_self(roots: &[&Path]) -> Result<Confined, StagingError> {
    let status = restrict(roots).map_err(|error| StagingError::Confine {
        source: Box::new(error),
    })?;
    keep_powers_over_files().map_err(|error| StagingError::Confine {
        source: Box::new(error),
    })?;
    Ok(Confined {
        files: status.ruleset != RulesetStatus::NotEnforced,
        complete: status.ruleset == RulesetStatus::FullyEnforced,
        no_new_privileges: status.no_new_privs,
    })
}

/// Gives up every capability but those that a superuser needs to write another user's files.
fn keep_powers_over_files() -> Result<(), rustix::io::Errno> {
    let wanted = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID;
    let held = rustix::thread::capabilities(None)?;
    rustix::thread::set_capabilities(
        None,
        CapabilitySets {
            effective: held.effective & wanted,
            permitted: held.permitted & wanted,
            inheritable: CapabilitySet::empty(),
        },
    )
}

fn restrict(roots: &[&Path]) -> Result<landlock::RestrictionStatus, landlock::RulesetError> {
    let abi = ABI::V6;
    let unused = AccessFs::Execute
        | AccessFs::MakeChar
        | AccessFs::MakeBlock
        | AccessFs::MakeFifo
        | AccessFs::MakeSock
        | AccessFs::IoctlDev;
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        .add_rules(path_beneath_rules(roots, AccessFs::from_all(abi) & !unused))?
        .restrict_self()
}
