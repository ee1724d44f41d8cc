//! A process that confined itself to a stage and a workspace reaches nothing else.

use std::fs;
use std::io::ErrorKind;
use std::thread;

use sandbox::staging::{Stage, confine_self};

use crate::support::{not_tested, picture, place, unapplied, write};

/// Landlock holds for a thread, so a thread of its own stands for the process.
#[test]
fn a_confined_apply_works_and_reaches_nothing_else() {
    let place = place(|workspace| write(&workspace.join("a"), "old\n"));
    let outside = place.root.join("outside");
    write(&outside.join("secret"), "secret\n");
    write(&place.upper().join("a"), "new\n");
    write(&place.upper().join("d/b"), "b\n");
    assert!(
        fs::read(outside.join("secret")).is_ok(),
        "free, the test can read it"
    );
    thread::scope(|scope| {
        let inside = scope.spawn(|| {
            let folder = place.stage().folder().to_owned();
            let confined = confine_self(&[&folder, &place.workspace]).unwrap();
            if !confined.files {
                not_tested("a confined apply, this kernel has no Landlock");
                return;
            }
            assert!(confined.no_new_privileges);
            let read = fs::read(outside.join("secret")).unwrap_err();
            assert_eq!(read.kind(), ErrorKind::PermissionDenied);
            let made = fs::write(outside.join("new"), "x").unwrap_err();
            assert_eq!(made.kind(), ErrorKind::PermissionDenied);
            let listed = fs::read_dir("/etc").unwrap_err();
            assert_eq!(listed.kind(), ErrorKind::PermissionDenied);
            assert_eq!(unapplied(&place.apply()), []);
        });
        inside.join().unwrap();
    });
    assert_eq!(
        fs::read_to_string(outside.join("secret")).unwrap(),
        "secret\n"
    );
    assert_eq!(picture(&outside).len(), 1);
}

#[test]
fn a_confined_process_opens_applies_and_discards_a_stage() {
    let mut place = place(|workspace| write(&workspace.join("a"), "old\n"));
    write(&place.upper().join("d/b"), "b\n");
    drop(place.stage.take());
    let state = place.root.join("state");
    thread::scope(|scope| {
        let inside = scope.spawn(|| {
            confine_self(&[&state, &place.workspace]).unwrap();
            let stage = Stage::open(&state, "s1").unwrap().lock().unwrap();
            stage.discard().unwrap();
            assert!(Stage::list(&state).unwrap().is_empty());
        });
        inside.join().unwrap();
    });
    assert_eq!(picture(&place.workspace).len(), 1);
}
