//! Probes on the network: host services, odd families, ways round a filter on connect.

use std::io::{self, IoSlice, Read, Write};
use std::net::{
    Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, TcpListener, TcpStream, UdpSocket,
};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{
    AddressFamily, RawProtocol, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, bind,
    connect, ipproto, listen, recv, sendto, socket, socket_with,
};

use crate::attempt::{Attempt, Stop, host_namespace, in_host_namespace, refused, worked};
use crate::probe::{Class::Sockets, Probe};
use crate::stage::{Stage, serve};
use crate::sys::ring::Ring;

#[rustfmt::skip] // One row for each probe: this is a table.
pub(crate) const PROBES: &[Probe] = &[
    Probe::held("ip01_tcp_loop", Sockets, "Reaches a host service on loopback.", tcp_loopback),
    Probe::held("ip02_udp_loop", Sockets, "Reaches a host service on loopback by UDP.", udp_loopback),
    Probe::held("ip09_vsock", Sockets, "Makes a socket to the hypervisor.", vsock),
    Probe::held("ip10_families", Sockets, "Makes sockets of unusual families.", families),
    Probe::held("ip11_iouring", Sockets, "Creates an input and output ring.", io_uring),
    Probe::held("ip13_iouring_tcp_connect", Sockets, "Connects to a host service through a ring.", ring_tcp),
    Probe::held("ip15_bind_listen", Sockets, "Opens a port on the host.", bind_listen),
    Probe::held("ip16_fastopen", Sockets, "Connects by the first data instead of connect.", fast_open),
    Probe::held("ip17_mptcp_connect", Sockets, "Connects by multipath TCP.", mptcp_connect),
    Probe::held("ip18_connect_ipv6_mapped", Sockets, "Connects to an IPv4 address written as IPv6.", mapped),
    Probe::held("ip19_dns", Sockets, "Leaks a word in a name query.", dns),
    Probe::held("ip20_ifaces", Sockets, "Sees the host's network interfaces.", interfaces),
    Probe::held("ip21_listen_autobind", Sockets, "Opens a port without naming one.", autobind),
    Probe::held("ip22_mptcp_listen", Sockets, "Opens a port by multipath TCP.", mptcp_listen),
    Probe::held("sk01_tcp_ipv6", Sockets, "Reaches a host service on the IPv6 loopback.", tcp_ipv6),
    Probe::held("sk02_host_address", Sockets, "Reaches a host service by the host's own address.", host_address),
    Probe::held("sk03_any_address", Sockets, "Reaches a host service by the address of all zeros.", any_address),
    Probe::held("sk04_udp_sendmsg", Sockets, "Sends a datagram without connect or sendto.", udp_sendmsg),
    Probe::held("sk05_udp_connected", Sockets, "Sends a datagram on a connected socket.", udp_connected),
    Probe::held("sk06_raw_icmp", Sockets, "Makes a raw socket.", raw_icmp),
    Probe::held("sk07_packet", Sockets, "Makes a socket that sees every packet.", packet),
    Probe::by_policy("sk08_netlink_route", Sockets, "Makes a socket to the routing tables.", netlink_route),
    Probe::held("sk09_netlink_uevent", Sockets, "Makes a socket that hears device events.", netlink_uevent),
    Probe::held("sk10_netlink_diag", Sockets, "Makes a socket that lists all sockets.", netlink_diag),
    Probe::held("sk11_alg", Sockets, "Makes a socket to the kernel's cryptography.", alg),
    Probe::held("sk12_ping", Sockets, "Makes a ping socket.", ping),
    Probe::held("sk13_udplite_sctp", Sockets, "Makes sockets of rare transport protocols.", rare_transports),
    Probe::held("sk14_proc_net_tcp", Sockets, "Finds the host's listeners in the socket table.", socket_table),
    Probe::held("sk15_seqpacket", Sockets, "Makes a socket of Bluetooth.", bluetooth),
];

/// A connected stream that got an answer has reached the stage.
fn talk(mut stream: impl Read + Write, id: &str) -> Attempt {
    stream.write_all(id.as_bytes())?;
    let mut buffer = [0_u8; 8];
    let length = stream.read(&mut buffer)?;
    if length == 0 {
        refused("ECONNRESET", "connected, but nobody answered")
    } else {
        worked("answered")
    }
}

fn tcp(address: SocketAddr, id: &str) -> Attempt {
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    talk(stream, id)
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn tcp_loopback(stage: &Stage) -> Attempt {
    tcp(loopback(stage.tcp_port), "ip01")
}

fn tcp_ipv6(stage: &Stage) -> Attempt {
    let Some(port) = stage.tcp6_port else {
        return refused("EADDRNOTAVAIL", "the host has no IPv6");
    };
    tcp(SocketAddr::from((Ipv6Addr::LOCALHOST, port)), "sk01")
}

fn host_address(stage: &Stage) -> Attempt {
    let address = stage.host_address.as_ref().and_then(|it| it.parse().ok());
    let Some(address) = address else {
        return refused("EADDRNOTAVAIL", "the host has no other address");
    };
    tcp(SocketAddr::new(address, stage.tcp_any_port), "sk02")
}

fn any_address(stage: &Stage) -> Attempt {
    tcp(SocketAddr::from(([0, 0, 0, 0], stage.tcp_any_port)), "sk03")
}

fn mapped(stage: &Stage) -> Attempt {
    let address = std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped();
    tcp(
        SocketAddr::V6(SocketAddrV6::new(address, stage.tcp_port, 0, 0)),
        "ip18",
    )
}

fn udp_answer(socket: &UdpSocket) -> Attempt {
    socket.set_read_timeout(Some(Duration::from_millis(700)))?;
    let mut buffer = [0_u8; 8];
    socket.recv(&mut buffer)?;
    worked("answered")
}

fn udp_loopback(stage: &Stage) -> Attempt {
    let socket = UdpSocket::bind(loopback(0))?;
    socket.send_to(b"ip02", loopback(stage.udp_port))?;
    udp_answer(&socket)
}

fn udp_connected(stage: &Stage) -> Attempt {
    let socket = UdpSocket::bind(loopback(0))?;
    socket.connect(loopback(stage.udp_port))?;
    socket.send(b"sk05")?;
    udp_answer(&socket)
}

fn dns(stage: &Stage) -> Attempt {
    let socket = UdpSocket::bind(loopback(0))?;
    // A query for `leak.invalid`, type A, as RFC 1035 section 4.1 has it.
    let query = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x04leak\x07invalid\0\0\x01\0\x01";
    socket.send_to(query, loopback(stage.dns_port))?;
    udp_answer(&socket)
}

fn udp_sendmsg(stage: &Stage) -> Attempt {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let to = loopback(stage.udp_port);
    let mut control = SendAncillaryBuffer::default();
    rustix::net::sendmsg_addr(
        &socket,
        &to,
        &[IoSlice::new(b"sk04")],
        &mut control,
        SendFlags::empty(),
    )?;
    udp_answer(&UdpSocket::from(socket))
}

fn stream_answer(socket: OwnedFd, id: &str) -> Attempt {
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    talk(stream, id)
}

fn fast_open(stage: &Stage) -> Attempt {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    let flags = SendFlags::from_bits_retain(libc::MSG_FASTOPEN.cast_unsigned());
    sendto(&socket, b"ip16", flags, &loopback(stage.tcp_port))?;
    let mut buffer = [0_u8; 8];
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    recv(&stream, &mut buffer, rustix::net::RecvFlags::empty())?;
    worked("answered")
}

fn mptcp_connect(stage: &Stage) -> Attempt {
    let socket = socket(
        AddressFamily::INET,
        SocketType::STREAM,
        Some(ipproto::MPTCP),
    )?;
    connect(&socket, &loopback(stage.tcp_port))?;
    stream_answer(socket, "ip17")
}

fn ring_tcp(stage: &Stage) -> Attempt {
    let mut ring = Ring::new()?;
    let socket = ring.socket(libc::AF_INET)?;
    // `struct sockaddr_in`: family (host order), port and address (network order), padding.
    let mut address = libc::AF_INET
        .to_ne_bytes()
        .get(..2)
        .unwrap_or_default()
        .to_vec();
    address.extend(stage.tcp_port.to_be_bytes());
    address.extend([127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    ring.connect(socket, &address)?;
    ring.write(socket, b"ip13")?;
    worked("wrote to it")
}

fn io_uring(_: &Stage) -> Attempt {
    Ring::new()?;
    worked("ring created")
}

/// A listener harms the host only in the host's own network namespace. Where `/proc` does not
/// tell, reaching the stage does.
fn opened(stage: &Stage, what: &str) -> Attempt {
    let reaches_host = || tcp_loopback(stage).is_ok();
    if host_namespace(stage, "net").unwrap_or_else(reaches_host) {
        return worked(format!("{what} on the host"));
    }
    refused("ENETUNREACH", format!("{what} in a namespace of its own"))
}

fn bind_listen(stage: &Stage) -> Attempt {
    TcpListener::bind("0.0.0.0:0")?;
    opened(stage, "listening")
}

fn autobind(stage: &Stage) -> Attempt {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    listen(&socket, 1)?;
    opened(stage, "listening")
}

fn mptcp_listen(stage: &Stage) -> Attempt {
    let socket = socket(
        AddressFamily::INET,
        SocketType::STREAM,
        Some(ipproto::MPTCP),
    )?;
    bind(
        &socket,
        &SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0),
    )?;
    listen(&socket, 1)?;
    opened(stage, "listening")
}

fn interfaces(stage: &Stage) -> Attempt {
    let seen = serve::interfaces();
    let foreign = |it: &&String| *it != "lo" && stage.interfaces.contains(it);
    match seen.iter().find(foreign) {
        Some(name) => worked(format!("sees {name}")),
        // A host with nothing but loopback shows by its namespace whether that is the same one.
        None if stage.interfaces.len() < 2 && in_host_namespace(stage, "net") => {
            worked("sees the host's")
        }
        None => refused("ENODEV", "only loopback"),
    }
}

fn socket_table(stage: &Stage) -> Attempt {
    let table = std::fs::read_to_string("/proc/net/tcp")?;
    let port = format!(":{:04X} ", stage.tcp_port);
    if table.contains(&port) {
        worked("found it")
    } else {
        refused("ENOENT", "not in the table")
    }
}

/// Makes a socket of a family by number; creation is the attack, since each reaches kernel
/// code that an ordinary program never needs.
fn make(family: i32, kind: SocketType, protocol: u32) -> io::Result<OwnedFd> {
    let family = u16::try_from(family).map_err(io::Error::other)?;
    let protocol = RawProtocol::new(protocol).map(rustix::net::Protocol::from_raw);
    Ok(socket_with(
        AddressFamily::from_raw(family),
        kind,
        SocketFlags::CLOEXEC,
        protocol,
    )?)
}

fn created(family: i32, kind: SocketType, protocol: u32) -> Attempt {
    make(family, kind, protocol)?;
    worked("socket made")
}

fn vsock(_: &Stage) -> Attempt {
    created(libc::AF_VSOCK, SocketType::STREAM, 0)
}

fn raw_icmp(_: &Stage) -> Attempt {
    created(libc::AF_INET, SocketType::RAW, 1)
}

fn ping(_: &Stage) -> Attempt {
    created(libc::AF_INET, SocketType::DGRAM, 1)
}

fn packet(_: &Stage) -> Attempt {
    created(libc::AF_PACKET, SocketType::RAW, 0)
}

fn netlink_route(_: &Stage) -> Attempt {
    created(libc::AF_NETLINK, SocketType::RAW, 0)
}

fn netlink_diag(_: &Stage) -> Attempt {
    created(libc::AF_NETLINK, SocketType::RAW, 4)
}

fn netlink_uevent(_: &Stage) -> Attempt {
    created(libc::AF_NETLINK, SocketType::DGRAM, 15)
}

fn alg(_: &Stage) -> Attempt {
    created(libc::AF_ALG, SocketType::SEQPACKET, 0)
}

fn bluetooth(_: &Stage) -> Attempt {
    created(libc::AF_BLUETOOTH, SocketType::SEQPACKET, 0)
}

fn rare_transports(_: &Stage) -> Attempt {
    // UDP-Lite (136), SCTP (132), DCCP (33).
    let tried = [
        (SocketType::DGRAM, 136),
        (SocketType::SEQPACKET, 132),
        (SocketType::from_raw(6), 33),
    ];
    any_of(
        tried
            .into_iter()
            .map(|(kind, protocol)| make(libc::AF_INET, kind, protocol)),
    )
}

fn families(_: &Stage) -> Attempt {
    let unusual = [
        libc::AF_AX25,
        libc::AF_IPX,
        libc::AF_APPLETALK,
        libc::AF_X25,
        libc::AF_KEY,
        libc::AF_PACKET,
        libc::AF_RDS,
        libc::AF_LLC,
        libc::AF_CAN,
        libc::AF_TIPC,
        libc::AF_BLUETOOTH,
        libc::AF_ALG,
        libc::AF_NFC,
        libc::AF_VSOCK,
        // Not in the C library's list: KCM (41), QIPCRTR (42), SMC (43), XDP (44), MCTP (45).
        41,
        42,
        43,
        44,
        45,
    ];
    let kinds = [
        SocketType::RAW,
        SocketType::DGRAM,
        SocketType::STREAM,
        SocketType::SEQPACKET,
    ];
    any_of(
        unusual
            .into_iter()
            .flat_map(|family| kinds.into_iter().map(move |kind| make(family, kind, 0))),
    )
}

/// Works if one of them did; otherwise the last refusal counts.
fn any_of(tries: impl Iterator<Item = io::Result<OwnedFd>>) -> Attempt {
    let mut last = Stop::Failed("nothing was tried".to_owned());
    let mut made = 0_u32;
    for outcome in tries {
        match outcome {
            Ok(_) => made += 1,
            Err(error) => last = error.into(),
        }
    }
    if made > 0 {
        worked(format!("{made} sockets made"))
    } else {
        Err(last)
    }
}
