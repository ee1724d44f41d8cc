//! What a back end cannot hold is refused before anything runs, and the error names it.

use std::process::ExitCode;
use std::time::Instant;

use sandbox::{Access, Backend, Bwrap, Isolation, Landlock, Native, SandboxError};

use crate::fixture::{self, Suite, World, grant, path};
use crate::free;

type Test = fn() -> Result<(), String>;
type BwrapTest = fn(&Bwrap) -> Result<(), String>;

pub(crate) fn run(suite: &mut Suite) {
    let tests: [(&str, Test); 5] = [
        ("landlock: full isolation is refused", full),
        ("landlock: a deny inside a grant is refused", deny),
        (
            "landlock: a read-only grant inside a writable one is refused",
            carve_out,
        ),
        (
            "landlock: a private folder inside a grant is refused",
            private,
        ),
        ("bwrap: one that is not there is refused", no_bwrap),
    ];
    for (title, test) in tests {
        if suite.wants(title) {
            suite.record(title, test());
        }
    }
    let Ok(bwrap) = Bwrap::find(fixture::stage()) else {
        return;
    };
    let tests: [(&str, BwrapTest); 4] = [
        ("bwrap: a protected link is refused", link),
        ("bwrap: staging is refused", staging),
        ("bwrap: more mounts than it takes are refused", too_many),
        ("bwrap: one below a writable grant is refused", inside_grant),
    ];
    for (title, test) in tests {
        if suite.wants(title) {
            suite.record(title, test(&bwrap));
        }
    }
    for backend in [&Native as &dyn Backend, &bwrap] {
        let title = format!("{}: 2,000 denies hold", backend.name());
        if suite.wants(&title) {
            suite.record(&title, many(backend));
        }
    }
}

fn refused(
    backend: &dyn Backend,
    confinement: &sandbox::Confinement,
    mentions: &str,
) -> Result<(), String> {
    match backend.prepare(confinement, sandbox::Host::default()) {
        Err(error @ (SandboxError::NotHeld { .. } | SandboxError::Unsupported { .. }))
            if fixture::chain(&error).contains(mentions) =>
        {
            Ok(())
        }
        Err(other) => Err(fixture::chain(&other)),
        Ok(_) => Err("it was built".to_owned()),
    }
}

fn full() -> Result<(), String> {
    let world = World::new();
    refused(
        &Landlock,
        &world.confinement(world.filesystem(), Isolation::Full),
        "namespaces",
    )
}

fn deny() -> Result<(), String> {
    let world = World::new();
    refused(
        &Landlock,
        &world.confinement(world.guarded(), Isolation::Landlock),
        "ws/secret",
    )
}

fn carve_out() -> Result<(), String> {
    let world = World::new();
    let mut filesystem = world.filesystem();
    filesystem
        .grants
        .push(grant(world.at("ws/shut"), Access::Read));
    refused(
        &Landlock,
        &world.confinement(filesystem, Isolation::Landlock),
        "ws/shut",
    )
}

fn private() -> Result<(), String> {
    let world = World::new();
    let mut filesystem = world.filesystem();
    filesystem.private.push(path(world.at("ws/shut")));
    refused(
        &Landlock,
        &world.confinement(filesystem, Isolation::Landlock),
        "ws/shut",
    )
}

fn no_bwrap() -> Result<(), String> {
    match Bwrap::at(&path("/nowhere/bwrap"), fixture::stage()) {
        Err(error)
            if error
                .help()
                .is_some_and(|it| it.contains("install bubblewrap")) =>
        {
            Ok(())
        }
        other => Err(format!("{other:?}")),
    }
}

fn link(bwrap: &Bwrap) -> Result<(), String> {
    let world = World::new();
    std::os::unix::fs::symlink("file", world.at("ws/link")).unwrap();
    let mut filesystem = world.filesystem();
    filesystem.protected.push(path(world.at("ws/link")));
    refused(
        bwrap,
        &world.confinement(filesystem, Isolation::Full),
        "ws/link",
    )
}

fn staging(bwrap: &Bwrap) -> Result<(), String> {
    let world = World::new();
    let mut filesystem = world.filesystem();
    filesystem.staging = Some(sandbox::Staging {
        root: path(world.at("ws")),
        stage: path(world.at("out")),
    });
    refused(
        bwrap,
        &world.confinement(filesystem, Isolation::Full),
        "staged writes",
    )
}

fn inside_grant(bwrap: &Bwrap) -> Result<(), String> {
    let world = World::new();
    let mut filesystem = world.filesystem();
    filesystem.grants.retain(|it| !it.path.starts_with("/usr"));
    filesystem.grants.push(grant("/usr", Access::Write));
    refused(
        bwrap,
        &world.confinement(filesystem, Isolation::Full),
        "granted for writing",
    )
}

/// A world with `count` denied files in its workspace.
fn with_denies(count: u32) -> (World, sandbox::Filesystem) {
    let world = World::new();
    let mut filesystem = world.filesystem();
    for number in 0..count {
        let name = world.at(&format!("ws/deny-{number}"));
        std::fs::write(&name, "secret-text").unwrap();
        filesystem.masks.push(path(name));
    }
    (world, filesystem)
}

fn too_many(bwrap: &Bwrap) -> Result<(), String> {
    let (world, filesystem) = with_denies(3_100);
    refused(
        bwrap,
        &world.confinement(filesystem, Isolation::Full),
        "native back end",
    )
}

fn many(backend: &dyn Backend) -> Result<(), String> {
    let (world, filesystem) = with_denies(2_000);
    let confinement = world.confinement(filesystem, Isolation::Full);
    let script = "cat $WS/deny-* 2>/dev/null | wc -c; cat $WS/deny-0 $WS/deny-1999";
    let begun = Instant::now();
    let ran = fixture::run(backend, &confinement, script).map_err(|it| fixture::chain(&it))?;
    println!("{}: 2,000 denies in {:?}", backend.name(), begun.elapsed());
    let left = free::leftovers(rustix::process::getpid());
    let refusals = ran.text.matches("Permission denied").count();
    if ran.text.trim_start().starts_with('0') && refusals == 2 && left.is_empty() {
        Ok(())
    } else {
        Err(format!("{:?}, left {left:?}", ran.text))
    }
}

/// A set-uid bubblewrap whose outer half fails leaves an inner one that waits for ever.
pub(crate) fn stuck(suite: &mut Suite) {
    let title = "bwrap: one that fails half-way is told and ended";
    if !suite.wants(title) || !rustix::process::getuid().is_root() {
        return;
    }
    let folder = free::readable_copy();
    // The overflow uid, which a set-uid bubblewrap maps twice and fails.
    match free::as_user("65534", folder.path())
        .arg("__overflow")
        .output()
    {
        Ok(output) if output.status.success() => suite.record(title, Ok(())),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            suite.record(title, Err(text));
        }
        Err(error) => suite.not_tested(title, &error.to_string()),
    }
}

/// Runs as the overflow uid.
pub(crate) fn overflow() -> ExitCode {
    let program = std::env::current_exe()
        .unwrap()
        .with_file_name(free::SET_UID);
    let bwrap = Bwrap::at(&path(program.clone()), fixture::stage()).unwrap();
    let world = World::new();
    let confinement = world.confinement(world.filesystem(), Isolation::Full);
    let result = refused(&bwrap, &confinement, "uid map");
    let left = free::processes_with(&program.display().to_string());
    println!("{result:?}, left {left:?}");
    if result.is_ok() && left.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
