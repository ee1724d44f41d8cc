//! Machines that lack something, simulated: what is confined there all the same, and what is
//! refused in words.

use std::fs;
use std::io::Write;
use std::path::Path;

use crate::harness::{Output, Place, has, is_root, lacks, program, stockade};

const SCRIPT: &str = "echo ran > ran; echo ran";

/// `stockade exec OPTIONS -- sh -c SCRIPT`, as words of a shell.
fn exec(options: &str, script: &str) -> String {
    format!(
        "{} exec {options} -- sh -c '{script}'",
        stockade().display()
    )
}

/// Runs `words` where no user namespace can be made, without a privilege.
fn without_user_namespaces(place: &Place, words: &str) -> Output {
    place.write(
        "enter",
        &format!(
            "set -e; echo 0 > /proc/sys/user/max_user_namespaces
             exec setpriv --bounding-set=-all --inh-caps=-all --ambient-caps=-all {words}\n"
        ),
    );
    place.free("unshare --user --map-root-user sh ./enter")
}

/// One system call that is answered with EPERM or ENOSYS, all of them or with one argument.
struct Refused {
    call: i64,
    argument: Option<(u32, u32)>,
    errno: i32,
}

fn refused(call: i64, errno: i32) -> Refused {
    Refused {
        call,
        argument: None,
        errno,
    }
}

/// A filter program, seccomp(2): an instruction is `code, jump if true, jump if false, value`.
fn filter(all: &[Refused]) -> Vec<u8> {
    const LOAD: u16 = 0x20;
    const IS_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let mut bytes = Vec::new();
    let mut add = |code: u16, yes: u8, no: u8, value: u32| {
        bytes.extend(code.to_ne_bytes());
        bytes.extend([yes, no]);
        bytes.extend(value.to_ne_bytes());
    };
    for it in all {
        let call = u32::try_from(it.call).unwrap();
        let answer = 0x0005_0000 | u32::try_from(it.errno).unwrap();
        add(LOAD, 0, 0, 0);
        match it.argument {
            None => add(IS_EQUAL, 0, 1, call),
            Some((index, value)) => {
                add(IS_EQUAL, 0, 3, call);
                add(LOAD, 0, 0, 16 + 8 * index);
                add(IS_EQUAL, 0, 1, value);
            }
        }
        add(RETURN, 0, 0, answer);
    }
    add(RETURN, 0, 0, 0x7fff_0000);
    bytes
}

/// Runs `words` under a filter, as a container's runtime would have it.
fn filtered(place: &Place, all: &[Refused], words: &str) -> Output {
    let mut file = fs::File::create(place.outside.join("filter")).unwrap();
    file.write_all(&filter(all)).unwrap();
    place.write("inside", &format!("exec {words}\n"));
    place.free("bwrap --dev-bind / / --seccomp 3 sh ./inside 3< ../../outside/filter")
}

/// What stock container runtimes refuse to a process without CAP_SYS_ADMIN.
fn container() -> Vec<Refused> {
    [
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_open_tree,
        libc::SYS_move_mount,
        libc::SYS_fsopen,
        libc::SYS_fsmount,
        libc::SYS_mount_setattr,
    ]
    .into_iter()
    .map(|it| refused(it, libc::EPERM))
    .chain([refused(libc::SYS_clone3, libc::ENOSYS)])
    .collect()
}

fn bwrap() -> bool {
    has("bwrap") || !lacks("hosts with a system call filter: no bubblewrap to set it")
}

#[test]
fn without_user_namespaces_full_is_refused_with_its_remedy() {
    let place = Place::new();
    for profile in ["standard", "strict", "read-only", "networked"] {
        let words = exec(&format!("--profile {profile}"), SCRIPT);
        let output = without_user_namespaces(&place, &words);
        output.exits(125).says("help:").says("max_user_namespaces");
        assert_eq!(output.text(), "");
        assert!(!place.workspace.join("ran").exists(), "{profile}");
    }
    // The control: with namespaces it runs.
    assert_eq!(place.free(&exec("", SCRIPT)).success(), "ran");
}

#[test]
fn without_user_namespaces_ci_runs_under_landlock_and_says_what_is_lost() {
    let place = Place::new();
    fs::write(place.home.join("secret"), "canary").unwrap();
    let output = without_user_namespaces(&place, &exec("--profile ci", SCRIPT));
    assert_eq!(output.success(), "ran");
    for lost in ["no mount namespace", "no PID namespace", "warning:"] {
        output.says(lost);
    }
    let script = "cat ../secret || echo evil > ../new || echo held";
    let output = without_user_namespaces(&place, &exec("--profile ci", script));
    assert_eq!(output.success(), "held");
    assert!(!place.home.join("new").exists());
}

#[test]
fn without_mount_rights_landlock_is_chosen_where_the_profile_allows_it() {
    let place = Place::new();
    if !bwrap() {
        return;
    }
    let output = filtered(&place, &container(), &exec("--profile ci", SCRIPT));
    assert_eq!(output.success(), "ran");
    output.says("no mount namespace");
    fs::remove_file(place.workspace.join("ran")).unwrap();
    let output = filtered(&place, &container(), &exec("--profile strict", SCRIPT));
    output.exits(125).says("help:").says("container");
    assert!(!place.workspace.join("ran").exists());
}

#[test]
fn a_command_that_cannot_be_confined_does_not_run_and_exits_125() {
    let place = Place::new();
    if !bwrap() {
        return;
    }
    let mut nothing = container();
    nothing.push(refused(libc::SYS_landlock_create_ruleset, libc::ENOSYS));
    for profile in ["standard", "strict", "ci", "read-only", "networked"] {
        for options in [
            "",
            "--backend native",
            "--backend bwrap",
            "--backend landlock",
        ] {
            let words = exec(&format!("--profile {profile} {options}"), SCRIPT);
            let output = filtered(&place, &nothing, &words);
            output.exits(125).says("error:");
            assert_eq!(output.text(), "", "{profile} {options}");
            assert!(!place.workspace.join("ran").exists(), "{profile} {options}");
        }
    }
    // The control: the filter alone stops nothing that is not ours.
    assert_eq!(
        filtered(&place, &nothing, &format!("sh -c '{SCRIPT}'")).success(),
        "ran"
    );
}

#[test]
fn without_landlock_what_requires_it_does_not_run() {
    let place = Place::new();
    if !bwrap() {
        return;
    }
    let none = [refused(libc::SYS_landlock_create_ruleset, libc::ENOSYS)];
    for profile in ["standard", "ci"] {
        let output = filtered(
            &place,
            &none,
            &exec(&format!("--profile {profile}"), SCRIPT),
        );
        output.exits(125).says("andlock");
        assert!(!place.workspace.join("ran").exists());
    }
}

#[test]
fn without_seccomp_nothing_runs() {
    let place = Place::new();
    if !bwrap() {
        return;
    }
    // Either way to set a filter, seccomp(2) and prctl(2).
    let none = [
        refused(libc::SYS_seccomp, libc::ENOSYS),
        Refused {
            call: libc::SYS_prctl,
            argument: Some((0, 22)),
            errno: libc::EINVAL,
        },
    ];
    for options in ["", "--profile ci", "--profile ci --backend landlock"] {
        let output = filtered(&place, &none, &exec(options, SCRIPT));
        output.exits(125).says("error:");
        assert!(!place.workspace.join("ran").exists(), "{options}");
    }
}

#[test]
fn network_off_needs_no_loopback_address() {
    let place = Place::new();
    if !bwrap() {
        return;
    }
    // SIOCSIFFLAGS, netdevice(7): loopback cannot be brought up.
    let stripped = [Refused {
        call: libc::SYS_ioctl,
        argument: Some((1, 0x8914)),
        errno: libc::EPERM,
    }];
    let script = "cat /proc/net/dev | grep -vc -e lo: -e face -e Inter";
    let output = filtered(&place, &stripped, &exec("--report", script));
    assert_eq!(output.text(), "0", "{}", output.errors);
    output.says("loopback down");
}

#[test]
fn a_read_only_proc_sys_is_no_obstacle() {
    let place = Place::new();
    place.write(
        "enter",
        &format!(
            "set -e; mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys
             exec {}\n",
            exec("", "echo 1 > /proc/sys/kernel/domainname || echo started")
        ),
    );
    let unshare = if is_root() {
        "unshare --mount"
    } else {
        "unshare --user --mount --map-current-user --keep-caps"
    };
    let output = place.free(&format!("{unshare} sh ./enter"));
    if output.code() == Some(0) {
        assert_eq!(output.text(), "started");
    } else {
        // A locked mount cannot be made anew in a namespace below; then it is refused in words.
        output.exits(125).says("/proc");
    }
}

#[test]
fn a_missing_capability_of_root_is_named() {
    if !is_root() {
        // Root's run of this test shows it.
        return;
    }
    let place = Place::new();
    for name in [
        "chown",
        "dac_override",
        "dac_read_search",
        "fowner",
        "kill",
        "net_admin",
        "setfcap",
        "setgid",
        "setpcap",
        "setuid",
        "sys_admin",
        "sys_chroot",
        "sys_ptrace",
        "sys_resource",
    ] {
        let words = format!("setpriv --bounding-set=-{name} {}", exec("", SCRIPT));
        let output = place.free(&words);
        let named = output
            .errors
            .contains(&format!("CAP_{}", name.to_uppercase()));
        assert!(output.code() == Some(0) || named, "{name}: {output:?}");
    }
}

#[test]
fn bwrap_below_a_writable_root_is_never_chosen() {
    let place = Place::new();
    if !bwrap() {
        return;
    }
    let canary = place.home.join("chosen");
    let planted = place.write(
        "bin/bwrap",
        &format!(
            "#!/bin/sh\ntouch {}\nexec /usr/bin/bwrap \"$@\"\n",
            canary.display()
        ),
    );
    place.free("chmod +x bin/bwrap").exits(0);
    for path in [
        "bin",
        "./bin",
        place.workspace.join("bin").to_str().unwrap(),
    ] {
        let mut command = place.exec_command(&["--backend", "bwrap"], SCRIPT);
        command.env("PATH", format!("{path}:{}", crate::harness::PATH));
        let output = crate::harness::finish(command, b"");
        assert_eq!(output.success(), "ran");
        assert!(!canary.exists(), "{path}");
    }
    place
        .free(&format!("{} --version", planted.display()))
        .exits(0);
    assert!(canary.exists());
}

#[test]
fn without_bwrap_its_back_end_is_refused_and_native_runs() {
    let place = Place::new();
    if !Path::new("/usr/bin/bwrap").exists() && lacks("a host without bubblewrap: has none") {
        return;
    }
    place.write(
        "enter",
        &format!(
            "for it in /usr/bin/bwrap /usr/local/bin/bwrap /bin/bwrap; do
             test -e $it && mount --bind /dev/null $it; done
             {}; echo $?; {}; echo $?\n",
            exec("--backend bwrap", SCRIPT),
            exec("", SCRIPT)
        ),
    );
    let unshare = if is_root() {
        "unshare --mount"
    } else {
        "unshare --user --mount --map-current-user --keep-caps"
    };
    let output = place.free(&format!("{unshare} sh ./enter"));
    assert_eq!(output.text(), "125\nran\n0", "{output:?}");
    output.says("bwrap").says("error:");
}

#[test]
fn a_deny_that_landlock_cannot_hold_is_refused_by_its_line() {
    let place = Place::new();
    place.write("deep/key.pem", "canary");
    let profile = place.profile(
        "schema = 1\nname = \"own\"\nextends = \"ci\"\n[filesystem]\ndeny = [\"*.pem\"]\n",
    );
    let output = place.exec(&["--profile", &profile, "--backend", "landlock"], SCRIPT);
    output.exits(125).says("key.pem").says("Landlock");
    assert!(!place.workspace.join("ran").exists());
    // Without what matches, it runs.
    fs::remove_file(place.workspace.join("deep/key.pem")).unwrap();
    place
        .exec(&["--profile", &profile, "--backend", "landlock"], SCRIPT)
        .exits(0);
}

#[test]
fn the_suite_tests_the_programs_that_were_built_with_it() {
    for name in ["stockade", "stockade-probe"] {
        assert!(program(name).is_file());
    }
}
