//! Golden profiles, the equality of profile and model, and attempts to break out of the text.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use expect_test::expect_file;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::sbpl::{Program, Request};
use super::*;

fn paths(paths: &[&str]) -> Vec<PathBuf> {
    paths.iter().map(PathBuf::from).collect()
}

fn name(components: &[&str]) -> Vec<OsString> {
    components.iter().map(OsString::from).collect()
}

fn strict() -> SeatbeltRules {
    SeatbeltRules {
        read: paths(&["/opt/homebrew", "/Users/me/.cargo"]),
        write: paths(&["/Users/me/proj"]),
        deny: paths(&["/Users/me/.ssh", "/Users/me/proj/.env"]),
        protect: paths(&["/Users/me/proj/ci/run"]),
        protect_names: vec![
            name(&[".git", "hooks"]),
            name(&[".git", "config"]),
            name(&[".mcp.json"]),
        ],
        private_tmp: PathBuf::from("/private/tmp/stockade-1"),
        network: SeatbeltNetwork::Off,
        pty: false,
    }
}

fn networked() -> SeatbeltRules {
    SeatbeltRules {
        network: SeatbeltNetwork::Host,
        pty: true,
        ..strict()
    }
}

fn load(rules: &SeatbeltRules) -> Program {
    let profile = SeatbeltProfile::generate(rules).unwrap();
    Program::load(&profile).unwrap_or_else(|why| panic!("{why}\n{}", profile.text))
}

fn allows(rules: &SeatbeltRules, operation: &str, facts: &[(&str, &str)]) -> bool {
    load(rules).allows(Request { operation, facts })
}

fn shown(rules: &SeatbeltRules) -> String {
    let profile = SeatbeltProfile::generate(rules).unwrap();
    let mut all = profile.text;
    all.push_str("\n; parameters\n");
    for (name, value) in profile.parameters {
        writeln!(all, ";   {name} = {}", value.display()).unwrap();
    }
    all
}

#[test]
fn the_strict_profile_reads_as_recorded() {
    expect_file!["golden/strict.sb"].assert_eq(&shown(&strict()));
}

#[test]
fn the_networked_profile_reads_as_recorded() {
    expect_file!["golden/networked.sb"].assert_eq(&shown(&networked()));
}

#[test]
fn the_strict_profile_decides_the_standard_questions() {
    let workspace = "/Users/me/proj";
    let cases = [
        ("file-read-data", "/Users/me/proj/src/main.rs", true),
        ("file-write-create", "/Users/me/proj/src/main.rs", true),
        ("file-write-unlink", "/Users/me/proj/src", true),
        ("file-write-data", "/Users/me/.cargo/bin/cargo", false),
        ("process-exec", "/Users/me/.cargo/bin/cargo", true),
        ("process-exec", "/Users/other/tool", false),
        ("file-read-data", "/Users/me/.ssh/id_ed25519", false),
        ("file-read-metadata", "/Users/me/proj/.env", false),
        ("file-write-data", "/Users/me/proj/.git/index", true),
        ("file-write-data", "/Users/me/proj/.git/config", false),
        ("file-read-data", "/Users/me/proj/.git/config", true),
        (
            "file-write-create",
            "/Users/me/proj/a/.GIT/Hooks/pre-commit",
            false,
        ),
        // A fresh `.git` prepared elsewhere cannot be renamed into place, nor one moved away.
        ("file-write-create", "/Users/me/proj/a/.git", false),
        ("file-write-unlink", "/Users/me/proj/a/.git", false),
        (
            "file-write-create",
            "/private/tmp/stockade-1/x/.git/hooks",
            false,
        ),
        ("file-write-unlink", "/Users/me/proj/ci/run", false),
        ("file-write-unlink", "/Users/me/proj/ci", false),
        ("file-write-create", "/Users/me/proj/CI", false),
        ("file-write-unlink", workspace, false),
        ("file-write-setugid", "/Users/me/proj/tool", false),
        ("file-link", "/Users/me/proj/src/main.rs", false),
        ("file-write-create", "/private/tmp/other", false),
        ("file-write-create", "/private/tmp/stockade-1/x", true),
        ("file-write-create", "/tmp/stockade-1/x", true),
        ("file-read-data", "/private/etc/master.passwd", false),
        ("file-write-data", "/dev/null", true),
        ("file-read-data", "/dev/tty", false),
        ("file-ioctl", "/dev/ttys003", false),
    ];
    for (operation, path, expected) in cases {
        let actual = allows(&strict(), operation, &[("path", path)]);
        assert_eq!(actual, expected, "{operation} {path}");
    }
}

/// A newline and `(allow default)` in a path's name (agent-safehouse PR 133, case P027).
#[test]
fn paths_that_could_be_read_as_something_else_are_refused_before_there_is_text() {
    let not_utf8 = PathBuf::from(OsString::from_vec(vec![b'/', 0xff]));
    let cases: Vec<(PathBuf, &str)> = vec![
        ("/w/x\n(allow default)".into(), "ControlCharacter"),
        ("/w/\0".into(), "ControlCharacter"),
        ("/w/\u{1b}[2J".into(), "ControlCharacter"),
        ("/w/\u{85}".into(), "ControlCharacter"),
        ("w".into(), "Relative"),
        ("".into(), "Relative"),
        ("/w/../etc".into(), "NotNormal"),
        ("/System/Volumes/Data/Users/me".into(), "DataVolume"),
        (not_utf8, "NotUtf8"),
    ];
    for (path, expected) in cases {
        let one = || vec![path.clone()];
        let everywhere = [
            SeatbeltRules {
                read: one(),
                ..strict()
            },
            SeatbeltRules {
                write: one(),
                ..strict()
            },
            SeatbeltRules {
                deny: one(),
                ..strict()
            },
            SeatbeltRules {
                protect: one(),
                ..strict()
            },
            SeatbeltRules {
                private_tmp: path.clone(),
                ..strict()
            },
        ];
        for rules in everywhere {
            let error = SeatbeltProfile::generate(&rules).unwrap_err();
            assert!(
                format!("{error:?}").starts_with(expected),
                "{path:?}: {error:?}"
            );
            assert!(!error.to_string().contains(char::is_control), "{error:?}");
        }
    }
}

#[test]
fn protected_names_that_are_no_names_are_refused() {
    let cases = [
        name(&[]),
        name(&[""]),
        name(&["a/b"]),
        name(&[".."]),
        name(&["."]),
        name(&["a", "/"]),
        name(&["a/"]),
    ];
    for components in cases {
        let rules = SeatbeltRules {
            protect_names: vec![components.clone()],
            ..strict()
        };
        let error = SeatbeltProfile::generate(&rules).unwrap_err();
        assert!(
            matches!(error, SeatbeltError::Name { .. }),
            "{components:?}: {error:?}"
        );
    }
    let rules = SeatbeltRules {
        protect_names: vec![name(&["a\n"])],
        ..strict()
    };
    let error = SeatbeltProfile::generate(&rules).unwrap_err();
    assert!(
        matches!(error, SeatbeltError::ControlCharacter { .. }),
        "{error:?}"
    );
}

/// Case P041: neither `osascript` nor `open` reaches a program outside.
#[test]
fn apple_events_launch_services_and_keychains_are_closed_in_every_mode() {
    let services = [
        "com.apple.SecurityServer",
        "com.apple.securityd.xpc",
        "com.apple.coreservices.appleevents",
        "com.apple.coreservices.launchservicesd",
        "com.apple.coreservices.quarantine-resolver",
        "com.apple.lsd.mapdb",
        "com.apple.pasteboard.1",
        "com.apple.tccd",
        "com.apple.windowserver.active",
    ];
    for rules in [strict(), networked()] {
        assert!(!allows(&rules, "appleevent-send", &[]));
        assert!(!allows(&rules, "lsopen", &[]));
        assert!(!allows(&rules, "iokit-open", &[]));
        for service in services {
            assert!(
                !allows(&rules, "mach-lookup", &[("global-name", service)]),
                "{service}"
            );
        }
    }
}

/// Case P151: Go asks trustd. It may where the network is open, and nobody may where it is not.
#[test]
fn certificates_are_checked_by_the_system_only_where_the_network_is_open() {
    let trustd = [("global-name", "com.apple.trustd.agent")];
    assert!(allows(&networked(), "mach-lookup", &trustd));
    assert!(!allows(&strict(), "mach-lookup", &trustd));
}

/// Case P154: a JVM binds `::ffff:127.0.0.1`.
#[test]
fn all_of_the_network_is_open_or_none() {
    let requests = [
        ("network-bind", ("local ip", "[::ffff:127.0.0.1]:8080")),
        ("network-inbound", ("local ip", "127.0.0.1:8080")),
        ("network-outbound", ("remote ip", "192.0.2.1:443")),
        (
            "network-outbound",
            ("path", "/private/var/run/mDNSResponder"),
        ),
    ];
    for (operation, fact) in requests {
        assert!(allows(&networked(), operation, &[fact]), "{fact:?}");
        assert!(!allows(&strict(), operation, &[fact]), "{fact:?}");
    }
}

#[test]
fn unix_sockets_are_open_in_the_private_folder_alone_and_not_where_it_is_denied() {
    let rules = SeatbeltRules {
        deny: paths(&["/tmp/stockade-1/closed"]),
        ..networked()
    };
    let cases = [
        ("/private/tmp/stockade-1/s", true),
        ("/private/tmp/stockade-1/closed/s", false),
        ("/private/var/run/docker.sock", false),
        ("/Users/me/proj/agent.sock", false),
    ];
    for (path, expected) in cases {
        for (operation, fact) in [
            ("network-bind", "local unix-socket"),
            ("network-outbound", "remote unix-socket"),
        ] {
            let actual = allows(&rules, operation, &[(fact, path)]);
            assert_eq!(actual, expected, "{operation} {path}");
        }
    }
}

#[test]
fn a_terminal_is_opened_only_inside_and_only_where_granted() {
    let opened_inside = [
        ("path", "/dev/ttys004"),
        ("extension", "com.apple.sandbox.pty"),
    ];
    let foreign = [("path", "/dev/ttys004")];
    assert!(allows(&networked(), "pseudo-tty", &[]));
    assert!(allows(&networked(), "file-read-data", &opened_inside));
    assert!(allows(&networked(), "file-ioctl", &foreign));
    assert!(!allows(&networked(), "file-read-data", &foreign));
    assert!(!allows(&strict(), "pseudo-tty", &[]));
    assert!(!allows(&strict(), "file-read-data", &opened_inside));
}

#[test]
fn other_processes_are_out_of_reach() {
    for operation in ["signal", "process-info-pidinfo"] {
        assert!(allows(&strict(), operation, &[("target", "same-sandbox")]));
        assert!(!allows(&strict(), operation, &[("target", "others")]));
    }
}

#[test]
fn no_rule_opens_a_service_a_driver_or_a_sysctl_by_wildcard() {
    let stars = [
        "file*",
        "file-read*",
        "file-write*",
        "process-exec*",
        "process-info*",
    ];
    for rules in [strict(), networked()] {
        for rule in load(&rules).rules {
            for operation in &rule.operations {
                assert!(
                    !operation.contains('*') || stars.contains(&operation.as_str()),
                    "{rule:?}"
                );
                let expected = match operation.as_str() {
                    "mach-lookup" => "global-name",
                    "sysctl-read" => "sysctl-name",
                    "ipc-posix-sem" | "ipc-posix-shm" => "ipc-posix-name-regex",
                    _ => {
                        assert!(!operation.starts_with("iokit"), "{rule:?}");
                        continue;
                    }
                };
                assert!(rule.allow && !rule.kinds.is_empty(), "{rule:?}");
                assert!(rule.kinds.iter().all(|kind| kind == expected), "{rule:?}");
            }
            // What is allowed without looking at anything is known by name.
            let bare = rule.allow && rule.kinds.is_empty();
            let known = ["process-fork", "pseudo-tty"];
            assert!(
                !bare
                    || rule
                        .operations
                        .iter()
                        .all(|it| known.contains(&it.as_str())),
                "{rule:?}"
            );
        }
    }
}

#[test]
fn two_thousand_denies_fit_into_one_call() {
    let denies = (0..2_000).map(|n| PathBuf::from(format!("/Users/me/proj/secrets/{n}/key.pem")));
    let rules = SeatbeltRules {
        deny: denies.collect(),
        ..strict()
    };
    let profile = SeatbeltProfile::generate(&rules).unwrap();
    SandboxExec::new(&profile, Path::new("/usr/bin/true"), &[]).unwrap();
    let program = Program::load(&profile).unwrap();
    let facts = [("path", "/Users/me/proj/secrets/1999/key.pem")];
    assert!(!program.allows(Request {
        operation: "file-read-data",
        facts: &facts
    }));
}

// Few names, so that paths nest and rules overlap; some differ in case alone.
fn path() -> impl Strategy<Value = PathBuf> {
    let top = select(vec![
        "",
        "/tmp",
        "/private/tmp",
        "/private",
        "/w",
        "/usr/lib",
    ]);
    let part = select(vec!["a", "A", "b", "hooks", "Hooks"]);
    (top, vec(part, 0..4)).prop_map(|(top, parts)| format!("{top}/{}", parts.join("/")).into())
}

fn rules() -> impl Strategy<Value = SeatbeltRules> {
    let component = select(vec!["a", "b", "hooks"]).prop_map(OsString::from);
    (
        vec(path(), 0..3),
        vec(path(), 0..3),
        vec(path(), 0..3),
        vec(path(), 0..3),
        vec(vec(component, 1..4), 0..3),
        path(),
    )
        .prop_map(
            |(read, write, deny, protect, protect_names, private_tmp)| SeatbeltRules {
                read,
                write,
                deny,
                protect,
                protect_names,
                private_tmp,
                network: SeatbeltNetwork::Off,
                pty: false,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn the_text_means_what_the_rules_mean(rules in rules(), queries in vec(path(), 1..12)) {
        let program = load(&rules);
        for query in queries {
            let reported = format!("/{}", model::canonical(&query).join("/"));
            for operation in model::OPERATIONS {
                let facts = [("path", reported.as_str())];
                let actual = program.allows(Request { operation, facts: &facts });
                let expected = model::allows(&rules, operation, &query);
                prop_assert_eq!(actual, expected, "{} {}", operation, reported);
            }
        }
    }
}

fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec![
            "\"",
            "\\",
            "\\\"",
            "x\") (allow default) (deny file* (literal \"",
            "(allow default)",
            "x\n(allow default)",
            "$(id)",
            "#\"",
            ";",
            "|",
            ".*",
            "[^/]*",
            "(/|$)",
            "^",
            "a{2}",
            "\\\\\"",
            "(param \"WRITE_0\")",
            "=",
            "-D",
            "\u{202e}",
            "\u{e9}",
            "s\u{301}\"",
        ])
        .prop_map(str::to_owned),
        "[ab\"\\\\()\\[\\]{}|*+?.^$;#=\u{e9}\n ]{1,8}",
    ]
}

/// Everything about the program but the values that its filters compare with.
fn skeleton(program: &Program) -> Vec<(bool, Vec<String>, usize)> {
    let rules = program.rules.iter();
    rules
        .map(|it| (it.allow, it.operations.clone(), it.kinds.len()))
        .collect()
}

fn named(it: &str) -> SeatbeltRules {
    SeatbeltRules {
        read: vec![format!("/r/{it}").into()],
        write: vec![format!("/w/{it}").into()],
        deny: vec![format!("/w/{it}/d/{it}").into()],
        protect: vec![format!("/w/{it}/p/{it}").into()],
        protect_names: vec![
            name(&["n"])
                .into_iter()
                .chain(it.split('/').map(OsString::from))
                .collect(),
        ],
        ..strict()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_hostile_name_is_refused_or_is_only_a_name(it in hostile()) {
        let Ok(profile) = SeatbeltProfile::generate(&named(&it)) else {
            prop_assert!(it.contains(char::is_control) || it == "." || it == "..");
            return Ok(());
        };
        prop_assert!(!it.contains(char::is_control));
        let program = Program::load(&profile).map_err(TestCaseError::fail)?;
        let harmless = it.split('/').map(|_| "x").collect::<Vec<_>>().join("/");
        prop_assert_eq!(skeleton(&program), skeleton(&load(&named(&harmless))));
        let cases = [
            ("file-read-data", format!("/r/{it}/f"), true),
            ("file-read-data", "/r/other/f".to_owned(), false),
            ("file-write-create", format!("/w/{it}/f"), true),
            ("file-write-create", "/w/other/f".to_owned(), false),
            ("file-read-data", format!("/w/{it}/d/{it}/f"), false),
            ("file-write-data", format!("/w/{it}/p/{it}/f"), false),
            ("file-write-data", format!("/w/{it}/p/other"), true),
            ("file-write-unlink", format!("/w/{it}/p"), false),
            ("file-write-data", format!("/w/{it}/sub/n/{it}/f"), false),
            ("file-write-data", format!("/w/{it}/sub/n/other"), true),
            ("file-write-create", format!("/w/{it}/sub/n"), false),
            ("file-read-data", "/Users/me/.ssh/id".to_owned(), false),
        ];
        for (operation, path, expected) in cases {
            let facts = [("path", path.as_str())];
            let actual = program.allows(Request { operation, facts: &facts });
            prop_assert_eq!(actual, expected, "{} {:?}", operation, path);
        }
    }
}
