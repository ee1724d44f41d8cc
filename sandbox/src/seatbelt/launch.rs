//! Describes how `sandbox-exec` is called with a profile. It starts nothing.
//!
//! `sandbox-exec` is deprecated by Apple and still what everyone ships on. It cannot be nested:
//! inside a sandbox it ends with [`EXIT_CANNOT_APPLY`], and so do Apple's tools that sandbox
//! themselves.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::SeatbeltProfile;

/// The system's launcher, by absolute path, so that no search path chooses it.
pub const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";

/// How `sandbox-exec` ends when the kernel refuses the profile, as it does inside another
/// sandbox: `EX_OSERR` of sysexits(3).
pub const EXIT_CANNOT_APPLY: i32 = 71;

/// The most bytes of arguments that are passed on, each with its NUL: `ARG_MAX` of macOS is
/// 1 MiB for arguments and environment together, and a quarter is left for the environment.
pub const MAX_ARGUMENT_BYTES: usize = 768 * 1024;

/// The command that runs a program under a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SandboxExec {
    /// The program to start: [`SANDBOX_EXEC`].
    pub program: PathBuf,
    /// Its arguments, without the name of the program itself.
    pub arguments: Vec<OsString>,
}

impl SandboxExec {
    /// Describes the start of `program` with `arguments` under `profile`.
    ///
    /// # Errors
    ///
    /// [`LaunchError`], when the program is no absolute path or the arguments cannot be passed.
    pub fn new(
        profile: &SeatbeltProfile,
        program: &Path,
        arguments: &[OsString],
    ) -> Result<Self, LaunchError> {
        // sandbox-exec would look a bare name up in the PATH of the sandbox.
        if !program.is_absolute() {
            return Err(LaunchError::Relative {
                program: program.to_string_lossy().escape_debug().to_string(),
            });
        }
        let mut all = vec![OsString::from("-p"), OsString::from(&profile.text)];
        for (name, value) in &profile.parameters {
            let mut parameter = OsString::from(name);
            parameter.push("=");
            parameter.push(value);
            all.extend([OsString::from("-D"), parameter]);
        }
        all.push(OsString::from("--"));
        all.push(program.as_os_str().to_owned());
        all.extend_from_slice(arguments);
        if all.iter().any(|it| it.as_encoded_bytes().contains(&0)) {
            return Err(LaunchError::Nul);
        }
        let bytes = all.iter().map(|it| it.len() + 1).sum();
        if bytes > MAX_ARGUMENT_BYTES {
            return Err(LaunchError::TooLong { bytes });
        }
        Ok(Self {
            program: PathBuf::from(SANDBOX_EXEC),
            arguments: all,
        })
    }

    /// The whole argument vector, the program first.
    pub fn argv(&self) -> impl Iterator<Item = &OsStr> {
        let arguments = self.arguments.iter().map(OsString::as_os_str);
        std::iter::once(self.program.as_os_str()).chain(arguments)
    }
}

/// The call of `sandbox-exec` cannot be made, so nothing ran.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// An argument holds a NUL, with which the kernel would end it.
    #[error("an argument holds a NUL byte; take it out")]
    Nul,
    /// The program was not given by absolute path.
    #[error("program `{program}` is no absolute path; resolve it first")]
    Relative {
        /// The program, with control characters escaped.
        program: String,
    },
    /// Profile, parameters and arguments together are more than macOS takes.
    #[error(
        "profile and arguments take {bytes} bytes, more than {MAX_ARGUMENT_BYTES}; deny whole \
         folders instead of single files, or pass long input through a file"
    )]
    TooLong {
        /// What they take.
        bytes: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> SeatbeltProfile {
        SeatbeltProfile {
            text: "(version 1)".to_owned(),
            parameters: vec![("WRITE_0".to_owned(), PathBuf::from("/w=1 \"x\""))],
        }
    }

    #[test]
    fn the_launcher_is_absolute_and_the_command_stands_after_a_double_dash() {
        let arguments = [OsString::from("-D"), OsString::from("A=B")];
        let launch = SandboxExec::new(&profile(), Path::new("/bin/ls"), &arguments).unwrap();
        let argv: Vec<_> = launch.argv().collect();
        let expected = [
            "/usr/bin/sandbox-exec",
            "-p",
            "(version 1)",
            "-D",
            "WRITE_0=/w=1 \"x\"",
            "--",
            "/bin/ls",
            "-D",
            "A=B",
        ];
        assert_eq!(argv, expected);
    }

    #[test]
    fn what_cannot_be_passed_faithfully_is_refused() {
        let long = OsString::from("x".repeat(MAX_ARGUMENT_BYTES));
        let cases = [
            ("ls", OsString::new(), "relative"),
            ("/bin/ls", OsString::from("a\0b"), "NUL"),
            ("/bin/ls", long, "too long"),
        ];
        for (program, argument, name) in cases {
            let result = SandboxExec::new(&profile(), Path::new(program), &[argument]);
            let actual = match result {
                Err(LaunchError::Relative { .. }) => "relative",
                Err(LaunchError::Nul) => "NUL",
                Err(LaunchError::TooLong { .. }) => "too long",
                Ok(_) => "passed",
            };
            assert_eq!(actual, name, "{program:?}");
        }
    }
}
