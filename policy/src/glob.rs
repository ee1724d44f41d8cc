//! One name of a path as a pattern, and lists of them against whole paths; bytes throughout.

use crate::pattern::PathRuleError;

/// One component of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Component {
    /// Any number of components.
    AnyDepth,
    /// Exactly this name.
    Literal(Vec<u8>),
    /// A name that fits, and the literal reading of the same text, escapes undone.
    Glob(Vec<Piece>, Vec<u8>),
}

/// A part of a name that may be one of several.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Piece {
    Any,
    Byte(u8),
    One,
    Set(Vec<(u8, u8)>, bool),
}

/// Matches a whole path. Goes back to the last `**` alone: an earlier one that took more names
/// would leave fewer for the rest.
pub(crate) fn matches(components: &[Component], names: &[&[u8]], fold: bool) -> bool {
    let (mut component, mut at) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let step = match (components.get(component), names.get(at)) {
            (None, None) => return true,
            (Some(Component::AnyDepth), _) => {
                retry = Some((component + 1, at));
                component += 1;
                continue;
            }
            (Some(wanted), Some(name)) => wanted.is_name(name, fold),
            (_, None) | (None, Some(_)) => false,
        };
        if step {
            component += 1;
            at += 1;
            continue;
        }
        match retry {
            Some((after, from)) if from < names.len() => {
                retry = Some((after, from + 1));
                component = after;
                at = from + 1;
            }
            _ => return false,
        }
    }
}

impl Component {
    fn is_name(&self, name: &[u8], fold: bool) -> bool {
        let equal = |text: &[u8]| {
            if fold {
                text.eq_ignore_ascii_case(name)
            } else {
                text == name
            }
        };
        match self {
            Self::AnyDepth => false,
            Self::Literal(text) => equal(text),
            Self::Glob(pieces, text) => fits(pieces, name, fold) || equal(text),
        }
    }
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

/// Reads one component.
pub(crate) fn component(text: &str) -> Result<Component, PathRuleError> {
    match text {
        "" | "." | ".." => return Err(PathRuleError::Detour),
        "**" => return Ok(Component::AnyDepth),
        _ => (),
    }
    if text.contains("**") {
        return Err(PathRuleError::DoubleStar);
    }
    let mut pieces = Vec::new();
    let mut literal = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        literal.push(byte);
        pieces.push(match byte {
            b'*' => Piece::Any,
            b'?' => Piece::One,
            b'[' => set(&mut bytes, &mut literal)?,
            b'\\' => {
                let byte = escaped(&mut bytes)?;
                literal.pop();
                literal.push(byte);
                Piece::Byte(byte)
            }
            other => Piece::Byte(other),
        });
    }
    if literal.contains(&0) {
        return Err(PathRuleError::Nul);
    }
    if literal.contains(&b'/') || matches!(literal.as_slice(), b"." | b"..") {
        return Err(PathRuleError::Detour);
    }
    let is_plain = pieces.iter().all(|it| matches!(it, Piece::Byte(_)));
    Ok(if is_plain {
        Component::Literal(literal)
    } else {
        Component::Glob(pieces, literal)
    })
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
///
/// `literal` takes the same text as plain characters.
fn set(bytes: &mut std::str::Bytes<'_>, literal: &mut Vec<u8>) -> Result<Piece, PathRuleError> {
    // Each member, and whether it was escaped: an escaped `-` is no range.
    let mut members: Vec<(u8, bool)> = Vec::new();
    let mut negated = false;
    loop {
        let byte = bytes.next().ok_or(PathRuleError::Unclosed)?;
        let (byte, is_escaped) = match byte {
            b'\\' => (escaped(bytes)?, true),
            other => (other, false),
        };
        literal.push(byte);
        match byte {
            b'!' | b'^' if !is_escaped && members.is_empty() && !negated => negated = true,
            b']' if !is_escaped && !members.is_empty() => break,
            other => members.push((other, is_escaped)),
        }
    }
    let mut ranges = Vec::new();
    let mut rest = members.as_slice();
    while let Some(((low, _), after)) = rest.split_first() {
        let (high, after) = match after {
            [(b'-', false), (high, _), after @ ..] => (high, after),
            _ => (low, after),
        };
        if low > high {
            return Err(PathRuleError::Range);
        }
        ranges.push((*low, *high));
        rest = after;
    }
    Ok(Piece::Set(ranges, negated))
}
