//! Sets a whole stage, serves it until standard input closes, and clears it away.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Signal, kill_process};

use super::build::{self, Places};
use super::channels::{Channel, Leftovers, Wish};
use super::victim::Victim;
use super::{INSIDE, Limits, Omit, Stage, StageError, snapshot, verify, victim};
use crate::sys::ipc;
use crate::sys::terminal::ignore_polite_signals;

/// A stage that is up. Dropping it clears everything away.
struct Live {
    stage: Stage,
    channels: Vec<Channel>,
    victim: Victim,
    leftovers: Leftovers,
}

impl Drop for Live {
    fn drop(&mut self) {
        // If it cannot be killed it is dead already; either way it is reaped.
        kill_process(self.victim.pid, Signal::KILL).ok();
        rustix::process::waitpid(Some(self.victim.pid), rustix::process::WaitOptions::empty()).ok();
    }
}

/// Builds a stage below `root`, writes its file to `out` and into the workspace, prints
/// `ready`, and serves until standard input closes. The line `received?` is answered by a
/// JSON list of what arrived so far, `verdict?` by the same object as `verify` prints.
pub(crate) fn run(root: &Path, out: &Path, limits: Limits, omit: Omit) -> Result<(), StageError> {
    // Whoever interrupts the run from a terminal interrupts the stage as well, which must
    // still clear everything away: it ends by its standard input alone.
    ignore_polite_signals();
    let mut live = set(root, limits, omit)?;
    let text = serde_json::to_vec(&live.stage).map_err(|source| StageError::Format {
        path: out.to_owned(),
        source,
    })?;
    for path in [out, &live.stage.workspace.join(INSIDE)] {
        fs::write(path, &text).map_err(StageError::file(path))?;
    }
    snapshot::record(&live.stage)?;
    live.leftovers.paths.push(out.to_owned());
    say("ready")?;
    serve(&live)
}

fn set(root: &Path, limits: Limits, omit: Omit) -> Result<Live, StageError> {
    let places = Places::make(root)?;
    let mut leftovers = Leftovers::default();
    leftovers.paths.push(places.root.clone());
    let nonce = nonce();
    leftovers.nonce.clone_from(&nonce);
    let canary = format!("canary-{nonce}");
    build::plant(&places, &canary, omit)?;
    let tmp_file = PathBuf::from(format!("/tmp/{nonce}.txt"));
    let shm_file = PathBuf::from(format!("/dev/shm/{nonce}.txt"));
    for path in [&tmp_file, &shm_file] {
        leftovers.paths.push(path.clone());
        build::secret(path, &canary)?;
    }
    let listen = StageError::channel("listeners");
    let listeners = listeners(&places, &nonce, &mut leftovers).map_err(listen)?;
    let target = places.outside.join("target.txt");
    let victim = victim::start(&canary, &target).map_err(StageError::channel("victim"))?;
    let (shm_key, mq_name, key_name) = kernel_objects(&nonce, &canary, &mut leftovers);
    let stage = Stage {
        nonce,
        canary,
        tcp_port: listeners.tcp_port,
        tcp6_port: listeners.tcp6_port,
        host_address: host_address(),
        tcp_any_port: listeners.tcp_any_port,
        udp_port: listeners.udp_port,
        dns_port: listeners.dns_port,
        unix_stream: listeners.unix_stream,
        unix_dgram: listeners.unix_dgram,
        tmp_stream: listeners.tmp_stream,
        tmp_dgram: listeners.tmp_dgram,
        run_stream: listeners.run_stream,
        abstract_stream: listeners.abstract_stream,
        abstract_dgram: listeners.abstract_dgram,
        victim_pid: victim.pid.as_raw_nonzero().get(),
        victim_address: victim.confession.address,
        victim_fd: victim.confession.fd,
        shm_key,
        mq_name,
        key_name,
        tmp_file,
        shm_file,
        tmp_identity: identity(Path::new("/tmp"))?,
        shm_identity: identity(Path::new("/dev/shm"))?,
        pts: listeners.pts,
        namespaces: namespaces(),
        interfaces: interfaces(),
        hostname: rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned(),
        core_pattern: fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default(),
        limits,
        keep: false,
        root: places.root,
        workspace: places.workspace,
        home: places.home,
        outside: places.outside,
    };
    Ok(Live {
        stage,
        channels: listeners.channels,
        victim,
        leftovers,
    })
}

struct Listeners {
    channels: Vec<Channel>,
    tcp_port: u16,
    tcp6_port: Option<u16>,
    tcp_any_port: u16,
    udp_port: u16,
    dns_port: u16,
    unix_stream: PathBuf,
    unix_dgram: PathBuf,
    tmp_stream: PathBuf,
    tmp_dgram: PathBuf,
    run_stream: Option<PathBuf>,
    abstract_stream: String,
    abstract_dgram: String,
    pts: Option<(PathBuf, u64)>,
}

fn listeners(places: &Places, nonce: &str, leftovers: &mut Leftovers) -> io::Result<Listeners> {
    let (tcp, tcp_port) = Channel::tcp("tcp", "127.0.0.1")?;
    let (tcp_any, tcp_any_port) = Channel::tcp("tcp-any", "0.0.0.0")?;
    let (udp, udp_port) = Channel::udp("udp")?;
    let (dns, dns_port) = Channel::udp("dns")?;
    let unix_stream = places.sockets.join("docker.sock");
    let unix_dgram = places.sockets.join("log.sock");
    let tmp_stream = PathBuf::from(format!("/tmp/{nonce}.sock"));
    let tmp_dgram = PathBuf::from(format!("/tmp/{nonce}.log"));
    leftovers
        .paths
        .extend([tmp_stream.clone(), tmp_dgram.clone()]);
    let abstract_stream = format!("{nonce}-bus");
    let abstract_dgram = format!("{nonce}-log");
    let mut channels = vec![
        tcp,
        tcp_any,
        udp,
        dns,
        Channel::local("unix-stream", &unix_stream)?,
        Channel::datagram("unix-dgram", &unix_dgram)?,
        Channel::local("tmp-stream", &tmp_stream)?,
        Channel::datagram("tmp-dgram", &tmp_dgram)?,
        Channel::abstract_local("abstract-stream", &abstract_stream)?,
        Channel::abstract_datagram("abstract-dgram", &abstract_dgram)?,
    ];
    // What a host need not have: IPv6, a writable place below /run, a devpts.
    let tcp6_port = Channel::tcp("tcp6", "::1").ok().map(|(channel, port)| {
        channels.push(channel);
        port
    });
    let user = rustix::process::getuid().as_raw();
    let run = [
        format!("/run/user/{user}/{nonce}.sock"),
        format!("/run/{nonce}.sock"),
    ];
    let run_stream = run.into_iter().map(PathBuf::from).find_map(|path| {
        channels.push(Channel::local("run-stream", &path).ok()?);
        leftovers.paths.push(path.clone());
        Some(path)
    });
    let pts = Channel::terminal("terminal")
        .ok()
        .and_then(|(channel, path)| {
            let device = fs::metadata("/dev/pts").ok()?.dev();
            channels.push(channel);
            Some((path, device))
        });
    Ok(Listeners {
        channels,
        tcp_port,
        tcp6_port,
        tcp_any_port,
        udp_port,
        dns_port,
        unix_stream,
        unix_dgram,
        tmp_stream,
        tmp_dgram,
        run_stream,
        abstract_stream,
        abstract_dgram,
        pts,
    })
}

/// The segment's key, the queue's name and the key's name. A kernel may lack any of them; then
/// its probe finds nothing, and is listed as refused by this kernel.
fn kernel_objects(nonce: &str, canary: &str, leftovers: &mut Leftovers) -> (i32, String, String) {
    let shm_key = i32::from_ne_bytes(std::process::id().to_ne_bytes()) | 0x5300_0000;
    leftovers.segment = ipc::create_segment(shm_key, canary.as_bytes()).ok();
    let name = CString::new(nonce).unwrap_or_default();
    leftovers.queue = ipc::open_queue(&name, true).ok().map(|_| name.clone());
    leftovers.key = ipc::add_key(&name, canary.as_bytes(), ipc::Keyring::User).ok();
    let is_open = leftovers.key.is_some_and(|it| ipc::open_key(it).is_ok());
    let key_name = if is_open {
        nonce.to_owned()
    } else {
        String::new()
    };
    (shm_key, nonce.to_owned(), key_name)
}

fn serve(live: &Live) -> Result<(), StageError> {
    let log = live.stage.received_log();
    let mut log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&log)
        .map_err(StageError::file(&log))?;
    let stdin = io::stdin();
    let mut pending = Vec::new();
    loop {
        let mut polled: Vec<PollFd<'_>> = live
            .channels
            .iter()
            .map(|it| PollFd::new(it, PollFlags::IN))
            .collect();
        let input = stdin.as_fd();
        polled.push(PollFd::from_borrowed_fd(input, PollFlags::IN));
        poll(&mut polled, None)
            .map_err(io::Error::from)
            .map_err(StageError::channel("poll"))?;
        let ready: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
        for (channel, flags) in live.channels.iter().zip(&ready) {
            if flags.contains(PollFlags::IN) {
                note(live, channel, &mut log).map_err(StageError::channel("log"))?;
            }
        }
        if ready.last().is_some_and(|it| !it.is_empty()) {
            let mut buffer = [0_u8; 256];
            let length = stdin
                .lock()
                .read(&mut buffer)
                .map_err(StageError::channel("input"))?;
            if length == 0 {
                return Ok(());
            }
            pending.extend_from_slice(buffer.get(..length).unwrap_or_default());
            while let Some(end) = pending.iter().position(|it| *it == b'\n') {
                let line: Vec<u8> = pending.drain(..=end).collect();
                answer(&live.stage, String::from_utf8_lossy(&line).trim())?;
            }
        }
    }
}

fn note(live: &Live, channel: &Channel, log: &mut File) -> io::Result<()> {
    // A peer that is gone before it is accepted has sent nothing.
    let Ok((text, wish)) = channel.receive() else {
        return Ok(());
    };
    let line = serde_json::to_string(&(channel.name(), text))?;
    writeln!(log, "{line}")?;
    match wish {
        // The asker may be gone by now, which is not the stage's trouble.
        Wish::Descriptor(stream) => pass_descriptor(&stream, &live.stage).or(Ok(())),
        Wish::Nothing => Ok(()),
    }
}

fn pass_descriptor(stream: &UnixStream, stage: &Stage) -> io::Result<()> {
    let target = File::open(stage.outside.join("target.txt"))?;
    let descriptors = [target.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(
        stream,
        &[IoSlice::new(b"ack")],
        &mut control,
        SendFlags::empty(),
    )?;
    Ok(())
}

fn answer(stage: &Stage, line: &str) -> Result<(), StageError> {
    let json = match line {
        "received?" => serde_json::to_string(&verify::received(stage)),
        "verdict?" => serde_json::to_string(&verify::judge(stage)?),
        _ => Ok(r#"{"error":"ask `received?` or `verdict?`"}"#.to_owned()),
    };
    say(&json.unwrap_or_default())
}

fn say(line: &str) -> Result<(), StageError> {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")
        .and_then(|()| output.flush())
        .map_err(StageError::channel("answer"))
}

fn identity(path: &Path) -> Result<(u64, u64), StageError> {
    let metadata = fs::metadata(path).map_err(StageError::file(path))?;
    Ok((metadata.dev(), metadata.ino()))
}

/// A word that no other stage on this machine has.
fn nonce() -> String {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    format!(
        "stockade-probe-{}-{:x}",
        std::process::id(),
        since.as_nanos() & 0xff_ffff_ffff
    )
}

fn namespaces() -> BTreeMap<String, u64> {
    let kinds = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];
    let inode = |kind: &str| {
        fs::metadata(format!("/proc/self/ns/{kind}"))
            .ok()
            .map(|it| it.ino())
    };
    kinds
        .iter()
        .filter_map(|kind| Some(((*kind).to_owned(), inode(kind)?)))
        .collect()
}

/// Names in `/proc/net/dev`, two heading lines apart.
pub(crate) fn interfaces() -> Vec<String> {
    let text = fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let name = |line: &str| line.split_once(':').map(|(it, _)| it.trim().to_owned());
    text.lines().skip(2).filter_map(name).collect()
}

/// The address that the host would use to reach the outer world; nothing is sent.
fn host_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // 192.0.2.1 is set aside for documentation (RFC 5737).
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then(|| address.to_string())
}
