//! What is timed as a whole process: plain launches, `stockade exec`, and other sandboxes.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::measure::{Subject, Target, timed};
use crate::scene::{BINDS, Scene, quiet};

/// The name of the plain `bwrap` with as many binds.
fn bwrap_name(binds: usize) -> &'static str {
    if binds == 20 {
        "plain bwrap, 20 binds"
    } else {
        "plain bwrap, 100 binds"
    }
}

/// Every subject, the plain spawn first.
pub(crate) fn all(scene: &Scene) -> Vec<Subject<'_>> {
    let mut all = vec![
        whole("posix_spawn /bin/true", || Command::new("/bin/true")),
        whole("fork + exec /bin/true", || {
            let mut command = Command::new("/bin/true");
            // An id to be set makes the standard library fork.
            command.gid(rustix::process::getegid().as_raw());
            command
        }),
    ];
    for binds in BINDS {
        let profile = format!("binds-{binds}");
        let share = if binds == 20 { 0.45 } else { 0.1 };
        for backend in ["native", "bwrap"] {
            if !scene.has(backend) {
                continue;
            }
            let profile = profile.clone();
            let mut subject = whole(&format!("exec, {backend}, {binds} binds"), move || {
                with(scene.exec(&profile, backend), "/bin/true")
            });
            subject.beside = Some(bwrap_name(binds));
            subject.target = (backend == "native").then_some(Target::OfBwrap(share));
            all.push(subject);
        }
        if has("bwrap") {
            all.push(whole(bwrap_name(binds), move || bwrap(scene, binds)));
        }
    }
    if scene.has("native") {
        let mut denies = whole("exec, native, 2,000 denies", || {
            with(scene.exec_among_denies(), "/bin/true")
        });
        denies.target = Some(Target::Millis(60.0));
        all.push(denies);
        let mut first = whole("exec, native, to the command's first byte", || {
            Command::new("/bin/true")
        });
        first.target = Some(Target::Millis(5.0));
        first.run = Box::new(|| first_byte(scene));
        all.push(first);
    }
    if has("unshare") {
        all.push(whole("unshare, all namespaces", || {
            let mut command = Command::new("unshare");
            command.args(["-Umpinuf", "--mount-proc", "--", "/bin/true"]);
            command
        }));
    }
    if has("firejail") {
        all.push(whole("firejail --noprofile", || {
            let mut command = Command::new("firejail");
            command.args(["--quiet", "--noprofile", "/bin/true"]);
            command
        }));
    }
    all
}

/// A whole process, from before its start to after its end.
fn whole<'s>(name: &str, make: impl Fn() -> Command + 's) -> Subject<'s> {
    Subject {
        name: name.to_owned(),
        beside: None,
        target: None,
        before: None,
        run: Box::new(move || {
            let mut command = make();
            quiet(&mut command);
            timed(|| {
                let status = command.status()?;
                if status.success() {
                    return Ok(());
                }
                Err(io::Error::other(status.to_string()))
            })
        }),
    }
}

fn with(mut command: Command, program: &str) -> Command {
    command.arg(program);
    command
}

/// The view that a person would give bubblewrap for the same work.
fn bwrap(scene: &Scene, binds: usize) -> Command {
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--die-with-parent"]);
    command.args(["--ro-bind", "/usr", "/usr"]);
    for name in ["/bin", "/sbin", "/lib", "/lib64"] {
        command.args(["--ro-bind-try", name, name]);
    }
    command.args(["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]);
    for at in 0..binds {
        let path = scene.bound(at);
        command.arg("--bind").arg(&path).arg(&path);
    }
    command.arg("/bin/true");
    command
}

fn has(program: &str) -> bool {
    let mut command = Command::new(program);
    quiet(&mut command).arg("--version");
    command.status().is_ok_and(|it| it.success())
}

fn first_byte(scene: &Scene) -> io::Result<Duration> {
    let mut command = scene.exec("binds-20", "native");
    quiet(&mut command)
        .stdout(Stdio::piped())
        .args(["/bin/echo", "x"]);
    let begin = Instant::now();
    let mut child = command.spawn()?;
    let mut byte = [0];
    if let Some(output) = &mut child.stdout {
        output.read_exact(&mut byte)?;
    }
    let time = begin.elapsed();
    child.wait()?;
    Ok(time)
}
