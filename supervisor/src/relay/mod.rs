//! Moves bytes between the user's standard streams and a sandboxed child.
//!
//! One thread, no async: the caller's own loop calls [`Relay::step`], which polls the streams
//! together with whatever else the caller watches.
//!
//! # Invariants
//!
//! - **Bounded memory.** At most 64 KiB of each stream are here at any time, plus what the
//!   filter holds back. Nothing is read from the child before the user's end can take it.
//! - **Byte-exact** with the [`filter::Identity`] filter: no byte is changed, lost or reordered
//!   within a stream.
//! - **Never waits on a stream.** Only poll(2) waits, so watched descriptors are always heard.
//! - **The user's descriptors are left as they are**: no flag of theirs changes.
//!
//! # Limits
//!
//! Input that is relayed is read ahead: up to the capacity of the child's pipe (64 KiB, 4 KiB
//! where a terminal is the source) is gone for whoever reads the same terminal or socket next. [`plan::stdin_plan`] avoids relaying
//! where it can. With the identity filter bytes may stay in the kernel (splice(2)); pages
//! that a child gave to its pipe by vmsplice(2) can then change until the user's reader
//! copies them, as without a relay.

mod end;
pub(crate) mod filter;
mod lane;
pub(crate) mod plan;
pub(crate) mod signals;
pub(crate) mod streams;
pub(crate) mod terminal;

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use end::{Direction, End};
use filter::Filter;
use lane::{CHUNK, Events, Fate, Lane, Shared, Want};
use streams::{ChildEnds, RelayError, Stream, Streams};

/// How long a source that is out of reach is left alone: a terminal whose foreground another
/// job has, or whose slave is open nowhere. Neither sends an event when that changes.
const RETRY: Duration = Duration::from_millis(100);

/// Which of the watched descriptors have something to read, or have hung up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ready(Vec<usize>);

impl Ready {
    /// Whether the descriptor at `index` of those watched is ready.
    pub(crate) fn contains(&self, index: usize) -> bool {
        self.0.contains(&index)
    }

    /// Whether none is.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// How a [`Relay::drain`] came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Drained {
    /// Every stream of the child has ended and all of it was passed on.
    Complete,
    /// A watched descriptor became ready; draining may be resumed.
    Interrupted(Ready),
    /// Somebody outside the child's process tree holds a stream open. It was closed.
    Late,
}

/// How many bytes were taken from each stream, before any filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    /// From the user.
    pub(crate) stdin: u64,
    /// From the child, all its output streams together.
    pub(crate) output: u64,
}

/// The streams of one child.
#[derive(Debug)]
pub(crate) struct Relay<'user> {
    lanes: Vec<Lane<'user>>,
    shared: Shared,
    /// What lanes moved that have ended.
    moved: Moved,
    /// Invariant: closed last. Closing the master hangs up the child's session, which may
    /// well work on without its terminal.
    _master: Option<OwnedFd>,
}

impl<'user> Relay<'user> {
    /// A relay between `streams`; what the child puts out goes through `filter`.
    ///
    /// Sets O_NONBLOCK on the child's ends.
    ///
    /// # Errors
    ///
    /// [`RelayError::SetUp`].
    pub(crate) fn new(
        streams: Streams<'user>,
        filter: Box<dyn Filter>,
    ) -> Result<Self, RelayError> {
        let shared = Shared {
            filter,
            scratch: vec![0; CHUNK].into_boxed_slice(),
            child_lives: true,
        };
        let mut lanes = Vec::with_capacity(3);
        let mut kept = None;
        let Streams {
            child,
            stdin: user_stdin,
            stdout: user_stdout,
            stderr: user_stderr,
        } = streams;
        match child {
            ChildEnds::Pipes {
                stdin,
                stdout,
                stderr,
            } => {
                if let Some(fd) = stdin {
                    lanes.push(input(user_stdin, End::of_child(fd), &shared)?);
                }
                if let Some(fd) = stdout {
                    let source = End::of_child(fd);
                    lanes.push(output(Stream::Stdout, source, user_stdout, &shared)?);
                }
                if let Some(fd) = stderr {
                    let source = End::of_child(fd);
                    lanes.push(output(Stream::Stderr, source, user_stderr, &shared)?);
                }
            }
            ChildEnds::Terminal { master } => {
                let again = || rustix::io::fcntl_dupfd_cloexec(&master, 0);
                let sink = again().and_then(End::of_master);
                lanes.push(input(user_stdin, sink, &shared)?);
                let source = again().and_then(End::of_master);
                lanes.push(output(Stream::Terminal, source, user_stdout, &shared)?);
                kept = Some(master);
            }
        }
        Ok(Self {
            lanes,
            shared,
            moved: Moved::default(),
            _master: kept,
        })
    }

    /// Waits until a stream can be moved or one of `watched` is ready, at most `timeout`
    /// (`None`: for ever), and moves what can be moved.
    ///
    /// It may return early with nothing ready: after a move, a signal handler, or a retry.
    ///
    /// # Errors
    ///
    /// [`RelayError`] but `SetUp`. What else was ready shows in the next step.
    pub(crate) fn step(
        &mut self,
        watched: &[BorrowedFd<'_>],
        timeout: Option<Duration>,
    ) -> Result<Ready, RelayError> {
        let (ready, events) = self.poll(watched, timeout)?;
        let mut first_error = None;
        let mut events = events.into_iter();
        let Self {
            lanes,
            shared,
            moved,
            ..
        } = self;
        lanes.retain_mut(|lane| {
            let Some(events) = events.next() else {
                return true;
            };
            let fate = lane.advance(events, shared).unwrap_or_else(|error| {
                first_error.get_or_insert(error);
                Fate::Ended
            });
            if fate == Fate::Ended {
                moved.add(lane);
            }
            fate == Fate::Open
        });
        first_error.map_or(Ok(ready), Err)
    }

    /// Moves what the ended child has left behind, until each of its streams ends.
    ///
    /// The whole process tree is dead by then, so the ends are certain; should a stream stay
    /// silent for `quiet` nevertheless, it is given up. A slow reader on the user's side is
    /// waited for as long as it takes, as without a relay: watch a signalfd or a timer.
    ///
    /// # Errors
    ///
    /// As for [`Relay::step`]; draining may be resumed for the other streams.
    pub(crate) fn drain(
        &mut self,
        watched: &[BorrowedFd<'_>],
        quiet: Duration,
    ) -> Result<Drained, RelayError> {
        self.shared.child_lives = false;
        self.close(|lane| lane.stream() == Stream::Stdin);
        // Without waiting at first: a terminal that was left alone may have ended by now.
        let mut timeout = Some(Duration::ZERO);
        let mut last_progress = Instant::now();
        loop {
            let before = (self.moved(), self.lanes.len());
            let ready = self.step(watched, timeout)?;
            if self.lanes.is_empty() {
                return Ok(Drained::Complete);
            }
            if !ready.is_empty() {
                return Ok(Drained::Interrupted(ready));
            }
            let user_is_slow = self.lanes.iter().any(|lane| lane.want() == Want::Sink);
            if user_is_slow || before != (self.moved(), self.lanes.len()) {
                last_progress = Instant::now();
            }
            let left = quiet.saturating_sub(last_progress.elapsed());
            if left.is_zero() {
                self.close(|_| true);
                return Ok(Drained::Late);
            }
            timeout = (!user_is_slow).then_some(left);
        }
    }

    /// Whether `stream` is still served.
    #[cfg(test)]
    pub(crate) fn is_open(&self, stream: Stream) -> bool {
        self.lanes.iter().any(|lane| lane.stream() == stream)
    }

    /// How much was taken from the streams so far, in bytes.
    pub(crate) fn moved(&self) -> Moved {
        let mut moved = self.moved;
        self.lanes.iter().for_each(|lane| moved.add(lane));
        moved
    }

    /// All buffers together, in bytes.
    #[cfg(test)]
    fn capacity(&self) -> usize {
        self.shared.scratch.len() + self.lanes.iter().map(Lane::capacity).sum::<usize>()
    }

    /// Drops the lanes that `which` picks, and with them both their ends.
    fn close(&mut self, which: impl Fn(&Lane<'_>) -> bool) {
        let moved = &mut self.moved;
        self.lanes
            .extract_if(.., |lane| which(lane))
            .for_each(|lane| moved.add(&lane));
    }

    /// Asks the kernel once. The events are those of the lanes, in their order.
    fn poll(
        &self,
        watched: &[BorrowedFd<'_>],
        timeout: Option<Duration>,
    ) -> Result<(Ready, Vec<Events>), RelayError> {
        let mut timeout = timeout;
        let mut fds = Vec::with_capacity(watched.len() + 2 * self.lanes.len());
        fds.extend(watched.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        // Where each lane's ends are among `fds`.
        let mut places = Vec::with_capacity(self.lanes.len());
        for lane in &self.lanes {
            let want = lane.want();
            let mut place = |fd, flags| {
                fds.push(PollFd::from_borrowed_fd(fd, flags));
                fds.len() - 1
            };
            let sink = match want {
                Want::Sink => Some(place(lane.sink(), PollFlags::OUT)),
                // POLLERR is reported without being asked for.
                _ if lane.watches_sink() => Some(place(lane.sink(), PollFlags::empty())),
                _ => None,
            };
            let source = (want == Want::Source).then(|| place(lane.source(), PollFlags::IN));
            if want == Want::Time {
                timeout = Some(timeout.map_or(RETRY, |timeout| timeout.min(RETRY)));
            }
            places.push((source, sink));
        }
        // A timeout beyond what the kernel's type holds is as good as none.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) => (),
            Err(Errno::INTR) => return Ok((Ready::default(), Vec::new())),
            Err(error) => {
                return Err(RelayError::Poll {
                    source: error.into(),
                });
            }
        }
        let said = |place: Option<usize>| {
            place
                .and_then(|place| fds.get(place))
                .map_or(PollFlags::empty(), PollFd::revents)
        };
        let ready = (0..watched.len())
            .filter(|index| !said(Some(*index)).is_empty())
            .collect();
        let events = places
            .into_iter()
            .map(|(source, sink)| Events {
                source: said(source),
                sink: said(sink),
            })
            .collect();
        Ok((Ready(ready), events))
    }
}

impl Moved {
    fn add(&mut self, lane: &Lane<'_>) {
        match lane.stream() {
            Stream::Stdin => self.stdin += lane.moved(),
            Stream::Stderr | Stream::Stdout | Stream::Terminal => self.output += lane.moved(),
        }
    }
}

fn input<'user>(
    user: BorrowedFd<'user>,
    sink: Result<End<'user>, Errno>,
    shared: &Shared,
) -> Result<Lane<'user>, RelayError> {
    let stream = Stream::Stdin;
    let source = End::of_user(user, Direction::Source).map_err(|e| set_up(stream, e))?;
    let sink = sink.map_err(|e| set_up(stream, e))?;
    sink.limit_read_ahead(&source);
    Ok(Lane::new(stream, source, sink, shared))
}

fn output<'user>(
    stream: Stream,
    source: Result<End<'user>, Errno>,
    user: BorrowedFd<'user>,
    shared: &Shared,
) -> Result<Lane<'user>, RelayError> {
    let source = source.map_err(|e| set_up(stream, e))?;
    let sink = End::of_user(user, Direction::Sink).map_err(|e| set_up(stream, e))?;
    Ok(Lane::new(stream, source, sink, shared))
}

fn set_up(stream: Stream, error: Errno) -> RelayError {
    RelayError::SetUp {
        stream,
        source: error.into(),
    }
}

#[cfg(test)]
mod tests;
