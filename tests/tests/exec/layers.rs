//! Each layer of the native back end by itself, where another would hide its absence.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::harness::{Place, finish, stockade};

/// The options of each mount inside, by mount point: the topmost counts.
fn mounts(place: &Place) -> Vec<(String, String)> {
    let text = place.exec(&[], "cat /proc/self/mountinfo").success();
    text.lines()
        .map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            (fields[4].to_owned(), fields[5].to_owned())
        })
        .collect()
}

#[track_caller]
fn assert_options(mounts: &[(String, String)], point: &str, wanted: &[&str]) {
    let found = mounts.iter().rfind(|it| it.0 == point);
    let options = found.map_or("", |it| it.1.as_str());
    let has: Vec<&str> = options.split(',').collect();
    for option in wanted {
        assert!(
            has.contains(option),
            "{point} is `{options}`, and should be {option}"
        );
    }
}

#[test]
fn every_mount_has_the_options_of_its_kind() {
    let place = Place::new();
    place.write(".git/hooks/x", "");
    place.write(".git/HEAD", "ref: refs/heads/main\n");
    place.write(".env", "secret");
    place.write("src/x", "");
    let mounts = mounts(&place);
    let below = |name: &str| place.workspace.join(name).display().to_string();
    assert_options(&mounts, "/", &["ro", "nosuid", "nodev"]);
    assert_options(&mounts, "/usr", &["ro", "nosuid", "nodev"]);
    assert_options(&mounts, "/proc", &["nosuid", "nodev", "noexec"]);
    for name in ["/proc/sys", "/proc/bus", "/proc/fs", "/proc/irq"] {
        if std::path::Path::new(name).exists() {
            assert_options(&mounts, name, &["ro"]);
        }
    }
    assert_options(&mounts, "/proc/keys", &["ro", "noexec"]);
    assert_options(&mounts, "/dev", &["ro", "nosuid"]);
    assert_options(&mounts, "/tmp", &["rw", "nosuid", "nodev"]);
    assert_options(
        &mounts,
        below("").trim_end_matches('/'),
        &["rw", "nosuid", "nodev"],
    );
    assert_options(&mounts, &below(".git/hooks"), &["ro", "nosuid", "nodev"]);
    assert_options(&mounts, &below(".git"), &["rw", "nosuid", "nodev"]);
    assert_options(&mounts, &below(".env"), &["ro", "noexec"]);
}

#[test]
fn the_payload_holds_no_power_and_can_gain_none() {
    let place = Place::new();
    let status = place.exec(&[], "cat /proc/self/status").success();
    let value = |name: &str| -> String {
        let line = status.lines().find_map(|it| it.strip_prefix(name));
        line.unwrap_or_default()
            .trim_start_matches(':')
            .trim()
            .to_owned()
    };
    for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(u64::from_str_radix(&value(name), 16), Ok(0), "{name}");
    }
    assert_eq!(value("NoNewPrivs"), "1");
    assert_eq!(value("Seccomp"), "2", "a filter");
    let free = place.free("cat /proc/self/status").success();
    assert!(
        free.contains("Seccomp:\t0"),
        "the control: no filter outside"
    );
}

#[test]
fn landlock_stops_what_no_mount_does() {
    // A file that was handed over for reading is the host's own, past every mount.
    let place = Place::new();
    let file = place.outside.join("handed-over");
    fs::write(&file, "old\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let shell = |line: String| {
        let mut command = place.command("sh");
        command.args(["-c", &line]);
        finish(command, b"")
    };
    let script = format!("sh -c 'echo new > /proc/self/fd/0' < {}", file.display());
    let output = shell(format!("{} exec -- {script}", stockade().display()));
    assert_ne!(output.code(), Some(0), "{output:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "old\n");
    shell(script).success();
    assert_eq!(fs::read_to_string(&file).unwrap(), "new\n", "the control");
}

#[test]
fn init_is_closed_to_the_payload() {
    let place = Place::new();
    for name in ["mem", "environ", "maps"] {
        let script = format!(": < /proc/self/{name} && ! cat /proc/1/{name} >/dev/null 2>&1");
        place.exec(&[], &script).exits(0);
    }
    let writing = place.exec(&[], ": >> /proc/1/mem");
    assert_ne!(writing.code(), Some(0), "{writing:?}");
    place.free(": >> /proc/self/mem").exits(0);
}

#[test]
fn no_user_namespace_can_be_made_below() {
    let place = Place::new();
    let count = "cat /proc/sys/user/max_user_namespaces";
    assert_eq!(place.exec(&[], count).success(), "0");
    assert_ne!(place.free(count).success(), "0", "the control");
}

#[test]
fn each_namespace_is_another_than_the_hosts() {
    let place = Place::new();
    let names = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];
    let script = names
        .map(|it| format!("readlink /proc/self/ns/{it}"))
        .join("; ");
    let inside = place.exec(&[], &script).success();
    let outside = place.free(&script).success();
    assert_eq!(inside.lines().count(), names.len());
    for (inside, outside) in inside.lines().zip(outside.lines()) {
        assert_ne!(inside, outside);
    }
}

#[test]
fn the_command_leads_a_session_of_its_own() {
    let place = Place::new();
    // Field 6 of stat(5): 0 means a session outside this PID namespace.
    let session = place.exec(&[], "cut -d' ' -f6 /proc/self/stat").success();
    assert_ne!(session, "0");
}

#[test]
fn no_core_is_dumped_and_the_limits_of_the_profile_are_set() {
    let place = Place::new();
    let options = [
        "--limit",
        "open_files=77",
        "--limit",
        "file_size=1MiB",
        "--limit",
        "cpu_time=99",
    ];
    let text = place
        .exec(&options, "ulimit -Hc; ulimit -Hn; ulimit -Hf; ulimit -Ht")
        .success();
    assert_eq!(text.lines().collect::<Vec<_>>(), ["0", "77", "2048", "99"]);
}

#[test]
fn the_root_is_read_only_for_whoever_owns_it() {
    let place = Place::new();
    let output = place.exec(&[], "touch /x");
    assert_ne!(output.code(), Some(0));
    output.says("Read-only file system");
}
