//! The folders and profiles that the subjects run with.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How many folders are bound in the two cases.
pub(crate) const BINDS: [usize; 2] = [20, 100];
/// How many paths are denied.
pub(crate) const DENIES: usize = 2000;

/// What is on disk while the bench runs.
pub(crate) struct Scene {
    pub(crate) stockade: PathBuf,
    folder: tempfile::TempDir,
}

impl Scene {
    /// Makes an empty workspace, a hundred folders beside it, and a profile for each case.
    pub(crate) fn set(stockade: PathBuf) -> io::Result<Self> {
        // Not in /tmp, which is private inside.
        let folder = ["/var/lib", "/home", "/var/cache", "/opt"]
            .iter()
            .find_map(|it| tempfile::tempdir_in(it).ok())
            .map_or_else(|| tempfile::tempdir_in(home()?), Ok)?;
        let scene = Self { stockade, folder };
        fs::create_dir(scene.workspace())?;
        for at in 0..*BINDS.iter().max().unwrap_or(&0) {
            fs::create_dir(scene.bound(at))?;
        }
        for count in BINDS {
            let paths = (0..count).map(|at| scene.bound(at));
            scene.write_profile(&format!("binds-{count}"), "write", paths)?;
        }
        let secrets = scene.secrets();
        fs::create_dir(&secrets)?;
        let secrets: Vec<PathBuf> = (0..DENIES).map(|it| secrets.join(it.to_string())).collect();
        for secret in &secrets {
            fs::write(secret, "secret")?;
        }
        scene.write_profile("denies", "deny", secrets.into_iter())?;
        Ok(scene)
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.root().join("workspace")
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    /// The folder that is bound as number `at`.
    pub(crate) fn bound(&self, at: usize) -> PathBuf {
        self.root().join(format!("bound-{at}"))
    }

    fn secrets(&self) -> PathBuf {
        self.root().join("secrets")
    }

    fn write_profile(
        &self,
        name: &str,
        list: &str,
        paths: impl Iterator<Item = PathBuf>,
    ) -> io::Result<()> {
        let mut text = format!(
            "schema = 1\nname = \"{name}\"\nextends = \"strict\"\n[filesystem]\n{list} = [\n"
        );
        for path in paths {
            let _ = writeln!(text, "    \"{}\",", path.display());
        }
        text.push_str("]\n");
        fs::write(self.profile(name), text)
    }

    pub(crate) fn profile(&self, name: &str) -> PathBuf {
        self.root().join(name).with_extension("toml")
    }

    /// `stockade exec` with the profile `name` and a back end; the command is to be added.
    pub(crate) fn exec(&self, name: &str, backend: &str) -> Command {
        self.exec_in(&self.workspace(), name, backend)
    }

    /// The same with a workspace of which everything is denied.
    pub(crate) fn exec_among_denies(&self) -> Command {
        self.exec_in(&self.secrets(), "denies", "native")
    }

    fn exec_in(&self, workspace: &Path, name: &str, backend: &str) -> Command {
        let mut command = Command::new(&self.stockade);
        command.args(["exec", "--backend", backend, "--profile"]);
        command.arg(self.profile(name)).arg("--workspace");
        command.arg(workspace).arg("--").current_dir(workspace);
        command
    }

    /// Whether a back end can be had here.
    pub(crate) fn has(&self, backend: &str) -> bool {
        let mut command = self.exec("binds-20", backend);
        quiet(&mut command).arg("/bin/true");
        command.status().is_ok_and(|it| it.success())
    }

    /// The largest resident set of a supervisor whose command runs, in MiB.
    pub(crate) fn resident(&self) -> io::Result<f64> {
        let mut command = self.exec("binds-20", "native");
        quiet(&mut command).args(["/bin/sleep", "0.3"]);
        let mut child = command.spawn()?;
        std::thread::sleep(std::time::Duration::from_millis(150));
        let status = fs::read_to_string(format!("/proc/{}/status", child.id()))?;
        child.wait()?;
        let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
        let kib = line.and_then(|it| it.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
        kib.map(|it| it / 1024.0)
            .ok_or_else(|| io::Error::other("the kernel tells no resident set"))
    }
}

/// Without standard streams.
pub(crate) fn quiet(command: &mut Command) -> &mut Command {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
}

/// The working directory, as the last place to try.
fn home() -> io::Result<PathBuf> {
    std::env::current_dir()
}
