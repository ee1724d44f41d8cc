//! What a payload is given: environment, descriptors, a terminal; and what the report says.

use std::os::fd::AsRawFd;

use rustix::io::FdFlags;
use sandbox::{Backend, Isolation, Layer, LayerStatus};

use crate::fixture::{self, Suite, World};
use crate::free;

pub(crate) fn run(suite: &mut Suite) {
    for backend in fixture::backends(suite) {
        let name = backend.name();
        whole(
            suite,
            &format!("{name}: the environment is exact"),
            backend.as_ref(),
            environment,
        );
        whole(
            suite,
            &format!("{name}: no descriptor is inherited"),
            backend.as_ref(),
            descriptors,
        );
        whole(
            suite,
            &format!("{name}: the report says what holds"),
            backend.as_ref(),
            report,
        );
        whole(
            suite,
            &format!("{name}: it runs on a terminal of its own"),
            backend.as_ref(),
            terminal,
        );
    }
}

/// Records a test of one back end.
pub(crate) fn whole(
    suite: &mut Suite,
    title: &str,
    backend: &dyn Backend,
    test: fn(&dyn Backend) -> Result<(), String>,
) {
    if suite.wants(title) {
        suite.record(title, test(backend));
    }
}

pub(crate) fn plain(world: &World) -> sandbox::Confinement {
    world.confinement(world.filesystem(), Isolation::Landlock)
}

fn environment(backend: &dyn Backend) -> Result<(), String> {
    let world = World::new();
    let confinement = plain(&world);
    let command = sandbox::SandboxedCommand::new("/usr/bin/env", [""; 0], confinement);
    let (_running, output) = fixture::start(backend, command).map_err(|it| fixture::chain(&it))?;
    let printed = fixture::drain(&output);
    let mut names: Vec<&str> = printed
        .lines()
        .filter_map(|it| Some(it.split_once('=')?.0))
        .collect();
    names.sort_unstable();
    let mut expected: Vec<&str> = world.variables().iter().map(|it| it.0).collect();
    expected.sort_unstable();
    if names == expected {
        Ok(())
    } else {
        Err(printed)
    }
}

fn descriptors(backend: &dyn Backend) -> Result<(), String> {
    let world = World::new();
    let leaked = std::fs::File::open(world.at("out")).unwrap();
    rustix::io::fcntl_setfd(&leaked, FdFlags::empty()).unwrap();
    let script = "ls -l /proc/self/fd";
    let number = format!(" {} -> ", leaked.as_raw_fd());
    let control = free::output(script, &world.variables());
    if !control.contains(&number) {
        return Err(format!("free it printed {control:?}, so it tests nothing"));
    }
    let ran = fixture::run(backend, &plain(&world), script).map_err(|it| fixture::chain(&it))?;
    let count = ran.text.lines().filter(|it| it.contains(" -> ")).count();
    // Input, both outputs, and the folder that `ls` lists.
    if count == 4 && !ran.text.contains("/out") {
        Ok(())
    } else {
        Err(ran.text)
    }
}

/// Layers that hold whatever the back end.
const ALWAYS: [Layer; 4] = [
    Layer::Landlock,
    Layer::Seccomp,
    Layer::Network,
    Layer::Capabilities,
];

fn report(backend: &dyn Backend) -> Result<(), String> {
    let world = World::new();
    let prepared = backend
        .prepare(&plain(&world), sandbox::Host::default())
        .map_err(|it| fixture::chain(&it))?;
    let report = prepared.report();
    let holds = |layer: Layer| matches!(report.layer(layer), Some(LayerStatus::Enforced(_)));
    let is_bare = backend.name() == "landlock";
    let ordinary = !rustix::process::getuid().is_root();
    let capabilities_hold = holds(Layer::Capabilities) || (is_bare && ordinary);
    let mut always = ALWAYS.iter().filter(|it| **it != Layer::Capabilities);
    let mounts = holds(Layer::Mounts) && holds(Layer::Processes) && holds(Layer::OtherNamespaces);
    let lost = report
        .notes
        .iter()
        .filter(|it| it.starts_with("lost: "))
        .count();
    let fits = if is_bare {
        !mounts && lost > 4
    } else {
        mounts && lost == 0
    };
    let named = report.backend == backend.name();
    if always.all(|it| holds(*it)) && capabilities_hold && fits && named {
        Ok(())
    } else {
        Err(format!("{report:#?}"))
    }
}

fn terminal(backend: &dyn Backend) -> Result<(), String> {
    let world = World::new();
    let words = [
        "-c",
        "test -t 0 && test -t 1 && : > /dev/tty && stty size && echo did",
    ];
    let command = sandbox::SandboxedCommand::new("/bin/sh", words, plain(&world));
    let mut running = command
        .spawn(backend, sandbox::Host::default(), sandbox::Stdio::Terminal)
        .map_err(|it| fixture::chain(&it))?;
    let master = running.take_terminal().ok_or("no terminal came back")?;
    let mut text = Vec::new();
    let mut block = [0; 512];
    // EIO: the last process that had the other end is gone.
    while let Ok(length @ 1..) = rustix::io::read(&master, &mut block) {
        text.extend(block.iter().take(length));
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    if text.contains("did") {
        Ok(())
    } else {
        Err(text)
    }
}
