//! Probes on local channels: UNIX sockets by path and name, shared memory, queues, keys.

use std::ffi::CString;
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendFlags, SocketAddrUnix, SocketType, recvmsg, sendmsg_addr, socket,
};

use crate::attempt::{Attempt, contains, failed, host_namespace, refused, worked};
use crate::probe::{Class::Sockets, Probe};
use crate::stage::Stage;
use crate::sys::{ipc, ring::Ring};

#[rustfmt::skip] // One row for each probe: this is a table.
pub(crate) const PROBES: &[Probe] = &[
    Probe::held("ip03_abstract", Sockets, "Connects to an abstract socket of the host.", abstract_stream),
    Probe::held("ip04_unix_path", Sockets, "Connects to a socket file such as that of docker.", unix_path),
    Probe::held("ip05_unix_dgram_sendmsg", Sockets, "Sends to a socket file without connect.", dgram_sendmsg),
    Probe::held("ip06_unix_dgram_abstract_sendmsg", Sockets, "Sends to an abstract socket without connect.", abstract_sendmsg),
    Probe::held("ip07_sysv_shm", Sockets, "Attaches a System V segment of the host.", sysv_segment),
    Probe::held("ip08_posix_mq", Sockets, "Opens a message queue of the host.", posix_queue),
    Probe::held("ip12_iouring_unix_connect", Sockets, "Connects to a socket file through a ring.", ring_unix),
    Probe::held("ip14_keyring", Sockets, "Reads a secret from the user's keyring.", keyring),
    Probe::held("ip25_fd_passing", Sockets, "Asks an outside helper to pass an open file.", descriptor_passing),
    Probe::held("sl01_tmp_socket", Sockets, "Connects to a socket in the host's temporary directory.", tmp_socket),
    Probe::held("sl02_tmp_dgram", Sockets, "Sends to a socket in the host's temporary directory.", tmp_dgram),
    Probe::held("sl03_run_socket", Sockets, "Connects to a socket below the runtime directory.", run_socket),
    Probe::held("sl04_relative_path", Sockets, "Connects to a socket by its own root link.", aliased_path),
    Probe::held("sl05_new_segment", Sockets, "Leaves a System V segment for others.", new_segment),
    Probe::held("sl06_new_queue", Sockets, "Leaves a message queue for others.", new_queue),
    Probe::held("sl07_dgram_connected", Sockets, "Sends to a socket file after connect.", dgram_connected),
];

fn talk(mut stream: UnixStream, id: &str) -> Attempt {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(id.as_bytes())?;
    let mut buffer = [0_u8; 8];
    let length = stream.read(&mut buffer)?;
    if length == 0 {
        refused("ECONNRESET", "connected, but nobody answered")
    } else {
        worked("answered")
    }
}

fn unix_path(stage: &Stage) -> Attempt {
    talk(UnixStream::connect(&stage.unix_stream)?, "ip04")
}

fn tmp_socket(stage: &Stage) -> Attempt {
    talk(UnixStream::connect(&stage.tmp_stream)?, "sl01")
}

fn run_socket(stage: &Stage) -> Attempt {
    let Some(path) = &stage.run_stream else {
        return refused("ENOENT", "the host has none");
    };
    talk(UnixStream::connect(path)?, "sl03")
}

fn aliased_path(stage: &Stage) -> Attempt {
    let path = stage
        .unix_stream
        .strip_prefix("/")
        .unwrap_or(&stage.unix_stream);
    talk(
        UnixStream::connect(Path::new("/proc/self/root").join(path))?,
        "sl04",
    )
}

fn abstract_stream(stage: &Stage) -> Attempt {
    let address = SocketAddr::from_abstract_name(&stage.abstract_stream)?;
    talk(UnixStream::connect_addr(&address)?, "ip03")
}

fn send_without_connect(to: &SocketAddrUnix, id: &str) -> Attempt {
    let socket = socket(AddressFamily::UNIX, SocketType::DGRAM, None)?;
    let mut control = SendAncillaryBuffer::default();
    sendmsg_addr(
        &socket,
        to,
        &[IoSlice::new(id.as_bytes())],
        &mut control,
        SendFlags::empty(),
    )?;
    worked("sent")
}

fn dgram_sendmsg(stage: &Stage) -> Attempt {
    send_without_connect(&SocketAddrUnix::new(&stage.unix_dgram)?, "ip05")
}

fn tmp_dgram(stage: &Stage) -> Attempt {
    send_without_connect(&SocketAddrUnix::new(&stage.tmp_dgram)?, "sl02")
}

fn abstract_sendmsg(stage: &Stage) -> Attempt {
    send_without_connect(
        &SocketAddrUnix::new_abstract_name(stage.abstract_dgram.as_bytes())?,
        "ip06",
    )
}

fn dgram_connected(stage: &Stage) -> Attempt {
    let socket = UnixDatagram::unbound()?;
    socket.connect(&stage.unix_dgram)?;
    socket.send(b"sl07")?;
    worked("sent")
}

fn ring_unix(stage: &Stage) -> Attempt {
    let mut ring = Ring::new()?;
    let socket = ring.socket(libc::AF_UNIX)?;
    // `struct sockaddr_un`: family, then the path and a NUL.
    let mut address = libc::AF_UNIX
        .to_ne_bytes()
        .get(..2)
        .unwrap_or_default()
        .to_vec();
    address.extend(stage.unix_stream.as_os_str().as_bytes());
    address.push(0);
    ring.connect(socket, &address)?;
    ring.write(socket, b"ip12")?;
    worked("wrote to it")
}

fn sysv_segment(stage: &Stage) -> Attempt {
    let bytes = ipc::read_segment(stage.shm_key)?;
    if contains(&bytes, stage.canary.as_bytes()) {
        worked("read the canary")
    } else {
        failed("other bytes")
    }
}

fn posix_queue(stage: &Stage) -> Attempt {
    ipc::open_queue(&CString::new(&*stage.mq_name)?, false)?;
    worked("opened")
}

/// What it leaves is for others only in the host's IPC namespace.
fn new_segment(stage: &Stage) -> Attempt {
    let id = ipc::create_segment(stage.shm_key ^ 0x00ff_0000, b"left")?;
    ipc::remove_segment(id)?;
    left(stage)
}

fn new_queue(stage: &Stage) -> Attempt {
    let name = CString::new(format!("{}-left", stage.mq_name))?;
    ipc::open_queue(&name, true)?;
    ipc::remove_queue(&name)?;
    left(stage)
}

fn left(stage: &Stage) -> Attempt {
    // Where `/proc` does not tell, reaching the stage's queue does.
    let reaches_host = || posix_queue(stage).is_ok();
    if host_namespace(stage, "ipc").unwrap_or_else(reaches_host) {
        worked("made on the host")
    } else {
        refused("ENOENT", "in a namespace of its own")
    }
}

fn keyring(stage: &Stage) -> Attempt {
    if stage.key_name.is_empty() {
        return refused("ENOSYS", "the host has no keyrings");
    }
    let serial = ipc::search_key(&CString::new(&*stage.key_name)?)?;
    let payload = ipc::read_key(serial)?;
    if contains(&payload, stage.canary.as_bytes()) {
        worked("read the canary")
    } else {
        failed("other bytes")
    }
}

fn descriptor_passing(stage: &Stage) -> Attempt {
    let mut stream = UnixStream::connect(&stage.unix_stream)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"ip25 give-fd")?;
    let mut text = [0_u8; 8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(
        &stream,
        &mut [IoSliceMut::new(&mut text)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message
            && let Some(passed) = descriptors.next()
        {
            let mut buffer = [0_u8; 256];
            let length = rustix::io::pread(&passed, &mut buffer, 0)?;
            let bytes = buffer.get(..length).unwrap_or_default();
            if contains(bytes, stage.canary.as_bytes()) {
                return worked("got an open file with the canary");
            }
        }
    }
    refused("EBADF", "no descriptor came")
}
