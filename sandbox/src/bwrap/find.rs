//! Finds a bubblewrap that can be trusted to build a sandbox.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::error::SandboxError;
use crate::filesystem::{Access, Filesystem};
use crate::host_program;
use crate::path::AbsPath;

/// Where the system's own lies. `PATH` is never searched.
pub(super) const PLACES: [&str; 3] = ["/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"];

/// The oldest that is accepted: the first with `--disable-userns`, `--size` and `--perms`.
const OLDEST: (u32, u32) = (0, 8);

const SET_UID: u32 = 0o4000;
const WRITABLE_BY_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// A program that passed every check.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) program: AbsPath,
    pub(super) set_uid: bool,
    pub(super) version: String,
}

/// Checks the program at `path`, links resolved.
pub(super) fn check(path: &Path) -> Result<Found, SandboxError> {
    let refuse = |why: String| absent(&format!("`{}` {why}", path.display()));
    let program = std::fs::canonicalize(path)
        .map_err(|error| refuse(format!("can not be found ({error})")))?;
    for place in program.ancestors() {
        let attributes = std::fs::symlink_metadata(place)
            .map_err(|error| refuse(format!("can not be looked at ({error})")))?;
        if let Some(why) = doubt(&attributes, place == program) {
            return Err(refuse(format!("is not used: `{}` {why}", place.display())));
        }
    }
    let attributes = std::fs::symlink_metadata(&program)
        .map_err(|error| refuse(format!("can not be looked at ({error})")))?;
    let answer = host_program::ask(program.as_os_str(), &["--version"], Duration::from_secs(2))
        .map_err(|error| refuse(format!("can not be run ({error})")))?;
    if answer.code != Some(0) {
        return Err(refuse("does not say its version".to_owned()));
    }
    let text = String::from_utf8_lossy(&answer.text).trim().to_owned();
    match version(&text) {
        Some(version) if version >= OLDEST => Ok(Found {
            program: AbsPath::new(program).map_err(|_| refuse("has no normal path".to_owned()))?,
            set_uid: attributes.mode() & SET_UID != 0,
            version: text,
        }),
        Some(_) => Err(refuse(format!("is too old ({text})"))),
        None => Err(refuse("does not say its version".to_owned())),
    }
}

/// Why a file, or a folder above it, could be replaced by somebody other than root.
fn doubt(attributes: &Metadata, is_program: bool) -> Option<&'static str> {
    let mode = attributes.mode();
    if attributes.uid() != 0 {
        return Some("does not belong to root");
    }
    if is_program && !attributes.is_file() {
        return Some("is not a regular file");
    }
    // In a sticky folder only the owner of a name may replace it, and the names were checked.
    let sticky = !is_program && mode & STICKY != 0;
    if mode & WRITABLE_BY_OTHERS != 0 && !sticky {
        return Some("can be written by others than root");
    }
    None
}

/// Refuses a program that lies where the payload could write.
pub(super) fn outside(program: &Path, filesystem: &Filesystem) -> Result<(), SandboxError> {
    let over = filesystem
        .grants
        .iter()
        .find(|it| it.access == Access::Write && program.starts_with(&it.path));
    match over {
        Some(grant) => Err(absent(&format!(
            "`{}` is not used: it lies in `{}`, which is granted for writing",
            program.display(),
            grant.path.display()
        ))),
        None => Ok(()),
    }
}

/// Major and minor number out of `bubblewrap 0.8.0`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.strip_prefix("bubblewrap ")?.split('.');
    let major = numbers.next()?.parse().ok()?;
    let minor = numbers.next()?.parse().ok()?;
    Some((major, minor))
}

/// There is no bubblewrap to use.
pub(super) fn absent(why: &str) -> SandboxError {
    SandboxError::Unsupported {
        feature: format!("bubblewrap ({why})"),
        remedy: format!(
            "install bubblewrap {}.{} or later with the system's package manager, owned by root, \
             as one of {}; or use the native back end",
            OLDEST.0,
            OLDEST.1,
            PLACES.join(", ")
        ),
    }
}

/// Whether the program lies at one of the usual places at all.
pub(super) fn present() -> impl Iterator<Item = &'static Path> {
    PLACES
        .iter()
        .map(|it| Path::new(OsStr::new(*it)))
        .filter(|it| it.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_and_compared_by_number() {
        let cases = [
            ("bubblewrap 0.8.0", Some((0, 8))),
            ("bubblewrap 0.11.0", Some((0, 11))),
            ("bubblewrap 1.0", Some((1, 0))),
            ("bwrap 0.8.0", None),
            ("bubblewrap x.8", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(version(text), expected, "{text:?}");
        }
        assert!(version("bubblewrap 0.11.0") >= Some(OLDEST));
        assert!(version("bubblewrap 0.7.9") < Some(OLDEST));
    }

    #[test]
    fn a_program_in_a_folder_that_anybody_may_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("bwrap");
        std::fs::write(&program, "#!/bin/sh\necho bubblewrap 9.9\n").unwrap();
        let mut mode = std::fs::metadata(&program).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o777);
        std::fs::set_permissions(&program, mode).unwrap();
        let error = check(&program).unwrap_err().to_string();
        assert!(error.contains("is not used"), "{error}");
    }

    #[test]
    fn one_that_is_not_there_is_unsupported_with_a_remedy() {
        let error = check(Path::new("/nowhere/bwrap")).unwrap_err();
        assert!(
            error.help().unwrap().contains("install bubblewrap"),
            "{error}"
        );
    }
}
