//! Runs subjects in turn and takes the median of each.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

/// Something that is done and not timed.
pub(crate) type Step<'s> = Box<dyn FnMut() -> io::Result<()> + 's>;

/// Something that is timed.
pub(crate) struct Subject<'s> {
    pub(crate) name: String,
    /// The subject that it is compared with, if it is.
    pub(crate) beside: Option<&'static str>,
    pub(crate) target: Option<Target>,
    /// What is done first and not timed; then the machine is left alone for this long.
    pub(crate) before: Option<(Step<'s>, Duration)>,
    /// How long it took.
    pub(crate) run: Box<dyn FnMut() -> io::Result<Duration> + 's>,
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

/// The result of one subject.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) beside: Option<&'static str>,
    pub(crate) target: Option<Target>,
    /// Median, in microseconds.
    pub(crate) micros: f64,
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

/// Runs every subject once a round; the first round warms up and does not count.
pub(crate) fn round_robin(subjects: &mut [Subject<'_>], rounds: usize) -> io::Result<Vec<Row>> {
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); subjects.len()];
    for round in 0..=rounds {
        for (subject, times) in subjects.iter_mut().zip(&mut times) {
            if let Some((before, rest)) = &mut subject.before {
                before()?;
                std::thread::sleep(*rest);
            }
            let time = (subject.run)().map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", subject.name))
            })?;
            if round > 0 {
                times.push(time);
            }
        }
    }
    let rows = subjects.iter().zip(&mut times).map(|(subject, times)| Row {
        name: subject.name.clone(),
        beside: subject.beside,
        target: subject.target,
        micros: median(times),
    });
    Ok(rows.collect())
}

/// The middle one, in microseconds.
fn median(times: &mut [Duration]) -> f64 {
    times.sort();
    let middle = times.get(times.len() / 2).copied().unwrap_or_default();
    middle.as_secs_f64() * 1e6
}

/// Times `work`.
pub(crate) fn timed(work: impl FnOnce() -> io::Result<()>) -> io::Result<Duration> {
    let begin = Instant::now();
    work()?;
    Ok(begin.elapsed())
}
