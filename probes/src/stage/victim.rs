//! The victim: a process of the same user with a secret in its environment and memory.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::sys;

/// What the victim tells about itself.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Confession {
    /// Where in its memory the canary lies.
    pub(crate) address: u64,
    /// Which of its descriptors has the outside target open.
    pub(crate) fd: i32,
}

/// A started victim.
pub(crate) struct Victim {
    pub(crate) pid: Pid,
    pub(crate) confession: Confession,
}

/// Starts this program again as the victim. It ends with the stage.
pub(crate) fn start(canary: &str, target: &Path) -> io::Result<Victim> {
    let program = CString::new("/proc/self/exe")?;
    let arguments = [
        CString::new("stockade-probe")?,
        CString::new("victim")?,
        CString::new(canary)?,
        CString::new(target.as_os_str().as_bytes())?,
    ];
    let environment = [CString::new(format!("VICTIM_TOKEN={canary}"))?];
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    match sys::fork()? {
        sys::Fork::Child => {
            let placed = sys::exec::place(&writer, 1);
            if placed.is_ok() {
                sys::exec::execve(&program, &arguments, &environment);
            }
            sys::exit_now(127)
        }
        sys::Fork::Parent(pid) => {
            drop(writer);
            let mut line = String::new();
            File::from(reader).read_to_string(&mut line)?;
            let confession = serde_json::from_str(line.trim())?;
            Ok(Victim { pid, confession })
        }
    }
}

/// Is the victim: opens `target`, tells where its secret lies, and waits to be ended.
pub(crate) fn be(canary: &str, target: &Path) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let open = File::open(target)?;
    let secret = canary.as_bytes().to_vec();
    let confession = Confession {
        address: sys::memory::address_of(&secret),
        fd: open.as_raw_fd(),
    };
    let mut line = serde_json::to_vec(&confession)?;
    line.push(b'\n');
    io::stdout().write_all(&line)?;
    io::stdout().flush()?;
    // The stage reads to the end of the pipe, so standard output must go.
    let null = File::options().write(true).open("/dev/null")?;
    sys::exec::place(&null, 1)?;
    loop {
        std::thread::sleep(Duration::from_secs(60));
        // The secret must stay in memory as long as the victim lives.
        std::hint::black_box(&secret);
    }
}
