//! What the options of the command line add to a profile.

use std::ffi::OsString;

use policy::{Limit, NamePattern, Network, PathRule, Profile, Valued, size};

use crate::caller::Caller;

/// Options that change a profile for one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overrides {
    pub(crate) read: Vec<OsString>,
    pub(crate) write: Vec<OsString>,
    pub(crate) deny: Vec<String>,
    pub(crate) network: Option<String>,
    pub(crate) environment: Vec<OsString>,
    pub(crate) limits: Vec<String>,
    pub(crate) staged: bool,
}

/// An option cannot be carried out, so nothing ran.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum OverrideError {
    #[error("--{option} `{}` does not exist", .path.display())]
    Missing {
        option: &'static str,
        path: OsString,
    },
    #[error("--{option} `{value}`: {why}")]
    Malformed {
        option: &'static str,
        value: String,
        why: String,
    },
}

impl Overrides {
    /// Lays the options over `profile`.
    pub(crate) fn apply(
        &self,
        profile: &mut Profile,
        caller: &Caller,
    ) -> Result<(), OverrideError> {
        for (option, paths, list) in [
            ("read", &self.read, &mut profile.read),
            ("write", &self.write, &mut profile.write),
        ] {
            for path in paths {
                if path.is_empty() {
                    return Err(malformed(option, "", "a path can not be empty"));
                }
                // The shell has expanded it: it is a path, not a pattern.
                let full = caller.directory.join(path);
                let real = full.canonicalize().map_err(|_| OverrideError::Missing {
                    option,
                    path: path.clone(),
                })?;
                list.push(Valued::on_command_line(PathRule::literal(&real)));
            }
        }
        for text in &self.deny {
            let rule =
                PathRule::parse(text).map_err(|why| malformed("deny", text, &why.to_string()))?;
            profile.deny.push(Valued::on_command_line(rule));
        }
        if let Some(text) = &self.network {
            let mode = Network::parse(text).map_err(|why| malformed("network", text, &why))?;
            profile.network = Some(Valued::on_command_line(mode));
        }
        for option in &self.environment {
            let text = option.to_string_lossy();
            if let Some((name, value)) = text.split_once('=') {
                let value = Valued::on_command_line(value.to_owned());
                profile.set.insert(name.to_owned(), value);
            } else {
                let pattern = NamePattern::parse(&text)
                    .ok_or_else(|| malformed("env", &text, "this is no name of a variable"))?;
                profile.pass.push(Valued::on_command_line(pattern));
            }
        }
        for text in &self.limits {
            let (name, amount) = text
                .split_once('=')
                .ok_or_else(|| malformed("limit", text, "write NAME=AMOUNT"))?;
            if name == "tmp_size" {
                let bytes = size(amount)
                    .filter(|it| *it > 0)
                    .ok_or_else(|| malformed("limit", text, "write a size such as 512MiB"))?;
                profile.tmp_size = Some(Valued::on_command_line(bytes));
                continue;
            }
            let limit = Limit::parse(name, amount).map_err(|why| malformed("limit", text, &why))?;
            profile
                .limits
                .insert(name.to_owned(), Valued::on_command_line(limit));
        }
        if self.staged {
            profile.mode = Some(Valued::on_command_line(policy::Mode::Staged));
        }
        Ok(())
    }
}

fn malformed(option: &'static str, value: &str, why: &str) -> OverrideError {
    OverrideError::Malformed {
        option,
        value: value.to_owned(),
        why: why.to_owned(),
    }
}
