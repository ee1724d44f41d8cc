//! The workspaces that the work is done in.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders of the large workspace, and files in each.
const FOLDERS: usize = 250;
const FILES: usize = 100;
/// Modules of the project that is built.
const MODULES: usize = 40;

/// Two workspaces and a state folder, on disk while the bench runs.
pub(crate) struct Places(tempfile::TempDir);

impl Places {
    pub(crate) fn make() -> io::Result<Self> {
        // Not in /tmp, which is private inside and may be in memory.
        let folder = ["/var/lib", "/home", "/var/cache", "/opt"]
            .iter()
            .find_map(|it| tempfile::tempdir_in(it).ok())
            .map_or_else(|| tempfile::tempdir_in(std::env::current_dir()?), Ok)?;
        let places = Self(folder);
        places.make_files()?;
        places.make_project()?;
        Ok(places)
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    /// 25,000 files in a git repository.
    pub(crate) fn files(&self) -> PathBuf {
        self.root().join("files")
    }

    /// A program to build, without dependencies.
    pub(crate) fn project(&self) -> PathBuf {
        self.root().join("project")
    }

    /// Where Stockade keeps its state, stages among it.
    pub(crate) fn state(&self) -> PathBuf {
        self.root().join("state")
    }

    /// Throws away what a run left.
    pub(crate) fn clear(&self) -> io::Result<()> {
        for folder in [self.state(), self.project().join("target")] {
            match fs::remove_dir_all(folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => (),
            }
        }
        Ok(())
    }

    fn make_files(&self) -> io::Result<()> {
        for folder in 0..FOLDERS {
            let folder = self.files().join(format!("folder-{folder}"));
            fs::create_dir_all(&folder)?;
            for file in 0..FILES {
                let text = format!("{file}\n").repeat(40);
                fs::write(folder.join(format!("file-{file}.txt")), text)?;
            }
        }
        for arguments in [
            &["init", "--quiet"][..],
            &["add", "."],
            &[
                "-c",
                "user.name=b",
                "-c",
                "user.email=b@b",
                "commit",
                "--quiet",
                "-m",
                "files",
            ],
        ] {
            let status = Command::new("git")
                .args(arguments)
                .current_dir(self.files())
                .status()?;
            if !status.success() {
                return Err(io::Error::other("git failed"));
            }
        }
        Ok(())
    }

    fn make_project(&self) -> io::Result<()> {
        let sources = self.project().join("src");
        fs::create_dir_all(&sources)?;
        let manifest = "[package]\nname = \"work\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
        fs::write(self.project().join("Cargo.toml"), manifest)?;
        let mut main = String::new();
        let mut calls = String::new();
        for at in 0..MODULES {
            let _ = writeln!(main, "mod part{at};");
            let _ = writeln!(calls, "    sum += part{at}::sum(&text);");
            let mut part = String::from("use std::collections::BTreeMap;\n");
            for function in 0..20 {
                let _ = writeln!(
                    part,
                    "fn f{function}(text: &str) -> usize {{\n    let mut seen = BTreeMap::new();\n    \
                     for word in text.split(' ') {{ *seen.entry(word).or_insert({function}) += 1; }}\n    \
                     seen.values().sum()\n}}"
                );
            }
            part.push_str("pub fn sum(text: &str) -> usize {\n    0");
            for function in 0..20 {
                let _ = write!(part, " + f{function}(text)");
            }
            part.push_str("\n}\n");
            fs::write(sources.join(format!("part{at}.rs")), part)?;
        }
        let _ = write!(
            main,
            "fn main() {{\n    let text = std::env::args().collect::<Vec<_>>().join(\" \");\n    \
             let mut sum = 0;\n{calls}    println!(\"{{sum}}\");\n}}\n"
        );
        fs::write(sources.join("main.rs"), main)
    }
}
