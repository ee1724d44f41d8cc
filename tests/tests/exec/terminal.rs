//! A person at a terminal: the command has one of its own, which behaves like the person's.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::{LocalModes, OptionalActions, Winsize};

use crate::harness::{Place, has, lacks, stockade, until, wait};

const PATIENCE: Duration = Duration::from_secs(30);

/// A terminal with a program at it, as a terminal emulator sees both.
struct Screen {
    master: File,
    /// Held, so that settings can be read after the program has gone.
    slave: OwnedFd,
    name: String,
    shown: Arc<Mutex<Vec<u8>>>,
    child: Child,
}

impl Screen {
    /// `stockade exec -- WORDS` at a terminal of 24 lines and 80 columns.
    fn exec(place: &Place, words: &[&str]) -> Self {
        let program = stockade();
        let mut all = vec![program.to_str().unwrap(), "exec", "--"];
        all.extend(words);
        Self::start(place, &all)
    }

    /// Any program at a terminal that controls it.
    fn start(place: &Place, words: &[&str]) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = rustix::pty::openpt(flags).unwrap();
        rustix::pty::grantpt(&master).unwrap();
        rustix::pty::unlockpt(&master).unwrap();
        let name = rustix::pty::ptsname(&master, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).unwrap();
        size(&master, 24, 80);
        // A session of its own, whose terminal is standard input, setsid(1).
        let mut command = place.command("setsid");
        command.arg("--ctty").args(words).env("TERM", "xterm");
        let end = || Stdio::from(slave.try_clone().unwrap());
        command.stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (mut reader, copy) = (File::from(master.try_clone().unwrap()), Arc::clone(&shown));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                copy.lock().unwrap().extend_from_slice(&buffer[..length]);
            }
        });
        Self {
            master: File::from(master),
            slave,
            name: name.into_string().unwrap(),
            shown,
            child,
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// Waits until `part` is on the screen, and takes away everything up to it.
    #[track_caller]
    fn expect(&self, part: &str) -> String {
        let end = std::time::Instant::now() + PATIENCE;
        loop {
            let text = self.text();
            if let Some((before, after)) = text.split_once(part) {
                *self.shown.lock().unwrap() = after.as_bytes().to_vec();
                return before.to_owned();
            }
            assert!(std::time::Instant::now() < end, "no `{part}` in {text:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Types.
    fn send(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    fn modes(&self) -> LocalModes {
        rustix::termios::tcgetattr(self.slave.as_fd())
            .unwrap()
            .local_modes
    }

    #[track_caller]
    fn ends(&mut self, code: i32) {
        let shown = self.text();
        let found = wait(&mut self.child, PATIENCE);
        let found = found.unwrap_or_else(|| panic!("no end: {shown:?}"));
        assert_eq!(found.code(), Some(code), "{:?}", self.text());
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(master: impl AsFd, rows: u16, columns: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(master, size).unwrap();
}

#[test]
fn the_terminal_inside_is_one_of_its_own() {
    let place = Place::new();
    let script = "for it in 0 1 2; do test -t $it || echo no $it; done; tty; ls /dev/pts; \
                  (: < /dev/tty) && echo controls; echo end";
    let mut screen = Screen::exec(&place, &["sh", "-c", script]);
    let outer = screen.name.clone();
    let shown = screen.expect("end");
    assert!(
        shown.contains("/dev/pts/0") && shown.contains("controls"),
        "{shown}"
    );
    assert!(!shown.contains("no "), "{shown}");
    screen.ends(0);
    // The person's own is another one, and its device is not there.
    let inside = place.exec(&[], &format!("test -e {outer}"));
    let number = outer.rsplit('/').next().unwrap();
    if number != "0" {
        assert_ne!(inside.code(), Some(0));
    }
}

#[test]
fn the_size_is_passed_on_and_follows() {
    let place = Place::new();
    let script = "stty size; trap 'echo now $(stty size)' WINCH; echo ready; \
                  while :; do sleep 0.05; done";
    let mut screen = Screen::exec(&place, &["bash", "-c", script]);
    assert!(screen.expect("ready").contains("24 80"));
    for (rows, columns) in [(33, 77), (50, 200)] {
        size(&screen.master, rows, columns);
        screen.expect(&format!("now {rows} {columns}"));
    }
    screen.send("\x03");
    screen.ends(130);
}

#[test]
fn an_interrupt_key_reaches_the_command_alone() {
    let place = Place::new();
    let script = "trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done";
    let mut screen = Screen::exec(&place, &["sh", "-c", script]);
    screen.expect("ready");
    screen.send("\x03");
    screen.expect("caught");
    screen.ends(3);
    let mut screen = Screen::exec(&place, &["sh", "-c", "echo ready; exec sleep 900"]);
    screen.expect("ready");
    screen.send("\x03");
    screen.ends(130);
    let mut screen = Screen::exec(&place, &["sh", "-c", "echo ready; exec sleep 900"]);
    screen.expect("ready");
    screen.send("\x1c");
    screen.ends(131);
}

#[test]
fn a_shell_has_job_control() {
    if !has("bash") && lacks("job control: no bash") {
        return;
    }
    let place = Place::new();
    let mut screen = Screen::exec(&place, &["bash", "--norc", "--noprofile", "-i"]);
    screen.send("PS1='$ '; echo be''gin\n");
    let greeting = screen.expect("begin");
    assert!(!greeting.contains("no job control"), "{greeting}");
    screen.send("sleep 900 & jobs; echo lis''ted\n");
    assert!(screen.expect("listed").contains("Running"));
    screen.send("fg; echo ba''ck\n");
    screen.expect("sleep 900");
    // Once it is in front, a suspension hits it and not the shell.
    let end = std::time::Instant::now() + PATIENCE;
    while !screen.text().contains("Stopped") {
        assert!(std::time::Instant::now() < end, "{:?}", screen.text());
        screen.send("\x1a");
        std::thread::sleep(Duration::from_millis(50));
    }
    screen.expect("back");
    screen.send("kill %1; wait; echo do''ne\n");
    screen.expect("done");
    screen.send("exit 6\n");
    screen.ends(6);
}

#[test]
fn the_terminal_is_as_it_was_after_every_end() {
    let place = Place::new();
    let ends: [(&str, &str, i32); 3] = [
        ("echo ready; read it; exit 4", "\r", 4),
        (
            "echo ready; stty raw -echo; read it; kill -KILL $$",
            "\r\n",
            137,
        ),
        ("echo ready; exec sleep 900", "\x03", 130),
    ];
    for (script, keys, code) in ends {
        let mut screen = Screen::exec(&place, &["sh", "-c", script]);
        let before = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        screen.expect("ready");
        // While it runs, keys pass through as they are.
        assert!(!screen.modes().intersects(before), "{script}");
        screen.send(keys);
        screen.ends(code);
        assert!(screen.modes().contains(before), "{script}");
    }
    // Ended from outside.
    let mut screen = Screen::exec(&place, &["sh", "-c", "echo ready; exec sleep 900"]);
    screen.expect("ready");
    let pid = rustix::process::Pid::from_child(&screen.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    screen.ends(143);
    assert!(
        screen
            .modes()
            .contains(LocalModes::ICANON | LocalModes::ECHO)
    );
}

#[test]
fn settings_that_a_command_makes_stay_with_its_own_terminal() {
    let place = Place::new();
    let script = "stty -echo -icanon intr x; stty -a; echo ready; read it";
    let mut screen = Screen::exec(&place, &["sh", "-c", script]);
    assert!(screen.expect("ready").contains("intr = x"));
    screen.send("\n");
    screen.ends(0);
    let modes = rustix::termios::tcgetattr(screen.slave.as_fd()).unwrap();
    let interrupt = modes.special_codes[rustix::termios::SpecialCodeIndex::VINTR];
    assert_eq!(interrupt, 3);
    rustix::termios::tcsetattr(screen.slave.as_fd(), OptionalActions::Now, &modes).unwrap();
}

#[test]
fn nothing_can_be_typed_into_the_persons_terminal() {
    if !has("python3") && lacks("TIOCSTI: no python3") {
        return;
    }
    let place = Place::new();
    // TIOCSTI, and TIOCLINUX that pastes, ioctl_tty(2) and ioctl_console(2).
    let attack = "import fcntl, glob, os, termios\n\
        for path in ['/dev/stdin', '/dev/tty', '/dev/console'] + glob.glob('/dev/pts/*'):\n\
        \x20try: fd = os.open(path, os.O_RDWR | os.O_NOCTTY)\n\
        \x20except OSError: continue\n\
        \x20for call, data in [(termios.TIOCSTI, b'!'), (0x541C, b'\\x03')]:\n\
        \x20 try: fcntl.ioctl(fd, call, data); print('WOR' + 'KED', path, hex(call))\n\
        \x20 except OSError: pass\n\
        print('at' + 'tacked')\n";
    place.write("attack.py", attack);
    let words = ["/usr/bin/python3", "attack.py"];
    let mut screen = Screen::exec(&place, &words);
    let shown = screen.expect("attacked");
    screen.ends(0);
    assert!(!shown.contains("WORKED"), "{shown}");
    // With one stream at the terminal as well: it is relayed, not handed over.
    let script = format!(
        "{} exec -- /usr/bin/python3 attack.py | cat",
        stockade().display()
    );
    let mut screen = Screen::start(&place, &["sh", "-c", &script]);
    let shown = screen.expect("attacked");
    assert!(!shown.contains("WORKED"), "{shown}");
    screen.ends(0);
    // The control: free, at least one of these works on a terminal that is one's own.
    let screen = Screen::start(&place, &words);
    let shown = screen.expect("attacked");
    if !shown.contains("WORKED") {
        eprintln!("this kernel refuses TIOCSTI to everyone; the filter was not needed");
    }
}

#[test]
fn a_terminal_that_goes_away_ends_everything() {
    let place = Place::new();
    let script = "setsid sleep 900 & touch up; exec sleep 900";
    let screen = Screen::exec(&place, &["sh", "-c", script]);
    let state = place.home.join(".local/state/stockade/run");
    until("it is up", PATIENCE, || place.workspace.join("up").exists());
    assert_eq!(fs::read_dir(&state).unwrap().count(), 1);
    let pid = rustix::process::Pid::from_child(&screen.child);
    // What the kernel sends when the terminal is closed.
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    until("nothing runs", PATIENCE, || {
        fs::read_dir(&state).unwrap().count() == 0
    });
}

#[test]
fn much_output_to_a_terminal_arrives_whole() {
    let place = Place::new();
    let script = "seq 1 50000; echo finished";
    let mut screen = Screen::exec(&place, &["sh", "-c", script]);
    let shown = screen.expect("finished");
    assert_eq!(shown.lines().filter(|it| !it.is_empty()).count(), 50_000);
    screen.ends(0);
}

#[test]
fn a_pipe_beside_a_terminal_is_no_terminal() {
    let place = Place::new();
    let script = format!(
        "{0} exec -- sh -c 'test -t 0 || echo in; test -t 1 || echo out' | cat; \
         echo x | {0} exec -- sh -c 'test -t 0 || cat'; echo end",
        stockade().display()
    );
    let mut screen = Screen::start(&place, &["sh", "-c", &script]);
    let shown = screen.expect("end");
    assert!(shown.contains("out") && shown.contains('x'), "{shown}");
    screen.ends(0);
    assert!(screen.modes().contains(LocalModes::ECHO));
}
