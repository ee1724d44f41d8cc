//! A supervisor with threads: the zygote, the pool of prepared sandboxes, and a shared one.
#![expect(
    clippy::print_stdout,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test program with a main of its own, since it is the zygote as well"
)]

use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use sandbox::zygote::{self, Zygote};
use sandbox::{
    AbsPath, Access, Backend, Confinement, End, Environment, Event, Filesystem, Grant, Host,
    Isolation, Limits, Link, Network, Pool, Powers, Requirement, Running, SandboxedCommand, Shared,
    SharedEvent, Stdio,
};

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|it| it == "__zygote") {
        zygote::run(Network::Off);
    }
    let program = std::env::current_exe().unwrap();
    let zygotes: Vec<Zygote> = (0..6)
        .map(|_| Zygote::start(&program, Network::Off).unwrap())
        .collect();
    // From here on this process has a second thread, so it could not launch by itself.
    let other = std::thread::spawn(std::thread::park);
    let mut zygotes = zygotes.into_iter();
    let mut next = || zygotes.next().unwrap();
    let tests: [(&str, &dyn Fn(Zygote)); 6] = [
        ("a_threaded_process_launches_through_the_zygote", &launches),
        ("the_zygote_has_no_environment", &no_environment),
        ("a_pooled_sandbox_is_used_once", &used_once),
        (
            "a_changed_confinement_discards_what_was_prepared",
            &discards,
        ),
        ("a_shared_sandbox_runs_commands_side_by_side", &side_by_side),
        ("a_sandbox_ends_with_its_zygote", &ends_with_zygote),
    ];
    let count = tests.len();
    for (name, test) in tests {
        test(next());
        println!("test {name} ... ok");
    }
    other.thread().unpark();
    println!("\ntest result: ok. {count} passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
}

fn path(text: &str) -> AbsPath {
    AbsPath::new(text).unwrap()
}

fn confinement(processes: u64) -> Confinement {
    let links = ["bin", "lib", "lib64", "sbin"]
        .iter()
        .filter_map(|name| {
            let place = format!("/{name}");
            let target = std::fs::read_link(&place).ok()?.into_os_string();
            Some(Link {
                path: path(&place),
                target,
            })
        })
        .collect();
    let grants = ["/usr", "/bin", "/lib", "/lib64"]
        .iter()
        .filter(|it| Path::new(it).is_dir() && !Path::new(it).is_symlink())
        .map(|it| Grant {
            path: path(it),
            access: Access::Read,
            owned: false,
        })
        .collect();
    Confinement::build()
        .filesystem(Filesystem {
            grants,
            masks: Vec::new(),
            protected: Vec::new(),
            pins: Vec::new(),
            links,
            private: vec![path("/tmp")],
            files: Vec::new(),
            tmp_size: 1 << 20,
            staging: None,
            workdir: path("/tmp"),
        })
        .network(Network::Off)
        .powers(Powers {
            nested_user_namespaces: false,
            ptrace: false,
        })
        .limits(Limits {
            processes: Some(processes),
            memory: None,
            cpu_time: None,
            file_size: None,
            open_files: Some(64),
            wall_time: None,
        })
        .environment(Environment::new([("PATH".into(), "/usr/bin:/bin".into())]))
        .require(Requirement {
            isolation: Isolation::Full,
            landlock_abi: 1,
            limits: Vec::new(),
        })
        .unwrap()
}

fn shell(script: &str) -> SandboxedCommand {
    SandboxedCommand::new("sh", ["-c", script], confinement(64))
}

/// Standard streams whose output comes back through the pipe.
fn streams() -> (Stdio, OwnedFd) {
    let null = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
    let (read, write) = rustix::pipe::pipe().unwrap();
    (Stdio::Given([null(), write, null()]), read)
}

fn output(pipe: OwnedFd) -> String {
    let mut text = String::new();
    std::fs::File::from(pipe).read_to_string(&mut text).unwrap();
    text
}

fn end(mut running: Running) -> End {
    match running.event().unwrap() {
        Event::Ended(end, _) => end,
        other => panic!("{other:?}"),
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "each test has a zygote of its own"
)]
fn launches(zygote: Zygote) {
    for _ in 0..3 {
        let (stdio, pipe) = streams();
        let running = shell("echo inside; ls /proc | grep -c '^[0-9]'; exit 7")
            .spawn(&zygote, Host::default(), stdio)
            .unwrap();
        let text = output(pipe);
        assert!(text.starts_with("inside\n"), "{text}");
        assert_eq!(end(running), End::Exited(7));
    }
}

fn no_environment(zygote: Zygote) {
    let file = format!("/proc/{}/environ", zygote.pid());
    // Root may read what is closed to others; both find nothing.
    let text = std::fs::read(&file).unwrap_or_default();
    assert_eq!(text, Vec::<u8>::new());
    let own = std::fs::read("/proc/self/environ").unwrap();
    assert!(
        !own.is_empty(),
        "the control: this process has an environment"
    );
    drop(zygote);
}

fn used_once(zygote: Zygote) {
    let mut pool = Pool::new(zygote, &confinement(64), Vec::new(), 2);
    pool.refill().unwrap();
    assert_eq!(pool.waiting(), 2);
    for round in 0..3 {
        let (stdio, pipe) = streams();
        let script = "test -e /tmp/mark && echo stale; touch /tmp/mark; echo fresh";
        let running = pool.start(shell(script), stdio).unwrap();
        assert_eq!(output(pipe), "fresh\n", "round {round}");
        assert_eq!(end(running), End::Exited(0));
    }
    assert_eq!(pool.waiting(), 0);
}

fn discards(zygote: Zygote) {
    let mut pool = Pool::new(zygote, &confinement(64), Vec::new(), 2);
    pool.refill().unwrap();
    pool.change(&confinement(64));
    assert_eq!(pool.waiting(), 2, "the same confinement keeps them");
    pool.change(&confinement(32));
    assert_eq!(pool.waiting(), 0);
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "each test has a zygote of its own"
)]
fn side_by_side(zygote: Zygote) {
    let mut shared = Shared::build(&zygote, &confinement(64), Host::default()).unwrap();
    let (stdio, pipe) = streams();
    let (slow, _) = shared
        .start(shell("sleep 0.2; echo slow; exit 3"), stdio)
        .unwrap();
    let (stdio, quick_pipe) = streams();
    let (quick, _) = shared
        .start(shell("touch /tmp/mark; exit 4"), stdio)
        .unwrap();
    let mut ends = Vec::new();
    while ends.len() < 2 {
        match shared.event().unwrap() {
            SharedEvent::Ended(id, end, _) => ends.push((id, end)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(ends, [(quick, End::Exited(4)), (slow, End::Exited(3))]);
    assert_eq!(output(pipe), "slow\n");
    drop(quick_pipe);
    let (stdio, pipe) = streams();
    let (_, _) = shared.start(shell("ls /tmp"), stdio).unwrap();
    assert_eq!(output(pipe), "mark\n", "the view is shared");
    let other = SandboxedCommand::new("true", [""; 0], confinement(65));
    shared.start(other, Stdio::Terminal).unwrap_err();
}

fn ends_with_zygote(zygote: Zygote) {
    let prepared = zygote.prepare(&confinement(64), Host::default()).unwrap();
    let (stdio, _pipe) = streams();
    let running = shell("sleep 600").start_in(prepared, stdio).unwrap();
    drop(zygote);
    assert!(running.ends_within(std::time::Duration::from_secs(2)));
}
