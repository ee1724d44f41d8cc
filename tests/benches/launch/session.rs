//! Launches inside a running session, through the library.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use sandbox::zygote::Zygote;
use sandbox::{
    AbsPath, Access, Confinement, Environment, Event, Filesystem, Grant, Host, Isolation, Limits,
    Link, Network, Pool, Powers, Requirement, SandboxedCommand, Shared, SharedEvent, Stdio,
};

use crate::measure::Subject;
use crate::scene::Scene;
use crate::target::{Note, Target};

/// How long the machine is left alone after a sandbox was ordered, so that it is ready.
const PREPARATION: Duration = Duration::from_millis(15);

/// A zygote, a pool and a warm sandbox for one confinement with twenty binds.
pub(crate) struct Launches {
    confinement: Confinement,
    zygote: Zygote,
    pool: RefCell<Pool>,
    shared: RefCell<Shared>,
}

impl Launches {
    pub(crate) fn new(scene: &Scene) -> io::Result<Self> {
        let confinement = confinement(scene)?;
        let start = || Zygote::start(&scene.stockade, Network::Off).map_err(told);
        let zygote = start()?;
        let pool = Pool::new(start()?, &confinement, Vec::new(), 1);
        let shared = Shared::build(&zygote, &confinement, Host::default()).map_err(told)?;
        Ok(Self {
            confinement,
            zygote,
            pool: RefCell::new(pool),
            shared: RefCell::new(shared),
        })
    }

    pub(crate) fn subjects(&self) -> Vec<Subject<'_, Note>> {
        let subject = |name: &str, most, run| Subject {
            name: format!("in a session: {name}"),
            note: Note {
                beside: None,
                target: Some(Target::OfPlain(most)),
            },
            before: None,
            run,
        };
        let mut prepared = subject(
            "prepared, single use",
            1.6,
            Box::new(|| self.prepared()) as Box<dyn FnMut() -> io::Result<Duration>>,
        );
        let refill = || self.pool.borrow_mut().refill().map_err(told);
        prepared.before = Some((Box::new(refill), PREPARATION));
        vec![
            subject("fresh sandbox", 3.5, Box::new(|| self.fresh())),
            prepared,
            subject("warm, its own sandbox", 1.2, Box::new(|| self.warm())),
        ]
    }

    fn command(&self) -> SandboxedCommand {
        SandboxedCommand::new("/bin/true", [""; 0], self.confinement.clone())
    }

    fn fresh(&self) -> io::Result<Duration> {
        let (command, stdio) = (self.command(), null()?);
        let begin = Instant::now();
        let mut running = command
            .spawn(&self.zygote, Host::default(), stdio)
            .map_err(told)?;
        ended(running.event().map_err(told)?)?;
        Ok(begin.elapsed())
    }

    fn prepared(&self) -> io::Result<Duration> {
        let (command, stdio) = (self.command(), null()?);
        let mut pool = self.pool.borrow_mut();
        let begin = Instant::now();
        let mut running = pool.start(command, stdio).map_err(told)?;
        ended(running.event().map_err(told)?)?;
        Ok(begin.elapsed())
    }

    fn warm(&self) -> io::Result<Duration> {
        let (command, stdio) = (self.command(), null()?);
        let mut shared = self.shared.borrow_mut();
        let begin = Instant::now();
        shared.start(command, stdio).map_err(told)?;
        match shared.event().map_err(told)? {
            SharedEvent::Ended(_, sandbox::End::Exited(0), _) => Ok(begin.elapsed()),
            other => Err(io::Error::other(format!("{other:?}"))),
        }
    }
}

fn ended(event: Event) -> io::Result<()> {
    match event {
        Event::Ended(sandbox::End::Exited(0), _) => Ok(()),
        other => Err(io::Error::other(format!("{other:?}"))),
    }
}

/// The system's programs, and twenty folders that can be written.
fn confinement(scene: &Scene) -> io::Result<Confinement> {
    let path = |it: &Path| AbsPath::new(it).map_err(io::Error::other);
    let mut grants = vec![grant(path(Path::new("/usr"))?, Access::Read)];
    let mut links = Vec::new();
    for name in ["/bin", "/sbin", "/lib", "/lib64"] {
        let name = Path::new(name);
        match name.read_link() {
            Ok(target) => links.push(Link {
                path: path(name)?,
                target: target.into_os_string(),
            }),
            Err(_) if name.exists() => grants.push(grant(path(name)?, Access::Read)),
            Err(_) => (),
        }
    }
    for at in 0..20 {
        grants.push(grant(path(&scene.bound(at))?, Access::Write));
    }
    let filesystem = Filesystem {
        grants,
        masks: Vec::new(),
        protected: Vec::new(),
        pins: Vec::new(),
        links,
        private: vec![path(Path::new("/tmp"))?],
        files: Vec::new(),
        tmp_size: 1 << 30,
        staging: None,
        workdir: path(&scene.bound(0))?,
    };
    Confinement::build()
        .filesystem(filesystem)
        .network(Network::Off)
        .powers(Powers {
            nested_user_namespaces: false,
            ptrace: false,
        })
        .limits(Limits {
            processes: Some(1024),
            memory: Some(8 << 30),
            cpu_time: None,
            file_size: None,
            open_files: Some(4096),
            wall_time: None,
        })
        .environment(Environment::new([("PATH".into(), "/usr/bin:/bin".into())]))
        .require(Requirement {
            isolation: Isolation::Full,
            landlock_abi: 0,
            limits: Vec::new(),
        })
        .map_err(io::Error::other)
}

fn grant(path: AbsPath, access: Access) -> Grant {
    Grant {
        path,
        access,
        owned: false,
    }
}

fn null() -> io::Result<Stdio> {
    let open = || -> io::Result<OwnedFd> {
        let file = File::options().read(true).write(true).open("/dev/null")?;
        Ok(file.into())
    };
    Ok(Stdio::Given([open()?, open()?, open()?]))
}

/// The whole chain of an error, on one line.
#[expect(
    clippy::needless_pass_by_value,
    reason = "it is what `map_err` hands on"
)]
fn told(error: sandbox::SandboxError) -> io::Error {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    io::Error::other(text)
}
