//! Checks rules before any profile text exists, and spells each path as macOS may report it.
//!
//! # Invariants
//!
//! - A [`PlainPath`] is absolute, normal, UTF-8 and free of control characters.
//! - A [`PlainName`] has at least one component, and no component is empty, `.`, `..` or
//!   contains a slash or a control character.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Component, Path};

use super::{SeatbeltError, SeatbeltNetwork, SeatbeltRules};

/// Folders at the root that are links into `/private` on every macOS.
const PRIVATE_LINKS: [&str; 3] = ["tmp", "var", "etc"];

/// Rules of which every path and name was checked, in every spelling.
#[derive(Debug)]
pub(super) struct CheckedRules {
    pub(super) read: BTreeSet<PlainPath>,
    /// Writable roots, the private temporary folder among them.
    pub(super) write: BTreeSet<PlainPath>,
    pub(super) deny: BTreeSet<PlainPath>,
    pub(super) protect: BTreeSet<PlainPath>,
    pub(super) names: Vec<PlainName>,
    pub(super) private_tmp: BTreeSet<PlainPath>,
    pub(super) network: SeatbeltNetwork,
    pub(super) pty: bool,
}

impl CheckedRules {
    pub(super) fn new(rules: &SeatbeltRules) -> Result<Self, SeatbeltError> {
        // Taken apart without `..`, so that a new rule cannot be forgotten here.
        let SeatbeltRules {
            read,
            write,
            deny,
            protect,
            protect_names,
            private_tmp,
            network,
            pty,
        } = rules;
        let private_tmp = spell_all([private_tmp])?;
        let mut write = spell_all(write)?;
        write.extend(private_tmp.iter().cloned());
        Ok(Self {
            read: spell_all(read)?,
            write,
            deny: spell_all(deny)?,
            protect: spell_all(protect)?,
            names: protect_names
                .iter()
                .map(|name| PlainName::new(name))
                .collect::<Result<_, _>>()?,
            private_tmp,
            network: *network,
            pty: *pty,
        })
    }
}

fn spell_all<P: AsRef<Path>>(
    paths: impl IntoIterator<Item = P>,
) -> Result<BTreeSet<PlainPath>, SeatbeltError> {
    let mut all = BTreeSet::new();
    for path in paths {
        all.extend(PlainPath::new(path.as_ref())?.spellings());
    }
    Ok(all)
}

/// An absolute path in normal form that can stand in a profile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PlainPath(String);

impl PlainPath {
    fn new(path: &Path) -> Result<Self, SeatbeltError> {
        let shown = || path.to_string_lossy().escape_debug().to_string();
        let Some(text) = path.to_str() else {
            return Err(SeatbeltError::NotUtf8 { path: shown() });
        };
        if text.chars().any(char::is_control) {
            return Err(SeatbeltError::ControlCharacter { path: shown() });
        }
        if !text.starts_with('/') {
            return Err(SeatbeltError::Relative { path: shown() });
        }
        // Repeated slashes, `.` and a trailing slash disappear here.
        let mut parts = Vec::new();
        for part in text.split('/') {
            match part {
                "" | "." => (),
                ".." => return Err(SeatbeltError::NotNormal { path: shown() }),
                part => parts.push(part),
            }
        }
        if let [system, volumes, data, ..] = parts.as_slice()
            && system.eq_ignore_ascii_case("System")
            && volumes.eq_ignore_ascii_case("Volumes")
            && data.eq_ignore_ascii_case("Data")
        {
            return Err(SeatbeltError::DataVolume { path: shown() });
        }
        Ok(Self(format!("/{}", parts.join("/"))))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the path is `folder` or lies beneath it.
    pub(super) fn is_within(&self, folder: &Self) -> bool {
        Path::new(&self.0).starts_with(&folder.0)
    }

    /// The path's components, without the root.
    pub(super) fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|part| !part.is_empty())
    }

    /// The path, and the same through or around the links of the root folder.
    fn spellings(self) -> Vec<Self> {
        let mut parts = self.components();
        let other = match (parts.next(), parts.next()) {
            (Some("private"), Some(link)) if PRIVATE_LINKS.contains(&link) => {
                self.0.strip_prefix("/private").map(str::to_owned)
            }
            (Some(link), _) if PRIVATE_LINKS.contains(&link) => Some(format!("/private{}", self.0)),
            _ => None,
        };
        drop(parts);
        let mut all = vec![self];
        all.extend(other.map(Self));
        all
    }

    /// Every folder above the path, `/` included and the path itself excluded.
    pub(super) fn ancestors(&self) -> impl Iterator<Item = Self> {
        Path::new(&self.0)
            .ancestors()
            .skip(1)
            .filter_map(|ancestor| ancestor.to_str())
            .map(|ancestor| Self(ancestor.to_owned()))
    }
}

/// Consecutive path components that are protected wherever they occur.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlainName(Vec<String>);

impl PlainName {
    fn new(components: &[OsString]) -> Result<Self, SeatbeltError> {
        let shown = || {
            let all: Vec<_> = components.iter().map(|it| it.to_string_lossy()).collect();
            all.join("/").escape_debug().to_string()
        };
        let mut checked = Vec::new();
        for component in components {
            let Some(text) = component.to_str() else {
                return Err(SeatbeltError::NotUtf8 { path: shown() });
            };
            if text.chars().any(char::is_control) {
                return Err(SeatbeltError::ControlCharacter { path: shown() });
            }
            let mut parts = Path::new(text).components();
            let single = matches!(
                (parts.next(), parts.next()),
                (Some(Component::Normal(_)), None)
            );
            if !single || text.contains('/') {
                return Err(SeatbeltError::Name { name: shown() });
            }
            checked.push(text.to_owned());
        }
        if checked.is_empty() {
            return Err(SeatbeltError::Name { name: shown() });
        }
        Ok(Self(checked))
    }

    pub(super) fn components(&self) -> &[String] {
        &self.0
    }

    /// The leading parts of the name that are not all of it: for `a/b/c`, `a` and `a/b`.
    pub(super) fn leading(&self) -> impl Iterator<Item = &[String]> {
        (1..self.0.len()).filter_map(|end| self.0.get(..end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_is_spelled_in_every_way_that_the_kernel_may_report() {
        let cases = [
            ("/tmp", vec!["/tmp", "/private/tmp"]),
            ("/tmp//x/./", vec!["/tmp/x", "/private/tmp/x"]),
            ("/private/var/db", vec!["/private/var/db", "/var/db"]),
            ("/private", vec!["/private"]),
            ("/private/home", vec!["/private/home"]),
            ("/tmpx/a", vec!["/tmpx/a"]),
            ("/", vec!["/"]),
        ];
        for (given, expected) in cases {
            let spelled = PlainPath::new(Path::new(given)).unwrap().spellings();
            let spelled: Vec<_> = spelled.iter().map(PlainPath::as_str).collect();
            assert_eq!(spelled, expected, "{given:?}");
        }
    }

    #[test]
    fn ancestors_reach_the_root_and_leave_the_path_out() {
        let path = PlainPath::new(Path::new("/a/b/c")).unwrap();
        let all: Vec<_> = path.ancestors().map(|it| it.0).collect();
        assert_eq!(all, ["/a/b", "/a", "/"]);
        let root = PlainPath::new(Path::new("/")).unwrap();
        assert_eq!(root.ancestors().count(), 0);
    }
}
