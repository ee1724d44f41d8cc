//! One component of a pattern over paths: literal, with globs, or any depth.

use crate::pattern::PathRuleError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Component {
    /// Any number of components.
    AnyDepth,
    /// Exactly this name.
    Literal(Vec<u8>),
    /// A name that fits, and the literal reading of the same text.
    Glob(Vec<Piece>, Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Any,
    Byte(u8),
    One,
    Set(Vec<(u8, u8)>, bool),
}

/// Whether names fit components, one by one; `fold` ignores ASCII case.
pub(crate) fn matches(components: &[Component], names: &[&[u8]], fold: bool) -> bool {
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

/// Reads one component of a pattern.
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
