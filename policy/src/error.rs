//! Why a profile was not loaded.

use std::fmt;
use std::ops::Range;

use crate::source::{Origin, Source, visible};

/// A profile is wrong, so nothing of it is in force and nothing runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileError {
    origin: String,
    place: (usize, usize),
    message: String,
    help: Option<String>,
}

impl ProfileError {
    pub(crate) fn at(source: &Source, span: &Range<usize>, message: impl Into<String>) -> Self {
        Self {
            origin: source.origin.clone(),
            place: source.place(span.start),
            message: message.into(),
            help: None,
        }
    }

    /// About a value that was read.
    pub(crate) fn about(origin: &Origin, message: impl Into<String>) -> Self {
        Self {
            origin: origin.file.clone(),
            place: (origin.line, origin.column),
            message: message.into(),
            help: None,
        }
    }

    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// What to do about it.
    #[must_use]
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.place;
        let (origin, message) = (visible(&self.origin), visible(&self.message));
        write!(f, "{origin}:{line}:{column}: {message}")
    }
}

impl std::error::Error for ProfileError {}
