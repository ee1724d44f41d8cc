//! A named whole: what a sandbox gives, composed from a profile and what it extends.

use std::collections::BTreeMap;

use crate::environment::NamePattern;
use crate::pattern::PathRule;
use crate::source::Valued;
use crate::units;

/// What one sandbox gives. Every value knows where it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The sources it was composed from, outermost parent first.
    pub chain: Vec<String>,
    /// The least isolation.
    pub require: Option<Valued<Require>>,
    /// The least Landlock ABI.
    pub require_landlock: Option<Valued<u64>>,
    /// Limits that have to be enforced.
    pub require_limits: Vec<Valued<String>>,
    /// Trees that can be read.
    pub read: Vec<Valued<PathRule>>,
    /// Trees that can be read and written.
    pub write: Vec<Valued<PathRule>>,
    /// Names that appear empty and unreadable.
    pub deny: Vec<Valued<PathRule>>,
    /// Names in writable trees that stay as they are.
    pub protect: Vec<Valued<PathRule>>,
    /// Trees that can be read, and whose writes vanish at the end.
    pub cache: Vec<Valued<PathRule>>,
    /// Directories that are fresh and private.
    pub private: Vec<Valued<PathRule>>,
    /// Bytes for all private directories together.
    pub tmp_size: Option<Valued<u64>>,
    /// Where writes to the workspace go.
    pub mode: Option<Valued<Mode>>,
    /// What of the network is reached.
    pub network: Option<Valued<Network>>,
    /// Whether programs may trace their children.
    pub ptrace: Option<Valued<bool>>,
    /// Whether programs may make user namespaces.
    pub nested_user_namespaces: Option<Valued<bool>>,
    /// Limits by name; see [`LIMIT_NAMES`].
    pub limits: BTreeMap<String, Valued<Limit>>,
    /// Variables passed from the caller.
    pub pass: Vec<Valued<NamePattern>>,
    /// Variables set.
    pub set: BTreeMap<String, Valued<String>>,
}

/// The least isolation that a profile accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a third tier must break every caller"
)]
pub enum Require {
    /// Landlock and seccomp.
    Landlock,
    /// Namespaces, Landlock and seccomp.
    Full,
}

/// Where writes to the workspace go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a third mode must break every caller"
)]
pub enum Mode {
    /// To the workspace.
    Direct,
    /// To a stage beside it, until they are applied.
    Staged,
}

/// What of the network is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a third mode must break every caller"
)]
pub enum Network {
    /// The host's.
    Host,
    /// None.
    Off,
}

/// A limit's amount, in bytes, seconds or pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no third answer")]
pub enum Limit {
    /// At most this.
    AtMost(u64),
    /// As much as the host lets.
    Unlimited,
}

/// The limits of `[limits]`.
pub const LIMIT_NAMES: [&str; 6] = [
    "processes",
    "memory",
    "cpu_time",
    "file_size",
    "open_files",
    "wall_time",
];

pub(crate) fn amount(
    read: impl Fn(&str) -> Option<u64>,
    text: &str,
    wanted: &str,
) -> Result<u64, String> {
    read(text).ok_or_else(|| format!("`{text}` is not {wanted}"))
}

pub(crate) fn limit(name: &str, text: &str) -> Result<Limit, String> {
    if text == "unlimited" {
        return Ok(Limit::Unlimited);
    }
    let amount = match name {
        "memory" | "file_size" => {
            amount(units::size, text, "a size such as `4GiB`, or `unlimited`")
        }
        "cpu_time" | "wall_time" => amount(
            units::duration,
            text,
            "a duration such as `10min`, or `unlimited`",
        ),
        _ => amount(units::count, text, "a number, or `unlimited`"),
    }?;
    if amount == 0 {
        return Err("0 would let nothing run; drop the key, or say `unlimited`".to_owned());
    }
    Ok(Limit::AtMost(amount))
}

impl Limit {
    /// Reads the amount of the limit `name`.
    ///
    /// # Errors
    ///
    /// What was wanted instead.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        limit_name(name)?;
        limit(name, text)
    }
}

pub(crate) fn limit_name(text: &str) -> Result<String, String> {
    if LIMIT_NAMES.contains(&text) || text == "tmp_size" {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` is not one of {}", LIMIT_NAMES.join(", ")))
    }
}

impl Network {
    /// Reads `off` or `host`.
    ///
    /// # Errors
    ///
    /// What was wanted instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        network_mode(text)
    }
}

pub(crate) fn network_mode(text: &str) -> Result<Network, String> {
    match text {
        "off" => Ok(Network::Off),
        "host" => Ok(Network::Host),
        "proxy" => Err(
            "`proxy` is reserved for the filtering proxy, which does not exist yet; \
                        say `off` or, knowing what it opens, `host`"
                .to_owned(),
        ),
        other => Err(format!("`{other}` is neither `off` nor `host`")),
    }
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
