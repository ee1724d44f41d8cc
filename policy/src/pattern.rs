//! Patterns over paths: bytes, with globs that also match dotfiles.
//!
//! ```text
//! pattern   = [ "~" | "${home}" | "${workspace}" | "/" | "" ] component { "/" component }
//! component = "**" | { "*" | "?" | "[" set "]" | "\xHH" | "\" character | character }
//! ```
//!
//! A pattern without an anchor means a name at any depth in lists of denies and protected
//! names, and a path below the workspace in lists of grants. A trailing slash changes nothing.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::glob::{Component, component, matches};

/// A pattern over paths.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathRule {
    text: String,
    anchor: Anchor,
    components: Vec<Component>,
}

/// Where a pattern starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a new anchor must be resolved by every caller"
)]
pub enum Anchor {
    /// Nowhere in particular.
    Anywhere,
    /// The user's home.
    Home,
    /// `/`.
    Root,
    /// The workspace.
    Workspace,
}

/// What anchors stand for, as absolute paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variables {
    /// The workspace.
    pub workspace: PathBuf,
    /// The home, where there is one.
    pub home: Option<PathBuf>,
}

/// A pattern whose anchor has a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    base: PathBuf,
    components: Vec<Component>,
}

/// A pattern is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathRuleError {
    /// It is empty.
    #[error("a path can not be empty")]
    Empty,
    /// It has a `.`, `..` or an empty component.
    #[error("a path can not have `.`, `..` or empty components")]
    Detour,
    /// It has a NUL.
    #[error("a path can not have a NUL byte")]
    Nul,
    /// `~name` or an unknown `${…}`.
    #[error("only `~`, `${{home}}` and `${{workspace}}` are known, at the start of a path")]
    Variable,
    /// A `[` without its `]`, or a `\` at the end, or a `\x` without two hexadecimal digits.
    #[error("a `[` needs its `]`, `\\` a character after it, and `\\x` two hexadecimal digits")]
    Unclosed,
    /// A range in a set that ends before it begins, which no character is in.
    #[error("a range such as `[a-z]` begins with the lower character")]
    Range,
    /// `**` beside other characters.
    #[error("`**` stands alone between slashes")]
    DoubleStar,
}

impl PathRule {
    /// Reads a pattern.
    ///
    /// # Errors
    ///
    /// [`PathRuleError`].
    pub fn parse(text: &str) -> Result<Self, PathRuleError> {
        if text.is_empty() {
            return Err(PathRuleError::Empty);
        }
        let anchors = [
            ("~", Anchor::Home),
            ("${home}", Anchor::Home),
            ("${workspace}", Anchor::Workspace),
        ];
        let anchored = anchors.iter().find_map(|(name, anchor)| {
            let rest = text.strip_prefix(name)?;
            let ends = rest.is_empty() || rest.starts_with('/');
            (ends && !names_a_variable(rest)).then_some((rest, *anchor))
        });
        let (rest, anchor) = match anchored {
            Some(found) => found,
            None if text.starts_with('~') || names_a_variable(text) => {
                return Err(PathRuleError::Variable);
            }
            None if text.starts_with('/') => (text, Anchor::Root),
            None => (text, Anchor::Anywhere),
        };
        let rest = rest.strip_prefix('/').unwrap_or(rest);
        let mut components: Vec<Component> = if rest.is_empty() {
            Vec::new()
        } else {
            let rest = rest.strip_suffix('/').unwrap_or(rest);
            rest.split('/').map(component).collect::<Result<_, _>>()?
        };
        // Any depth and any depth again is any depth.
        components
            .dedup_by(|one, other| *one == Component::AnyDepth && *other == Component::AnyDepth);
        if anchor == Anchor::Anywhere && components.is_empty() {
            return Err(PathRuleError::Empty);
        }
        Ok(Self {
            text: text.to_owned(),
            anchor,
            components,
        })
    }

    /// The pattern that matches exactly `path`.
    #[must_use]
    pub fn literal(path: &Path) -> Self {
        let mut text = String::new();
        for byte in path.as_os_str().as_bytes() {
            match *byte {
                b'*' | b'?' | b'[' | b']' | b'\\' | b'$' | b'~' => {
                    text.push('\\');
                    text.push(char::from(*byte));
                }
                0x20..0x7f => text.push(char::from(*byte)),
                other => text.push_str(&format!("\\x{other:02x}")),
            }
        }
        let components = path
            .components()
            .filter_map(|it| match it {
                std::path::Component::Normal(name) => {
                    Some(Component::Literal(name.as_bytes().to_vec()))
                }
                _ => None,
            })
            .collect();
        Self {
            text,
            anchor: if path.is_absolute() {
                Anchor::Root
            } else {
                Anchor::Anywhere
            },
            components,
        }
    }

    /// Where it starts.
    #[must_use]
    pub fn anchor(&self) -> Anchor {
        self.anchor
    }

    /// Whether every match of `self` is at or below what `over`, without globs, names.
    ///
    /// Decided by the text alone: two anchors may be the same place, which is not known here.
    pub(crate) fn is_within(&self, over: &Self) -> bool {
        let literal = |it: &Component| matches!(it, Component::Literal(_));
        let same = self.components == over.components;
        let below = self.components.starts_with(&over.components)
            && over.anchor != Anchor::Anywhere
            && over.components.iter().all(literal);
        self.anchor == over.anchor && (same || below)
    }

    /// The pattern below the place that its anchor names; `Anywhere` starts at the workspace.
    ///
    /// `None` when it needs a home and there is none.
    #[must_use]
    pub fn resolve(&self, variables: &Variables) -> Option<Resolved> {
        let base = match self.anchor {
            Anchor::Anywhere | Anchor::Workspace => variables.workspace.clone(),
            Anchor::Home => variables.home.clone()?,
            Anchor::Root => PathBuf::from("/"),
        };
        Some(Resolved {
            base,
            components: self.components.clone(),
        })
    }

    /// Whether the last components of `path` fit this pattern, ASCII case ignored.
    ///
    /// `path` is relative to the root below which a name at any depth is meant.
    #[must_use]
    pub fn matches_end(&self, path: &Path) -> bool {
        let names: Vec<&[u8]> = path.iter().map(OsStrExt::as_bytes).collect();
        (0..names.len()).any(|from| {
            let names = names.get(from..).unwrap_or_default();
            matches(&self.components, names, true)
        })
    }

    /// The last component, if it is a plain name: what a search can look for first.
    #[must_use]
    pub fn last_name(&self) -> Option<&[u8]> {
        match self.components.last() {
            Some(Component::Literal(name)) => Some(name),
            _ => None,
        }
    }

    /// How many components it has; `None` with `**`, which has any number.
    #[must_use]
    pub fn depth(&self) -> Option<usize> {
        let fixed = !self.components.contains(&Component::AnyDepth);
        fixed.then_some(self.components.len())
    }
}

impl fmt::Display for PathRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Resolved {
    /// The path, if the pattern has no glob.
    #[must_use]
    pub fn as_literal(&self) -> Option<PathBuf> {
        let prefix = self.static_prefix();
        let literal = self
            .components
            .iter()
            .all(|it| matches!(it, Component::Literal(_)));
        literal.then_some(prefix)
    }

    /// The longest path that every match lies at or below.
    #[must_use]
    pub fn static_prefix(&self) -> PathBuf {
        let mut path = self.base.clone();
        for component in &self.components {
            match component {
                Component::Literal(name) => path.push(OsString::from_vec(name.clone())),
                Component::AnyDepth | Component::Glob(..) => break,
            }
        }
        path
    }

    /// Whether `path`, absolute and in normal form, is a match.
    ///
    /// A text with glob characters matches the literal name as well: for a deny both
    /// readings count.
    #[must_use]
    pub fn matches(&self, path: &Path) -> bool {
        let Ok(below) = path.strip_prefix(&self.base) else {
            return false;
        };
        let names: Vec<&[u8]> = below.iter().map(OsStrExt::as_bytes).collect();
        matches(&self.components, &names, false)
    }

    /// [`Self::matches`], with ASCII letters of either case alike.
    #[must_use]
    pub fn matches_ignoring_case(&self, path: &Path) -> bool {
        let names = |path: &Path| -> Vec<Vec<u8>> {
            path.iter()
                .map(|it| it.as_bytes().to_ascii_lowercase())
                .collect()
        };
        let (base, path) = (names(&self.base), names(path));
        let Some(below) = path.strip_prefix(base.as_slice()) else {
            return false;
        };
        let below: Vec<&[u8]> = below.iter().map(Vec::as_slice).collect();
        matches(&self.components, &below, true)
    }

    /// How many components a match has below the static prefix; `None` for any number.
    #[must_use]
    pub fn depth_below_prefix(&self) -> Option<usize> {
        let literal = self
            .components
            .iter()
            .take_while(|it| matches!(it, Component::Literal(_)))
            .count();
        let fixed = !self.components.contains(&Component::AnyDepth);
        fixed.then(|| self.components.len() - literal)
    }
}

/// Whether a `${` stands somewhere that no `\` takes its meaning from.
fn names_a_variable(text: &str) -> bool {
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        if byte == b'\\' {
            bytes.next();
        } else if byte == b'$' && bytes.peek() == Some(&b'{') {
            return true;
        }
    }
    false
}

#[cfg(test)]
#[path = "pattern_tests.rs"]
mod tests;
