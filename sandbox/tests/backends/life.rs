//! How a sandbox ends, whatever ends it: nothing survives, nothing is left.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use sandbox::{Backend, End, Event, SandboxedCommand};

use crate::fixture::{self, Suite, World};
use crate::free;
use crate::given::{plain, whole};

pub(crate) fn run(suite: &mut Suite) {
    for backend in fixture::backends(suite) {
        let name = backend.name();
        let backend = backend.as_ref();
        whole(
            suite,
            &format!("{name}: exit status and signal come back"),
            backend,
            ends,
        );
        whole(
            suite,
            &format!("{name}: a missing program is told apart"),
            backend,
            missing,
        );
        whole(
            suite,
            &format!("{name}: a signal is passed on"),
            backend,
            signal,
        );
        whole(
            suite,
            &format!("{name}: a daemon ends with the command"),
            backend,
            daemon,
        );
        whole(
            suite,
            &format!("{name}: a kill ends everything"),
            backend,
            kill,
        );
        whole(
            suite,
            &format!("{name}: nothing survives the supervisor"),
            backend,
            orphan,
        );
    }
}

fn ends(backend: &dyn Backend) -> Result<(), String> {
    let world = World::new();
    for (script, expected) in [
        ("exit 7", End::Exited(7)),
        ("exit 0", End::Exited(0)),
        ("kill -TERM $$", End::Signaled(15)),
        ("kill -KILL $$", End::Signaled(9)),
    ] {
        let ran =
            fixture::run(backend, &plain(&world), script).map_err(|it| fixture::chain(&it))?;
        if ran.end != expected {
            return Err(format!("{script}: {ran:?}"));
        }
    }
    Ok(())
}

fn missing(backend: &dyn Backend) -> Result<(), String> {
    let world = World::new();
    let command = SandboxedCommand::new("/usr/bin/not-there", [""; 0], plain(&world));
    match fixture::start(backend, command) {
        Err(sandbox::SandboxError::Exec { source, .. }) if source.raw_os_error() == Some(2) => {
            Ok(())
        }
        other => Err(format!("{other:?}")),
    }
}

fn signal(backend: &dyn Backend) -> Result<(), String> {
    let world = World::new();
    let script = "trap 'echo got; exit 3' USR1; echo ready; while :; do sleep 0.02; done";
    let command = SandboxedCommand::new("/bin/sh", ["-c", script], plain(&world));
    let (mut running, output) =
        fixture::start(backend, command).map_err(|it| fixture::chain(&it))?;
    let mut lines = BufReader::new(std::fs::File::from(output)).lines();
    if lines.next().and_then(Result::ok).as_deref() != Some("ready") {
        return Err("it did not start".to_owned());
    }
    running.signal(10);
    // The shell tells of its `sleep` too, which was in the same group.
    let said: Vec<String> = lines.map_while(Result::ok).collect();
    match running.event() {
        Ok(Event::Ended(End::Exited(3), _)) if said.iter().any(|it| it == "got") => Ok(()),
        other => Err(format!("{said:?}, {other:?}")),
    }
}

/// A number that no other process sleeps for.
fn marker() -> String {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let next = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    format!("7{}.{next}", rustix::process::getpid().as_raw_nonzero())
}

/// Starts what tries to outlive its parent: another session, twice forked.
fn daemon_script(marker: &str) -> String {
    format!(
        "setsid sh -c 'sleep {marker} & sleep {marker} & wait' >/dev/null 2>&1 & sleep 0.1; echo started"
    )
}

fn daemon(backend: &dyn Backend) -> Result<(), String> {
    let world = World::new();
    let free_marker = marker();
    free::output(&daemon_script(&free_marker), &world.variables());
    let survivors = free::processes_with(&free_marker);
    for pid in &survivors {
        if let Some(pid) = rustix::process::Pid::from_raw(*pid) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    if survivors.is_empty() {
        return Err("free it left nothing, so it tests nothing".to_owned());
    }
    let marker = marker();
    let ran = fixture::run(backend, &plain(&world), &daemon_script(&marker))
        .map_err(|it| fixture::chain(&it))?;
    if !ran.text.contains("started") {
        return Err(ran.text);
    }
    gone(&marker, rustix::process::getpid(), Duration::ZERO)
}

fn kill(backend: &dyn Backend) -> Result<(), String> {
    let world = World::new();
    let marker = marker();
    let script = format!("{}; sleep {marker}", daemon_script(&marker));
    let command = SandboxedCommand::new("/bin/sh", ["-c", &script], plain(&world));
    let (mut running, output) =
        fixture::start(backend, command).map_err(|it| fixture::chain(&it))?;
    let mut lines = BufReader::new(std::fs::File::from(output)).lines();
    lines.next();
    if free::processes_with(&marker).is_empty() {
        return Err("nothing was started".to_owned());
    }
    running.kill();
    match running.event() {
        Ok(Event::Gone | Event::Ended(..)) => (),
        other => return Err(format!("{other:?}")),
    }
    drop(running);
    gone(&marker, rustix::process::getpid(), Duration::ZERO)
}

/// No process of the sandbox and no folder of it is left after `patience`.
fn gone(marker: &str, supervisor: rustix::process::Pid, patience: Duration) -> Result<(), String> {
    let deadline = Instant::now() + patience;
    loop {
        let (processes, folders) = (free::processes_with(marker), free::leftovers(supervisor));
        if processes.is_empty() && folders.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(format!(
                "left: processes {processes:?}, folders {folders:?}"
            ));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn orphan(backend: &dyn Backend) -> Result<(), String> {
    let marker = marker();
    let mut supervisor = Command::new(std::env::current_exe().unwrap())
        .args(["__supervise", backend.name(), &marker])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = rustix::process::Pid::from_child(&supervisor);
    let mut said = String::new();
    BufReader::new(supervisor.stdout.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    let started = free::processes_with(&format!("sleep\0{marker}")).len();
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    if said.trim() != "started" || started == 0 {
        return Err(format!("the supervisor said {said:?}, {started} processes"));
    }
    gone(&marker, pid, Duration::from_secs(1))
}

/// A supervisor that is there to be killed.
pub(crate) fn supervise(words: &[OsString]) -> ExitCode {
    let [name, marker] = words else {
        return ExitCode::FAILURE;
    };
    let world = World::new();
    let mut suite = Suite::new(None);
    let backend = fixture::backends(&mut suite)
        .into_iter()
        .find(|it| it.name() == name)
        .unwrap();
    let marker = marker.to_str().unwrap();
    let script = format!("{}; sleep {marker}", daemon_script(marker));
    let command = SandboxedCommand::new("/bin/sh", ["-c", &script], plain(&world));
    let (_running, output) = fixture::start(backend.as_ref(), command).unwrap();
    let mut line = String::new();
    BufReader::new(std::fs::File::from(output))
        .read_line(&mut line)
        .unwrap();
    // Not in the way of the check for leftovers, since nobody is there to remove it.
    drop(world);
    print!("{line}");
    std::io::Write::flush(&mut std::io::stdout()).unwrap();
    std::thread::sleep(Duration::from_secs(60));
    ExitCode::SUCCESS
}
