//! What may change bytes between the child and the user.

/// An output stream of the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Channel {
    /// Standard error.
    Stderr,
    /// Standard output, or both outputs where one pipe carries them.
    Stdout,
    /// The pseudo-terminal, which carries both outputs and the echo.
    Terminal,
}

/// Looks at, and may replace, every byte that the child puts out.
///
/// Input for the child is not filtered: it is the user's own.
pub(crate) trait Filter: std::fmt::Debug {
    /// Takes the next `bytes` of `channel` and appends to `out` what may be shown by now.
    ///
    /// Pieces arrive in order and are cut anywhere. What is held back must be bounded: it
    /// comes on top of the relay's own bound.
    fn push(&mut self, channel: Channel, bytes: &[u8], out: &mut Vec<u8>);

    /// Appends what is held back of `channel`, which has ended.
    fn finish(&mut self, channel: Channel, out: &mut Vec<u8>);

    /// Whether `push` changes nothing and need not be called, so that the bytes may stay in
    /// the kernel.
    fn is_identity(&self) -> bool {
        false
    }
}

/// The filter that changes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Identity;

impl Filter for Identity {
    fn push(&mut self, _: Channel, bytes: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(bytes);
    }

    fn finish(&mut self, _: Channel, _: &mut Vec<u8>) {}

    fn is_identity(&self) -> bool {
        true
    }
}
