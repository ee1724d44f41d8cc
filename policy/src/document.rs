//! Reading TOML strictly: a key that is not known is an error that names the nearest one.

use std::ops::Range;
use std::rc::Rc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::ProfileError;
use crate::source::{Lines, Source, Valued};

/// A table whose keys are taken one by one; what is left at the end is unknown.
pub(crate) struct Table<'s, 'd> {
    source: &'s Source,
    lines: Rc<Lines<'s>>,
    name: String,
    table: DeTable<'d>,
    known: Vec<&'static str>,
}

/// What a single value may be written as.
#[derive(Clone, Copy)]
enum Kinds {
    Number,
    NumberOrText,
    Text,
}

impl Kinds {
    fn wanted(self) -> &'static str {
        match self {
            Self::Number => "a number",
            Self::NumberOrText => "a number or a text",
            Self::Text => "a text",
        }
    }
}

type Value<'d> = Spanned<DeValue<'d>>;

impl<'s> Table<'s, 's> {
    /// Parses the whole text.
    pub(crate) fn parse(source: &'s Source) -> Result<Self, ProfileError> {
        let table = DeTable::parse(&source.text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            ProfileError::at(source, &span, error.message().trim())
        })?;
        Ok(Self {
            source,
            lines: Rc::new(Lines::new(source)),
            name: String::new(),
            table: table.into_inner(),
            known: Vec::new(),
        })
    }
}

impl<'s, 'd> Table<'s, 'd> {
    fn take(&mut self, key: &'static str) -> Option<(Range<usize>, Value<'d>)> {
        self.known.push(key);
        let (_, value) = self.table.remove_entry(key)?;
        Some((value.span(), value))
    }

    fn full(&self, key: &str) -> String {
        if self.name.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.name)
        }
    }

    fn wrong(
        &self,
        key: &str,
        span: &Range<usize>,
        wanted: &str,
        found: &DeValue<'_>,
    ) -> ProfileError {
        let kind = found.type_str();
        ProfileError::at(
            self.source,
            span,
            format!("`{}` has to be {wanted}, not {kind}", self.full(key)),
        )
    }

    /// A table below this one; empty when it is not there.
    pub(crate) fn table(&mut self, key: &'static str) -> Result<Table<'s, 'd>, ProfileError> {
        let name = self.full(key);
        let table = match self.take(key) {
            None => DeTable::new(),
            Some((span, value)) => match value.into_inner() {
                DeValue::Table(table) => table,
                other => return Err(self.wrong(key, &span, "a table", &other)),
            },
        };
        Ok(Table {
            source: self.source,
            lines: Rc::clone(&self.lines),
            name,
            table,
            known: Vec::new(),
        })
    }

    /// Every entry of a table with free keys, as texts.
    pub(crate) fn texts(
        &mut self,
        key: &'static str,
    ) -> Result<Vec<(String, Valued<String>)>, ProfileError> {
        let inner = self.table(key)?;
        let mut entries = Vec::new();
        for (name, value) in inner.table {
            let span = value.span();
            let name = name.into_inner().into_owned();
            match value.into_inner() {
                DeValue::String(text) => {
                    entries.push((name, valued(&self.lines, &span, text.into_owned())));
                }
                other => {
                    let kind = other.type_str();
                    let message = format!("`{}.{name}` has to be a text, not {kind}", inner.name);
                    return Err(ProfileError::at(self.source, &span, message));
                }
            }
        }
        Ok(entries)
    }

    /// A text, read by `read`, which says what it wanted.
    pub(crate) fn parsed<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<Valued<T>>, ProfileError> {
        self.scalar(key, Kinds::Text, read)
    }

    /// An amount: a number, or a text with a unit.
    pub(crate) fn amount<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<Valued<T>>, ProfileError> {
        self.scalar(key, Kinds::NumberOrText, read)
    }

    /// A plain number.
    pub(crate) fn number<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<Valued<T>>, ProfileError> {
        self.scalar(key, Kinds::Number, read)
    }

    fn scalar<T>(
        &mut self,
        key: &'static str,
        kinds: Kinds,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<Valued<T>>, ProfileError> {
        let Some((span, value)) = self.take(key) else {
            return Ok(None);
        };
        let text = match (value.into_inner(), kinds) {
            (DeValue::String(text), Kinds::NumberOrText | Kinds::Text) => text.into_owned(),
            (DeValue::Integer(number), Kinds::Number | Kinds::NumberOrText) => {
                // TOML has 0x, 0o and 0b; what is too large or negative is refused by `read`.
                u64::from_str_radix(number.as_str(), number.radix())
                    .map_or_else(|_| number.to_string(), |it| it.to_string())
            }
            (other, kinds) => return Err(self.wrong(key, &span, kinds.wanted(), &other)),
        };
        let value = read(&text).map_err(|why| {
            ProfileError::at(self.source, &span, format!("`{}`: {why}", self.full(key)))
        })?;
        Ok(Some(valued(&self.lines, &span, value)))
    }

    /// A truth value.
    pub(crate) fn boolean(
        &mut self,
        key: &'static str,
    ) -> Result<Option<Valued<bool>>, ProfileError> {
        let Some((span, value)) = self.take(key) else {
            return Ok(None);
        };
        match value.into_inner() {
            DeValue::Boolean(value) => Ok(Some(valued(&self.lines, &span, value))),
            other => Err(self.wrong(key, &span, "true or false", &other)),
        }
    }

    /// A list of texts, or one text where `single`, each read by `read`.
    pub(crate) fn list<T>(
        &mut self,
        key: &'static str,
        single: bool,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Vec<Valued<T>>, ProfileError> {
        let Some((span, value)) = self.take(key) else {
            return Ok(Vec::new());
        };
        let full = self.full(key);
        let (source, lines) = (self.source, &self.lines);
        let one = |text: &str, span: &Range<usize>| {
            read(text)
                .map(|it| valued(lines, span, it))
                .map_err(|why| ProfileError::at(source, span, format!("`{full}`: {why}")))
        };
        match value.into_inner() {
            DeValue::String(text) if single => Ok(vec![one(&text, &span)?]),
            DeValue::Array(items) if single && items.is_empty() => {
                let message = format!("`{full}` is empty");
                Err(ProfileError::at(source, &span, message).with_help("drop the key"))
            }
            DeValue::Array(items) => items
                .into_iter()
                .map(|item| {
                    let span = item.span();
                    match item.into_inner() {
                        DeValue::String(text) => one(&text, &span),
                        other => {
                            let kind = other.type_str();
                            let message = format!("`{full}` has to be a list of texts, not {kind}");
                            Err(ProfileError::at(source, &span, message))
                        }
                    }
                })
                .collect(),
            other => Err(self.wrong(key, &span, "a list of texts", &other)),
        }
    }

    /// An error if a key is left.
    pub(crate) fn finish(self) -> Result<(), ProfileError> {
        let Some((key, _)) = self.table.iter().next() else {
            return Ok(());
        };
        let name = key.get_ref().as_ref();
        let place = if self.name.is_empty() {
            String::new()
        } else {
            format!(" in [{}]", self.name)
        };
        let message = format!("unknown key `{name}`{place}");
        let error = ProfileError::at(self.source, &key.span(), message);
        Err(match nearest(name, &self.known) {
            Some(known) => error.with_help(format!("did you mean `{known}`?")),
            None => error.with_help(format!("known keys are {}", self.known.join(", "))),
        })
    }
}

fn valued<T>(lines: &Lines<'_>, span: &Range<usize>, value: T) -> Valued<T> {
    Valued {
        value,
        origin: lines.origin(span),
    }
}

/// The known key with the smallest edit distance, if that is small.
pub(crate) fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let most = name.chars().count() / 2 + 1;
    known
        .iter()
        .map(|key| (distance(name, key), *key))
        .filter(|it| it.0 <= most)
        .min()
        .map(|it| it.1)
}

/// Levenshtein's distance in characters.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (at, left) in one.chars().enumerate() {
        let mut diagonal = at;
        let mut last = at + 1;
        let mut next = vec![last];
        for (right, above) in other.chars().zip(row.iter().skip(1)) {
            let cost = if left == right {
                diagonal
            } else {
                diagonal.min(*above).min(last) + 1
            };
            diagonal = *above;
            last = cost;
            next.push(cost);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_found_by_edit_distance() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(nearest("wirte", &["read", "write", "deny"]), Some("write"));
        assert_eq!(nearest("zzzzzz", &["read", "write"]), None);
    }
}
