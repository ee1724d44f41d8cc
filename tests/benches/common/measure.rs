//! Runs subjects in turn and takes the median of each.

use std::io;
use std::time::{Duration, Instant};

/// Something that is done and not timed.
pub(crate) type Step<'s> = Box<dyn FnMut() -> io::Result<()> + 's>;

/// Something that is timed.
pub(crate) struct Subject<'s, N> {
    pub(crate) name: String,
    /// What the bench knows besides.
    pub(crate) note: N,
    /// What is done first and not timed; then the machine is left alone for this long.
    pub(crate) before: Option<(Step<'s>, Duration)>,
    /// How long it took.
    pub(crate) run: Box<dyn FnMut() -> io::Result<Duration> + 's>,
}

/// The result of one subject.
#[derive(Debug)]
pub(crate) struct Row<N> {
    pub(crate) name: String,
    pub(crate) note: N,
    /// Median, in microseconds.
    pub(crate) micros: f64,
    /// The fastest, in microseconds: what is left of the noise of a busy machine.
    pub(crate) fastest: f64,
}

/// Runs every subject once a round; the first round warms up and does not count.
pub(crate) fn round_robin<N: Copy>(
    subjects: &mut [Subject<'_, N>],
    rounds: usize,
) -> io::Result<Vec<Row<N>>> {
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
        note: subject.note,
        micros: median(times),
        // Sorted by `median`.
        fastest: times.first().copied().unwrap_or_default().as_secs_f64() * 1e6,
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
