//! One stream on its way: a source, at most one buffer, a sink.
//!
//! # Invariants
//!
//! - **Nothing is read that cannot be passed on.** The source is touched only while the
//!   buffer is empty and the sink is known to take bytes, so a slow reader holds the writer
//!   up and costs no memory.
//! - **Bytes keep their order and their values**, whatever the sizes they come in.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::end::{Attempt, End, Kind};
use super::filter::{Channel, Filter};
use super::streams::{RelayError, Stream};

/// The most that one lane reads at a time, and so holds; in bytes. A pipe's usual capacity.
pub(super) const CHUNK: usize = 64 * 1024;

/// The most that is read ahead of the child on its input, in bytes: what poll(2) promises
/// to fit into a pipe that it calls writable.
const INPUT_CHUNK: usize = rustix::pipe::PIPE_BUF;

/// What all lanes of a relay share.
pub(super) struct Shared {
    pub(super) filter: Box<dyn Filter>,
    pub(super) scratch: Box<[u8]>,
    /// Whether the child may still open its terminal again.
    pub(super) child_lives: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("filter", &self.filter)
            .field("child_lives", &self.child_lives)
            .finish_non_exhaustive()
    }
}

/// What poll(2) said about a lane's two ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Events {
    pub(super) source: PollFlags,
    pub(super) sink: PollFlags,
}

/// What a lane wants to be asked about next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// Bytes from the source.
    Source,
    /// Room in the sink.
    Sink,
    /// To be tried again in a while: the source is out of reach for now.
    Time,
}

/// Whether a lane goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Its ends may be dropped.
    Ended,
    /// It is to be polled again.
    Open,
}

/// One stream on its way.
#[derive(Debug)]
pub(super) struct Lane<'user> {
    stream: Stream,
    source: End<'user>,
    sink: End<'user>,
    /// Read, filtered, not yet written; `start` bytes of it are written.
    pending: Vec<u8>,
    start: usize,
    /// No byte follows those that are pending.
    at_end: bool,
    /// The sink is believed to take bytes.
    sink_ready: bool,
    /// The slave of the source is open nowhere, as of the last attempt.
    hung_up: bool,
    splice: bool,
    /// Bytes taken from the source.
    moved: u64,
}

impl<'user> Lane<'user> {
    pub(super) fn new(
        stream: Stream,
        source: End<'user>,
        sink: End<'user>,
        shared: &Shared,
    ) -> Self {
        let unfiltered = stream.channel().is_none() || shared.filter.is_identity();
        Self {
            splice: unfiltered && source.can_splice_to(&sink),
            stream,
            source,
            sink,
            pending: Vec::new(),
            start: 0,
            at_end: false,
            sink_ready: false,
            hung_up: false,
            moved: 0,
        }
    }

    pub(super) fn stream(&self) -> Stream {
        self.stream
    }

    pub(super) fn moved(&self) -> u64 {
        self.moved
    }

    pub(super) fn source(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }

    pub(super) fn sink(&self) -> BorrowedFd<'_> {
        self.sink.as_fd()
    }

    /// The size of the lane's own buffer, in bytes.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.pending.capacity()
    }

    pub(super) fn want(&self) -> Want {
        if !self.sink_ready {
            Want::Sink
        } else if self.hung_up || self.source.is_in_background() {
            Want::Time
        } else {
            Want::Source
        }
    }

    /// Whether the end of the sink's reader is to be noticed while nothing is written.
    ///
    /// A pipe's POLLERR means just that (poll(2)); elsewhere it may mean less.
    pub(super) fn watches_sink(&self) -> bool {
        self.sink.kind() == Kind::Pipe
    }

    /// Moves what can be moved.
    ///
    /// After an error the lane is of no more use.
    pub(super) fn advance(
        &mut self,
        events: Events,
        shared: &mut Shared,
    ) -> Result<Fate, RelayError> {
        if self.watches_sink() && events.sink.contains(PollFlags::ERR) {
            return Ok(Fate::Ended);
        }
        let room_is_new = !self.sink_ready && !events.sink.is_empty();
        self.sink_ready |= room_is_new;
        if self.flush()? == Fate::Ended {
            return Ok(Fate::Ended);
        }
        let polled = !events.source.is_empty();
        let retry = self.hung_up || room_is_new;
        if self.sink_ready
            && self.pending.is_empty()
            && !self.at_end
            && (polled || retry && self.source.may_try())
            && !self.source.is_in_background()
        {
            if self.splice {
                self.splice(polled)?;
            } else {
                self.read(shared)?;
            }
            if self.flush()? == Fate::Ended {
                return Ok(Fate::Ended);
            }
        }
        if self.at_end && self.pending.is_empty() {
            return Ok(Fate::Ended);
        }
        Ok(Fate::Open)
    }

    /// Reads once and filters.
    fn read(&mut self, shared: &mut Shared) -> Result<(), RelayError> {
        let limit = if self.stream == Stream::Stdin {
            INPUT_CHUNK
        } else {
            CHUNK
        };
        let room = shared.scratch.get_mut(..limit).unwrap_or_default();
        let attempt = self.source.read(room).map_err(|e| self.read_error(e))?;
        self.hung_up = attempt == Attempt::HungUp;
        match attempt {
            Attempt::Moved(length) => {
                self.moved += length as u64;
                if self.pending.capacity() < limit {
                    self.pending.reserve_exact(limit);
                }
                let bytes = room.get(..length).unwrap_or_default();
                match self.stream.channel() {
                    Some(channel) => shared.filter.push(channel, bytes, &mut self.pending),
                    None => self.pending.extend_from_slice(bytes),
                }
            }
            // The child can open its terminal again as long as it lives.
            Attempt::HungUp if shared.child_lives => (),
            Attempt::Ended | Attempt::HungUp => {
                self.at_end = true;
                if let Some(channel) = self.stream.channel() {
                    shared.filter.finish(channel, &mut self.pending);
                }
            }
            Attempt::Wait => (),
        }
        Ok(())
    }

    /// Moves bytes inside the kernel; `polled` says that the source has some.
    fn splice(&mut self, polled: bool) -> Result<(), RelayError> {
        match self.source.splice_to(&self.sink, CHUNK) {
            None => self.splice = false,
            Some(Ok(Attempt::Moved(length))) => self.moved += length as u64,
            Some(Ok(Attempt::Ended | Attempt::HungUp) | Err(Errno::PIPE)) => self.at_end = true,
            // The source has bytes, so it is the sink that has no room.
            Some(Ok(Attempt::Wait)) => self.sink_ready = !polled,
            Some(Err(error)) => return Err(self.write_error(error)),
        }
        Ok(())
    }

    /// Writes what is pending as far as the sink takes it.
    fn flush(&mut self) -> Result<Fate, RelayError> {
        while self.sink_ready && !self.pending.is_empty() {
            let rest = self.pending.get(self.start..).unwrap_or_default();
            match self.sink.write(rest).map_err(|e| self.write_error(e))? {
                Attempt::Ended => return Ok(Fate::Ended),
                // Typed while no process of the child has its terminal open: nobody reads it.
                Attempt::HungUp => self.start = self.pending.len(),
                Attempt::Moved(length) => self.start += length,
                Attempt::Wait => self.sink_ready = false,
            }
            if self.start >= self.pending.len() {
                self.pending.clear();
                self.start = 0;
                // Input is taken from the user only after the child's end was polled anew.
                self.sink_ready &= self.stream != Stream::Stdin;
            }
            self.sink_ready &= self.sink.may_try();
        }
        Ok(Fate::Open)
    }

    fn read_error(&self, error: Errno) -> RelayError {
        RelayError::Read {
            stream: self.stream,
            source: error.into(),
        }
    }

    fn write_error(&self, error: Errno) -> RelayError {
        RelayError::Write {
            stream: self.stream,
            source: error.into(),
        }
    }
}

impl Stream {
    /// The channel under which a filter sees this stream; input is not filtered.
    fn channel(self) -> Option<Channel> {
        match self {
            Self::Stderr => Some(Channel::Stderr),
            Self::Stdin => None,
            Self::Stdout => Some(Channel::Stdout),
            Self::Terminal => Some(Channel::Terminal),
        }
    }
}
