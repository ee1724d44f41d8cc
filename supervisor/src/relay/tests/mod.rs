//! The relay as a whole, between pipes, files and pseudo-terminals.

/// A relay over what a rig holds. A macro, since it borrows some fields and not others.
macro_rules! relay {
    ($rig:ident, $filter:expr) => {
        Relay::new(
            Streams {
                child: $rig.ends.take().unwrap(),
                stdin: $rig.stdin.as_fd(),
                stdout: $rig.stdout.as_fd(),
                stderr: $rig.stderr.as_fd(),
            },
            $filter,
        )
        .unwrap()
    };
}

mod drain;
mod input;
mod output;
mod pseudo_terminal;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::thread::JoinHandle;

use proptest::prelude::*;
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

use super::filter::{Channel, Identity};
use super::terminal::Terminal;
use super::*;

/// A pseudo-terminal of the test's own; nobody's controlling terminal.
pub(super) struct Pty {
    pub(super) master: OwnedFd,
    pub(super) slave: OwnedFd,
}

impl Pty {
    pub(super) fn open() -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
        Self { master, slave }
    }
}

/// Changes nothing, but keeps the bytes out of the kernel's short cut.
#[derive(Debug)]
struct Copying;

impl Filter for Copying {
    fn push(&mut self, _: Channel, bytes: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(bytes);
    }

    fn finish(&mut self, _: Channel, _: &mut Vec<u8>) {}
}

/// Doubles `!`, holds the last byte of each channel back, and marks its end.
#[derive(Debug, Default)]
struct Marking {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Marking {
    fn held(&mut self, channel: Channel) -> &mut Vec<u8> {
        match channel {
            Channel::Stderr => &mut self.stderr,
            Channel::Stdout | Channel::Terminal => &mut self.stdout,
        }
    }
}

impl Filter for Marking {
    fn push(&mut self, channel: Channel, bytes: &[u8], out: &mut Vec<u8>) {
        for byte in bytes {
            out.append(self.held(channel));
            self.held(channel).push(*byte);
            if *byte == b'!' {
                out.push(b'!');
            }
        }
    }

    fn finish(&mut self, channel: Channel, out: &mut Vec<u8>) {
        out.append(self.held(channel));
        out.push(b'.');
    }
}

fn filters() -> [Box<dyn Filter>; 2] {
    [Box::new(Identity), Box::new(Copying)]
}

/// All six ends of a child's three pipes and of the user's.
struct Rig {
    /// Our ends, until they go to a relay.
    ends: Option<ChildEnds>,
    child_stdin: Option<File>,
    child_stdout: Option<File>,
    child_stderr: Option<File>,
    /// What the relay borrows.
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    /// What the user's programs hold.
    typist: Option<File>,
    out_reader: Option<File>,
    err_reader: Option<File>,
}

fn pipe() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap()
}

impl Rig {
    fn new() -> Self {
        let (child_stdin, stdin_to_child) = pipe();
        let (stdout_from_child, child_stdout) = pipe();
        let (stderr_from_child, child_stderr) = pipe();
        let (stdin, typist) = pipe();
        let (out_reader, stdout) = pipe();
        let (err_reader, stderr) = pipe();
        Self {
            ends: Some(ChildEnds::Pipes {
                stdin: Some(stdin_to_child),
                stdout: Some(stdout_from_child),
                stderr: Some(stderr_from_child),
            }),
            child_stdin: Some(child_stdin.into()),
            child_stdout: Some(child_stdout.into()),
            child_stderr: Some(child_stderr.into()),
            stdin,
            stdout,
            stderr,
            typist: Some(typist.into()),
            out_reader: Some(out_reader.into()),
            err_reader: Some(err_reader.into()),
        }
    }
}

const TICK: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(60);

/// Steps until `done`, and fails if that takes too long.
fn run(relay: &mut Relay<'_>, mut done: impl FnMut(&Relay<'_>) -> bool) {
    let start = Instant::now();
    while !done(relay) {
        assert!(start.elapsed() < PATIENCE, "stuck: {relay:?}");
        relay.step(&[], Some(TICK)).unwrap();
    }
}

/// Steps until nothing has moved for a few ticks.
fn settle(relay: &mut Relay<'_>) {
    let mut idle = 0;
    while idle < 5 {
        let before = relay.moved();
        relay.step(&[], Some(TICK)).unwrap();
        idle = if before == relay.moved() { idle + 1 } else { 0 };
    }
}

fn read_all(file: Option<File>) -> JoinHandle<Vec<u8>> {
    let mut file = file.unwrap();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

fn write_all(file: Option<File>, bytes: Vec<u8>) -> JoinHandle<()> {
    let mut file = file.unwrap();
    std::thread::spawn(move || file.write_all(&bytes).unwrap())
}
