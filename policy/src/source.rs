//! Texts of profiles, where they come from, and places in them.

use std::fmt;
use std::ops::Range;

/// The text of a profile and the name under which messages speak of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// A path, or `built-in NAME`.
    pub origin: String,
    /// TOML.
    pub text: String,
}

/// Finds profiles by name, so that this crate needs no I/O.
pub trait Catalog {
    /// The profile that `extends` calls `name`.
    ///
    /// # Errors
    ///
    /// Why it exists but cannot be read.
    fn fetch(&self, name: &str) -> Result<Option<Source>, String>;
}

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The source's name.
    pub file: String,
    /// Line, from 1; 0 where lines mean nothing, as on a command line.
    pub line: usize,
    /// Column in characters, from 1; 0 where there is no line.
    pub column: usize,
}

/// A value and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Valued<T> {
    /// The value.
    pub value: T,
    /// Where it was written.
    pub origin: Origin,
}

impl<T> Valued<T> {
    /// A value that was given on the command line.
    pub fn on_command_line(value: T) -> Self {
        Self {
            value,
            origin: Origin {
                file: "command line".to_owned(),
                line: 0,
                column: 0,
            },
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = visible(&self.file);
        match self.line {
            0 => f.write_str(&file),
            line => write!(f, "{file}:{line}"),
        }
    }
}

/// The same text, with line ends and other control characters spelt out: a name of a file must
/// neither end a comment nor speak to a terminal.
pub(crate) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// Where the lines of a text begin, so that many places in it are found quickly.
#[derive(Debug)]
pub(crate) struct Lines<'s> {
    source: &'s Source,
    starts: Vec<usize>,
}

impl<'s> Lines<'s> {
    pub(crate) fn new(source: &'s Source) -> Self {
        let ends = source.text.bytes().enumerate().filter(|it| it.1 == b'\n');
        Self {
            source,
            starts: std::iter::once(0).chain(ends.map(|it| it.0 + 1)).collect(),
        }
    }

    /// Where a value at these bytes of the text was written.
    pub(crate) fn origin(&self, span: &Range<usize>) -> Origin {
        let line = self.starts.partition_point(|it| *it <= span.start);
        let start = self
            .starts
            .get(line.saturating_sub(1))
            .copied()
            .unwrap_or(0);
        let before = self.source.text.get(start..span.start).unwrap_or("");
        Origin {
            file: self.source.origin.clone(),
            line,
            column: before.chars().count() + 1,
        }
    }
}

impl Source {
    /// Line and column, both from 1, of a byte of the text. Columns count characters.
    pub(crate) fn place(&self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at).unwrap_or(&self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        (line, column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_file_cannot_end_a_comment() {
        let origin = Origin {
            file: "a\nb\u{1b}[2J".to_owned(),
            line: 1,
            column: 1,
        };
        assert_eq!(origin.to_string(), r"a\nb\u{1b}[2J:1");
    }

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let source = Source {
            origin: "x".to_owned(),
            text: "a\nüb\n".to_owned(),
        };
        for (at, expected) in [(0, (1, 1)), (2, (2, 1)), (4, (2, 2)), (99, (3, 1))] {
            assert_eq!(source.place(at), expected, "{at}");
            if at <= source.text.len() {
                let origin = Lines::new(&source).origin(&(at..at));
                assert_eq!((origin.line, origin.column), expected, "{at}");
            }
        }
    }
}
