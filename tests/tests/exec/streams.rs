//! Standard streams through pipes: every byte, in order, and nobody waits for nothing.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::process::Stdio;
use std::time::Duration;

use crate::harness::{Live, Place, finish, stockade};

/// Bytes in which every value and every pair of neighbours occurs, and that do not repeat soon.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

#[test]
fn pipes_are_exact_for_every_byte() {
    let place = Place::new();
    for length in [0, 1, 4095, 4096, 4097, 65_536, 1 << 20] {
        let bytes = noise(length);
        let output = finish(place.exec_command(&[], "exec cat"), &bytes);
        output.exits(0);
        assert!(
            output.bytes == bytes,
            "{length}: {} bytes came",
            output.bytes.len()
        );
        let output = finish(
            place.exec_command(&[], "cat >&2"),
            b"to the other\r\n\x1b[1m",
        );
        assert_eq!(output.errors, "to the other\r\n\x1b[1m");
    }
}

#[test]
fn a_hundred_megabytes_pass_both_ways() {
    let place = Place::new();
    let bytes = noise(100 << 20);
    let output = finish(place.exec_command(&[], "exec cat"), &bytes);
    output.exits(0);
    assert!(output.bytes == bytes, "{} bytes came", output.bytes.len());
}

#[test]
fn a_slow_reader_gets_everything_and_bounds_what_is_held() {
    let place = Place::new();
    let mut command = place.exec_command(&[], "head -c 30000000 /dev/zero; touch written");
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stream = child.stdout.take().unwrap();
    let mut buffer = [0; 1000];
    let mut length = stream.read(&mut buffer).unwrap();
    // The command waits for the reader: nothing holds 30 MB in between.
    std::thread::sleep(Duration::from_millis(500));
    assert!(!place.workspace.join("written").exists());
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let resident = status
        .lines()
        .find_map(|it| it.strip_prefix("VmRSS:"))
        .unwrap();
    let kib: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 60_000, "{kib} KiB");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    length += rest.len();
    assert_eq!(length, 30_000_000);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_reader_that_went_away_ends_the_writer() {
    let place = Place::new();
    let exec = format!("{} exec --", stockade().display());
    for writer in ["yes", "sh -c 'while :; do echo y; done'", "cat /dev/zero"] {
        let output = place.free(&format!("{exec} {writer} | head -c 2; echo; echo done"));
        assert!(output.success().ends_with("done"), "{writer}");
    }
    // The code says that it was the pipe, as it does free.
    let script = format!("bash -c '{exec} yes | head -n 1 >/dev/null; echo ${{PIPESTATUS[0]}}'");
    assert_eq!(place.free(&script).success(), "141");
    let script = "bash -c 'yes | head -n 1 >/dev/null; echo ${PIPESTATUS[0]}'";
    assert_eq!(place.free(script).success(), "141");
}

#[test]
fn one_pipe_for_both_keeps_their_order() {
    let place = Place::new();
    let lines = "i=0; while [ $i -lt 200 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done";
    let script = format!("{} exec -- sh -c '{lines}' 2>&1", stockade().display());
    let mut expected = String::new();
    for number in 0..200 {
        expected += &format!("o{number}\ne{number}\n");
    }
    assert_eq!(place.free(&script).success(), expected.trim());
    // The same through one file.
    let output = place.free(&format!("({script}) > both; cat both"));
    assert_eq!(output.success(), expected.trim());
}

#[test]
fn the_end_of_the_input_is_seen() {
    let place = Place::new();
    let output = finish(place.exec_command(&[], "cat; echo end"), b"x\n");
    assert_eq!(output.success(), "x\nend");
    assert_eq!(place.exec(&[], "cat; echo end").success(), "end");
    // Closed, not empty: whatever is opened next must not become standard input.
    let script = format!("{} exec -- sh -c 'cat; echo end' <&-", stockade().display());
    let closed = place.free(&script);
    assert!(closed.text().ends_with("end"), "{closed:?}");
}

#[test]
fn the_end_of_the_command_does_not_wait_for_more_input() {
    let place = Place::new();
    let mut command = place.exec_command(&[], "echo done");
    command.stdin(Stdio::piped());
    let mut live = Live::start(command, Vec::new());
    let open = live.child.stdin.take();
    assert_eq!(live.end_within(Duration::from_secs(30)).success(), "done");
    drop(open);
}

#[test]
fn input_from_a_file_is_left_to_who_comes_next() {
    let place = Place::new();
    let path = place.write("hosts", "one\ntwo\nthree\n");
    let loop_ = format!(
        "while read it; do {} exec -- sh -c \"echo got $it\"; done < hosts",
        stockade().display()
    );
    assert_eq!(place.free(&loop_).success(), "got one\ngot two\ngot three");
    // What the command does read is read from where the caller stood.
    let mut file = File::open(path).unwrap();
    let mut first = [0; 4];
    file.read_exact(&mut first).unwrap();
    let mut command = place.exec_command(&[], "cat");
    command.stdin(file.try_clone().unwrap());
    let output = Live::start(command, Vec::new()).end();
    assert_eq!(output.success(), "two\nthree");
    assert!(file.stream_position().unwrap() >= 4);
}

#[test]
fn a_file_of_the_caller_that_is_handed_over_can_not_be_written() {
    let place = Place::new();
    let path = place.outside.join("input");
    fs::write(&path, "before").unwrap();
    let script = "echo after > /proc/self/fd/0";
    for (free, expected) in [(false, "before"), (true, "after\n")] {
        let mut command = if free {
            let mut command = place.command("sh");
            command.args(["-c", script]);
            command
        } else {
            place.exec_command(&[], script)
        };
        command.stdin(File::open(&path).unwrap());
        Live::start(command, Vec::new()).end();
        assert_eq!(fs::read_to_string(&path).unwrap(), expected, "free: {free}");
    }
}

#[test]
fn output_to_a_file_is_appended_where_the_caller_stood() {
    let place = Place::new();
    let mut file = File::create(place.workspace.join("log")).unwrap();
    file.write_all(b"first\n").unwrap();
    let mut command = place.exec_command(&[], "echo second");
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone().unwrap());
    assert!(command.status().unwrap().success());
    file.write_all(b"third\n").unwrap();
    assert_eq!(place.read("log"), "first\nsecond\nthird\n");
}

#[test]
fn a_command_may_close_its_output() {
    let place = Place::new();
    for script in [
        "exec >&-; exec 2>&-; sleep 0.2; exit 5",
        "exec <&- >&- 2>&-; exit 5",
        "echo x; exec >/dev/null 2>&1; sleep 0.2; exit 5",
    ] {
        place.exec(&[], script).exits(5);
    }
}

#[test]
fn output_that_goes_nowhere_is_an_error_of_the_command() {
    let place = Place::new();
    let exec = format!("{} exec --", stockade().display());
    // To a full device: the command's end is told, and nothing hangs.
    let output = place.free(&format!("{exec} sh -c 'echo lost' > /dev/full; echo $?"));
    assert_ne!(output.success(), "0");
    let output = place.free(&format!("{exec} true >&- 2>&-; echo $?"));
    output.exits(0);
}

#[test]
fn an_argument_of_five_megabytes_is_a_clear_error() {
    let place = Place::new();
    // The kernel takes 128 KiB in one argument, execve(2): no shell gets it to us in one piece.
    let long = OsString::from("x".repeat(120 << 10));
    let mut command = place.stockade(["exec", "--", "sh", "-c", "echo $# ${#1}", "sh"]);
    command.args([&long; 3]);
    assert_eq!(finish(command, b"").success(), "3 122880");
    let mut command = place.stockade(["exec", "--", "sh", "-c", "echo $#", "sh"]);
    command.args(vec![&long; 42]).stdin(Stdio::null());
    match command.output() {
        // More than a quarter of the stack: it did not even reach us.
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ArgumentListTooLong),
        Ok(output) => assert_eq!(output.status.code(), Some(126), "{output:?}"),
    }
    // With the stack of the caller raised it reaches us, and is passed on or refused in words.
    let script = format!(
        "ulimit -s unlimited 2>/dev/null || ulimit -s 65536 2>/dev/null || exit 0
         l=$(head -c 120000 /dev/zero | tr '\\0' x)
         exec {} exec -- sh -c 'echo $#' sh {}",
        stockade().display(),
        "$l ".repeat(42)
    );
    let output = place.free(&script);
    match output.code() {
        Some(0) => assert!(matches!(output.text().as_str(), "42" | ""), "{output:?}"),
        _ => {
            output.says("error:");
        }
    }
}

#[test]
fn a_pipe_without_a_terminal_ends_with_the_right_count() {
    let place = Place::new();
    place.write("src/a", "match\n");
    place.write("src/b", "match\nother\n");
    for tool in ["grep -r match src", "grep -rh match . "] {
        let inside = place.exec(&[], &format!("{tool} | wc -l"));
        assert_eq!(inside.success(), "2", "{tool}");
    }
    // A search that would read standard input when it is not told where: it sees its end.
    assert_eq!(place.exec(&[], "grep match | wc -l").success(), "0");
    if crate::harness::has("rg") {
        let inside = place.exec(&[], "rg match | wc -l");
        assert_eq!(inside.success(), place.free("rg match | wc -l").success());
    }
}
