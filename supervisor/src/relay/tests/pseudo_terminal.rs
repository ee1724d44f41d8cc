//! A child with a terminal of its own.

use super::*;

/// The child's terminal, and the user's in raw mode, with a relay between them.
struct Terminals {
    user: Pty,
    child: Option<OwnedFd>,
    master: Option<OwnedFd>,
}

impl Terminals {
    fn open() -> Self {
        let child = Pty::open();
        Self {
            user: Pty::open(),
            child: Some(child.slave),
            master: Some(child.master),
        }
    }

    fn relay(&mut self) -> Relay<'_> {
        let streams = Streams {
            child: ChildEnds::Terminal {
                master: self.master.take().unwrap(),
            },
            stdin: self.user.slave.as_fd(),
            stdout: self.user.slave.as_fd(),
            stderr: self.user.slave.as_fd(),
        };
        Relay::new(streams, Box::new(Identity)).unwrap()
    }
}

/// Reads `expected` from `fd` while the relay works.
fn expect_bytes(relay: &mut Relay<'_>, fd: &OwnedFd, expected: &[u8]) {
    rustix::fs::fcntl_setfl(fd, OFlags::NONBLOCK).unwrap();
    let mut seen = Vec::new();
    run(relay, |_| {
        let mut buffer = [0; 256];
        if let Ok(length) = rustix::io::read(fd, &mut buffer) {
            seen.extend_from_slice(&buffer[..length]);
        }
        seen.len() >= expected.len()
    });
    assert_eq!(seen, expected);
}

#[test]
fn keys_reach_the_childs_terminal_and_its_echo_comes_back() {
    let mut terminals = Terminals::open();
    let keyboard = terminals.user.master.try_clone().unwrap();
    let child = terminals.child.take().unwrap();
    let user = terminals.user.slave.try_clone().unwrap();
    let _raw = Terminal::raw(user.as_fd()).unwrap();
    let mut relay = terminals.relay();
    rustix::io::write(&keyboard, b"hello\r").unwrap();
    // The child's line discipline makes a newline of the return key, and echoes both.
    expect_bytes(&mut relay, &child, b"hello\n");
    expect_bytes(&mut relay, &keyboard, b"hello\r\n");
    rustix::io::write(&child, b"answer\n").unwrap();
    expect_bytes(&mut relay, &keyboard, b"answer\r\n");
    drop(child);
    assert_eq!(relay.drain(&[], PATIENCE).unwrap(), Drained::Complete);
}

#[test]
fn a_child_may_let_go_of_its_terminal_and_open_it_again() {
    let mut terminals = Terminals::open();
    let screen = terminals.user.master.try_clone().unwrap();
    let master = terminals.master.as_ref().unwrap().try_clone().unwrap();
    let user = terminals.user.slave.try_clone().unwrap();
    let _raw = Terminal::raw(user.as_fd()).unwrap();
    terminals.child = None;
    let mut relay = terminals.relay();
    settle(&mut relay);
    assert!(relay.is_open(Stream::Terminal));
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let child = ioctl_tiocgptpeer(&master, flags).unwrap();
    rustix::io::write(&child, b"back").unwrap();
    expect_bytes(&mut relay, &screen, b"back");
    drop(child);
    settle(&mut relay);
    let start = Instant::now();
    assert_eq!(relay.drain(&[], PATIENCE).unwrap(), Drained::Complete);
    assert!(start.elapsed() < RETRY);
}
