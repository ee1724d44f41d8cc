//! Runs every probe free, as the user who runs the tests: they must work, and leave nothing.
#![expect(
    clippy::disallowed_methods,
    reason = "the runner of probes starts them outside any sandbox"
)]
#![expect(
    clippy::tests_outside_test_module,
    reason = "an integration test is a module of its own"
)]
#![expect(
    clippy::unwrap_used,
    reason = "the helpers are part of the tests: a panic is the report"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stockade_probes::{Expect, Judge, Report, Verdict, Word, probes};

const PROBE: &str = env!("CARGO_BIN_EXE_stockade-probe");

/// Two runs at once would count each other's processes.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A stage that is up, until it is ended or dropped.
struct Up {
    server: Child,
    folder: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Up {
    fn new() -> Self {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let mut server = Command::new(PROBE)
            .arg("stage")
            .arg(folder.path().join("stage"))
            .arg("--out")
            .arg(folder.path().join("stage.json"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "ready\n");
        Self {
            server,
            folder,
            _turn: turn,
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("stage.json")
    }

    fn workspace(&self) -> PathBuf {
        self.folder
            .path()
            .canonicalize()
            .unwrap()
            .join("stage/workspace")
    }

    /// Runs all probes as a careless caller would, behind `wrapper`.
    fn run(&self, wrapper: &[&str], options: &[&str]) -> BTreeMap<String, Report> {
        let mut command = Command::new(PROBE);
        command
            .arg("caller")
            .arg("--stage")
            .arg(self.file())
            .arg("--")
            .args(wrapper)
            .arg(PROBE);
        command
            .arg("run-all")
            .arg("--stage")
            .arg(self.workspace().join(".stage.json"))
            .args(options)
            // A busy machine must not turn a slow probe into one that says nothing.
            .args(["--seconds", "20"]);
        let output = command.stderr(Stdio::inherit()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let report = |line: &str| serde_json::from_str::<Report>(line).unwrap();
        text.lines()
            .map(report)
            .map(|it| (it.id.clone(), it))
            .collect()
    }

    fn verdict(&self) -> Verdict {
        // Survivors write their flags 2.5 s after they were started.
        std::thread::sleep(Duration::from_millis(2800));
        let output = Command::new(PROBE)
            .arg("verify")
            .arg(self.file())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn end(mut self) -> tempfile::TempDir {
        drop(self.server.stdin.take());
        assert!(self.server.wait().unwrap().success());
        let replacement = tempfile::tempdir().unwrap();
        std::mem::replace(&mut self.folder, replacement)
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        self.server.wait().unwrap();
    }
}

fn count(reports: &BTreeMap<String, Report>, word: Word) -> usize {
    reports.values().filter(|it| it.outcome == word).count()
}

#[test]
fn free_most_probes_work_and_the_host_is_as_it_was() {
    let stage = Up::new();
    let reports = stage.run(&[], &[]);
    assert_eq!(reports.len(), probes().len(), "a line for each probe");
    let errors: Vec<_> = reports
        .values()
        .filter(|it| it.outcome == Word::Error)
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
    for report in reports.values().filter(|it| it.outcome == Word::Refused) {
        println!(
            "refused by this kernel, not counted: {} {} {}",
            report.id, report.errno, report.detail
        );
    }
    let worked = count(&reports, Word::Worked);
    println!("{worked} of {} work free", reports.len());
    assert!(worked >= 80, "only {worked} probes work free");

    let verdict = stage.verdict();
    assert_eq!(verdict.differences, Vec::<String>::new());
    assert_eq!(verdict.workspace, Vec::<String>::new());
    // What `verify` must be able to see, or its silence after a confined run means nothing.
    for sent in ["ip01", "ip02", "ip04", "ip05", "ip12", "ip16"] {
        assert!(
            verdict.received.iter().any(|it| it.contains(sent)),
            "{sent}: {:?}",
            verdict.received
        );
    }
    for id in ["pr07", "pr22", "pr26", "lf01", "lf02", "lf03"] {
        assert!(
            verdict.survivors.iter().any(|it| it.contains(id)),
            "{id}: {:?}",
            verdict.survivors
        );
    }

    let folder = stage.end();
    let left: Vec<_> = folder
        .path()
        .read_dir()
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect();
    assert_eq!(
        left,
        Vec::<PathBuf>::new(),
        "the stage clears everything away"
    );
}

#[test]
fn what_is_kept_is_what_verify_reports() {
    let stage = Up::new();
    let hosted: Vec<_> = probes()
        .into_iter()
        .filter(|it| it.judge == Judge::Host)
        .collect();
    assert!(hosted.iter().all(|it| it.expect == Expect::Held));
    stage.run(
        &[],
        &[
            "--keep",
            "--only",
            "fs10_create_missing_protected,fs06_git_hook,fs65_create_out",
        ],
    );
    let differences = stage.verdict().differences.join("\n");
    for name in [
        ".mcp.json: new",
        ".git/hooks/post-checkout: new",
        "outside/dir/created: new",
    ] {
        assert!(
            differences.contains(name),
            "{name} is not in\n{differences}"
        );
    }
}

/// The control for the probes themselves: a sandbox known to hold some and to let others
/// through is told apart from none and from a perfect one.
#[test]
fn plain_bwrap_holds_some_probes_and_not_all() {
    let program = "/usr/bin/bwrap";
    if !Path::new(program).exists() {
        assert!(
            std::env::var_os("STOCKADE_REQUIRE_ENFORCEMENT").is_none(),
            "{program} is missing"
        );
        println!("not tested: {program} is missing");
        return;
    }
    let stage = Up::new();
    let workspace = stage.workspace();
    let workspace = workspace.to_str().unwrap();
    let options = [
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--unshare-all",
    ];
    let free = stage.run(&[], &[]);
    let mut wrapper = vec![program];
    wrapper.extend(options);
    wrapper.extend(["--bind", workspace, workspace]);
    let confined = stage.run(&wrapper, &[]);
    let worked_free = || free.values().filter(|it| it.outcome == Word::Worked);
    let held = worked_free()
        .filter(|it| confined[&it.id].outcome == Word::Refused)
        .count();
    let through = worked_free()
        .filter(|it| confined[&it.id].outcome == Word::Worked)
        .count();
    println!("of those that work free, plain bwrap holds {held} and lets {through} through");
    assert!(
        held >= 40 && through >= 40,
        "held {held}, through {through}"
    );
    for (id, expected) in [
        ("fs01_write_rc", Word::Refused),
        ("ip01_tcp_loop", Word::Refused),
        ("pr01_kill_victim", Word::Refused),
        ("fs02_read_key", Word::Worked),
        ("ip04_unix_path", Word::Worked),
        ("pr16_env_secret", Word::Worked),
    ] {
        assert_eq!(confined[id].outcome, expected, "{id}");
    }
}
