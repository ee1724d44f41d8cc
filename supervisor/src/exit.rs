//! How the process ends: the exit codes, and the one place that prints an error.
//!
//! | code | meaning |
//! |---|---|
//! | 0 … 255 | the command's own, where it ran to its end |
//! | 2 | the command line or a profile is wrong; nothing ran |
//! | 124 | the command was ended at its wall-time limit |
//! | 125 | Stockade could not confine the command, or failed itself; see the message |
//! | 126 | the command was found and cannot be executed |
//! | 127 | the command was not found |
//! | 128 + n | the command was ended by signal n |
//!
//! 124 to 127 are those of timeout(1) and env(1), so scripts know them already. A command may
//! use any of these numbers itself; a message on standard error tells the cases apart, since
//! Stockade prints one whenever the code is its own.

use std::error::Error;
use std::io::{self, Write};
use std::iter;
use std::process::ExitCode;

use rustix::process::Signal;

use crate::style::{Role, Safe, Style};

/// How an invocation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The command ended by itself, with this code.
    Exited(u8),
    /// Stockade failed while the command ran, and has ended it.
    Failed,
    /// The command could not be confined as required, so it was not started.
    NotConfined,
    /// The command cannot be executed.
    NotExecutable,
    /// The command does not exist.
    NotFound,
    /// A signal ended the command, for whatever reason but the wall-time limit.
    Signalled(Signal),
    /// The command ran until its wall-time limit and was ended.
    TimedOut,
    /// The command line or a profile is wrong.
    Usage,
}

impl Outcome {
    /// The exit code, as the table of this module has it.
    #[must_use]
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Exited(code) => code,
            Self::Failed | Self::NotConfined => 125,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
            // Signals are numbered 1 to 64, signal(7).
            Self::Signalled(signal) => {
                u8::try_from(signal.as_raw()).map_or(u8::MAX, |number| number.saturating_add(128))
            }
            Self::TimedOut => 124,
            Self::Usage => 2,
        }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(outcome.code())
    }
}

/// Prints `error`, each of its causes, and what can be done about it.
///
/// ```text
/// error: cannot start `frobnicate`
///   caused by: No such file or directory (os error 2)
///   help: name the program by a path that is visible inside
/// ```
///
/// Further lines of a message are indented below its first. A cause whose text is the same
/// as that of the error above it is left out.
///
/// # Errors
///
/// What `out` answers; a caller that prints to standard error can only ignore it.
pub(crate) fn print_error(
    out: &mut impl Write,
    style: Style,
    error: &dyn Error,
    help: Option<&str>,
) -> io::Result<()> {
    let mut shown = error.to_string();
    print_part(out, style, "", Role::Error, "error:", &shown)?;
    for cause in iter::successors(error.source(), |&cause| cause.source()) {
        let text = cause.to_string();
        if text != shown {
            print_part(out, style, "  ", Role::Quiet, "caused by:", &text)?;
            shown = text;
        }
    }
    if let Some(help) = help {
        print_part(out, style, "  ", Role::Help, "help:", help)?;
    }
    out.flush()
}

/// Prints `error` as [`print_error`] does, to standard error.
pub(crate) fn print_error_to_stderr(style: Style, error: &dyn Error, help: Option<&str>) {
    let mut out = io::BufWriter::new(io::stderr().lock());
    // Nobody is left to be told that telling failed; the exit code still does.
    let _: io::Result<()> = print_error(&mut out, style, error, help);
}

fn print_part(
    out: &mut impl Write,
    style: Style,
    indent: &str,
    role: Role,
    label: &str,
    text: &str,
) -> io::Result<()> {
    let label = style.paint(role, label);
    let mut lines = text.trim_end().split('\n');
    let first = Safe(lines.next().unwrap_or_default());
    writeln!(out, "{indent}{label} {first}")?;
    for line in lines {
        writeln!(out, "{indent}    {}", Safe(line))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use thiserror::Error;

    use super::*;

    #[test]
    fn the_codes_are_those_of_the_table() {
        let table = [
            (Outcome::Exited(0), 0),
            (Outcome::Exited(255), 255),
            (Outcome::Failed, 125),
            (Outcome::NotConfined, 125),
            (Outcome::NotExecutable, 126),
            (Outcome::NotFound, 127),
            (Outcome::Signalled(Signal::KILL), 137),
            (Outcome::Signalled(Signal::TERM), 143),
            (Outcome::TimedOut, 124),
            (Outcome::Usage, 2),
        ];
        for (outcome, code) in table {
            assert_eq!(outcome.code(), code, "{outcome:?}");
            assert_eq!(ExitCode::from(outcome), ExitCode::from(code));
        }
    }

    #[derive(Debug, Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        source: Option<Box<Link>>,
    }

    fn chain(texts: &[&'static str]) -> Link {
        let (text, rest) = texts.split_first().unwrap();
        Link {
            text,
            source: (!rest.is_empty()).then(|| Box::new(chain(rest))),
        }
    }

    fn check(style: Style, texts: &[&'static str], help: Option<&str>, expected: &str) {
        let mut out = Vec::new();
        print_error(&mut out, style, &chain(texts), help).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_chain_is_printed_once_from_the_outside_in() {
        check(
            Style::Plain,
            &["cannot go on"],
            None,
            "error: cannot go on\n",
        );
        check(
            Style::Plain,
            &["outer", "middle", "middle", "inner"],
            Some("do that"),
            "error: outer\n  caused by: middle\n  caused by: inner\n  help: do that\n",
        );
        check(
            Style::Colour,
            &["outer", "inner"],
            Some("do that"),
            "\x1b[1;31merror:\x1b[0m outer\n  \x1b[2mcaused by:\x1b[0m inner\n  \
             \x1b[1;36mhelp:\x1b[0m do that\n",
        );
    }

    #[test]
    fn a_message_of_many_lines_is_indented_and_cannot_command_the_terminal() {
        check(
            Style::Plain,
            &["cannot read `a`", "line 1\n  | x\x1b[2J\n"],
            None,
            "error: cannot read `a`\n  caused by: line 1\n        | x\\u{1b}[2J\n",
        );
    }
}
