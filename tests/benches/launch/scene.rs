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

/// A profile without a parent and with the protections of the shipped ones; its list of writable
/// trees is left open.
const BARE: &str = r#"schema = 1
name = "binds"
require = "full"

[limits]
processes = 1024
memory = "8GiB"
open_files = 4096

[environment]
set = { PATH = "/usr/bin:/bin" }

[filesystem]
protect = [".git/hooks", ".git/config", ".mcp.json"]
read = ["/usr", "/bin", "/sbin", "/lib", "/lib64"]
write = [
    "${workspace}",
"#;

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
            scene.write_bare_profile(count)?;
            let paths: Vec<PathBuf> = (0..count).map(|at| scene.bound(at)).collect();
            scene.write_profile(&format!("strict-{count}"), "write", &paths)?;
        }
        let secrets = scene.secrets();
        fs::create_dir(&secrets)?;
        let secrets: Vec<PathBuf> = (0..DENIES).map(|it| secrets.join(it.to_string())).collect();
        for secret in &secrets {
            fs::write(secret, "secret")?;
        }
        scene.write_profile("denies", "deny", &secrets)?;
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

    /// A profile that stands alone, with exactly the binds that plain bubblewrap gets.
    fn write_bare_profile(&self, count: usize) -> io::Result<()> {
        let mut text = BARE.to_owned();
        // The workspace is the last of the binds.
        for at in 1..count {
            let _ = writeln!(text, "    \"{}\",", self.bound(at).display());
        }
        text.push_str("]\n");
        fs::write(self.profile(&format!("binds-{count}")), text)
    }

    fn write_profile(&self, name: &str, list: &str, paths: &[PathBuf]) -> io::Result<()> {
        let mut text = format!(
            "schema = 1\nname = \"{name}\"\nextends = \"strict\"\n[filesystem]\n{list} = [\n"
        );
        for path in paths {
            let _ = writeln!(text, "    \"{}\",", path.display());
        }
        text.push_str("]\n");
        fs::write(self.profile(name), text)
    }

    /// What of the host the profile `name` shows, as the kernel lists it inside: places, and
    /// whether each can be written.
    pub(crate) fn shown(&self, name: &str) -> io::Result<Vec<(String, bool)>> {
        let mut command = self.exec(name, "native");
        command.args(["/bin/cat", "/proc/self/mountinfo"]);
        let output = command.stderr(Stdio::null()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        // proc(5): root, mount point and options are fields 4 to 6; the type follows the dash.
        let shown = text.lines().filter_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let mut fields = left.split(' ').skip(4);
            let (place, options) = (fields.next()?, fields.next()?);
            let own = ["tmpfs", "proc", "devpts", "devtmpfs"];
            let is_own = own.contains(&right.split(' ').next()?) || place.starts_with("/dev");
            (!is_own).then(|| (place.to_owned(), options.starts_with("rw")))
        });
        Ok(shown.collect())
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
        let mut command = self.exec("strict-20", "native");
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
