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

/// A pattern over paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRule {
    text: String,
    anchor: Anchor,
    components: Vec<Component>,
}

/// Where a pattern starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

#[derive(Clone, Debug, PartialEq, Eq)]
enum Component {
    /// Any number of components.
    AnyDepth,
    /// Exactly this name.
    Literal(Vec<u8>),
    /// A name that fits, and the literal reading of the same text.
    Glob(Vec<Piece>, Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Any,
    Byte(u8),
    One,
    Set(Vec<(u8, u8)>, bool),
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
            (rest.is_empty() || rest.starts_with('/')).then_some((rest, *anchor))
        });
        let (rest, anchor) = match anchored {
            Some(found) => found,
            None if text.starts_with('~') || text.contains("${") => {
                return Err(PathRuleError::Variable);
            }
            None if text.starts_with('/') => (text, Anchor::Root),
            None => (text, Anchor::Anywhere),
        };
        let rest = rest.strip_prefix('/').unwrap_or(rest);
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let components: Vec<Component> = if rest.is_empty() {
            Vec::new()
        } else {
            rest.split('/').map(component).collect::<Result<_, _>>()?
        };
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

fn matches(components: &[Component], names: &[&[u8]], fold: bool) -> bool {
    let Some((first, rest)) = components.split_first() else {
        return names.is_empty();
    };
    if *first == Component::AnyDepth {
        return (0..=names.len())
            .any(|skip| matches(rest, names.get(skip..).unwrap_or_default(), fold));
    }
    let Some((name, below)) = names.split_first() else {
        return false;
    };
    let equal = |one: &[u8], other: &[u8]| {
        if fold {
            one.eq_ignore_ascii_case(other)
        } else {
            one == other
        }
    };
    let fits = match first {
        Component::AnyDepth => false,
        Component::Literal(text) => equal(text, name),
        Component::Glob(pieces, text) => fits(pieces, name, fold) || equal(text, name),
    };
    fits && matches(rest, below, fold)
}

/// Matches one name. Linear but for the last `*`, to which alone it goes back.
fn fits(pieces: &[Piece], name: &[u8], fold: bool) -> bool {
    let same = |one: u8, other: u8| one == other || (fold && one.eq_ignore_ascii_case(&other));
    let (mut piece, mut at) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let step = match (pieces.get(piece), name.get(at)) {
            (None, None) => return true,
            (Some(Piece::Any), _) => {
                retry = Some((piece, at));
                piece += 1;
                continue;
            }
            (Some(Piece::One), Some(_)) => true,
            (Some(Piece::Byte(wanted)), Some(byte)) => same(*wanted, *byte),
            (Some(Piece::Set(ranges, negated)), Some(byte)) => {
                let within = |byte: u8| {
                    ranges
                        .iter()
                        .any(|(low, high)| (*low..=*high).contains(&byte))
                };
                let found = within(*byte)
                    || (fold
                        && (within(byte.to_ascii_lowercase())
                            || within(byte.to_ascii_uppercase())));
                found != *negated
            }
            _ => false,
        };
        if step {
            piece += 1;
            at += 1;
            continue;
        }
        match retry {
            Some((star, from)) if from < name.len() => {
                retry = Some((star, from + 1));
                piece = star + 1;
                at = from + 1;
            }
            _ => return false,
        }
    }
}

fn component(text: &str) -> Result<Component, PathRuleError> {
    match text {
        "" | "." | ".." => return Err(PathRuleError::Detour),
        "**" => return Ok(Component::AnyDepth),
        _ => (),
    }
    if text.contains("**") {
        return Err(PathRuleError::DoubleStar);
    }
    let mut pieces = Vec::new();
    let mut bytes = text.bytes();
    let mut is_glob = false;
    while let Some(byte) = bytes.next() {
        pieces.push(match byte {
            b'*' => Piece::Any,
            b'?' => Piece::One,
            b'[' => set(&mut bytes)?,
            b'\\' => Piece::Byte(escaped(&mut bytes)?),
            other => Piece::Byte(other),
        });
        is_glob |= !matches!(pieces.last(), Some(Piece::Byte(_)));
    }
    if pieces.contains(&Piece::Byte(0)) {
        return Err(PathRuleError::Nul);
    }
    if is_glob {
        return Ok(Component::Glob(pieces, text.as_bytes().to_vec()));
    }
    let name: Vec<u8> = pieces
        .iter()
        .filter_map(|it| match it {
            Piece::Byte(byte) => Some(*byte),
            _ => None,
        })
        .collect();
    match name.as_slice() {
        b"." | b".." => Err(PathRuleError::Detour),
        name if name.contains(&b'/') => Err(PathRuleError::Detour),
        _ => Ok(Component::Literal(name)),
    }
}

fn escaped(bytes: &mut std::str::Bytes<'_>) -> Result<u8, PathRuleError> {
    match bytes.next() {
        None => Err(PathRuleError::Unclosed),
        Some(b'x') => {
            let digits = [bytes.next(), bytes.next()].map(|it| it.map(char::from));
            let [Some(high), Some(low)] = digits.map(|it| it.and_then(|it| it.to_digit(16))) else {
                return Err(PathRuleError::Unclosed);
            };
            u8::try_from(high * 16 + low).map_err(|_| PathRuleError::Unclosed)
        }
        Some(other) => Ok(other),
    }
}

/// The rest of a set after its `[`: `!` or `^` negates, `a-z` is a range, `]` first is itself.
fn set(bytes: &mut std::str::Bytes<'_>) -> Result<Piece, PathRuleError> {
    let mut members: Vec<u8> = Vec::new();
    let mut negated = false;
    let mut first = true;
    loop {
        match bytes.next() {
            None => return Err(PathRuleError::Unclosed),
            Some(b'!' | b'^') if first && !negated => {
                negated = true;
                continue;
            }
            Some(b']') if !members.is_empty() => break,
            Some(b'\\') => members.push(escaped(bytes)?),
            Some(other) => members.push(other),
        }
        first = false;
    }
    let mut ranges = Vec::new();
    let mut at = 0;
    while let Some(low) = members.get(at).copied() {
        match (members.get(at + 1), members.get(at + 2)) {
            (Some(b'-'), Some(high)) => {
                ranges.push((low, *high));
                at += 3;
            }
            _ => {
                ranges.push((low, low));
                at += 1;
            }
        }
    }
    Ok(Piece::Set(ranges, negated))
}

#[cfg(test)]
#[path = "pattern_tests.rs"]
mod tests;
