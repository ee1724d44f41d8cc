//! What a command may use up: each limit is met, and the host does not notice.

use std::time::Duration;

use crate::harness::{Place, has, lacks};

/// Runs `script` free, where it has to succeed, and then inside, where it must not.
#[track_caller]
fn stopped(options: &[&str], script: &str) -> crate::harness::Output {
    let place = Place::new();
    place.free(script).exits(0);
    let inside = place.exec(options, script);
    assert_ne!(inside.code(), Some(0), "{script}\n{}", inside.errors);
    inside
}

#[test]
fn files_end_at_their_size() {
    let place = Place::new();
    let script = "head -c 3000000 /dev/zero > big";
    place.free(script).exits(0);
    let inside = place.exec(&["--limit", "file_size=1MiB"], script);
    assert_ne!(inside.code(), Some(0));
    let size = std::fs::metadata(place.workspace.join("big"))
        .unwrap()
        .len();
    assert_eq!(size, 1 << 20);
}

#[test]
fn open_files_end_at_their_number() {
    let script = "bash -c 'for i in $(seq 10 80); do eval \"exec $i</dev/null\" || exit 1; done'";
    stopped(&["--limit", "open_files=64"], script);
}

#[test]
fn processes_end_at_their_number() {
    let script = "for i in $(seq 60); do sleep 5 & done; pids=$(jobs -p); kill $pids";
    let script = format!("bash -ec '{script}'");
    stopped(&["--limit", "processes=32"], &script);
}

#[test]
fn processor_time_ends() {
    let place = Place::new();
    let inside = place.exec(&["--limit", "cpu_time=1s"], "while :; do :; done");
    // SIGXCPU, or SIGKILL at the hard limit.
    assert!(matches!(inside.code(), Some(152 | 137)), "{inside:?}");
}

#[test]
fn the_temp_folder_ends_at_its_size() {
    for folder in ["/tmp", "/var/tmp"] {
        let script = format!(
            "f=$(mktemp -p {folder}); trap 'rm -f $f' EXIT; \
                              head -c 3000000 /dev/zero > $f"
        );
        let inside = stopped(&["--limit", "tmp_size=1MiB"], &script);
        inside.says("No space left");
    }
}

#[test]
fn memory_ends_at_its_limit() {
    if !has("python3") && lacks("the memory limit: no python3") {
        return;
    }
    let place = Place::new();
    let script = "/usr/bin/python3 -c 'b = bytearray(400 << 20); print(len(b))'";
    place.free(script).exits(0);
    for backend in ["native", "bwrap", "landlock"] {
        let options = [
            "--limit",
            "memory=100MiB",
            "--profile",
            "ci",
            "--backend",
            backend,
        ];
        let inside = place.exec(&options, script);
        assert_ne!(inside.code(), Some(0), "{backend}: {inside:?}");
        assert_eq!(inside.text(), "", "{backend}");
    }
}

#[test]
fn memory_of_many_processes_ends_at_the_limit_of_their_tree() {
    if !has("python3") && lacks("the memory limit: no python3") {
        return;
    }
    let place = Place::new();
    // Each is below the limit, all of them are above; what is held is held until the end.
    let script = "for i in 1 2 3 4 5 6 7 8; do /usr/bin/python3 -c \
                  'import time; b = b\"x\" * (40 << 20); time.sleep(4)' & done; \
                  for it in $(jobs -p); do wait $it || exit 9; done; echo all";
    let script = format!("bash -c '{}'", script.replace('\'', "'\\''"));
    assert_eq!(place.free(&script).success(), "all");
    let inside = place.exec(&["--limit", "memory=120MiB"], &script);
    assert_ne!(inside.code(), Some(0), "{inside:?}");
}

#[test]
fn wall_time_does_not_wait_for_a_stopped_command() {
    let place = Place::new();
    let started = std::time::Instant::now();
    let inside = place.exec(&["--limit", "wall_time=1s"], "kill -STOP $$; sleep 100");
    inside.exits(124);
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn no_core_is_dumped() {
    let place = Place::new();
    let inside = place.exec(&[], "ulimit -c; ulimit -Hc; sh -c 'kill -SEGV $$'");
    inside.exits(139);
    assert_eq!(inside.text(), "0\n0");
    assert_eq!(
        crate::harness::names(&place.workspace),
        Vec::<std::ffi::OsString>::new()
    );
}
