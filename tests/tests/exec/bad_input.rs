//! Mistakes of people, of profiles and of hosts: a clear error or a correct run, never a hang,
//! a panic or a weaker sandbox.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::harness::{Output, Place, finish, is_root};

/// Fails the test, unless nothing ran, for the reason `part`.
#[track_caller]
fn refused(place: &Place, options: &[&str], code: i32, part: &str) -> Output {
    let output = place.exec(options, "echo ran > ran; echo ran");
    output.exits(code).says(part).says("error");
    assert_eq!(output.text(), "", "{options:?}");
    assert!(!place.workspace.join("ran").exists(), "{options:?}");
    assert!(!output.errors.contains("panicked"), "{}", output.errors);
    output
}

fn own(extra: &str) -> String {
    format!("schema = 1\nname = \"own\"\nextends = \"standard\"\n{extra}\n")
}

#[test]
fn what_can_not_be_a_workspace_is_refused() {
    let place = Place::new();
    let file = place.write("file", "");
    symlink("/", place.home.join("root")).unwrap();
    symlink("circle", place.home.join("circle")).unwrap();
    let home = place.home.to_str().unwrap();
    for workspace in [
        "missing",
        file.to_str().unwrap(),
        "/",
        "//",
        "/..",
        home,
        "..",
        "../..",
        "/var/tmp",
        "../root",
        "../circle",
        "",
        "/proc/self",
    ] {
        let mut words = vec!["--workspace", workspace];
        if workspace.is_empty() {
            words = vec!["--workspace="];
        }
        let output = place.exec(&words, "echo ran");
        if workspace.is_empty() {
            // Nothing named is the folder itself, or an error: not another one.
            assert!(matches!(output.code(), Some(0 | 2)), "{output:?}");
            continue;
        }
        output.exits(2).says("error:");
        assert_eq!(output.text(), "", "{workspace}");
    }
}

#[test]
fn a_removed_working_directory_is_told() {
    let place = Place::new();
    let script = format!(
        "mkdir gone && cd gone && rmdir ../gone && exec {} exec -- echo ran",
        crate::harness::stockade().display()
    );
    place.free(&script).exits(2).says("error");
}

#[test]
fn a_workspace_in_a_folder_of_the_sandboxs_own_is_refused_in_words() {
    let Ok(shared) = tempfile::Builder::new()
        .prefix("stockade-suite-")
        .tempdir_in("/dev/shm")
    else {
        return;
    };
    let place = Place::new();
    let name = shared.path().to_str().unwrap();
    let output = place.exec(&["--workspace", name], "echo ran");
    if output.code() != Some(0) {
        output.says("/dev/shm").says("sandbox has its own");
    }
}

#[test]
fn an_unknown_key_is_refused_with_its_place() {
    let place = Place::new();
    let cases = [
        (own("[filesystem]\nwirte = [\"x\"]"), "5:1", "write"),
        (own("[network]\nmdoe = \"off\""), "5:1", "mode"),
        (own("colour = 1"), "4:1", "colour"),
        (own("[limits]\nmemroy = \"1GiB\""), "5:1", "memory"),
        (own("[filesystem]\nwrite = \"x\""), "5:9", "write"),
        (own("[filesystem\nwrite = []"), "4:", "]"),
        ("schema = 99\nname = \"own\"\n".to_owned(), "1:", "schema"),
        (String::new(), "", "schema"),
    ];
    for (text, at, part) in cases {
        let profile = place.profile(&text);
        let output = refused(&place, &["--profile", &profile], 2, part);
        output.says("profile.toml");
        assert!(output.errors.contains(at), "{at}\n{}", output.errors);
    }
}

#[test]
fn a_profile_that_extends_itself_is_refused() {
    let place = Place::new();
    let path = place.outside.join("profile.toml");
    for extends in [
        "profile.toml",
        path.to_str().unwrap(),
        "./profile.toml",
        "own",
    ] {
        let text = format!("schema = 1\nname = \"own\"\nextends = \"{extends}\"\n");
        let profile = place.profile(&text);
        refused(&place, &["--profile", &profile], 2, "profile");
    }
    // By way of another.
    let folder = place.home.join(".config/stockade/profiles");
    fs::create_dir_all(&folder).unwrap();
    for (name, other) in [("one", "two"), ("two", "one")] {
        let text = format!("schema = 1\nname = \"{name}\"\nextends = \"{other}\"\n");
        fs::write(folder.join(format!("{name}.toml")), text).unwrap();
    }
    refused(&place, &["--profile", "one"], 2, "extends");
}

#[test]
fn what_is_no_profile_is_refused_in_time() {
    let place = Place::new();
    place
        .free("mkfifo fifo && mkdir folder && head -c 3000 /dev/urandom > noise")
        .exits(0);
    symlink("circle", place.workspace.join("circle")).unwrap();
    for (name, part) in [
        ("./missing.toml", "missing"),
        ("./folder", "folder"),
        ("./noise", "noise"),
        ("./circle", "circle"),
        ("./fifo", "fifo"),
        ("/dev/zero", "/dev/zero"),
        ("/dev/null", "/dev/null"),
        ("no-such-name", "no-such-name"),
        ("../../../etc/passwd", "passwd"),
    ] {
        refused(&place, &["--profile", name], 2, part);
    }
}

#[test]
fn a_profile_that_the_sandbox_could_write_does_not_change_in_it() {
    let place = Place::new();
    place.write("own.toml", &own(""));
    let inside = place.exec(
        &["--profile", "./own.toml"],
        "echo evil >> own.toml; mv own.toml other; rm -f own.toml; true",
    );
    inside.exits(0);
    assert_eq!(place.read("own.toml"), own(""));
}

#[test]
fn network_proxy_is_refused_until_it_exists() {
    let place = Place::new();
    refused(&place, &["--network", "proxy"], 2, "proxy");
    let profile = place.profile(&own("[network]\nmode = \"proxy\""));
    refused(&place, &["--profile", &profile], 2, "proxy");
    refused(&place, &["--network", "on"], 2, "on");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let place = Place::new();
    let cases: [(&[&str], &str); 11] = [
        (&["--read", "missing"], "missing"),
        (&["--write", "/no/such/place"], "/no/such/place"),
        (&["--limit", "memory"], "memory"),
        (&["--limit", "memory=lots"], "lots"),
        (&["--limit", "memory=-1"], "-1"),
        (&["--limit", "memory=99999999999999999999"], "9999"),
        (&["--limit", "colour=1"], "colour"),
        (&["--env", "=x"], "environment variable"),
        (&["--deny", ""], "deny"),
        (&["--backend", "magic"], "magic"),
        (&["--colour"], "--colour"),
    ];
    for (options, part) in cases {
        refused(&place, options, 2, part);
    }
}

#[test]
fn grants_and_denies_that_contradict_each_other_are_refused_or_denied() {
    let place = Place::new();
    let data = place.outside.join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("file"), "canary").unwrap();
    let data = data.to_str().unwrap();
    let script = format!("cat {data}/file");
    place.exec(&["--read", data], &script).exits(0);
    for options in [
        ["--read", data, "--deny", data],
        ["--write", data, "--deny", data],
    ] {
        let output = place.exec(&options, &script);
        assert_ne!(output.code(), Some(0), "{options:?}");
        assert_eq!(output.text(), "");
    }
    let all = place.workspace.to_str().unwrap();
    refused(&place, &["--deny", all], 2, "den");
}

#[test]
fn a_denied_program_does_not_start() {
    let place = Place::new();
    place.write("tool", "#!/bin/sh\necho ran\n");
    place.free("chmod +x tool && ./tool").exits(0);
    let mut command = place.stockade(["exec", "--deny", "tool", "--", "./tool"]);
    command.stdin(std::process::Stdio::null());
    let output = finish(command, b"");
    assert!(matches!(output.code(), Some(126 | 127)), "{output:?}");
    assert_eq!(output.text(), "");
}

#[test]
fn ten_thousand_denies_in_one_profile_are_held_or_refused() {
    let place = Place::new();
    let mut denies = String::from("[filesystem]\ndeny = [\n");
    for number in 0..10_000 {
        if number % 10 == 0 {
            place.write(format!("k/{number}"), "canary");
        }
        denies += &format!("\"${{workspace}}/k/{number}\",\n");
    }
    place.write("k/open", "open");
    let profile = place.profile(&own(&(denies + "]")));
    for backend in ["native", "bwrap"] {
        let options = ["--profile", profile.as_str(), "--backend", backend];
        let output = place.exec(&options, "cat k/* 2>/dev/null; true");
        match output.code() {
            Some(0) => assert_eq!(output.text(), "open", "{backend}"),
            _ => {
                output.exits(125).says("error:");
                assert_eq!(backend, "bwrap", "{output:?}");
            }
        }
    }
}

#[test]
fn a_folder_that_can_not_be_searched_stops_the_start() {
    let place = Place::new();
    place.write("closed/.git/config", "before");
    let closed = place.workspace.join("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let script = "chmod 755 closed; echo evil > closed/.git/config";
    let output = place.exec(&[], script);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(place.read("closed/.git/config"), "before");
    if !is_root() {
        assert_ne!(output.code(), Some(0));
        output.says("closed").says("searched");
    }
}

#[test]
fn a_tree_that_is_too_deep_is_refused_in_words() {
    let place = Place::new();
    let deep = vec!["d"; 300].join("/");
    fs::create_dir_all(place.workspace.join(&deep)).unwrap();
    let output = place.exec(&[], "echo ran");
    if output.code() != Some(0) {
        output.says("deep");
    }
    // Made inside, the search afterwards must not end with a tale of success alone.
    fs::remove_dir_all(place.workspace.join("d")).unwrap();
    let script = format!("mkdir -p {deep} && echo evil > {deep}/.mcp.json");
    let output = place.exec(&[], &script);
    let evil = place.workspace.join(&deep).join(".mcp.json");
    assert!(
        !evil.exists() || output.errors.contains("deep"),
        "{output:?}"
    );
}

#[test]
fn a_folder_of_links_and_odd_files_is_no_trap() {
    let place = Place::new();
    place
        .free("mkfifo fifo .mcp.json; mkdir -p a/b; mkfifo a/b/config; ln -s . a/loop")
        .exits(0);
    symlink("/dev/zero", place.workspace.join(".envrc")).unwrap();
    symlink("/proc/self/fd/0", place.workspace.join(".bashrc")).unwrap();
    place.write("bare/HEAD", "");
    fs::create_dir_all(place.workspace.join("bare/objects")).unwrap();
    fs::create_dir_all(place.workspace.join("bare/refs")).unwrap();
    place.free("mkfifo bare/config").exits(0);
    assert_eq!(place.exec(&[], "echo ran").success(), "ran");
    assert!(Path::new(&place.workspace).join("fifo").exists());
}

#[test]
fn a_word_that_hides_a_control_sequence_does_not_reach_the_terminal() {
    let place = Place::new();
    for name in ["./\u{1b}[2J-gone", "./a\rb", "./\u{202e}drow"] {
        let mut command = place.stockade(["exec", "--", name]);
        command.stdin(std::process::Stdio::null());
        let output = finish(command, b"");
        output.exits(127);
        let raw = output
            .errors
            .chars()
            .any(|it| (it.is_control() && it != '\n') || matches!(it, '\u{202a}'..='\u{202e}'));
        assert!(!raw, "{:?}", output.errors);
    }
}
