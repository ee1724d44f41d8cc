//! The subcommands, each in its own file.

pub(crate) mod changes;
pub(crate) mod doctor;
pub(crate) mod exec;
pub(crate) mod hidden;
pub(crate) mod profile;
pub(crate) mod ps;
pub(crate) mod shell;

use std::io::IsTerminal;

use crate::caller::Caller;
use crate::style::Style;

/// How standard error is coloured.
pub(crate) fn style_of_stderr(caller: &Caller) -> Style {
    Style::choose(
        std::io::stderr().is_terminal(),
        caller.variable("NO_COLOR"),
        caller.variable("TERM"),
    )
}

/// How standard output is coloured.
pub(crate) fn style_of_stdout(caller: &Caller) -> Style {
    Style::choose(
        std::io::stdout().is_terminal(),
        caller.variable("NO_COLOR"),
        caller.variable("TERM"),
    )
}
