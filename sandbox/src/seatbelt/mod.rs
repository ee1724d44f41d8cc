//! Writes the macOS Seatbelt profile (SBPL text) for a set of rules, and describes its launch.
//!
//! **No Mac was available to run any of this.** The text is compared with golden files, parsed
//! and evaluated by a model of the language in this module's tests, and that is all: what the
//! macOS kernel makes of it has not been seen. Where the tests on Linux cannot tell, the code
//! takes the stricter reading.
//!
//! The module is pure and is compiled on every platform: same rules, same text, no file is read.
//!
//! # Invariants
//!
//! - **Default deny.** Each allowance is named in `tables.rs` or comes from a rule.
//! - **No user text in the program.** Paths travel as `-D` parameters. Where a pattern needs
//!   the text of a path or name, it is escaped (backslash first, then quote), and anything
//!   with a control character was refused before the first line was written.
//! - **Last match wins, so denials are last.** Deny beats protect beats write beats read.
//! - **Nothing protected can be moved away or moved in.** Seatbelt sees only the two names of a
//!   rename, not what lies beneath them. So each ancestor of a denied or protected path, each
//!   writable root, and each leading part of a protected name can be neither unlinked nor
//!   (roots apart) created. A fresh `.git` cannot be made where `.git/hooks` is protected.
//! - **Protected names hold in the private `/tmp` too**, since a folder that is prepared there
//!   could be renamed into a writable root on the same volume.
//! - **Real spellings.** The kernel matches the path as it is on disk, so the caller gives
//!   existing paths resolved, in their case on disk. `/tmp`, `/var` and `/etc` are the
//!   exception: both they and their `/private` forms are emitted. Protected paths and names
//!   hold in any ASCII case, because they may not exist yet.
//!
//! Absent on purpose: Apple events, `open` (Launch Services), the keychain services, pasteboard
//! and preferences; every IOKit class, since no tool that we run was seen to need one; hard
//! links (`file-link`), which would give a protected file a second name, so that cargo and git
//! fall back to copying; wildcards over services and sysctls; any rule with `no-sandbox`.
//!
//! Not held, compared with Linux: the process list is shared, there is no PID namespace, and
//! ligatures or ignorable code points that a case-insensitive volume may fold (`ﬁ` for `fi`)
//! are not anticipated in protected names.

mod checked;
mod launch;
mod pattern;
mod tables;
mod text;

#[cfg(test)]
mod model;
#[cfg(test)]
mod sbpl;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::PathBuf;

use thiserror::Error;

pub use launch::{EXIT_CANNOT_APPLY, LaunchError, MAX_ARGUMENT_BYTES, SANDBOX_EXEC, SandboxExec};

/// What a confined process may do, in the terms that Seatbelt can hold.
///
/// Every path is absolute and in normal form. Existing paths are to be resolved, in the case
/// that they have on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a caller that forgets a dimension must not compile"
)]
pub struct SeatbeltRules {
    /// Trees that can be read and executed, beside the system's own.
    pub read: Vec<PathBuf>,
    /// Trees that can be read, executed and changed.
    pub write: Vec<PathBuf>,
    /// Trees that can be neither read nor changed nor seen, whatever else grants them.
    pub deny: Vec<PathBuf>,
    /// Trees that cannot be changed, moved or created, whatever else grants it.
    pub protect: Vec<PathBuf>,
    /// Names, as one or more path components, that are protected at any depth below a writable
    /// root: `[".git", "hooks"]` protects `<root>/vendor/lib/.git/hooks`. In any ASCII case.
    pub protect_names: Vec<Vec<OsString>>,
    /// The session's own temporary folder: readable and writable.
    pub private_tmp: PathBuf,
    /// Whether the host's network is there.
    pub network: SeatbeltNetwork,
    /// Whether the process gets terminals.
    pub pty: bool,
}

/// The network inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a third mode must break every caller"
)]
pub enum SeatbeltNetwork {
    /// All of IP and name resolution, loopback included. UNIX sockets stay closed, except in
    /// the private temporary folder.
    Host,
    /// Nothing, loopback included.
    Off,
}

/// A profile for `sandbox-exec`, and the values of its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SeatbeltProfile {
    /// The profile in SBPL.
    pub text: String,
    /// Names that occur as `(param "…")` in the text, with their values, each name once.
    pub parameters: Vec<(String, PathBuf)>,
}

impl SeatbeltProfile {
    /// Writes the profile that holds `rules`.
    ///
    /// # Errors
    ///
    /// [`SeatbeltError`], when a path or name could be read as something other than itself.
    /// Everything is checked before any text is made.
    pub fn generate(rules: &SeatbeltRules) -> Result<Self, SeatbeltError> {
        let checked = checked::CheckedRules::new(rules)?;
        Ok(text::write(&checked))
    }
}

/// The rules cannot be written as a Seatbelt profile, so there is none and nothing ran.
///
/// Paths are shown with control characters escaped.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SeatbeltError {
    /// A control character, among them newline and NUL, could end a string or a line.
    #[error("path `{path}` has a control character; rename it or leave it out")]
    ControlCharacter {
        /// The path or name.
        path: String,
    },
    /// A path goes by the data volume's own mount point, which the kernel never reports.
    #[error("path `{path}` names the data volume; write it as it is seen from `/`")]
    DataVolume {
        /// The path.
        path: String,
    },
    /// A protected name is no sequence of one or more single components.
    #[error("protected name `{name}` is not made of file names; give each component by itself")]
    Name {
        /// The components, joined by `/`.
        name: String,
    },
    /// A path contains `..`.
    #[error("path `{path}` is not in normal form; resolve its `..`")]
    NotNormal {
        /// The path.
        path: String,
    },
    /// A path is not UTF-8, and profile text is.
    #[error("path `{path}` is not UTF-8; rename it or leave it out")]
    NotUtf8 {
        /// The path, with what is not UTF-8 replaced.
        path: String,
    },
    /// A path does not start at the root.
    #[error("path `{path}` is relative; make it absolute")]
    Relative {
        /// The path.
        path: String,
    },
}
