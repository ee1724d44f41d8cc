//! What a command inherits: the named variables, three descriptors, and nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::Stdio;
use std::time::Duration;

use crate::harness::{Live, PATH, Place, finish, is_root, lacks, stockade, until};

const CANARY: &str = "canary-7d1f";

#[test]
fn the_environment_holds_what_the_profile_passes_and_nothing_else() {
    let place = Place::new();
    let mut command = place.exec_command(&["--env", "ASKED", "--env", "GIVEN=x=y"], "exec env");
    for name in [
        "SECRET_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "LD_PRELOAD_CANARY",
        "LD_LIBRARY_PATH",
        "BASH_ENV",
        "ENV",
        "PS4",
        "PYTHONSTARTUP",
        "NODE_OPTIONS",
        "PERL5OPT",
        "RUBYOPT",
        "GIT_SSH_COMMAND",
        "GIT_CONFIG_COUNT",
        "GIT_DIR",
        "SSH_AUTH_SOCK",
        "GPG_AGENT_INFO",
        "DBUS_SESSION_BUS_ADDRESS",
        "DOCKER_HOST",
        "XDG_RUNTIME_DIR",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "http_proxy",
        "OPENSSL_CONF",
    ] {
        command.env(name, CANARY);
    }
    command.env("ASKED", "was asked for").env("LANG", "C.UTF-8");
    let output = finish(command, b"");
    let shown = output.success();
    assert!(!shown.contains(CANARY), "{shown}");
    let names: BTreeSet<&str> = shown
        .lines()
        .filter_map(|it| it.split('=').next())
        .collect();
    let expected = [
        "ASKED",
        "GIT_DISCOVERY_ACROSS_FILESYSTEM",
        "GIVEN",
        "HOME",
        "LANG",
        "PATH",
        "PWD",
        "SHELL",
        "TMPDIR",
    ];
    // The shell itself adds some.
    let extra = ["OLDPWD", "SHLVL", "_"];
    let names: Vec<&str> = names.into_iter().filter(|it| !extra.contains(it)).collect();
    assert_eq!(names, expected);
    for line in [
        "ASKED=was asked for",
        "GIVEN=x=y",
        &format!("HOME={}", place.home.display()),
        &format!("PATH={PATH}"),
        "TMPDIR=/tmp",
    ] {
        assert!(shown.lines().any(|it| it == line), "{line}\n{shown}");
    }
}

#[test]
fn a_library_that_the_caller_preloads_is_not_loaded_inside() {
    let place = Place::new();
    let complaints = |script: &str| {
        let mut command = place.exec_command(&[], script);
        command.env("LD_PRELOAD", "/nonexistent/canary.so");
        let output = finish(command, b"");
        output.exits(0);
        output.errors.matches("canary.so").count()
    };
    // The loader complains for each program outside, and for none inside.
    assert_eq!(complaints("ls; ls; ls; env"), complaints("exec true"));
    assert_ne!(complaints("exec true"), 0);
}

#[test]
fn without_a_home_it_still_starts() {
    let place = Place::new();
    let script = "echo \"${HOME:-none}\" && touch made && cd && pwd";
    let mut command = place.exec_command(&[], script);
    command.env_remove("HOME");
    let output = finish(command, b"");
    output.exits(0);
    for home in ["", "relative/home", "/nonexistent/home"] {
        let mut command = place.exec_command(&[], "touch made");
        command.env("HOME", home);
        finish(command, b"").exits(0);
    }
}

#[test]
fn a_home_that_can_not_be_read_is_no_obstacle() {
    let place = Place::new();
    let workspace = place.outside.join("elsewhere");
    fs::create_dir(&workspace).unwrap();
    fs::write(place.home.join("secret"), CANARY).unwrap();
    fs::set_permissions(&place.home, fs::Permissions::from_mode(0o000)).unwrap();
    let mut command = place.exec_command(&[], "touch made && echo started");
    command.current_dir(&workspace);
    let output = finish(command, b"");
    fs::set_permissions(&place.home, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(output.success(), "started");
    assert!(workspace.join("made").exists());
}

#[test]
fn the_home_inside_is_private_and_empty_but_for_what_is_granted() {
    let place = Place::new();
    fs::create_dir(place.home.join(".ssh")).unwrap();
    fs::write(place.home.join(".ssh/id_ed25519"), CANARY).unwrap();
    fs::write(place.home.join(".bashrc"), "before").unwrap();
    let script = "cat ~/.ssh/id_ed25519; echo evil >> ~/.bashrc; ls -A ~";
    assert!(
        place
            .free("cat ~/.ssh/id_ed25519")
            .success()
            .contains(CANARY)
    );
    let inside = place.exec(&[], script);
    assert!(!inside.text().contains(CANARY));
    assert_eq!(
        fs::read_to_string(place.home.join(".bashrc")).unwrap(),
        "before"
    );
    place
        .exec(&[], "echo mine > ~/.cache-of-mine && cat ~/.cache-of-mine")
        .exits(0);
    assert!(!place.home.join(".cache-of-mine").exists());
}

#[test]
fn no_descriptor_but_three_comes_along() {
    let place = Place::new();
    fs::write(place.outside.join("secret"), CANARY).unwrap();
    let leak = "exec 8< ../../outside 9< ../../outside/secret 7<> ../../outside/secret";
    let look = "ls /proc/self/fd | tr '\\n' ' '; cat <&9";
    place.write("leak", &format!("{leak}\nexec \"$@\"\n"));
    place.write("look", look);
    assert!(
        place
            .free("bash leak bash look")
            .success()
            .ends_with(CANARY)
    );
    let script = format!("bash leak {} exec -- bash look", stockade().display());
    let inside = place.free(&script);
    assert!(!inside.text().contains(CANARY), "{inside:?}");
    // The fourth is ls's own, of the folder that it lists.
    assert!(inside.text().starts_with("0 1 2 3"), "{inside:?}");
    assert!(!inside.text().contains(" 4"), "{inside:?}");
}

#[test]
fn the_plan_is_in_no_argument_list() {
    let place = Place::new();
    let value = format!("value-{}", std::process::id());
    let deny = format!("denied-{}", std::process::id());
    place.write(&deny, CANARY);
    let profile = place.profile(&format!(
        "schema = 1\nname = \"own\"\nextends = \"standard\"\n[filesystem]\ndeny = [\"{deny}\"]\n"
    ));
    let script = "touch ready; while [ ! -e go ]; do sleep 0.02; done; cat /proc/*/cmdline";
    let mut command = place.exec_command(&["--env", "TOKEN", "--profile", &profile], script);
    command.stdin(Stdio::null()).env("TOKEN", &value);
    let live = Live::start(command, Vec::new());
    until("it runs", Duration::from_secs(30), || {
        place.workspace.join("ready").exists()
    });
    let lists: Vec<String> = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|it| fs::read(it.path().join("cmdline")).ok())
        .map(|it| String::from_utf8_lossy(&it).into_owned())
        .collect();
    // The supervisor, and the command: they are there to be seen.
    let ours = lists.iter().filter(|it| it.contains("touch ready; while"));
    assert!(ours.count() >= 2, "{lists:?}");
    for words in [&value, &deny] {
        let found = lists.iter().find(|it| it.contains(words.as_str()));
        assert_eq!(found, None);
    }
    place.write("go", "");
    let inside = live.end().success();
    assert!(
        inside.contains("touch ready") && !inside.contains(&deny),
        "{inside}"
    );
}

#[test]
fn no_other_process_and_no_environment_of_one_is_seen() {
    let place = Place::new();
    let mut command = place.command("sleep");
    command
        .arg("300")
        .env("HOST_SECRET", CANARY)
        .stdin(Stdio::null());
    let live = Live::start(command, Vec::new());
    let look = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'";
    let seen = place.free(look);
    assert!(seen.text().contains(CANARY));
    let inside = place.exec(&[], look);
    assert!(!inside.text().contains(CANARY));
    let pid = live.pid().as_raw_nonzero();
    let script = format!("test -d /proc/{pid} && grep -q 300 /proc/{pid}/cmdline");
    place.free(&script).exits(0);
    assert_ne!(place.exec(&[], &script).code(), Some(0));
}

#[test]
fn no_socket_of_the_user_is_visible() {
    let place = Place::new();
    let mut sockets = Vec::new();
    // Where agents and buses listen: below the home, in temp folders, in run-time folders.
    let temp = tempfile::Builder::new()
        .prefix("ssh-")
        .tempdir_in("/tmp")
        .unwrap();
    let mut folders = vec![
        place.home.clone(),
        place.outside.clone(),
        temp.path().to_owned(),
    ];
    let runtime = is_root().then(|| {
        tempfile::Builder::new()
            .prefix("stockade-suite-")
            .tempdir_in("/run")
            .unwrap()
    });
    folders.extend(runtime.iter().map(|it| it.path().to_owned()));
    for folder in &folders {
        let path = folder.join("agent.sock");
        sockets.push((UnixListener::bind(&path).unwrap(), path));
    }
    for (_, path) in &sockets {
        let path = path.display();
        place.free(&format!("test -S {path}")).exits(0);
        let inside = place.exec(&[], &format!("test -e {path}"));
        assert_ne!(inside.code(), Some(0), "{path}");
    }
    let script = "find / -xdev -type s 2>/dev/null; ls -A /run /tmp /dev/shm 2>/dev/null; \
                  ls -d /run/user /run/dbus /run/docker.sock /var/run/docker.sock 2>/dev/null; true";
    let inside = place.exec(&[], script);
    assert!(!inside.success().contains("sock"), "{}", inside.text());
    assert!(!inside.text().contains("user"), "{}", inside.text());
}

#[test]
fn the_network_inside_has_loopback_alone() {
    let place = Place::new();
    let text = place.exec(&[], "tail -n +3 /proc/net/dev").success();
    assert!(
        text.lines().all(|it| it.trim_start().starts_with("lo:")),
        "{text}"
    );
    let host = place
        .exec(&["--network", "host"], "cat /proc/net/dev")
        .success();
    assert_eq!(
        host.lines().count(),
        place.free("cat /proc/net/dev").success().lines().count()
    );
}

#[test]
fn an_ordinary_user_runs_true_under_standard() {
    if is_root() {
        // The same program is run by an ordinary user as well, see `.ci/run`; as root a user of
        // a namespace stands in.
        let place = Place::new();
        let script = format!(
            "unshare --user setpriv --ambient-caps -all --inh-caps -all --bounding-set -all \
             {} exec --profile ci -- true",
            stockade().display()
        );
        let output = place.free(&script);
        if output.code() != Some(0) {
            // A user without a map is refused in words.
            output.says("error:");
        }
        return;
    }
    let place = Place::new();
    let mut command = place.stockade(["exec", "--profile", "standard", "--", "true"]);
    command.stdin(Stdio::null());
    finish(command, b"").exits(0);
    let inside = place.exec(&["--profile", "strict"], "id -u");
    assert_eq!(inside.success(), place.free("id -u").success());
    let report = place.exec(&["--report"], "true");
    if report.errors.contains("absent") {
        lacks(&report.errors);
    }
}
