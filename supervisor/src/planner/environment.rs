//! The environment of the payload, and the users that it knows.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use policy::{Profile, Variables};
use sandbox::{AbsPath, Environment, File, RESERVED_ID};

use super::PlanError;
use crate::caller::Caller;

/// What the profile passes of the caller's variables, and what it sets.
pub(super) fn of(
    profile: &Profile,
    caller: &Caller,
    variables: &Variables,
    writable: &[AbsPath],
    warnings: &mut Vec<String>,
) -> Environment {
    let passed = caller.variables.iter().filter(|(name, value)| {
        let named = profile
            .pass
            .iter()
            .any(|it| it.value.matches(name.as_bytes()));
        let usable = name != "CARGO_TARGET_DIR"
            || writable.iter().any(|it| Path::new(value).starts_with(it))
            || Path::new(value).is_relative();
        if named && !usable {
            warnings.push(format!(
                "CARGO_TARGET_DIR is not passed: `{}` can not be written inside",
                value.display()
            ));
        }
        named && usable
    });
    let home = variables.home.clone().unwrap_or_else(|| "/tmp".into());
    let set = profile.set.iter().map(|(name, value)| {
        let mut bytes = value.value.clone().into_bytes();
        for (variable, path) in [("${home}", &home), ("${workspace}", &variables.workspace)] {
            bytes = replace(&bytes, variable.as_bytes(), path.as_os_str().as_bytes());
        }
        (OsString::from(name), OsString::from_vec(bytes))
    });
    Environment::new(passed.cloned().chain(set))
}

fn replace(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.windows(from.len()).position(|it| it == from) {
        out.extend_from_slice(rest.get(..at).unwrap_or_default());
        out.extend_from_slice(to);
        rest = rest.get(at + from.len()..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
}

/// A user database that knows the user that a privileged caller's payload becomes.
pub(super) fn users(caller: &Caller) -> Result<Vec<File>, PlanError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(Vec::new());
    }
    let home = caller.home.clone().unwrap_or_else(|| "/tmp".into());
    let user = [
        format!("stockade:x:{RESERVED_ID}:{RESERVED_ID}:Stockade:").into_bytes(),
        home.as_os_str().as_bytes().to_vec(),
        b":/bin/sh\n".to_vec(),
    ]
    .concat();
    let group = format!("stockade:x:{RESERVED_ID}:\n").into_bytes();
    let mut files = Vec::new();
    for (path, line) in [("/etc/passwd", user), ("/etc/group", group)] {
        let Ok(mut content) = std::fs::read(path) else {
            continue;
        };
        if content.last().is_some_and(|it| *it != b'\n') {
            content.push(b'\n');
        }
        content.extend_from_slice(&line);
        files.push(File {
            path: AbsPath::new(path)?,
            content,
        });
    }
    Ok(files)
}
