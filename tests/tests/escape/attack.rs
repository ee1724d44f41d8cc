//! Every probe, free and confined, under every back end: `stockade doctor --attack` judged.
//!
//! A probe that does not succeed free proves nothing on this kernel and is not counted.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Live, Place, finish, has, lacks, program};

/// 339 probes twice, on two cores that run everything else as well.
const LONGEST: Duration = Duration::from_secs(300);

/// So many succeed free at least, for each user.
const FREE: usize = 80;

/// What Landlock can not hold, as docs/KERNEL_SUPPORT.md says: it has no view of its own.
const BEYOND_LANDLOCK: [&str; 3] = ["Mounts", "Processes", "Lifecycle"];

fn attack(backend: &str, profile: &str) -> Value {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place::new();
    let mut command = place.stockade(["doctor", "--attack", "--json"]);
    command.args(["--backend", backend, "--profile", profile]);
    command.stdin(std::process::Stdio::null());
    let output = Live::start(command, Vec::new()).end_within(LONGEST);
    let text = output.text();
    let document: Value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}\n{text}\n{}", output.errors));
    assert_eq!(document["profile"]["backend"], backend, "{text}");
    let attack = document["attack"].clone();
    assert!(attack.is_object(), "{text}\n{}", output.errors);
    // The code says what the table says.
    let broken = attack["broken"].as_u64().unwrap() > 0;
    assert_eq!(output.code() == Some(0), !broken, "{:?}", output.status);
    attack
}

/// Every probe with a verdict of this kind, one to a line.
fn rows(attack: &Value, verdict: &str) -> Vec<String> {
    attack["probes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["verdict"] == verdict)
        .map(|it| format!("{} {} {}", it["id"], it["confined"], it["detail"]))
        .collect()
}

#[track_caller]
fn holds(backend: &str, profile: &str) {
    let attack = attack(backend, profile);
    let probes = attack["probes"].as_array().unwrap();
    let free = probes.iter().filter(|it| it["free"] == "worked").count();
    assert!(free >= FREE, "{free} of {} succeed free", probes.len());
    let broken = rows(&attack, "broken");
    assert!(
        broken.is_empty(),
        "{backend}, {profile}:\n{}",
        broken.join("\n")
    );
    let host = attack["host"].as_array().unwrap();
    assert!(host.is_empty(), "{backend}, {profile}: {host:#?}");
    let errors: Vec<&Value> = probes
        .iter()
        .filter(|it| it["free"] == "worked" && it["confined"] == "error")
        .collect();
    assert!(errors.is_empty(), "could not tell: {errors:#?}");
}

#[test]
fn native_holds_every_probe_under_strict() {
    holds("native", "strict");
}

#[test]
fn native_holds_every_probe_under_standard() {
    holds("native", "standard");
}

#[test]
fn bwrap_holds_every_probe_under_strict() {
    if !has("bwrap") && lacks("the back end bwrap: no bubblewrap") {
        return;
    }
    holds("bwrap", "strict");
}

#[test]
fn landlock_holds_every_probe_but_those_that_need_a_view_of_their_own() {
    let attack = attack("landlock", "ci");
    let probes = attack["probes"].as_array().unwrap();
    let free = probes.iter().filter(|it| it["free"] == "worked").count();
    assert!(free >= FREE, "{free} of {} succeed free", probes.len());
    let broken: Vec<&Value> = probes
        .iter()
        .filter(|it| it["verdict"] == "broken")
        .filter(|it| {
            let class = it["class"].as_str().unwrap();
            !BEYOND_LANDLOCK
                .iter()
                .any(|known| known.eq_ignore_ascii_case(class))
        })
        .collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn there_are_more_than_a_hundred_probes_and_each_says_what_it_tries() {
    let place = Place::new();
    let mut command = place.command(program("stockade-probe"));
    command.arg("list");
    let list = finish(command, b"");
    let text = list.success();
    assert!(text.lines().count() >= 100);
    for line in text.lines() {
        assert!(line.split_whitespace().count() >= 3, "{line}");
    }
}
