//! What a child is confined to: every dimension named once, none defaulted.
//!
//! # Invariants
//!
//! - **No forgotten dimension.** [`Confinement::build`] walks a staged builder; a step that
//!   is left out does not compile, and there is no `Default`.
//! - **No string is re-resolved.** Paths are absolute and in normal form; a back end opens
//!   each without following a link, so what changed since planning is an error.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use crate::filesystem::Filesystem;
use crate::limits::Limits;
use crate::path::AbsPath;

/// Everything a child is confined to.
///
/// Taken apart without `..` where it is carried out, so that a new dimension breaks the
/// build until each back end handles it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    pub(crate) filesystem: Filesystem,
    pub(crate) network: Network,
    pub(crate) powers: Powers,
    pub(crate) limits: Limits,
    pub(crate) environment: Environment,
    pub(crate) requirement: Requirement,
}

/// What of the network a child reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a new mode must break every back end"
)]
pub enum Network {
    /// The host's network, loopback services and cloud metadata included.
    Host,
    /// An empty network namespace with its own loopback.
    Off,
}

/// Powers that are absent unless a profile grants them by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Powers {
    /// Programs may make user namespaces of their own (for example a browser's sandbox).
    pub nested_user_namespaces: bool,
    /// Programs may trace their own children (debuggers).
    pub ptrace: bool,
}

/// The environment of the child, built from nothing.
///
/// `Debug` shows names only: a value may be a secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment(Vec<(OsString, OsString)>);

/// The least that has to hold, or nothing runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirement {
    /// Namespaces, Landlock and seccomp together, or Landlock and seccomp alone.
    pub isolation: Isolation,
    /// The least Landlock ABI, as landlock(7) numbers them.
    pub landlock_abi: u32,
    /// Limits that have to be enforced by the kernel.
    pub limits: Vec<crate::limits::LimitKind>,
}

/// How much isolation a confinement insists on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a third tier must break every caller"
)]
pub enum Isolation {
    /// Landlock and seccomp suffice; what is lost is reported.
    Landlock,
    /// Namespaces, a private root, Landlock and seccomp.
    Full,
}

impl Environment {
    /// Exactly these variables. A later pair replaces an earlier one of the same name.
    pub fn new(pairs: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut variables: Vec<(OsString, OsString)> = Vec::new();
        for (name, value) in pairs {
            match variables.iter_mut().find(|(known, _)| *known == name) {
                Some(known) => known.1 = value,
                None => variables.push((name, value)),
            }
        }
        Self(variables)
    }

    /// The variables, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = (&OsString, &OsString)> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    /// The value of `name`.
    pub fn value(&self, name: &str) -> Option<&OsString> {
        self.0.iter().find(|it| it.0 == name).map(|it| &it.1)
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set()
            .entries(self.0.iter().map(|it| &it.0))
            .finish()
    }
}

impl Confinement {
    /// Starts the builder; the next step names the file system.
    pub fn build() -> NeedsFilesystem {
        NeedsFilesystem(())
    }

    /// The directory in which the child starts.
    #[must_use]
    pub fn workdir(&self) -> &AbsPath {
        &self.filesystem.workdir
    }

    /// What the child reaches of the network.
    #[must_use]
    pub fn network(&self) -> Network {
        self.network
    }

    /// The environment of the child.
    #[must_use]
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The view of files.
    #[must_use]
    pub fn filesystem(&self) -> &Filesystem {
        &self.filesystem
    }

    /// The limits.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What has to hold.
    #[must_use]
    pub fn requirement(&self) -> &Requirement {
        &self.requirement
    }
}

/// The builder wants the view of files.
#[derive(Debug)]
#[must_use]
pub struct NeedsFilesystem(());

/// The builder wants the network.
#[derive(Debug)]
#[must_use]
pub struct NeedsNetwork(Filesystem);

/// The builder wants the powers.
#[derive(Debug)]
#[must_use]
pub struct NeedsPowers(Filesystem, Network);

/// The builder wants the limits.
#[derive(Debug)]
#[must_use]
pub struct NeedsLimits(Filesystem, Network, Powers);

/// The builder wants the environment.
#[derive(Debug)]
#[must_use]
pub struct NeedsEnvironment(Filesystem, Network, Powers, Limits);

/// The builder wants to know what must hold.
#[derive(Debug)]
#[must_use]
pub struct NeedsRequirement(Filesystem, Network, Powers, Limits, Environment);

impl NeedsFilesystem {
    /// The view of files.
    pub fn filesystem(self, filesystem: Filesystem) -> NeedsNetwork {
        NeedsNetwork(filesystem)
    }
}

impl NeedsNetwork {
    /// The network.
    pub fn network(self, network: Network) -> NeedsPowers {
        NeedsPowers(self.0, network)
    }
}

impl NeedsPowers {
    /// The powers.
    pub fn powers(self, powers: Powers) -> NeedsLimits {
        NeedsLimits(self.0, self.1, powers)
    }
}

impl NeedsLimits {
    /// The limits.
    pub fn limits(self, limits: Limits) -> NeedsEnvironment {
        NeedsEnvironment(self.0, self.1, self.2, limits)
    }
}

impl NeedsEnvironment {
    /// The environment.
    pub fn environment(self, environment: Environment) -> NeedsRequirement {
        NeedsRequirement(self.0, self.1, self.2, self.3, environment)
    }
}

impl NeedsRequirement {
    /// What has to hold, which completes the confinement.
    ///
    /// # Errors
    ///
    /// [`ConfinementError`] when the parts contradict each other; nothing ran.
    pub fn require(self, requirement: Requirement) -> Result<Confinement, ConfinementError> {
        let Self(filesystem, network, powers, limits, environment) = self;
        filesystem.check()?;
        for (name, value) in environment.iter() {
            let bytes = name.as_encoded_bytes();
            if bytes.is_empty()
                || bytes.contains(&b'=')
                || bytes.contains(&0)
                || value.as_encoded_bytes().contains(&0)
            {
                return Err(ConfinementError::EnvironmentName { name: name.clone() });
            }
        }
        Ok(Confinement {
            filesystem,
            network,
            powers,
            limits,
            environment,
            requirement,
        })
    }
}

/// The parts of a confinement contradict each other, so none was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfinementError {
    /// A grant lies inside a denied tree.
    #[error("`{}` is granted, but lies inside `{}`, which is denied; drop one of the two", .granted.display(), .denied.display())]
    GrantInsideDeny {
        /// The grant.
        granted: AbsPath,
        /// The deny.
        denied: AbsPath,
    },
    /// The working directory is in no granted tree.
    #[error("the working directory `{}` is in no tree that is granted", .path.display())]
    WorkdirNotGranted {
        /// The directory.
        path: AbsPath,
    },
    /// A grant would cover the private `/proc` or `/dev`.
    #[error("`{}` can not be granted: the sandbox has its own", .path.display())]
    Reserved {
        /// The grant.
        path: AbsPath,
    },
    /// A variable's name is empty or has a `=`, or name or value have a NUL.
    #[error("`{}` can not be an environment variable", .name.display())]
    EnvironmentName {
        /// The name.
        name: OsString,
    },
}
