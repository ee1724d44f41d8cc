//! What is timed as a whole process: plain launches, `stockade exec`, and other sandboxes.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::measure::{Subject, timed};
use crate::scene::{Scene, quiet};
use crate::target::{Note, Target};

/// Every subject, the plain spawn first.
pub(crate) fn all(scene: &Scene) -> io::Result<Vec<Subject<'_, Note>>> {
    let mut all = vec![
        whole("posix_spawn /bin/true", || Command::new("/bin/true")),
        whole("fork + exec /bin/true", || {
            let mut command = Command::new("/bin/true");
            // An id to be set makes the standard library fork.
            command.gid(rustix::process::getegid().as_raw());
            command
        }),
    ];
    for (profile, beside, share) in [
        ("binds-20", "plain bwrap, 20 binds", 0.45),
        ("binds-100", "plain bwrap, 100 binds", 0.1),
        (
            "strict-20",
            "plain bwrap, the view of strict and 20 binds",
            0.45,
        ),
        (
            "strict-100",
            "plain bwrap, the view of strict and 100 binds",
            0.1,
        ),
    ] {
        for backend in ["native", "bwrap"] {
            if !scene.has(backend) {
                continue;
            }
            let mut subject = whole(&format!("exec, {backend}, {profile}"), move || {
                with(scene.exec(profile, backend), "/bin/true")
            });
            subject.note.beside = Some(beside);
            subject.note.target = (backend == "native").then_some(Target::OfBwrap(share));
            all.push(subject);
        }
        if has("bwrap") && scene.has("native") {
            let shown = scene.shown(profile)?;
            all.push(whole(beside, move || bwrap(&shown)));
        }
    }
    if scene.has("native") {
        let mut denies = whole("exec, native, 2,000 denies", || {
            with(scene.exec_among_denies(), "/bin/true")
        });
        denies.note.target = Some(Target::Millis(60.0));
        all.push(denies);
        let mut first = whole("exec, native, to the command's first byte", || {
            Command::new("/bin/true")
        });
        first.note.target = Some(Target::Millis(5.0));
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
    Ok(all)
}

/// A whole process, from before its start to after its end.
fn whole<'s>(name: &str, make: impl Fn() -> Command + 's) -> Subject<'s, Note> {
    Subject {
        name: name.to_owned(),
        note: Note::default(),
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

/// Bubblewrap with the same view and the same namespaces.
fn bwrap(shown: &[(String, bool)]) -> Command {
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--die-with-parent"]);
    for (place, is_writable) in shown {
        let bind = if *is_writable { "--bind" } else { "--ro-bind" };
        command.args([bind, place, place]);
    }
    for name in ["bin", "sbin", "lib", "lib64"] {
        let place = format!("/{name}");
        if let Ok(target) = std::fs::read_link(&place) {
            command.arg("--symlink").arg(target).arg(place);
        }
    }
    command.args(["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]);
    command.arg("/bin/true");
    command
}

fn has(program: &str) -> bool {
    let mut command = Command::new(program);
    quiet(&mut command).arg("--version");
    command.status().is_ok_and(|it| it.success())
}

fn first_byte(scene: &Scene) -> io::Result<Duration> {
    let mut command = scene.exec("strict-20", "native");
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
