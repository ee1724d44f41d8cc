//! Staged work by the kernel: an apply ends where the same edits made directly end.
//!
//! The overlay is mounted by `unshare` in a user and mount namespace, as an ordinary user
//! would, and where the tests run as root also without a user namespace, since the kernel
//! then keeps file handles in `overlay.origin`.
#![expect(clippy::disallowed_methods, reason = "the tests mount with unshare(1)")]

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use sandbox::staging::Outcome;

use crate::support::{chmod, link, not_tested, picture, place, unapplied, write};

/// How to get a mount namespace: as an ordinary user, and as root.
const ORDINARY: &[&str] = &["-Urm"];
const ROOT: &[&str] = &["-m"];

fn namespaces() -> Vec<&'static [&'static str]> {
    if rustix::process::getuid().is_root() {
        vec![ORDINARY, ROOT]
    } else {
        vec![ORDINARY]
    }
}

fn fill(workspace: &Path) {
    for name in ["a", "b"] {
        write(&workspace.join(name), "file\n");
        write(&workspace.join("d").join(name), "in d\n");
        write(&workspace.join("e/d").join(name), "in e/d\n");
    }
    link("a", &workspace.join("c"));
    link("nowhere", &workspace.join("d/c"));
}

/// Runs `script` in `dir`; with flags, in an overlay of it that writes to `upper`.
fn run(script: &str, dir: &Path, overlay: Option<(&[&str], &Path, &Path)>) -> Result<(), String> {
    let inner = format!("umask 022; cd \"$1\" || exit 9\n{script}\nexit 0");
    let mut command = match overlay {
        None => Command::new("sh"),
        Some((flags, ..)) => {
            let mut command = Command::new("unshare");
            command.args(flags).arg("sh");
            command
        }
    };
    let mount = overlay.map_or(String::new(), |(_, upper, work)| {
            format!(
                "mount -t overlay overlay -o 'lowerdir={0},upperdir={1},workdir={2},userxattr' '{0}' || exit 8\n",
                dir.display(),
                upper.display(),
                work.display()
            )
        });
    let answer = command
        .arg("-c")
        .arg(mount + &inner)
        .arg("sh")
        .arg(dir)
        .output();
    let answer = answer.map_err(|error| error.to_string())?;
    if answer.status.success() {
        return Ok(());
    }
    Err(format!(
        "{}: {}",
        answer.status,
        String::from_utf8_lossy(&answer.stderr)
    ))
}

/// Whether overlays can be mounted here. Says so where not, and fails where CI demands it.
fn can_mount(flags: &[&str]) -> bool {
    let place = place(|_| ());
    let stage = place.stage();
    let answer = run(
        "true",
        &place.workspace,
        Some((flags, &stage.upper(), &stage.work())),
    );
    if let Err(reason) = &answer {
        not_tested(&format!(
            "applying from a real overlay, unshare {flags:?}: {reason}"
        ));
    }
    answer.is_ok()
}

/// Makes the edits staged and directly, applies, and compares. Returns what was listed.
fn check(script: &str, flags: &[&str]) -> Result<Vec<String>, TestCaseError> {
    let fail = |what: String| TestCaseError::fail(format!("{what}\nscript:\n{script}"));
    let place = place(fill);
    let direct = place.root.join("direct");
    fs::create_dir(&direct).unwrap();
    fill(&direct);
    let stage = place.stage();
    run(script, &direct, None).map_err(fail)?;
    run(
        script,
        &place.workspace,
        Some((flags, &stage.upper(), &stage.work())),
    )
    .map_err(fail)?;
    let listed = place.lines();
    let report = place.apply();
    if !unapplied(&report).is_empty() {
        return Err(fail(format!("not applied: {:?}", unapplied(&report))));
    }
    let (staged, direct) = (picture(&place.workspace), picture(&direct));
    if staged != direct {
        return Err(fail(format!("staged: {staged:#?}\ndirect: {direct:#?}")));
    }
    if !place.staged().is_empty() {
        return Err(fail(format!("left in the stage: {:?}", place.staged())));
    }
    Ok(listed)
}

#[test]
fn every_kind_of_edit_arrives() {
    let script = "
            echo more >> a
            rm b
            mv d moved
            rm -r e; mkdir e; echo new > e/new
            chmod 600 moved/a
            rm c; ln -s moved c
            mkdir -p n/m; echo x > n/m/x; chmod 700 n
        ";
    for flags in namespaces().into_iter().filter(|flags| can_mount(flags)) {
        let listed = check(script, flags).unwrap();
        assert_eq!(
            listed,
            [
                "a Modified",
                "b Deleted",
                "c Modified",
                "d Deleted",
                "d/a Deleted",
                "d/b Deleted",
                "d/c Deleted",
                "e/d Deleted",
                "e/d/a Deleted",
                "e/d/b Deleted",
                "e/new Added",
                "moved Added",
                "moved/a Added",
                "moved/b Added",
                "moved/c Added",
                "n Added",
                "n/m Added",
                "n/m/x Added",
            ]
        );
    }
}

#[test]
fn a_change_that_was_undone_is_no_change() {
    let script = "echo more >> a; echo file > a; chmod 600 b; chmod 644 b; mv d x; mv x d";
    for flags in namespaces().into_iter().filter(|flags| can_mount(flags)) {
        assert_eq!(check(script, flags).unwrap(), Vec::<String>::new());
    }
}

#[test]
fn a_host_removal_of_an_edited_file_is_seen_by_its_origin() {
    for flags in namespaces().into_iter().filter(|flags| can_mount(flags)) {
        let place = place(fill);
        let stage = place.stage();
        let overlay = Some((flags, &*stage.upper(), &*stage.work()));
        run(
            "echo more >> a; echo more >> d/a; echo n > d/n",
            &place.workspace,
            overlay,
        )
        .unwrap();
        fs::remove_file(place.workspace.join("a")).unwrap();
        fs::remove_dir_all(place.workspace.join("d")).unwrap();
        assert_eq!(
            place.lines(),
            [
                "a Added HostDeleted",
                "d Added HostDeleted",
                "d/a Added HostDeleted",
                "d/n Added HostDeleted"
            ]
        );
        assert_eq!(unapplied(&place.apply()).len(), 4);
        assert!(!place.workspace.join("a").exists() && !place.workspace.join("d").exists());
    }
}

#[test]
fn a_staged_overlay_is_thrown_away_with_its_work_directory() {
    for flags in namespaces().into_iter().filter(|flags| can_mount(flags)) {
        let mut place = place(fill);
        let stage = place.stage();
        let overlay = Some((flags, &*stage.upper(), &*stage.work()));
        run(
            "rm -r d; mkdir -p x/y; chmod 000 x/y x",
            &place.workspace,
            overlay,
        )
        .unwrap();
        chmod(&place.workspace.join("a"), 0o600);
        let before = picture(&place.workspace);
        place.stage.take().unwrap().discard().unwrap();
        assert_eq!(
            fs::read_dir(place.root.join("state/staged"))
                .unwrap()
                .count(),
            0
        );
        assert_eq!(picture(&place.workspace), before);
    }
}

/// A path of up to three names out of five: collisions are the point.
fn paths() -> impl Strategy<Value = String> {
    let name = || proptest::sample::select(vec!["a", "b", "c", "d", "e"]);
    prop_oneof![
        3 => name().prop_map(str::to_owned),
        3 => (name(), name()).prop_map(|(one, two)| format!("{one}/{two}")),
        1 => (name(), name(), name()).prop_map(|(one, two, three)| format!("{one}/{two}/{three}")),
    ]
}

/// One command. What fails directly fails in the overlay as well, so failing is allowed.
fn edits() -> impl Strategy<Value = String> {
    let modes = prop_oneof![Just("700"), Just("755"), Just("711")];
    let texts = proptest::sample::select(vec!["one", "two", "file", "in d"]);
    prop_oneof![
        (texts.clone(), paths())
            .prop_map(|(text, path)| format!("[ -L {path} ] || echo {text} > {path}")),
        (texts, paths()).prop_map(|(text, path)| format!("[ -L {path} ] || echo {text} >> {path}")),
        paths().prop_map(|path| format!("rm -rf {path}")),
        paths().prop_map(|path| format!("mkdir -p {path}")),
        paths().prop_map(|path| format!("rm -rf {path}; mkdir {path}")),
        (paths(), paths()).prop_map(|(from, to)| format!("mv -f -T {from} {to}")),
        (paths(), paths()).prop_map(|(from, to)| format!("cp -pP -T {from} {to}")),
        (paths(), paths()).prop_map(|(target, path)| format!("ln -sfn {target} {path}")),
        (modes, paths()).prop_map(|(mode, path)| format!("[ -L {path} ] || chmod {mode} {path}")),
    ]
}

#[test]
fn any_edits_applied_end_where_the_same_edits_made_directly_end() {
    for flags in namespaces().into_iter().filter(|flags| can_mount(flags)) {
        let config = Config {
            cases: 60,
            failure_persistence: None,
            ..Config::default()
        };
        let scripts = proptest::collection::vec(edits(), 1..12);
        TestRunner::new(config)
            .run(&scripts, |script| {
                check(&script.join("\n"), flags).map(drop)
            })
            .unwrap();
    }
}

#[test]
fn whatever_the_host_edits_meanwhile_stands_afterwards() {
    for flags in namespaces().into_iter().filter(|flags| can_mount(flags)) {
        let config = Config {
            cases: 40,
            failure_persistence: None,
            ..Config::default()
        };
        let scripts = || proptest::collection::vec(edits(), 1..8);
        TestRunner::new(config)
            .run(&(scripts(), scripts()), |(payload, host)| {
                meanwhile(&payload, &host, flags)
            })
            .unwrap();
    }
}

/// The payload's edits, then the host's, then an apply.
fn meanwhile(payload: &[String], host: &[String], flags: &[&str]) -> Result<(), TestCaseError> {
    let fail = |what: String| {
        TestCaseError::fail(format!("{what}\npayload: {payload:#?}\nhost: {host:#?}"))
    };
    let place = place(fill);
    let stage = place.stage();
    let overlay = Some((flags, &*stage.upper(), &*stage.work()));
    run(&payload.join("\n"), &place.workspace, overlay).map_err(fail)?;
    run(&host.join("\n"), &place.workspace, None).map_err(fail)?;
    let start = fs::metadata(stage.folder().join("lock")).unwrap();
    let start = (start.ctime(), start.ctime_nsec());
    let before = picture(&place.workspace);
    let edited = before.iter().filter(|(path, text)| {
        let found = fs::symlink_metadata(place.workspace.join(path)).unwrap();
        !text.starts_with("dir") && (found.ctime(), found.ctime_nsec()) >= start
    });
    let edited: Vec<_> = edited.collect();
    let listed = place.lines();
    let report = place.apply();
    let after = picture(&place.workspace);
    for (path, text) in edited {
        if after.get(path) != Some(text) {
            return Err(fail(format!(
                "{path}: {text:?} became {:?}",
                after.get(path)
            )));
        }
    }
    if report.remaining != unapplied(&report).len() {
        return Err(fail(format!("listed {listed:#?}, report {report:#?}")));
    }
    // Nothing is lost: what was not applied is offered again.
    let again: Vec<_> = place.scan().into_iter().map(|change| change.path).collect();
    let left = report
        .outcomes
        .iter()
        .filter(|(_, outcome)| *outcome != Outcome::Applied);
    let left: Vec<_> = left.map(|(change, _)| change.path.clone()).collect();
    if again != left {
        return Err(fail(format!(
            "listed {listed:#?}, again {:#?}",
            place.lines()
        )));
    }
    Ok(())
}
