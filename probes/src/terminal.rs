//! Probes on terminals: typing for the user, taking terminals over, consoles.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use crate::attempt::{Attempt, Stop, refused, worked};
use crate::probe::{Class::Terminal, Probe};
use crate::stage::Stage;
use crate::sys::terminal;

#[rustfmt::skip] // One row for each probe: this is a table.
pub(crate) const PROBES: &[Probe] = &[
    Probe::held("pr10_tiocsti", Terminal, "Types into the caller's terminal.", push_input),
    Probe::held("pr11_dev_tty_open", Terminal, "Opens the caller's controlling terminal.", open_dev_tty),
    Probe::held("ks22_ttys_ioctl", Terminal, "Asks a console for its selection.", console_ioctl),
    Probe::held("tt01_tiocsti_high_bits", Terminal, "Types by a request number with high bits set.", push_high_bits),
    Probe::held("tt02_tiocsti_dev_tty", Terminal, "Types into the terminal opened by its generic name.", push_dev_tty),
    Probe::held("tt03_host_pts", Terminal, "Writes to the terminal of another session.", write_host_terminal),
    Probe::held("tt04_steal_terminal", Terminal, "Takes the terminal of another session for its own.", steal_terminal),
    Probe::held("tt05_console", Terminal, "Opens the console of the machine.", open_console),
    Probe::held("tt06_screen", Terminal, "Opens the screen memory of a console.", open_screen),
    Probe::held("tt07_tiocsti_host_pts", Terminal, "Types into the terminal of another session.", push_host_terminal),
    Probe::held("tt08_list_pts", Terminal, "Lists the terminals of the host.", list_terminals),
    Probe::held("tt09_new_host_pty", Terminal, "Makes a terminal among those of the host.", new_terminal),
];

/// A space and nothing else, so that a line typed by mistake is empty.
const BYTE: u8 = b' ';

fn push_input(_: &Stage) -> Attempt {
    terminal::push_input(io::stdin().as_fd(), BYTE, 0)?;
    worked("typed on standard input")
}

fn push_high_bits(_: &Stage) -> Attempt {
    terminal::push_input(io::stdin().as_fd(), BYTE, 1)?;
    worked("typed on standard input")
}

fn dev_tty() -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK)
        .open("/dev/tty")
}

fn open_dev_tty(_: &Stage) -> Attempt {
    dev_tty()?;
    worked("opened")
}

fn push_dev_tty(_: &Stage) -> Attempt {
    terminal::push_input(dev_tty()?, BYTE, 0)?;
    worked("typed")
}

/// Standard input if it is a terminal, else any console that can be opened.
fn console_ioctl(_: &Stage) -> Attempt {
    let mut last = Stop::Failed("nothing was tried".to_owned());
    for path in ["/dev/console", "/dev/tty0", "/dev/tty1", "/dev/tty"] {
        let open = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK)
            .open(path);
        match open.and_then(terminal::console_shift_state) {
            Ok(()) => return worked(path),
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

/// The stage's terminal, if the path leads to that one and not to a private one.
fn host_terminal(stage: &Stage) -> Result<File, Stop> {
    let Some((path, device)) = &stage.pts else {
        return Err(Stop::Refused(
            "ENODEV".to_owned(),
            "the host has no terminals".to_owned(),
        ));
    };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK)
        .open(path)?;
    if fs::metadata("/dev/pts")?.dev() == *device {
        return Ok(file);
    }
    Err(Stop::Refused(
        "ENOENT".to_owned(),
        "a private terminal of the same name".to_owned(),
    ))
}

fn write_host_terminal(stage: &Stage) -> Attempt {
    host_terminal(stage)?.write_all(b"tt03\n")?;
    worked("written")
}

fn push_host_terminal(stage: &Stage) -> Attempt {
    terminal::push_input(host_terminal(stage)?, BYTE, 0)?;
    worked("typed")
}

fn steal_terminal(stage: &Stage) -> Attempt {
    let file = host_terminal(stage)?;
    // The probe leads a group of its own, and a leader cannot start a session: a child can.
    crate::attempt::in_child(|| {
        rustix::process::setsid()?;
        terminal::take_terminal(&file, false)
    })?;
    worked("it is this session's now")
}

fn open_console(_: &Stage) -> Attempt {
    let mut last = Stop::Failed("nothing was tried".to_owned());
    for path in ["/dev/console", "/dev/tty0", "/dev/tty1", "/dev/ttyS0"] {
        let open = OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK)
            .open(path);
        match open {
            Ok(_) => return worked(path),
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

fn open_screen(_: &Stage) -> Attempt {
    let mut last = Stop::Failed("nothing was tried".to_owned());
    for path in [
        "/dev/vcs",
        "/dev/vcsa1",
        "/dev/fb0",
        "/dev/input/event0",
        "/dev/uinput",
    ] {
        match File::open(path) {
            Ok(_) => return worked(path),
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

fn is_host_devpts(stage: &Stage) -> Result<bool, Stop> {
    let here = fs::metadata("/dev/pts")?.dev();
    Ok(stage
        .pts
        .as_ref()
        .is_some_and(|(_, device)| *device == here))
}

fn list_terminals(stage: &Stage) -> Attempt {
    let count = fs::read_dir("/dev/pts")?.count();
    if is_host_devpts(stage)? {
        worked(format!("{count} entries"))
    } else {
        refused("ENOENT", "private terminals")
    }
}

fn new_terminal(stage: &Stage) -> Attempt {
    rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY)?;
    if is_host_devpts(stage)? {
        worked("made on the host")
    } else {
        refused("ENOENT", "private terminals")
    }
}
