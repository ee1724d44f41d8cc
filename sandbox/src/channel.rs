//! Messages between Stockade's own processes over a socket that keeps their bounds.
//!
//! # Invariants
//!
//! - **Small.** A message fits one packet; what may be large travels as a sealed memory file.
//! - **Trusted ends only.** No payload ever holds one of these sockets.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::SandboxError;

/// One end of a socket pair.
#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

/// Longest message in bytes.
const LONGEST: usize = 16 * 1024;
/// Most descriptors with one message.
const MOST_DESCRIPTORS: usize = 8;

impl Channel {
    /// Two connected ends, both closed on exec.
    pub(crate) fn pair() -> Result<(Self, Self), SandboxError> {
        let (one, other) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(channel)?;
        Ok((Self(one), Self(other)))
    }

    /// Takes over a descriptor that the other side inherited.
    pub(crate) fn from_descriptor(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Sends one message, with descriptors.
    pub(crate) fn send(
        &self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), SandboxError> {
        let bytes = postcard::to_stdvec(message).map_err(|_| SandboxError::Message)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(SandboxError::Message);
        }
        rustix::io::retry_on_intr(|| {
            rustix::net::sendmsg(
                &self.0,
                &[IoSlice::new(&bytes)],
                &mut control,
                SendFlags::NOSIGNAL,
            )
        })
        .map_err(channel)?;
        Ok(())
    }

    /// Waits for one message. `None` when the other end is closed.
    pub(crate) fn receive<T: DeserializeOwned>(
        &self,
    ) -> Result<Option<(T, Vec<OwnedFd>)>, SandboxError> {
        let mut bytes = vec![0; LONGEST];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let answer = rustix::net::recvmsg(
                &self.0,
                &mut [IoSliceMut::new(&mut bytes)],
                &mut control,
                RecvFlags::CMSG_CLOEXEC,
            );
            match answer {
                Err(rustix::io::Errno::INTR) => (),
                // The other end closed with a message of ours unread. The error is told once,
                // before what that end had said; after that, the end of the stream.
                Err(rustix::io::Errno::CONNRESET) => (),
                other => break other.map_err(channel)?,
            }
        };
        if received.bytes == 0 {
            return Ok(None);
        }
        let descriptors = control
            .drain()
            .filter_map(|it| match it {
                RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            })
            .flatten()
            .collect();
        let bytes = bytes.get(..received.bytes).unwrap_or_default();
        let message = postcard::from_bytes(bytes).map_err(|_| SandboxError::Message)?;
        Ok(Some((message, descriptors)))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn channel(source: rustix::io::Errno) -> SandboxError {
    SandboxError::Channel {
        source: source.into(),
    }
}

/// Writes `value` into a memory file that nobody can change any more, memfd_create(2).
pub(crate) fn seal(value: &impl Serialize) -> Result<OwnedFd, SandboxError> {
    let bytes = postcard::to_stdvec(value).map_err(|_| SandboxError::Message)?;
    seal_bytes(&bytes)
}

/// Writes `bytes` into a memory file that nobody can change any more; it reads from the start.
pub(crate) fn seal_bytes(bytes: &[u8]) -> Result<OwnedFd, SandboxError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::NOEXEC_SEAL;
    let file = match rustix::fs::memfd_create(c"stockade", flags) {
        // Before Linux 6.3 the kernel does not know the flag.
        Err(rustix::io::Errno::INVAL) => {
            rustix::fs::memfd_create(c"stockade", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        }
        other => other,
    }
    .map_err(channel)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest).map_err(channel)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals).map_err(channel)?;
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0)).map_err(channel)?;
    Ok(file)
}

/// Reads back what [`seal`] wrote, and refuses a file that is not sealed.
pub(crate) fn unseal<T: DeserializeOwned>(file: BorrowedFd<'_>) -> Result<T, SandboxError> {
    let seals = rustix::fs::fcntl_get_seals(file).map_err(channel)?;
    if !seals.contains(SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW) {
        return Err(SandboxError::Message);
    }
    let size = rustix::fs::fstat(file).map_err(channel)?.st_size;
    let mut bytes = vec![0; usize::try_from(size).map_err(|_| SandboxError::Message)?];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|it| !it.is_empty()) {
        let at = u64::try_from(filled).map_err(|_| SandboxError::Message)?;
        match rustix::io::pread(file, rest, at).map_err(channel)? {
            0 => return Err(SandboxError::Message),
            read => filled += read,
        }
    }
    postcard::from_bytes(&bytes).map_err(|_| SandboxError::Message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_and_its_descriptors_arrive() {
        let (one, other) = Channel::pair().unwrap();
        let file = seal(&vec![7_u8; 100_000]).unwrap();
        one.send(&("hello".to_owned(), 3_u32), &[file.as_fd()])
            .unwrap();
        let ((text, number), descriptors): ((String, u32), _) = other.receive().unwrap().unwrap();
        assert_eq!((text.as_str(), number, descriptors.len()), ("hello", 3, 1));
        let back: Vec<u8> = unseal(descriptors[0].as_fd()).unwrap();
        assert_eq!(back, vec![7_u8; 100_000]);
        drop(one);
        assert!(other.receive::<u32>().unwrap().is_none());
    }

    #[test]
    fn the_last_word_of_an_end_that_did_not_listen_is_heard() {
        let (one, other) = Channel::pair().unwrap();
        one.send(&1_u32, &[]).unwrap();
        other.send(&2_u32, &[]).unwrap();
        drop(other);
        assert_eq!(one.receive::<u32>().unwrap().map(|it| it.0), Some(2));
        assert!(one.receive::<u32>().unwrap().is_none());
    }

    #[test]
    fn a_sealed_file_cannot_be_changed_and_an_unsealed_one_is_refused() {
        let file = seal(&1_u8).unwrap();
        rustix::io::pwrite(&file, b"x", 0).unwrap_err();
        let open = rustix::fs::memfd_create(c"open", MemfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&open, &[1]).unwrap();
        unseal::<u8>(open.as_fd()).unwrap_err();
    }
}
