//! Runs the built program on real plans. Needs user namespaces, and fails without.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests start the program under test, and a panic is the report"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let base = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let folder = base.join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("work")).unwrap();
        Self(folder)
    }

    fn plan(&self, argv: &[&str]) -> Value {
        let program = Path::new(env!("CARGO_BIN_EXE_stockade-birdcage"));
        let system = ["/usr", "/bin", "/lib", "/lib64"];
        let present: Vec<_> = (system.iter())
            .filter(|it| Path::new(it).exists())
            .collect();
        assert!(program.exists());
        json!({
            "read": present,
            "write": [self.0.join("work")],
            "network": false,
            "env": [["PATH", "/usr/bin:/bin"], ["COLOUR", "blue"]],
            "argv": argv,
            "cwd": self.0.join("work"),
        })
    }

    fn run(&self, plan: &Value) -> Output {
        let file = self.0.join("plan.json");
        std::fs::write(&file, plan.to_string()).unwrap();
        // Descriptor 9 is one that must not pass.
        Command::new("/bin/sh")
            .args(["-c", "exec env -i \"$0\" 7 7<\"$1\" 9</etc/passwd"])
            .arg(env!("CARGO_BIN_EXE_stockade-birdcage"))
            .arg(file)
            .output()
            .unwrap()
    }

    fn shell(&self, script: &str) -> Output {
        self.run(&self.plan(&["/bin/sh", "-c", script]))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn said(output: &Output) -> String {
    let all = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8(all).unwrap()
}

#[test]
fn the_status_is_the_commands_own() {
    let scratch = Scratch::new("status");
    let cases = [
        (vec!["/bin/true"], 0),
        (vec!["/bin/false"], 1),
        (vec!["sh", "-c", "exit 42"], 42),
        (vec!["/bin/sh", "-c", "kill -TERM $$"], 128 + 15),
        (vec!["/bin/sh", "-c", "kill -KILL $$"], 128 + 9),
        (vec!["/bin/no-such-program"], 127),
        (vec!["/usr"], 126),
    ];
    for (argv, expected) in cases {
        let output = scratch.run(&scratch.plan(&argv));
        assert_eq!(
            output.status.code(),
            Some(expected),
            "{argv:?}: {}",
            said(&output)
        );
    }
}

#[test]
fn what_was_not_granted_is_not_there() {
    let scratch = Scratch::new("files");
    std::fs::write(scratch.0.join("secret"), "s").unwrap();
    let secret = scratch.0.join("secret");
    std::fs::read(&secret).unwrap();
    let output = scratch.shell(&format!("cat '{}'", secret.display()));
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let output = scratch.shell("echo x > made && echo y > ../outside");
    // The folder above is birdcage's own temporary one, so that writing there succeeds.
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(
        std::fs::read_to_string(scratch.0.join("work/made")).unwrap(),
        "x\n"
    );
    assert!(!scratch.0.join("outside").exists());
}

#[test]
fn environment_descriptors_and_folder_are_those_of_the_plan() {
    let scratch = Scratch::new("inherited");
    let output = scratch.run(&scratch.plan(&["/usr/bin/env"]));
    assert_eq!(said(&output), "COLOUR=blue\nPATH=/usr/bin:/bin\n");
    // The number 3 is that of the listing itself.
    let output = scratch.run(&scratch.plan(&["/bin/ls", "/proc/self/fd"]));
    assert_eq!(said(&output), "0\n1\n2\n3\n");
    let output = scratch.shell("cat /proc/1/environ 2>errors | wc -c");
    assert_eq!(said(&output).trim(), "0");
    // birdcage's init holds what it works with, but not what the outer stage inherited.
    let output = scratch.shell("test -L /proc/1/fd/3 && test ! -L /proc/1/fd/9");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let output = scratch.run(&scratch.plan(&["/bin/pwd"]));
    assert_eq!(Path::new(said(&output).trim()), scratch.0.join("work"));
}

#[test]
fn the_network_is_empty_unless_granted() {
    let scratch = Scratch::new("network");
    let host = std::fs::read_link("/proc/self/ns/net").unwrap();
    let mut plan = scratch.plan(&["/bin/readlink", "/proc/self/ns/net"]);
    let inside = |plan: &Value| PathBuf::from(said(&scratch.run(plan)).trim());
    assert_ne!(inside(&plan), host);
    plan["network"] = json!(true);
    assert_eq!(inside(&plan), host);
}

#[test]
fn a_plan_that_cannot_be_held_runs_nothing() {
    let scratch = Scratch::new("refused");
    let good = scratch.plan(&["/bin/sh", "-c", "touch ran"]);
    let changes = [
        ("deny", json!(["/usr/secret"])),
        ("argv", json!([])),
        ("cwd", json!("/no/such/folder")),
        ("cwd", json!("/var")),
        ("read", json!(["/no/such/path"])),
        ("network", json!("off")),
        // Without libraries the inner stage cannot start, and birdcage's init says so.
        ("read", json!([])),
    ];
    for (field, value) in changes {
        let mut plan = good.clone();
        plan[field] = value.clone();
        let output = scratch.run(&plan);
        assert_eq!(
            output.status.code(),
            Some(125),
            "{field} {value}: {}",
            said(&output)
        );
        assert!(
            said(&output).contains("stockade-birdcage: "),
            "{}",
            said(&output)
        );
        assert!(!scratch.0.join("work/ran").exists(), "{field} {value}");
    }
    assert_eq!(scratch.run(&good).status.code(), Some(0));
    assert!(scratch.0.join("work/ran").exists());
}

#[test]
fn an_environment_of_its_own_is_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_stockade-birdcage"))
        .arg("0")
        .env_clear()
        .env("TOKEN", "t")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(said(&output).contains("env -i"), "{}", said(&output));
}
