//! Who calls, from where, and with which environment: read once, here.
#![expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the environment"
)]

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The process's surroundings at its start.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The environment.
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// The home, from `HOME` or else from the user database.
    pub(crate) home: Option<PathBuf>,
    /// The working directory, as the kernel names it.
    pub(crate) directory: PathBuf,
    /// Our own executable.
    pub(crate) program: PathBuf,
}

impl Caller {
    /// Looks once.
    ///
    /// # Errors
    ///
    /// When the working directory was removed.
    pub(crate) fn look() -> std::io::Result<Self> {
        let variables: Vec<_> = std::env::vars_os().collect();
        let home = variables
            .iter()
            .find(|it| it.0 == "HOME")
            .map(|it| PathBuf::from(&it.1))
            .filter(|it| it.is_absolute())
            .or_else(home_of_user);
        Ok(Self {
            home,
            variables,
            directory: std::env::current_dir()?,
            program: std::env::current_exe()?,
        })
    }

    /// The value of a variable that is set and not empty.
    pub(crate) fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables
            .iter()
            .find(|it| it.0 == name && !it.1.is_empty())
            .map(|it| it.1.as_os_str())
    }

    /// Where Stockade keeps what outlives a run; `None` without a home.
    pub(crate) fn state_folder(&self) -> Option<PathBuf> {
        let base = match self.variable("XDG_STATE_HOME").map(Path::new) {
            Some(base) if base.is_absolute() => base.to_owned(),
            _ => self.home.as_ref()?.join(".local/state"),
        };
        Some(base.join("stockade"))
    }

    /// Where Stockade keeps what it can make again; `None` without a home.
    pub(crate) fn cache_folder(&self) -> Option<PathBuf> {
        let base = match self.variable("XDG_CACHE_HOME").map(Path::new) {
            Some(base) if base.is_absolute() => base.to_owned(),
            _ => self.home.as_ref()?.join(".cache"),
        };
        Some(base.join("stockade"))
    }

    /// Where a person's own profiles lie; `None` without a home.
    pub(crate) fn profile_folder(&self) -> Option<PathBuf> {
        let base = match self.variable("XDG_CONFIG_HOME").map(Path::new) {
            Some(base) if base.is_absolute() => base.to_owned(),
            _ => self.home.as_ref()?.join(".config"),
        };
        Some(base.join("stockade/profiles"))
    }
}

/// The home in `/etc/passwd`, passwd(5).
fn home_of_user() -> Option<PathBuf> {
    let uid = rustix::process::getuid().as_raw().to_string();
    let database = std::fs::read("/etc/passwd").ok()?;
    home_in(&database, &uid)
}

fn home_in(database: &[u8], uid: &str) -> Option<PathBuf> {
    database.split(|it| *it == b'\n').find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|it| *it == b':').collect();
        let own = *fields.get(2)? == uid.as_bytes();
        let home = Path::new(OsStr::from_bytes(fields.get(5)?));
        (own && home.is_absolute()).then(|| home.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_is_found_in_the_user_database() {
        let database = b"root:x:0:0:r:/root:/bin/sh\nu:x:7:7::/home/u:/bin/sh\nbad\n";
        assert_eq!(home_in(database, "7"), Some(PathBuf::from("/home/u")));
        assert_eq!(home_in(database, "8"), None);
    }
}
