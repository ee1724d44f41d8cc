//! From the start of a command to the end of everything that it started.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Live, Place, finish, is_root, stockade, until};

/// How long a reaper may need after a `kill -9`, and then some for two cores that are busy.
const REAPED: Duration = Duration::from_secs(3);

/// Whether a process of the host has `mark` in its argument list.
fn runs(mark: &str) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let is_process = entry.file_name().as_encoded_bytes()[0].is_ascii_digit();
        is_process
            && fs::read(entry.path().join("cmdline"))
                .is_ok_and(|it| String::from_utf8_lossy(&it).contains(mark))
    })
}

/// A duration for sleep(1) that no other test uses, long enough to outlive every test.
fn mark() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("7{:06}{number:03}", std::process::id())
}

/// Starts `script` in `place` and waits until it has written the file `ready`.
fn start(place: &Place, options: &[&str], script: &str) -> Live {
    let mut command = place.exec_command(options, script);
    command.stdin(Stdio::null());
    let live = Live::start(command, Vec::new());
    until("the command is ready", Duration::from_secs(30), || {
        place.workspace.join("ready").exists()
    });
    live
}

#[test]
fn the_exit_code_of_the_command_passes_through() {
    let place = Place::new();
    for code in [0, 1, 2, 42, 77, 124, 125, 126, 127, 128, 130, 200, 255] {
        place.exec(&[], &format!("exit {code}")).exits(code);
    }
    for (signal, code) in [("KILL", 137), ("TERM", 143), ("ABRT", 134), ("USR1", 138)] {
        let inside = place.exec(&[], &format!("kill -{signal} $$"));
        inside.exits(code);
    }
    let mut command = place.stockade(["exec", "--", "false"]);
    command.stdin(Stdio::null());
    let inside = finish(command, b"");
    inside.exits(1);
    assert_eq!(inside.errors, "", "an ordinary failure is no denial");
}

#[test]
fn what_can_not_be_started_has_a_code_and_a_reason() {
    let place = Place::new();
    place.write("plain", "no program");
    place.write("hidden", "canary");
    fs::create_dir(place.workspace.join("folder")).unwrap();
    let cases: [(&[&str], i32, &str); 7] = [
        (&["exec", "--", "no-such-program"], 127, "no-such-program"),
        (&["exec", "--", "./missing"], 127, "./missing"),
        (&["exec", "--", "./plain"], 126, "./plain"),
        (&["exec", "--", "./folder"], 126, "./folder"),
        (
            &["exec", "--deny", "hidden", "--", "./hidden"],
            126,
            "./hidden",
        ),
        (&["exec"], 2, "<CMD>"),
        (
            &["exec", "--profile", "no-such", "--", "true"],
            2,
            "no-such",
        ),
    ];
    for (words, code, part) in cases {
        let output = finish(place.stockade(words), b"");
        output.exits(code).says(part);
        assert_eq!(output.text(), "");
    }
}

#[test]
fn a_wall_time_that_is_over_ends_the_tree_and_exits_124() {
    let place = Place::new();
    let mark = mark();
    let started = Instant::now();
    let script = format!("sleep {mark} & (trap '' TERM; sleep {mark}) & sleep {mark}");
    let output = place.exec(&["--limit", "wall_time=1s"], &script);
    output.exits(124).says("wall time");
    assert!(started.elapsed() >= Duration::from_secs(1));
    assert!(!runs(&mark));
}

#[test]
fn an_interrupt_reaches_the_command_and_its_answer_is_heard() {
    let place = Place::new();
    for (signal, name) in [
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ] {
        let script =
            format!("trap 'echo heard; exit 7' {name}; touch ready; while :; do sleep 0.05; done");
        let live = start(&place, &[], &script);
        kill_process(live.pid(), signal).unwrap();
        let output = live.end();
        assert_eq!(output.exits(7).text(), "heard", "{name}");
        fs::remove_file(place.workspace.join("ready")).unwrap();
    }
}

#[test]
fn an_interrupt_ends_the_whole_tree() {
    let place = Place::new();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mark = mark();
        let script = format!("sleep {mark} & setsid sleep {mark} & touch ready; exec sleep {mark}");
        let live = start(&place, &[], &script);
        kill_process(live.pid(), signal).unwrap();
        live.end().exits(128 + signal.as_raw());
        assert!(!runs(&mark), "{signal:?}");
        fs::remove_file(place.workspace.join("ready")).unwrap();
    }
}

#[test]
fn who_does_not_heed_term_is_killed_two_seconds_later() {
    let place = Place::new();
    let mark = mark();
    let script = format!("trap '' TERM; touch ready; sleep {mark}; sleep {mark}");
    let live = start(&place, &[], &script);
    let started = Instant::now();
    kill_process(live.pid(), Signal::TERM).unwrap();
    let output = live.end();
    output.exits(137);
    assert!(
        started.elapsed() >= Duration::from_millis(1900),
        "{:?}",
        started.elapsed()
    );
    assert!(!runs(&mark));
}

#[test]
fn a_daemon_ends_with_its_command() {
    let place = Place::new();
    let mark = mark();
    let script = format!("(setsid sh -c 'sleep {mark} & sleep {mark}' &) & echo done");
    let inside = place.exec(&[], &script);
    assert_eq!(inside.success(), "done");
    assert!(!runs(&mark));
    // Free, it stays.
    place
        .free(&format!(
            "(setsid sh -c 'echo $$ > pid; exec sleep {mark}' >/dev/null 2>&1 &) &"
        ))
        .exits(0);
    until("the free daemon runs", REAPED, || {
        fs::read(place.workspace.join("pid")).is_ok_and(|it| it.ends_with(b"\n"))
    });
    assert!(runs(&mark));
    let pid = Pid::from_raw(place.read("pid").trim().parse().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

#[test]
fn a_grandchild_that_holds_the_output_does_not_hang_the_end() {
    let place = Place::new();
    let mark = mark();
    let started = Instant::now();
    let inside = place.exec(&[], &format!("setsid sleep {mark} & echo done"));
    assert_eq!(inside.success(), "done");
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_killed_supervisor_leaves_nothing() {
    let place = Place::new();
    let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap();
    let before = mounts();
    let mark = mark();
    let script = format!(
        "echo evil > .mcp.json; setsid sleep {mark} & sleep {mark} & touch ready; sleep {mark}"
    );
    let live = start(&place, &[], &script);
    until("the daemons run", REAPED, || runs(&mark));
    let state = place.home.join(".local/state/stockade/run");
    assert_eq!(fs::read_dir(&state).unwrap().count(), 1);
    let groups = cgroups(live.pid());
    kill_process(live.pid(), Signal::KILL).unwrap();
    until("every process is gone", REAPED, || !runs(&mark));
    until("the entry of the list is gone", REAPED, || {
        fs::read_dir(&state).unwrap().count() == 0
    });
    until("the control groups are gone", REAPED, || {
        groups.iter().all(|it| !it.exists())
    });
    until("the protected name is moved aside", REAPED, || {
        !place.workspace.join(".mcp.json").exists()
    });
    assert_eq!(mounts(), before);
    drop(live);
}

#[test]
fn a_supervisor_that_is_killed_while_it_starts_leaves_nothing() {
    let place = Place::new();
    let mark = mark();
    for number in 0..40 {
        let mut command = place.exec_command(&[], &format!("setsid sleep {mark} & sleep {mark}"));
        command.stdin(Stdio::null());
        let live = Live::start(command, Vec::new());
        // Not a wait for something: each kill hits another moment of the start.
        std::thread::sleep(Duration::from_millis(number));
        kill_process(live.pid(), Signal::KILL).unwrap();
    }
    let state = place.home.join(".local/state/stockade/run");
    until("every process and entry is gone", REAPED, || {
        let entries = fs::read_dir(&state).map_or(0, Iterator::count);
        entries == 0 && !runs(&mark)
    });
}

/// The control groups whose name tells of the process `pid`, and of its children.
fn cgroups(pid: Pid) -> Vec<std::path::PathBuf> {
    let children = format!("/proc/{0}/task/{0}/children", pid.as_raw_nonzero());
    let children = fs::read_to_string(children).unwrap();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    let mut found = Vec::new();
    for child in children.split_whitespace() {
        let text = fs::read_to_string(format!("/proc/{child}/cgroup")).unwrap_or_default();
        for line in text.lines().filter(|it| !own.contains(it)) {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next().unwrap(), parts.next().unwrap());
            let hierarchy = if controllers.is_empty() {
                "/sys/fs/cgroup".to_owned()
            } else {
                format!("/sys/fs/cgroup/{controllers}")
            };
            found.push(Path::new(&hierarchy).join(path.trim_start_matches('/')));
        }
    }
    found.retain(|it| it.exists());
    found
}

#[test]
fn no_control_group_and_no_entry_is_left_after_any_end() {
    let place = Place::new();
    let script = "touch ready; while [ ! -e go ]; do sleep 0.02; done";
    let live = start(&place, &["--limit", "memory=1GiB"], script);
    let groups = cgroups(live.pid());
    if is_root() {
        // Elsewhere an ordinary user may have none delegated.
        assert!(!groups.is_empty());
    }
    place.write("go", "");
    live.end().exits(0);
    for group in groups {
        assert!(!group.exists(), "{}", group.display());
    }
    let state = place.home.join(".local/state/stockade/run");
    assert_eq!(fs::read_dir(state).unwrap().count(), 0);
}

#[test]
fn what_runs_is_listed_and_can_be_ended() {
    let place = Place::new();
    let list = || finish(place.stockade(["ps", "--json"]), b"").success();
    assert_eq!(list(), "");
    for words in [&["kill"][..], &["kill", "--force"]] {
        let mark = mark();
        let live = start(&place, &[], &format!("touch ready; exec sleep {mark}"));
        let run: serde_json::Value = serde_json::from_str(&list()).unwrap();
        assert_eq!(run["pid"], live.pid().as_raw_nonzero().get());
        assert_eq!(run["profile"], "standard");
        assert_eq!(run["workspace"], place.workspace.to_str().unwrap());
        let text = finish(place.stockade(["ps"]), b"").success();
        let id = run["id"].as_str().unwrap();
        assert!(text.contains(id) && text.contains(&mark), "{text}");
        finish(place.stockade(words.iter().chain(&[id])), b"").exits(0);
        until("it has ended", REAPED, || !runs(&mark));
        assert_eq!(list(), "");
        drop(live);
        fs::remove_file(place.workspace.join("ready")).unwrap();
    }
    finish(place.stockade(["kill", "ffffffff"]), b"")
        .exits(1)
        .says("ffffffff");
}

#[test]
fn twenty_sandboxes_run_at_once_and_leave_nothing() {
    let place = Place::new();
    let mark = mark();
    let mut all = Vec::new();
    for number in 0..20 {
        let script = format!(
            "touch up{number}; sleep {mark} & while [ ! -e go ]; do sleep 0.05; done; echo {number}"
        );
        let mut command = place.exec_command(&[], &script);
        command.stdin(Stdio::null());
        all.push(Live::start(command, Vec::new()));
    }
    until("all are up", Duration::from_secs(50), || {
        (0..20).all(|it| place.workspace.join(format!("up{it}")).exists())
    });
    place.write("go", "");
    for (number, live) in all.into_iter().enumerate() {
        assert_eq!(live.end().success(), number.to_string());
    }
    assert!(!runs(&mark));
    let state = place.home.join(".local/state/stockade/run");
    assert_eq!(fs::read_dir(state).unwrap().count(), 0);
}

#[test]
fn zombies_are_collected_inside_and_none_is_left_outside() {
    let place = Place::new();
    // Each subshell leaves an orphan, which the first process of the sandbox has to collect.
    let script = "i=0; while [ $i -lt 50 ]; do (sleep 0 &) ; i=$((i+1)); done; n=200; \
                  while grep -q '^State:.Z' /proc/[0-9]*/status 2>/dev/null; \
                  do n=$((n-1)); [ $n -gt 0 ] || exit 9; sleep 0.05; done; echo clean; \
                  touch ready; while [ ! -e go ]; do sleep 0.02; done";
    let live = start(&place, &[], script);
    let supervisor = live.pid().as_raw_nonzero();
    let children = format!("/proc/{supervisor}/task/{supervisor}/children");
    for child in fs::read_to_string(children).unwrap().split_whitespace() {
        let status = fs::read_to_string(format!("/proc/{child}/status")).unwrap();
        assert!(!status.contains("State:\tZ"), "{status}");
    }
    place.write("go", "");
    assert_eq!(live.end().success(), "clean");
}

#[test]
fn the_supervisor_itself_may_be_the_last_of_its_session() {
    // Without a controlling terminal, without a parent that waits, and as a group leader.
    let place = Place::new();
    let script = format!("setsid -w {} exec -- echo fine", stockade().display());
    assert_eq!(place.free(&script).success(), "fine");
}
