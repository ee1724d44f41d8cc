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
            },
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}", self.file),
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

    pub(crate) fn origin_of(&self, span: &Range<usize>) -> Origin {
        Origin {
            file: self.origin.clone(),
            line: self.place(span.start).0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let source = Source {
            origin: "x".to_owned(),
            text: "a\nüb\n".to_owned(),
        };
        for (at, expected) in [(0, (1, 1)), (2, (2, 1)), (4, (2, 2)), (99, (3, 1))] {
            assert_eq!(source.place(at), expected, "{at}");
        }
    }
}
