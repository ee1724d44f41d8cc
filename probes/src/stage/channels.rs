//! The listeners of a stage, and what else it holds that is no file: segment, queue, key, pty.

use std::ffi::CString;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::sys::ipc;

/// One place where data can arrive, with its name in the log.
pub(crate) enum Channel {
    Datagram(&'static str, UnixDatagram),
    Local(&'static str, UnixListener),
    Terminal(&'static str, OwnedFd),
    Tcp(&'static str, TcpListener),
    Udp(&'static str, UdpSocket),
}

/// What a stream's peer asked for by its first words.
pub(crate) enum Wish {
    /// To be sent an open descriptor of the target.
    Descriptor(UnixStream),
    /// Nothing more.
    Nothing,
}

impl Channel {
    pub(crate) fn local(name: &'static str, path: &Path) -> io::Result<Self> {
        Ok(Self::Local(name, UnixListener::bind(path)?))
    }

    pub(crate) fn datagram(name: &'static str, path: &Path) -> io::Result<Self> {
        Ok(Self::Datagram(name, UnixDatagram::bind(path)?))
    }

    pub(crate) fn abstract_local(name: &'static str, address: &str) -> io::Result<Self> {
        let address = SocketAddr::from_abstract_name(address)?;
        Ok(Self::Local(name, UnixListener::bind_addr(&address)?))
    }

    pub(crate) fn abstract_datagram(name: &'static str, address: &str) -> io::Result<Self> {
        let address = SocketAddr::from_abstract_name(address)?;
        Ok(Self::Datagram(name, UnixDatagram::bind_addr(&address)?))
    }

    pub(crate) fn tcp(name: &'static str, address: &str) -> io::Result<(Self, u16)> {
        let listener = TcpListener::bind((address, 0))?;
        let port = listener.local_addr()?.port();
        Ok((Self::Tcp(name, listener), port))
    }

    pub(crate) fn udp(name: &'static str) -> io::Result<(Self, u16)> {
        let socket = UdpSocket::bind(("127.0.0.1", 0))?;
        let port = socket.local_addr()?.port();
        Ok((Self::Udp(name, socket), port))
    }

    /// A pty whose slave stands for the terminal of somebody else's session.
    pub(crate) fn terminal(name: &'static str) -> io::Result<(Self, PathBuf)> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let path = ptsname(&master, Vec::new())?;
        let path = PathBuf::from(path.to_string_lossy().into_owned());
        Ok((Self::Terminal(name, master), path))
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Datagram(name, _)
            | Self::Local(name, _)
            | Self::Terminal(name, _)
            | Self::Tcp(name, _)
            | Self::Udp(name, _) => name,
        }
    }

    /// Takes what has arrived, answers it, and returns it with what the peer wants besides.
    pub(crate) fn receive(&self) -> io::Result<(String, Wish)> {
        let mut buffer = [0_u8; 256];
        match self {
            Self::Datagram(_, socket) => {
                let length = socket.recv(&mut buffer)?;
                Ok((text(&buffer, length), Wish::Nothing))
            }
            Self::Local(_, listener) => {
                let (mut stream, _) = listener.accept()?;
                stream.set_read_timeout(Some(Duration::from_millis(300)))?;
                // A peer that says nothing has connected all the same.
                let length = stream.read(&mut buffer).unwrap_or(0);
                let text = text(&buffer, length);
                if text.ends_with("give-fd") {
                    return Ok((text, Wish::Descriptor(stream)));
                }
                stream.write_all(b"ack").ok();
                Ok((text, Wish::Nothing))
            }
            Self::Terminal(_, master) => {
                let length = rustix::io::read(master, &mut buffer)?;
                Ok((text(&buffer, length), Wish::Nothing))
            }
            Self::Tcp(_, listener) => {
                let (mut stream, _) = listener.accept()?;
                stream.set_read_timeout(Some(Duration::from_millis(300)))?;
                let length = stream.read(&mut buffer).unwrap_or(0);
                stream.write_all(b"ack").ok();
                Ok((text(&buffer, length), Wish::Nothing))
            }
            Self::Udp(_, socket) => {
                let (length, peer) = socket.recv_from(&mut buffer)?;
                socket.send_to(b"ack", peer).ok();
                Ok((text(&buffer, length), Wish::Nothing))
            }
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Datagram(_, it) => it.as_fd(),
            Self::Local(_, it) => it.as_fd(),
            Self::Terminal(_, it) => it.as_fd(),
            Self::Tcp(_, it) => it.as_fd(),
            Self::Udp(_, it) => it.as_fd(),
        }
    }
}

fn text(buffer: &[u8], length: usize) -> String {
    String::from_utf8_lossy(buffer.get(..length).unwrap_or_default()).into_owned()
}

/// What lives in the kernel and must be removed by hand.
#[derive(Default)]
pub(crate) struct Leftovers {
    /// The stage's own word: whatever has it in its name in a shared place is the stage's.
    pub(crate) nonce: String,
    pub(crate) segment: Option<i32>,
    pub(crate) queue: Option<CString>,
    pub(crate) key: Option<libc::c_long>,
    pub(crate) paths: Vec<PathBuf>,
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        // The stage is ending: what cannot be removed now cannot be removed by us at all.
        if let Some(id) = self.segment {
            ipc::remove_segment(id).ok();
        }
        if let Some(name) = &self.queue {
            ipc::remove_queue(name).ok();
        }
        if let Some(serial) = self.key {
            ipc::unlink_key(serial, ipc::Keyring::User).ok();
        }
        // A probe that was killed could not undo what it made in the shared places.
        let shared = ["/tmp", "/dev/shm"]
            .iter()
            .filter_map(|it| fs::read_dir(it).ok());
        let shared = shared.flatten().flatten().map(|it| it.path());
        let ours = shared
            .filter(|it| !self.nonce.is_empty() && it.to_string_lossy().contains(&self.nonce));
        for path in ours.chain(self.paths.iter().cloned()) {
            match fs::symlink_metadata(&path) {
                Ok(it) if it.is_dir() => fs::remove_dir_all(&path).ok(),
                Ok(_) => fs::remove_file(&path).ok(),
                Err(_) => None,
            };
        }
    }
}
