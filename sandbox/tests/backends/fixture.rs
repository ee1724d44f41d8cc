//! A small world on the host, its confinement, and running a script in it.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use sandbox::stage::Executable;
use sandbox::{
    AbsPath, Access, Backend, Bwrap, Confinement, End, Environment, Event, Filesystem, Grant, Host,
    Isolation, Landlock, Limits, Link, Native, Network, Powers, Requirement, Running, SandboxError,
    SandboxedCommand, Stdio,
};
use tempfile::TempDir;

/// What the suite found so far.
#[derive(Debug)]
pub(crate) struct Suite {
    filter: Option<String>,
    passed: u32,
    failed: Vec<String>,
    not_tested: Vec<String>,
}

impl Suite {
    pub(crate) fn new(filter: Option<String>) -> Self {
        Self {
            filter,
            passed: 0,
            failed: Vec::new(),
            not_tested: Vec::new(),
        }
    }

    /// Whether a test of this name is wanted.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.filter.as_ref().is_none_or(|it| name.contains(it))
    }

    /// Records a test.
    pub(crate) fn record(&mut self, name: &str, result: Result<(), String>) {
        match result {
            Ok(()) => self.passed += 1,
            Err(why) => {
                println!("FAILED {name}: {why}");
                self.failed.push(name.to_owned());
            }
        }
    }

    /// Records a test that this machine cannot run.
    pub(crate) fn not_tested(&mut self, name: &str, why: &str) {
        println!("not tested: {name}: {why}");
        self.not_tested.push(name.to_owned());
    }

    /// Prints the sum; whether all is well.
    pub(crate) fn summary(&self) -> bool {
        let Self {
            filter: _,
            passed,
            failed,
            not_tested,
        } = self;
        let uid = rustix::process::getuid().as_raw();
        println!(
            "back ends as uid {uid}: {passed} passed, {} failed, {} not tested",
            failed.len(),
            not_tested.len()
        );
        failed.is_empty() && (not_tested.is_empty() || !enforcement_is_required())
    }
}

/// Whether a missing feature is a failure.
pub(crate) fn enforcement_is_required() -> bool {
    std::env::var_os("STOCKADE_REQUIRE_ENFORCEMENT").is_some_and(|it| it == "1")
}

/// Every back end that could be had, and why another could not.
pub(crate) fn backends(suite: &mut Suite) -> Vec<Box<dyn Backend>> {
    let mut all: Vec<Box<dyn Backend>> = vec![Box::new(Native), Box::new(Landlock)];
    match Bwrap::find(stage()) {
        Ok(bwrap) => all.push(Box::new(bwrap)),
        Err(error) => suite.not_tested("bwrap", &error.to_string()),
    }
    // Only an ordinary user's run has one beside it.
    let set_uid = std::env::current_exe()
        .unwrap()
        .with_file_name(crate::free::SET_UID);
    if set_uid.exists() {
        match Bwrap::at(&path(set_uid), stage()) {
            Ok(bwrap) if bwrap.is_set_uid() => all.push(Box::new(bwrap)),
            other => suite.not_tested("a set-uid bwrap", &format!("{other:?}")),
        }
    }
    all
}

/// This binary as the second stage.
pub(crate) fn stage() -> Executable {
    Executable::at(path(std::env::current_exe().unwrap()))
}

pub(crate) fn path(it: impl Into<PathBuf>) -> AbsPath {
    AbsPath::new(it).unwrap()
}

/// Folders of the host that the cases know.
#[derive(Debug)]
pub(crate) struct World {
    folder: TempDir,
    /// A file in the host's `/tmp` beside them.
    pub(crate) marker: tempfile::NamedTempFile,
    pub(crate) listener: std::net::TcpListener,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("world-")
            .tempdir_in("/var/tmp")
            .unwrap();
        let root = folder.path();
        for name in ["ws/sub/.git", "ws/shut", "ro", "out"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        for (name, text) in [
            ("ws/file", "ws-text"),
            ("ws/secret", "secret-text"),
            ("ws/shut/inner", "inner-text"),
            ("ws/sub/.git/config", "git-text"),
            ("ro/file", "ro-text"),
            ("out/file", "out-text"),
        ] {
            std::fs::write(root.join(name), text).unwrap();
        }
        std::fs::write(root.join("ws").join(odd_name()), "odd-text").unwrap();
        let marker = tempfile::Builder::new()
            .prefix("marker-")
            .tempfile_in("/tmp")
            .unwrap();
        std::fs::write(marker.path(), "marker-text").unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        Self {
            folder,
            marker,
            listener,
        }
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The variables by which scripts find their way, and all that a payload gets.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let text = |it: &Path| it.display().to_string();
        vec![
            ("LC_ALL", "C".to_owned()),
            ("PATH", "/usr/bin:/bin".to_owned()),
            ("WS", text(&self.at("ws"))),
            ("RO", text(&self.at("ro"))),
            ("OUT", text(&self.at("out"))),
            ("MARKER", text(self.marker.path())),
            (
                "PORT",
                self.listener.local_addr().unwrap().port().to_string(),
            ),
            ("TMPDIR", "/tmp".to_owned()),
        ]
    }

    /// The view: the system, `ro` for reading, `ws` for writing.
    pub(crate) fn filesystem(&self) -> Filesystem {
        let mut filesystem = Filesystem {
            grants: Vec::new(),
            masks: Vec::new(),
            protected: Vec::new(),
            pins: Vec::new(),
            links: Vec::new(),
            private: vec![path("/tmp")],
            files: Vec::new(),
            tmp_size: 16 * 1024 * 1024,
            staging: None,
            workdir: path(self.at("ws")),
        };
        for name in ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc"] {
            match std::fs::read_link(name) {
                Ok(target) => filesystem.links.push(Link {
                    path: path(name),
                    target: target.into_os_string(),
                }),
                Err(_) if Path::new(name).is_dir() => {
                    filesystem.grants.push(grant(name, Access::Read))
                }
                Err(_) => (),
            }
        }
        filesystem.grants.push(grant(self.at("ro"), Access::Read));
        filesystem.grants.push(Grant {
            owned: true,
            ..grant(self.at("ws"), Access::Write)
        });
        filesystem
    }

    /// The view with a denied file and folder and a protected name, as only mounts can hold.
    pub(crate) fn guarded(&self) -> Filesystem {
        let mut filesystem = self.filesystem();
        filesystem.masks = vec![path(self.at("ws/secret")), path(self.at("ws/shut"))];
        filesystem.protected = vec![path(self.at("ws/sub/.git/config"))];
        filesystem.pin_ancestors();
        filesystem
    }

    pub(crate) fn confinement(&self, filesystem: Filesystem, isolation: Isolation) -> Confinement {
        let variables = self.variables().into_iter();
        Confinement::build()
            .filesystem(filesystem)
            .network(Network::Off)
            .powers(Powers {
                nested_user_namespaces: false,
                ptrace: false,
            })
            .limits(Limits {
                processes: Some(64),
                memory: Some(512 * 1024 * 1024),
                cpu_time: Some(60),
                file_size: Some(64 * 1024 * 1024),
                open_files: Some(256),
                wall_time: None,
            })
            .environment(Environment::new(
                variables.map(|(name, value)| (name.into(), value.into())),
            ))
            .require(Requirement {
                isolation,
                landlock_abi: 1,
                limits: Vec::new(),
            })
            .unwrap()
    }
}

pub(crate) fn grant(at: impl Into<PathBuf>, access: Access) -> Grant {
    Grant {
        path: path(at),
        access,
        owned: false,
    }
}

/// A name that is not UTF-8 and has what shells and argument lists trip over.
pub(crate) fn odd_name() -> OsString {
    OsString::from_vec(b"odd \xff\n-name".to_vec())
}

/// What a script printed and how it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) text: String,
    pub(crate) end: End,
}

/// Runs a script in a sandbox of `confinement`.
pub(crate) fn run(
    backend: &dyn Backend,
    confinement: &Confinement,
    script: &str,
) -> Result<Ran, SandboxError> {
    let words = ["-c".to_owned(), format!("exec 2>&1; {script}")];
    let command = SandboxedCommand::new("/bin/sh", words, confinement.clone());
    let (mut running, output) = start(backend, command)?;
    let text = drain(&output);
    match running.event()? {
        Event::Ended(end, _) => Ok(Ran { text, end }),
        other => panic!("{other:?}"),
    }
}

/// Starts a command whose standard output comes back.
pub(crate) fn start(
    backend: &dyn Backend,
    command: SandboxedCommand,
) -> Result<(Running, OwnedFd), SandboxError> {
    let (output, tell) = std::io::pipe().unwrap();
    let null: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
    let stdio = Stdio::Given([null, tell.try_clone().unwrap().into(), tell.into()]);
    let running = command.spawn(backend, Host::default(), stdio)?;
    Ok((running, output.into()))
}

/// Everything that can be read.
pub(crate) fn drain(output: &OwnedFd) -> String {
    let mut file = std::fs::File::from(output.try_clone().unwrap());
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut file, &mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
