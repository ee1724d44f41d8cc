//! What a launch is to keep within.

use std::fmt;

/// What is known of a subject besides its time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Note {
    /// The subject that it is compared with, if it is.
    pub(crate) beside: Option<&'static str>,
    pub(crate) target: Option<Target>,
}

/// What a subject is to keep within.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// This share of what it is compared with.
    OfBwrap(f64),
    /// This many plain spawns.
    OfPlain(f64),
    /// This many milliseconds.
    Millis(f64),
}

impl Target {
    /// Whether it is met; `None` where there is nothing to compare with.
    pub(crate) fn is_met(self, micros: f64, plain: f64, bwrap: Option<f64>) -> Option<bool> {
        match self {
            Self::OfBwrap(most) => bwrap.map(|it| it <= most),
            Self::OfPlain(most) => Some(micros / plain <= most),
            Self::Millis(most) => Some(micros / 1000.0 <= most),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OfBwrap(most) => write!(f, "{most} × bwrap"),
            Self::OfPlain(most) => write!(f, "{most} × plain"),
            Self::Millis(most) => write!(f, "{most} ms"),
        }
    }
}
