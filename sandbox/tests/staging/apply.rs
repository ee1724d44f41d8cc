//! Staged work by hand: what a scan says, what an apply does, what it never does.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, XattrFlags, makedev, mknodat, setxattr};

use sandbox::staging::{Conflict, Counts, Outcome, Selection, Stage, StagingError, sweep};

use crate::support::{Place, chmod, line, link, meta, picture, place, tick, unapplied, write};

/// An overlay's sign for "removed". Any user may make one since Linux 5.8.
fn whiteout(path: &Path) {
    mknodat(
        CWD,
        path,
        FileType::CharacterDevice,
        Mode::empty(),
        makedev(0, 0),
    )
    .unwrap();
}

/// A mark of an unprivileged overlay.
fn mark(path: &Path, name: &str, value: &[u8]) {
    setxattr(
        path,
        format!("user.overlay.{name}"),
        value,
        XattrFlags::empty(),
    )
    .unwrap();
}

/// A workspace with one of each.
fn fill(workspace: &Path) {
    write(&workspace.join("edit"), "old\n");
    write(&workspace.join("gone"), "gone\n");
    write(&workspace.join("mode"), "mode\n");
    write(&workspace.join("dir/in"), "in\n");
    write(&workspace.join("dir/sub/deep"), "deep\n");
    write(&workspace.join("opaque/old"), "old\n");
    write(&workspace.join("opaque/both"), "both\n");
    write(&workspace.join("opaque/sub/x"), "x\n");
    write(&workspace.join("tofile/a"), "a\n");
    write(&workspace.join("todir"), "file\n");
    write(&workspace.join("tolink"), "file\n");
    write(&workspace.join("shut/kept"), "kept\n");
    write(&workspace.join("shut/edit"), "old\n");
    link("edit", &workspace.join("link"));
    for path in ["edit", "gone", "mode"] {
        chmod(&workspace.join(path), 0o644);
    }
    chmod(&workspace.join("shut"), 0o755);
}

/// What a payload did to it, as an overlay stores that.
fn stage(upper: &Path) {
    for path in ["edit", "renamed"] {
        write(&upper.join(path), "new\n");
        mark(&upper.join(path), "origin", b"");
    }
    chmod(&upper.join("edit"), 0o600);
    whiteout(&upper.join("gone"));
    write(&upper.join("mode"), "mode\n");
    chmod(&upper.join("mode"), 0o755);
    whiteout(&upper.join("dir"));
    write(&upper.join("opaque/both"), "other\n");
    write(&upper.join("opaque/sub/y"), "y\n");
    mark(&upper.join("opaque"), "opaque", b"y");
    write(&upper.join("tofile"), "a file now\n");
    write(&upper.join("todir/inner/x"), "x\n");
    link("/etc/passwd", &upper.join("tolink"));
    link("gone", &upper.join("link"));
    write(&upper.join("shut/edit"), "new\n");
    write(&upper.join("shut/more"), "more\n");
    chmod(&upper.join("shut"), 0o555);
    write(&upper.join("new/closed/x"), "x\n");
    chmod(&upper.join("new/closed"), 0o500);
    write(&upper.join("new/tool"), "#!/bin/sh\n");
    chmod(&upper.join("new/tool"), 0o4755);
}

const CHANGES: [&str; 26] = [
    "dir Deleted",
    "dir/in Deleted",
    "dir/sub Deleted",
    "dir/sub/deep Deleted",
    "edit Modified",
    "gone Deleted",
    "link Modified",
    "mode ModeChanged",
    "new Added",
    "new/closed Added",
    "new/closed/x Added",
    "new/tool Added",
    "opaque/both Modified",
    "opaque/old Deleted",
    "opaque/sub/x Deleted",
    "opaque/sub/y Added",
    "renamed Added",
    "shut ModeChanged",
    "shut/edit Modified",
    "shut/more Added",
    "todir TypeChanged",
    "todir/inner Added",
    "todir/inner/x Added",
    "tofile TypeChanged",
    "tofile/a Deleted",
    "tolink TypeChanged",
];

fn wanted() -> BTreeMap<String, String> {
    let text = [
        ("edit", "file 600 new\n"),
        ("link", "link gone"),
        ("mode", "file 755 mode\n"),
        ("new", "dir 755"),
        ("new/closed", "dir 500"),
        ("new/closed/x", "file 644 x\n"),
        ("new/tool", "file 755 #!/bin/sh\n"),
        ("opaque", "dir 755"),
        ("opaque/both", "file 644 other\n"),
        ("opaque/sub", "dir 755"),
        ("opaque/sub/y", "file 644 y\n"),
        ("renamed", "file 644 new\n"),
        ("shut", "dir 555"),
        ("shut/edit", "file 644 new\n"),
        ("shut/kept", "file 644 kept\n"),
        ("shut/more", "file 644 more\n"),
        ("todir", "dir 755"),
        ("todir/inner", "dir 755"),
        ("todir/inner/x", "file 644 x\n"),
        ("tofile", "file 644 a file now\n"),
        ("tolink", "link /etc/passwd"),
    ];
    text.into_iter()
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .collect()
}

fn worked() -> Place {
    let place = place(fill);
    stage(&place.upper());
    place
}

#[test]
fn a_scan_names_every_difference_in_tree_order() {
    let place = worked();
    assert_eq!(place.lines(), CHANGES);
    let changes = place.scan();
    let tool = changes
        .iter()
        .find(|change| change.path == b"new/tool")
        .unwrap();
    assert!(tool.executable && tool.special_bits);
    let counts = Counts::of(&changes);
    assert_eq!((counts.added, counts.modified, counts.deleted), (9, 9, 8));
}

#[test]
fn an_apply_ends_in_what_the_payload_saw_and_empties_the_stage() {
    let place = worked();
    let report = place.apply();
    assert_eq!(unapplied(&report), []);
    assert_eq!(report.remaining, 0);
    assert_eq!(picture(&place.workspace), wanted());
    assert_eq!(place.staged(), Vec::<String>::new());
}

#[test]
fn a_crash_before_any_step_loses_nothing_and_a_second_apply_finishes() {
    let mut step = 0;
    loop {
        let place = worked();
        let crashed = match place.apply_until(step) {
            Err(StagingError::Interrupted { steps }) => steps == step,
            Ok(_) => break,
            Err(other) => panic!("step {step}: {other}"),
        };
        assert!(crashed);
        let report = place.apply();
        assert_eq!(unapplied(&report), [], "after a crash before step {step}");
        assert_eq!(
            picture(&place.workspace),
            wanted(),
            "after a crash before step {step}"
        );
        assert_eq!(place.staged(), Vec::<String>::new());
        assert_eq!(report.leftovers, Vec::<Vec<u8>>::new());
        step += 1;
    }
    assert!(step > 60, "only {step} steps were tried");
}

#[test]
fn what_the_host_edited_meanwhile_is_a_conflict_and_stays() {
    let place = worked();
    fs::remove_file(place.upper().join("renamed")).unwrap();
    let at = |name: &str| place.workspace.join(name);
    write(&at("edit"), "host\n");
    fs::remove_file(at("mode")).unwrap();
    write(&at("mode"), "mode\n");
    chmod(&at("gone"), 0o640);
    write(&at("dir/sub/more"), "host\n");
    write(&at("opaque/host"), "host\n");
    write(&at("new/tool"), "host\n");
    let before = picture(&place.workspace);
    let conflicts = place
        .lines()
        .into_iter()
        .filter(|line| line.contains("Host"));
    assert_eq!(
        conflicts.collect::<Vec<_>>(),
        [
            "dir/sub/more Deleted HostChanged",
            "edit Modified HostChanged",
            "gone Deleted HostChanged",
            "mode ModeChanged HostChanged",
            "new/tool Modified HostChanged",
            "opaque/host Deleted HostChanged",
        ]
    );
    let report = place.apply();
    let kept = [
        "edit",
        "gone",
        "mode",
        "dir/sub/more",
        "opaque/host",
        "new/tool",
    ];
    let after = picture(&place.workspace);
    for path in kept {
        assert_eq!(after.get(path), before.get(path), "{path}");
    }
    let left: Vec<String> = unapplied(&report)
        .into_iter()
        .map(|(path, _)| path)
        .collect();
    assert_eq!(
        left,
        [
            "dir",
            "dir/sub",
            "dir/sub/more",
            "edit",
            "gone",
            "mode",
            "new/tool",
            "opaque/host"
        ]
    );
    // What is left is offered again, and nothing that was applied reads as new.
    assert_eq!(
        place
            .scan()
            .iter()
            .map(|change| change.path.clone())
            .collect::<Vec<_>>(),
        {
            let left = left.iter().map(|path| path.clone().into_bytes());
            left.collect::<Vec<_>>()
        }
    );
    assert_eq!(
        fs::read_to_string(place.upper().join("edit")).unwrap(),
        "new\n"
    );
}

#[test]
fn what_the_host_removed_is_not_brought_back() {
    let place = worked();
    fs::remove_file(place.workspace.join("edit")).unwrap();
    let report = place.apply();
    let lost = Outcome::Conflict(Conflict::HostDeleted);
    // The second was copied up too, and might have stood where a name has gone.
    let both = [
        ("edit".to_owned(), lost.clone()),
        ("renamed".to_owned(), lost),
    ];
    assert_eq!(unapplied(&report), both);
    assert!(!place.workspace.join("edit").exists());
    assert_eq!(place.staged(), ["edit", "renamed"]);
}

#[test]
fn a_directory_that_the_host_exchanged_is_a_conflict() {
    let place = place(|workspace| {
        write(&workspace.join("src/main"), "one\n");
        write(&workspace.join("other/main"), "two\n");
    });
    write(&place.upper().join("src/main"), "payload\n");
    fs::rename(place.workspace.join("src"), place.workspace.join("aside")).unwrap();
    fs::rename(place.workspace.join("other"), place.workspace.join("src")).unwrap();
    let report = place.apply();
    let replaced = Outcome::Conflict(Conflict::DirectoryReplaced);
    assert_eq!(unapplied(&report), [("src/main".to_owned(), replaced)]);
    assert_eq!(
        fs::read_to_string(place.workspace.join("src/main")).unwrap(),
        "two\n"
    );
}

#[test]
fn an_edit_between_scan_and_rename_wins() {
    let place = worked();
    let target = place.workspace.join("edit");
    let report = place
        .stage()
        .apply(Selection::All, &|_| false, &mut |step| {
            if step.path == b"edit" && step.action == "publish" {
                write(&target, "host\n");
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    let changed = Outcome::Conflict(Conflict::HostChanged);
    assert_eq!(unapplied(&report), [("edit".to_owned(), changed)]);
    assert_eq!(fs::read_to_string(&target).unwrap(), "host\n");
    assert!(
        picture(&place.workspace)
            .keys()
            .all(|path| !path.contains(".stockade-"))
    );
}

#[test]
fn protected_names_stay_in_the_stage_and_what_holds_them_stands() {
    let place = place(|workspace| {
        write(&workspace.join("repo/.git/config"), "config\n");
        write(&workspace.join("repo/file"), "file\n");
    });
    whiteout(&place.upper().join("repo"));
    write(&place.upper().join(".git/hooks/pre-commit"), "#!/bin/sh\n");
    let protected = |path: &[u8]| path.ends_with(b".git/config") || path.ends_with(b".git/hooks");
    let changes = place.stage().scan(&protected).unwrap();
    let lines: Vec<_> = changes
        .iter()
        .map(line)
        .filter(|line| line.contains("protected"))
        .collect();
    assert_eq!(
        lines,
        [
            ".git/hooks Added protected",
            ".git/hooks/pre-commit Added protected",
            "repo/.git/config Deleted protected",
        ]
    );
    let mut go_on = |_: &sandbox::staging::Step<'_>| ControlFlow::Continue(());
    let report = place
        .stage()
        .apply(Selection::All, &protected, &mut go_on)
        .unwrap();
    assert_eq!(
        unapplied(&report),
        [
            (".git/hooks".to_owned(), Outcome::Protected),
            (".git/hooks/pre-commit".to_owned(), Outcome::Protected),
            ("repo".to_owned(), Outcome::Blocked),
            ("repo/.git".to_owned(), Outcome::Blocked),
            ("repo/.git/config".to_owned(), Outcome::Protected),
        ]
    );
    let left: Vec<String> = picture(&place.workspace).into_keys().collect();
    assert_eq!(left, [".git", "repo", "repo/.git", "repo/.git/config"]);
    assert_eq!(place.staged(), [".git", "repo"]);
}

#[test]
fn a_selection_applies_its_paths_and_the_directories_they_need() {
    let place = worked();
    let paths = [
        b"new/closed/x".to_vec(),
        b"todir".to_vec(),
        b"opaque/both".to_vec(),
    ];
    let mut go_on = |_: &sandbox::staging::Step<'_>| ControlFlow::Continue(());
    let report = place
        .stage()
        .apply(Selection::Paths(&paths), &|_| false, &mut go_on)
        .unwrap();
    let applied = report
        .outcomes
        .iter()
        .filter(|(_, outcome)| *outcome == Outcome::Applied);
    let applied: Vec<_> = applied
        .map(|(change, _)| String::from_utf8_lossy(&change.path).into_owned())
        .collect();
    assert_eq!(
        applied,
        [
            "new",
            "new/closed",
            "new/closed/x",
            "opaque/both",
            "todir",
            "todir/inner",
            "todir/inner/x"
        ]
    );
    assert_eq!(report.remaining, CHANGES.len() - applied.len());
    assert!(place.scan().iter().all(|change| change.conflict.is_none()));
    assert_eq!(unapplied(&place.apply()), []);
    assert_eq!(picture(&place.workspace), wanted());
}

#[test]
fn a_link_in_the_place_of_a_directory_is_never_followed() {
    let place = place(|workspace| write(&workspace.join("a/inner"), "inner\n"));
    let outside = place.root.join("outside");
    write(&outside.join("inner"), "outside\n");
    link(outside.to_str().unwrap(), &place.upper().join("a"));
    assert_eq!(place.lines(), ["a TypeChanged", "a/inner Deleted"]);
    assert_eq!(unapplied(&place.apply()), []);
    assert_eq!(fs::read_link(place.workspace.join("a")).unwrap(), outside);
    assert_eq!(
        fs::read_to_string(outside.join("inner")).unwrap(),
        "outside\n"
    );
}

#[test]
fn a_directory_exchanged_for_a_link_while_applying_is_not_entered() {
    let place = place(|workspace| write(&workspace.join("a/old"), "old\n"));
    let outside = place.root.join("outside");
    fs::create_dir(&outside).unwrap();
    write(&outside.join("old"), "outside\n");
    whiteout_in(&place, "a", "old");
    write(&place.upper().join("a/new"), "new\n");
    let workspace = place.workspace.clone();
    let target = outside.clone();
    let report = place
        .stage()
        .apply(Selection::All, &|_| false, &mut |step| {
            if step.action == "publish" {
                fs::rename(workspace.join("a"), workspace.join("b")).unwrap();
                link(target.to_str().unwrap(), &workspace.join("a"));
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    let left: Vec<String> = unapplied(&report)
        .into_iter()
        .map(|(path, _)| path)
        .collect();
    assert_eq!(left, ["a/old"]);
    let outside: Vec<String> = picture(&outside).into_keys().collect();
    assert_eq!(outside, ["old"]);
    // Nothing is lost: the workspace lacks it now, so the stage keeps it.
    assert_eq!(
        fs::read_to_string(place.upper().join("a/new")).unwrap(),
        "new\n"
    );
}

#[test]
fn a_link_to_a_protected_directory_put_above_while_applying_is_not_passed() {
    let place = place(|workspace| {
        write(&workspace.join("a/b/old"), "old\n");
        write(&workspace.join("locked/b/old"), "locked\n");
    });
    write(&place.upper().join("a/b/one"), "one\n");
    write(&place.upper().join("a/b/two"), "two\n");
    let workspace = place.workspace.clone();
    let report = place
        .stage()
        .apply(Selection::All, &|path| path == b"locked", &mut |step| {
            if step.action == "publish" && step.path == b"a/b/one" {
                fs::rename(workspace.join("a"), workspace.join("aside")).unwrap();
                link("locked", &workspace.join("a"));
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    let changed = Outcome::Conflict(Conflict::HostChanged);
    assert_eq!(unapplied(&report), [("a/b/two".to_owned(), changed)]);
    let locked: Vec<String> = picture(&place.workspace.join("locked"))
        .into_keys()
        .collect();
    assert_eq!(locked, ["b", "b/old"]);
}

#[test]
fn a_chmod_between_scan_and_rename_wins() {
    let place = worked();
    let target = place.workspace.join("edit");
    let report = place
        .stage()
        .apply(Selection::All, &|_| false, &mut |step| {
            if step.path == b"edit" && step.action == "publish" {
                chmod(&target, 0o640);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    let changed = Outcome::Conflict(Conflict::HostChanged);
    assert_eq!(unapplied(&report), [("edit".to_owned(), changed)]);
    assert_eq!(picture(&place.workspace)["edit"], "file 640 old\n");
}

fn whiteout_in(place: &Place, dir: &str, name: &str) {
    fs::create_dir_all(place.upper().join(dir)).unwrap();
    whiteout(&place.upper().join(dir).join(name));
}

#[test]
fn odd_entries_are_listed_and_refused_and_the_rest_goes_through() {
    use std::os::unix::ffi::OsStrExt as _;

    let place = place(|workspace| {
        write(&workspace.join("marked"), "x\n");
        write(&workspace.join("attribute-gone"), "x\n");
    });
    let upper = place.upper();
    mknodat(CWD, upper.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(upper.join("socket")).unwrap();
    write(&upper.join("marked"), "");
    mark(&upper.join("marked"), "metacopy", b"");
    write(&upper.join("attribute-gone"), "");
    mark(&upper.join("attribute-gone"), "whiteout", b"");
    fs::create_dir(upper.join("moved")).unwrap();
    mark(&upper.join("moved"), "redirect", b"/etc");
    fs::write(
        upper.join(std::ffi::OsStr::from_bytes(b"\xff\n")),
        "bytes\n",
    )
    .unwrap();
    fs::hard_link(
        upper.join(std::ffi::OsStr::from_bytes(b"\xff\n")),
        upper.join("second"),
    )
    .unwrap();
    assert_eq!(
        place.lines(),
        [
            "attribute-gone Deleted",
            "fifo Added Special",
            "marked Modified Unsupported",
            "moved Added Unsupported",
            "second Added",
            "socket Added Special",
            "\u{fffd}\n Added",
        ]
    );
    let report = place.apply();
    assert_eq!(report.count(|outcome| *outcome == Outcome::Applied), 3);
    assert_eq!(place.staged(), ["fifo", "marked", "moved", "socket"]);
    assert!(
        place
            .workspace
            .join(std::ffi::OsStr::from_bytes(b"\xff\n"))
            .exists()
    );
}

#[test]
fn hard_links_on_the_host_do_not_conflict_with_each_other() {
    let place = place(|workspace| {
        write(&workspace.join("a"), "x\n");
        for name in ["b", "c"] {
            fs::hard_link(workspace.join("a"), workspace.join(name)).unwrap();
        }
    });
    write(&place.upper().join("a"), "new\n");
    whiteout(&place.upper().join("b"));
    assert_eq!(unapplied(&place.apply()), []);
    let picture: Vec<_> = picture(&place.workspace).into_iter().collect();
    let (a, c) = ("file 644 new\n".to_owned(), "file 644 x\n".to_owned());
    assert_eq!(picture, [("a".to_owned(), a), ("c".to_owned(), c)]);
}

#[test]
fn an_applied_file_keeps_its_time_and_its_holes() {
    let place = place(|_| ());
    let staged = fs::File::create(place.upper().join("big")).unwrap();
    staged.set_len(5 << 30).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    staged.set_modified(time).unwrap();
    assert_eq!(unapplied(&place.apply()), []);
    let found = fs::metadata(place.workspace.join("big")).unwrap();
    assert_eq!((found.len(), found.modified().unwrap()), (5 << 30, time));
    assert!(found.blocks() < 1024);
}

#[test]
fn a_tree_deeper_than_a_path_is_refused_and_can_be_discarded() {
    let mut place = place(|_| ());
    let mut at = rustix::fs::open(
        place.upper(),
        rustix::fs::OFlags::PATH,
        rustix::fs::Mode::empty(),
    )
    .unwrap();
    for _ in 0..600 {
        rustix::fs::mkdirat(&at, c"tenletters", rustix::fs::Mode::RWXU).unwrap();
        at = rustix::fs::openat(
            &at,
            c"tenletters",
            rustix::fs::OFlags::PATH,
            rustix::fs::Mode::empty(),
        )
        .unwrap();
    }
    let changes = place.scan();
    let last = changes.last().unwrap();
    assert_eq!(last.refusal, Some(sandbox::staging::Refusal::TooDeep));
    chmod(&place.upper(), 0o0);
    place.stage.take().unwrap().discard().unwrap();
    assert_eq!(
        fs::read_dir(place.root.join("state/staged"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn a_stage_is_listed_locked_kept_and_discarded() {
    let mut place = worked();
    let before = picture(&place.workspace);
    let state = place.root.join("state");
    let mode = fs::metadata(place.stage().folder())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
    let again = Stage::create(&state, "s1", &meta(&place.workspace));
    assert!(
        matches!(again, Err(StagingError::Exists { .. })),
        "{again:?}"
    );
    // While the session lives, nobody else takes it.
    let other = Stage::open(&state, "s1").unwrap();
    assert!(other.is_live());
    assert!(matches!(other.lock(), Err(StagingError::InUse { .. })));
    // Then it is offered, with what it said of itself.
    drop(place.stage.take());
    fs::create_dir(state.join("staged/broken")).unwrap();
    let listed = Stage::list(&state).unwrap();
    let names: Vec<_> = listed
        .iter()
        .map(|one| (one.id.as_str(), one.stage.is_ok()))
        .collect();
    assert_eq!(names, [("broken", false), ("s1", true)]);
    let stage = Stage::open(&state, "s1").unwrap();
    assert!(!stage.is_live());
    assert_eq!(*stage.meta(), meta(&place.workspace));
    let stage = stage.lock().unwrap();
    stage.discard().unwrap();
    Stage::discard_damaged(&state, "broken").unwrap();
    sweep(&state).unwrap();
    assert_eq!(fs::read_dir(state.join("staged")).unwrap().count(), 0);
    assert_eq!(picture(&place.workspace), before);
}

#[test]
fn a_discard_takes_the_leftovers_of_a_crashed_apply_along() {
    for end in 0..80 {
        let mut place = worked();
        if place.apply_until(end).is_ok() {
            break;
        }
        place.stage.take().unwrap().discard().unwrap();
        let left: Vec<_> = picture(&place.workspace).into_keys().collect();
        assert!(
            left.iter().all(|path| !path.contains(".stockade-")),
            "{end}: {left:?}"
        );
    }
}

#[test]
fn another_directory_at_the_workspaces_path_is_refused() {
    let place = worked();
    fs::rename(&place.workspace, place.root.join("moved")).unwrap();
    fs::create_dir(&place.workspace).unwrap();
    let answer = place.apply_until(usize::MAX);
    assert!(
        matches!(answer, Err(StagingError::WorkspaceReplaced { .. })),
        "{answer:?}"
    );
    assert_eq!(picture(&place.workspace).len(), 0);
}

#[test]
fn a_workspace_that_the_payload_shut_can_be_applied_all_the_same() {
    let place = worked();
    chmod(&place.upper(), 0o0);
    let mode = fs::metadata(&place.workspace).unwrap().mode();
    assert_eq!(unapplied(&place.apply()), []);
    assert_eq!(picture(&place.workspace), wanted());
    assert_eq!(fs::metadata(&place.workspace).unwrap().mode(), mode);
}

#[test]
fn names_that_lead_elsewhere_are_no_stages() {
    let place = place(|_| ());
    let state = place.root.join("state");
    tick();
    for id in ["", "..", "a/b", ".gone-1", "a\n", &"x".repeat(65)] {
        assert!(
            matches!(Stage::open(&state, id), Err(StagingError::BadId { .. })),
            "{id:?}"
        );
    }
    assert!(matches!(
        Stage::open(&state, "none"),
        Err(StagingError::Unknown { .. })
    ));
}
