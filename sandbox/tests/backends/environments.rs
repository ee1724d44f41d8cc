//! Hosts that lack something, simulated: the right back end is chosen, or nothing runs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::{Command, ExitCode};

use sandbox::probe::{self, Feature, Machine};
use sandbox::{
    Backend, Bwrap, Confinement, Isolation, Landlock, Layer, LayerStatus, Native, Requirement,
    SandboxError,
};
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use crate::fixture::{self, Suite, World};

/// A simulated host: its name, and the shell words that make it, before this binary runs in it.
const HOSTS: [(&str, &str, &[&str]); 5] = [
    ("as it is", "", &[]),
    (
        "without user namespaces",
        "echo 0 >/proc/sys/user/max_user_namespaces",
        &["unshare", "--user", "--map-root-user"],
    ),
    (
        "with a read-only /proc/sys",
        "mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys",
        &["unshare", "--user", "--map-root-user", "--mount"],
    ),
    ("behind a container's filter", "", &[]),
    ("without Landlock", "", &[]),
];

pub(crate) fn run(suite: &mut Suite) {
    for (name, script, prefix) in HOSTS {
        let title = format!("a host {name}");
        if !suite.wants(&title) {
            continue;
        }
        let script = if script.is_empty() { "true" } else { script };
        let mut words: Vec<OsString> = prefix.iter().map(Into::into).collect();
        let inner = format!("{script} && exec \"$0\" __environment \"$1\"");
        words.extend(["/bin/sh", "-c", &inner].map(OsString::from));
        words.push(std::env::current_exe().unwrap().into());
        words.push(name.into());
        let (program, rest) = words.split_first().unwrap();
        match Command::new(program).args(rest).output() {
            Err(error) => suite.not_tested(&title, &error.to_string()),
            Ok(output) if output.status.success() => suite.record(&title, Ok(())),
            Ok(output) => {
                let text = [output.stdout, output.stderr].concat();
                suite.record(&title, Err(String::from_utf8_lossy(&text).into_owned()));
            }
        }
    }
}

/// Runs in the simulated host.
pub(crate) fn inside(words: &[OsString]) -> ExitCode {
    let name = words.first().and_then(|it| it.to_str()).unwrap_or_default();
    let result = match name {
        "as it is" => whole(),
        "behind a container's filter" => filtered(container()).and_then(|()| without_namespaces()),
        "without Landlock" => filtered(no_landlock()).and_then(|()| without_landlock()),
        _ => without_namespaces(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn machine(world: &World) -> Machine {
    probe::probe(Some(&fixture::path(world.at("ws"))), &fixture::stage())
}

fn requirement(isolation: Isolation, landlock_abi: u32) -> Requirement {
    Requirement {
        isolation,
        landlock_abi,
        limits: Vec::new(),
    }
}

fn whole() -> Result<(), String> {
    let world = World::new();
    let machine = machine(&world);
    let wanted = [
        Feature::Namespaces,
        Feature::Mounts,
        Feature::Proc,
        Feature::Overlay,
        Feature::Seccomp,
    ];
    let missing: Vec<_> = wanted.iter().filter(|it| !machine.works(**it)).collect();
    let chosen = probe::choose(&requirement(Isolation::Full, 1), &machine);
    match chosen {
        Ok(chosen) if chosen.name() == "native" && missing.is_empty() => Ok(()),
        other => Err(format!("{other:?}, {missing:?}, {machine:#?}")),
    }
}

/// Full isolation is refused with a remedy, by whoever is asked; Landlock alone works.
fn without_namespaces() -> Result<(), String> {
    let world = World::new();
    let full = world.confinement(world.filesystem(), Isolation::Full);
    if works(&Native, &full)? {
        return Err("native built a sandbox".to_owned());
    }
    if let Ok(bwrap) = Bwrap::find(fixture::stage()) {
        match bwrap.prepare(&full, sandbox::Host::default()) {
            Err(SandboxError::Unsupported { remedy, .. }) if !remedy.is_empty() => (),
            other => return Err(format!("bwrap: {other:?}")),
        }
    }
    let bare = world.confinement(world.filesystem(), Isolation::Landlock);
    if !works(&Landlock, &bare)? {
        return Err("landlock did not run".to_owned());
    }
    let machine = machine(&world);
    match probe::choose(&requirement(Isolation::Full, 1), &machine) {
        Err(error @ SandboxError::Unsupported { .. })
            if error.help().is_some_and(|it| !it.is_empty()) => {}
        other => return Err(format!("full: {other:?}")),
    }
    match probe::choose(&requirement(Isolation::Landlock, 1), &machine) {
        Ok(chosen) if chosen.name() == "landlock" => Ok(()),
        other => Err(format!("landlock: {other:?}, {machine:#?}")),
    }
}

/// Where Landlock is required nothing runs; where it is not, the report says that it is absent.
fn without_landlock() -> Result<(), String> {
    let world = World::new();
    let bare = world.confinement(world.filesystem(), Isolation::Landlock);
    match Landlock.prepare(&bare, sandbox::Host::default()) {
        Err(error @ SandboxError::Unsupported { .. })
            if error.help().is_some_and(|it| it.contains("LANDLOCK")) => {}
        other => return Err(format!("landlock: {other:?}")),
    }
    if works(&Native, &bare)? {
        return Err("native ran without the Landlock that is required".to_owned());
    }
    let machine = machine(&world);
    for isolation in [Isolation::Full, Isolation::Landlock] {
        if let Ok(chosen) = probe::choose(&requirement(isolation, 1), &machine) {
            return Err(format!("{} was chosen", chosen.name()));
        }
    }
    let without = Confinement::build()
        .filesystem(world.filesystem())
        .network(bare.network())
        .powers(sandbox::Powers {
            nested_user_namespaces: false,
            ptrace: false,
        })
        .limits(bare.limits().clone())
        .environment(bare.environment().clone())
        .require(requirement(Isolation::Full, 0))
        .unwrap();
    let prepared = Native
        .prepare(&without, sandbox::Host::default())
        .map_err(|it| fixture::chain(&it))?;
    match prepared.report().layer(Layer::Landlock) {
        Some(LayerStatus::Absent(_)) => (),
        other => return Err(format!("native: {other:?}")),
    }
    drop(prepared);
    let Ok(bwrap) = Bwrap::find(fixture::stage()) else {
        return Ok(());
    };
    // Kernel uid 0 is confined by bubblewrap only with Landlock beside it.
    let superuser = rustix::process::getuid().is_root();
    match bwrap.prepare(&without, sandbox::Host::default()) {
        Err(SandboxError::Unsupported { .. }) if superuser => Ok(()),
        Ok(_) if !superuser => Ok(()),
        other => Err(format!("bwrap: {other:?}")),
    }
}

/// Whether a sandbox can be built and runs a command.
fn works(backend: &dyn Backend, confinement: &Confinement) -> Result<bool, String> {
    match fixture::run(backend, confinement, "echo did") {
        Ok(ran) if ran.text == "did\n" => Ok(true),
        Ok(ran) => Err(format!("{}: {ran:?}", backend.name())),
        Err(SandboxError::Unsupported { .. } | SandboxError::Build { .. }) => Ok(false),
        Err(other) => Err(format!("{}: {}", backend.name(), fixture::chain(&other))),
    }
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn filtered((rules, action): (Rules, SeccompAction)) -> Result<(), String> {
    let architecture = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, architecture).unwrap();
    let program: seccompiler::BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).map_err(|it| it.to_string())
}

/// What container runtimes refuse: new namespaces, mounts, and clone3 as unknown.
fn container() -> (Rules, SeccompAction) {
    let unknown = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    filtered((unknown, SeccompAction::Errno(libc::ENOSYS.unsigned_abs()))).unwrap();
    let mut rules: Rules = [
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_fsopen,
        libc::SYS_open_tree,
        libc::SYS_move_mount,
        libc::SYS_mount_setattr,
        libc::SYS_keyctl,
    ]
    .into_iter()
    .map(|it| (it, Vec::new()))
    .collect();
    let flags = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ];
    let conditions = flags.iter().map(|flag| {
        let flag = u64::from(flag.unsigned_abs());
        let operator = SeccompCmpOp::MaskedEq(flag);
        let condition = SeccompCondition::new(0, SeccompCmpArgLen::Qword, operator, flag).unwrap();
        SeccompRule::new(vec![condition]).unwrap()
    });
    rules.insert(libc::SYS_clone, conditions.collect());
    (rules, SeccompAction::Errno(libc::EPERM.unsigned_abs()))
}

fn no_landlock() -> (Rules, SeccompAction) {
    let rules = BTreeMap::from([(libc::SYS_landlock_create_ruleset, Vec::new())]);
    (rules, SeccompAction::Errno(libc::ENOSYS.unsigned_abs()))
}
