//! Colour for a person at a terminal, and safe text for whoever reads.
//!
//! # Invariants
//!
//! - **Colour goes to a terminal only**, and never where `NO_COLOR` is set.
//! - **Shown text commands no terminal**: control characters that a file name or an
//!   argument brings along are spelt out.

use std::ffi::OsStr;
use std::fmt::{self, Write};

/// Whether output is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// With SGR sequences.
    Colour,
    /// Text alone.
    Plain,
}

/// What a piece of text is, and so its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// That something failed.
    Error,
    /// What can be done about it.
    Help,
    /// What is of less weight.
    Quiet,
    /// What is in place as asked.
    Success,
    /// What is not quite as asked.
    Warning,
}

impl Style {
    /// The style for an output that is a terminal or not; `no_color` and `term` are the
    /// values of `NO_COLOR` and `TERM`.
    ///
    /// `NO_COLOR` counts if it is not empty (<https://no-color.org>). A terminal that calls
    /// itself `dumb`, or has no name, gets text alone.
    #[must_use]
    pub(crate) fn choose(
        is_terminal: bool,
        no_color: Option<&OsStr>,
        term: Option<&OsStr>,
    ) -> Self {
        let is_refused = no_color.is_some_and(|value| !value.is_empty());
        let is_able = term.is_some_and(|term| !term.is_empty() && term != "dumb");
        if is_terminal && is_able && !is_refused {
            Self::Colour
        } else {
            Self::Plain
        }
    }

    /// `text` in the colour of `role`, made safe as by [`Safe`].
    pub(crate) fn paint<T: fmt::Display>(self, role: Role, text: T) -> Painted<T> {
        Painted {
            style: self,
            role,
            text: Safe(text),
        }
    }
}

/// Text together with its colour.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Painted<T> {
    style: Style,
    role: Role,
    text: Safe<T>,
}

impl<T: fmt::Display> fmt::Display for Painted<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { style, role, text } = self;
        match style {
            Style::Plain => write!(formatter, "{text}"),
            Style::Colour => write!(formatter, "\x1b[{}m{text}\x1b[0m", role.code()),
        }
    }
}

impl Role {
    /// The parameters of its SGR sequence (ECMA-48, 8.3.117).
    fn code(self) -> &'static str {
        match self {
            Self::Error => "1;31",
            Self::Help => "1;36",
            Self::Quiet => "2",
            Self::Success => "32",
            Self::Warning => "1;33",
        }
    }
}

/// Shows a value with its control characters spelt out, all but newline and tab.
///
/// The directions of bidirectional text count as such: they can make a name look like
/// another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Safe<T>(pub(crate) T);

impl<T: fmt::Display> fmt::Display for Safe<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(formatter), "{}", self.0)
    }
}

struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for piece in text.split_inclusive(is_commanding) {
            match piece
                .chars()
                .next_back()
                .filter(|last| is_commanding(*last))
            {
                Some(last) => {
                    let clean = piece.strip_suffix(last).unwrap_or_default();
                    write!(self.0, "{clean}{}", last.escape_unicode())?;
                }
                None => self.0.write_str(piece)?,
            }
        }
        Ok(())
    }
}

fn is_commanding(character: char) -> bool {
    match character {
        '\t' => false,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => character.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_takes_a_capable_terminal_and_no_refusal() {
        let xterm = Some(OsStr::new("xterm-256color"));
        let table = [
            (true, None, xterm, Style::Colour),
            (true, Some(""), xterm, Style::Colour),
            (true, Some("1"), xterm, Style::Plain),
            (true, Some("0"), xterm, Style::Plain),
            (true, None, Some(OsStr::new("dumb")), Style::Plain),
            (true, None, Some(OsStr::new("")), Style::Plain),
            (true, None, None, Style::Plain),
            (false, None, xterm, Style::Plain),
        ];
        for (is_terminal, no_color, term, expected) in table {
            let style = Style::choose(is_terminal, no_color.map(OsStr::new), term);
            assert_eq!(style, expected, "{is_terminal} {no_color:?} {term:?}");
        }
    }

    #[test]
    fn paint_puts_a_sequence_around_the_text_or_nothing() {
        assert_eq!(Style::Plain.paint(Role::Error, "x").to_string(), "x");
        let table = [
            (Role::Error, "\x1b[1;31mx\x1b[0m"),
            (Role::Help, "\x1b[1;36mx\x1b[0m"),
            (Role::Quiet, "\x1b[2mx\x1b[0m"),
            (Role::Success, "\x1b[32mx\x1b[0m"),
            (Role::Warning, "\x1b[1;33mx\x1b[0m"),
        ];
        for (role, expected) in table {
            assert_eq!(Style::Colour.paint(role, "x").to_string(), expected);
        }
    }

    #[test]
    fn shown_text_commands_no_terminal() {
        let table = [
            ("plain é text", "plain é text"),
            ("two\\u{a}lines\tand", "two\nlines\tand"),
            ("\x1b]0;title\x07", "\\u{1b}]0;title\\u{7}"),
            ("over\rwritten\x7f", "over\\u{d}written\\u{7f}"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("a\u{202e}b\u{2066}", "a\\u{202e}b\\u{2066}"),
        ];
        for (text, expected) in table {
            assert_eq!(Safe(text).to_string(), expected);
        }
        let painted = Style::Colour.paint(Role::Error, "\x1b[2J").to_string();
        assert_eq!(painted, "\x1b[1;31m\\u{1b}[2J\x1b[0m");
    }
}
