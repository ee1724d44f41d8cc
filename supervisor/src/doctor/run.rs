//! Runs the probes on a stage of their own: free, and inside the sandbox under test.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox::AbsPath;
use sandbox::host_program::{HostEnd, HostProcess, HostProgram, trusted};
use serde::Deserialize;

use super::judge::{Answer, Probe, Word};
use crate::backends::BackendName;
use crate::caller::Caller;

/// The program that makes the attacks.
const PROBE: &str = "stockade-probe";
/// What sets a variable between the careless caller and us.
const ENV: &str = "/usr/bin/env";
/// How long a stage may take to be set, and to be cleared.
const STAGING: Duration = Duration::from_secs(60);
/// How long all probes together may take.
const RUNNING: Duration = Duration::from_secs(900);
/// How long one probe may take, on a machine that is busy with other things as well.
const SECONDS: &str = "15";
/// When what outlived a run has shown itself.
const SURVIVAL: Duration = Duration::from_millis(2800);
/// Most that a run of all probes prints.
const MOST: usize = 4 << 20;

/// Ceilings for the attack: low, so that a free run, which goes a quarter beyond each, does
/// not harm the machine.
const LIMITS: [(&str, u64); 5] = [
    ("processes", 480),
    ("memory", 256 << 20),
    ("file_size", 1 << 30),
    ("open_files", 800),
    ("tmp_size", 64 << 20),
];

/// The attack could not be made, so nothing is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum AttackError {
    #[error("`{PROBE}` is not beside `{}`, nor in `../libexec`", .program.display())]
    Missing { program: PathBuf },
    #[error("`{}` {why}", .path.display())]
    Doubtful { path: PathBuf, why: String },
    #[error("`{PROBE}` could not be run to {doing}")]
    Run {
        doing: &'static str,
        source: io::Error,
    },
    #[error("`{PROBE}` could not {doing}: {said}")]
    Failed { doing: &'static str, said: String },
    #[error("`{PROBE}` speaks another language than this version; install both from one build")]
    Language(#[source] serde_json::Error),
}

impl AttackError {
    pub(crate) fn help(&self) -> Option<&'static str> {
        match self {
            Self::Missing { .. } => {
                Some("`make install` puts it there; from a checkout, build the whole workspace")
            }
            Self::Doubtful { .. } => {
                Some("install Stockade where only you or root can write (make install)")
            }
            _ => None,
        }
    }
}

/// What the host saw of a run, as `stockade-probe verify` says it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Seen {
    pub(crate) differences: Vec<String>,
    pub(crate) received: Vec<String>,
    pub(crate) survivors: Vec<String>,
}

/// What is attacked, and by which program.
#[derive(Debug)]
pub(crate) struct Attacker {
    program: AbsPath,
    own: AbsPath,
    env: AbsPath,
    /// Where what programs say on standard error is kept.
    scratch: AbsPath,
}

/// A stage that is up. Dropping it clears it away.
#[derive(Debug)]
pub(crate) struct Stage<'a> {
    attacker: &'a Attacker,
    server: HostProcess,
    file: AbsPath,
    workspace: AbsPath,
}

impl Attacker {
    /// Finds the probes beside our own program, never through `PATH`.
    pub(crate) fn find(caller: &Caller, scratch: &AbsPath) -> Result<Self, AttackError> {
        let folder = caller.program.parent().unwrap_or(Path::new("/"));
        let path = [folder.join(PROBE), folder.join("../libexec").join(PROBE)]
            .into_iter()
            .find(|it| it.exists())
            .ok_or_else(|| AttackError::Missing {
                program: caller.program.clone(),
            })?;
        let check = |path: &Path| {
            trusted(path.as_os_str()).map_err(|why| AttackError::Doubtful {
                path: path.to_owned(),
                why,
            })
        };
        Ok(Self {
            program: check(&path)?,
            own: check(&caller.program)?,
            env: check(Path::new(ENV))?,
            scratch: scratch.clone(),
        })
    }

    /// Every probe there is.
    pub(crate) fn list(&self) -> Result<Vec<Probe>, AttackError> {
        let doing = "list its probes";
        let text = self.ask(doing, ["list".into(), "--json".into()])?;
        lines(&text)
    }

    /// Sets a stage in the folder `name` of the scratch folder.
    ///
    /// What the back end refuses to start with is left out: it proves nothing there.
    pub(crate) fn set(&self, name: &str, backend: &str) -> Result<Stage<'_>, AttackError> {
        let doing = "set a stage";
        let root = self.scratch.join(name);
        let file = self.scratch.join(format!("{name}.json"));
        let mut arguments: Vec<OsString> = vec!["stage".into(), root.clone().into()];
        arguments.extend(["--out".into(), file.clone().into()]);
        for (name, amount) in LIMITS {
            arguments.extend(["--limit".into(), format!("{name}={amount}").into()]);
        }
        let without: &[&str] = match backend {
            "bwrap" => &["linked"],
            "landlock" => &["denied", "linked"],
            _ => &[],
        };
        for part in without {
            arguments.extend(["--without".into(), (*part).into()]);
        }
        let failed = |source| AttackError::Run { doing, source };
        let mut server = self
            .program(arguments)
            .and_then(|it| it.serve())
            .map_err(failed)?;
        let line = server.line(STAGING);
        if line.as_deref().ok() != Some(b"ready") {
            return Err(match line {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => failed(error),
                _ => self.failed(doing),
            });
        }
        let path =
            |path: PathBuf| AbsPath::new(path).map_err(|error| failed(io::Error::other(error)));
        Ok(Stage {
            attacker: self,
            server,
            file: path(file)?,
            workspace: path(root.join("workspace"))?,
        })
    }

    fn program(&self, arguments: impl IntoIterator<Item = OsString>) -> io::Result<HostProgram> {
        let said = std::fs::File::create(self.said())?;
        let program = HostProgram::new(self.program.clone(), arguments);
        Ok(program.map_err(io::Error::other)?.errors(said.into()))
    }

    fn ask(
        &self,
        doing: &'static str,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Vec<u8>, AttackError> {
        let failed = |source| AttackError::Run { doing, source };
        let program = self.program(arguments).map_err(failed)?;
        match program.run(MOST, STAGING).map_err(failed)? {
            (HostEnd::Exited(0), text) => Ok(text),
            _ => Err(self.failed(doing)),
        }
    }

    fn said(&self) -> PathBuf {
        self.scratch.join("said")
    }

    /// What the last program said on standard error, as an error.
    fn failed(&self, doing: &'static str) -> AttackError {
        let text = std::fs::read(self.said()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.trim().lines().rev().take(4).collect();
        let said: Vec<&str> = lines.into_iter().rev().collect();
        AttackError::Failed {
            doing,
            said: said.join("; "),
        }
    }
}

/// In what the probes run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fence<'a> {
    /// In nothing.
    Free,
    /// In our own sandbox, under the profile in this file.
    Confined(&'a AbsPath, Option<BackendName>),
}

impl Stage<'_> {
    /// Runs `probes` as a careless caller would, and says what each answered.
    ///
    /// Where the whole run is ended by one of them, that one is noted as such, and those after
    /// it run in another one.
    pub(crate) fn run(
        &self,
        fence: Fence<'_>,
        probes: &[&Probe],
        keep: bool,
    ) -> Result<BTreeMap<String, Answer>, AttackError> {
        let mut answers = BTreeMap::new();
        let mut rest: Vec<&str> = probes.iter().map(|it| it.id.as_str()).collect();
        while !rest.is_empty() {
            let (end, text) = self.once(fence, &rest, keep)?;
            let complete = text
                .iter()
                .rposition(|it| *it == b'\n')
                .map_or(0, |it| it + 1);
            let whole = text.get(..complete).unwrap_or_default();
            for answer in lines::<Answer>(whole)? {
                answers.insert(answer.id.clone(), answer);
            }
            rest.retain(|it| !answers.contains_key(*it));
            let Some(culprit) = rest.first() else { break };
            if answers.is_empty() && end != HostEnd::Exited(137) {
                return Err(self.attacker.failed("run confined"));
            }
            let detail = match end {
                HostEnd::Exited(code) => format!("the whole run was ended (exit code {code})"),
                HostEnd::Signaled(signal) => format!("the whole run was ended (signal {signal})"),
            };
            answers.insert(
                (*culprit).to_owned(),
                Answer {
                    id: (*culprit).to_owned(),
                    outcome: Word::Ended,
                    errno: String::new(),
                    detail,
                },
            );
            rest.remove(0);
        }
        Ok(answers)
    }

    fn once(
        &self,
        fence: Fence<'_>,
        ids: &[&str],
        keep: bool,
    ) -> Result<(HostEnd, Vec<u8>), AttackError> {
        let Attacker {
            program,
            own,
            env,
            scratch,
        } = self.attacker;
        let mut words: Vec<OsString> = vec!["caller".into(), "--stage".into()];
        words.extend([self.file.as_os_str().to_owned(), "--".into()]);
        if let Fence::Confined(profile, backend) = fence {
            let mut state = OsString::from("XDG_STATE_HOME=");
            state.push(scratch.join("state"));
            words.extend([env.as_os_str().to_owned(), state]);
            words.extend([own.as_os_str().to_owned(), "exec".into()]);
            for (option, path) in [
                ("--profile", profile),
                ("--workspace", &self.workspace),
                ("--read", program),
            ] {
                words.extend([option.into(), path.as_os_str().to_owned()]);
            }
            for (name, amount) in LIMITS {
                words.extend(["--limit".into(), format!("{name}={amount}").into()]);
            }
            if let Some(backend) = backend {
                words.extend(["--backend".into(), backend.word().into()]);
            }
            words.push("--".into());
        }
        words.extend([program.as_os_str().to_owned(), "run-all".into()]);
        let inside = self.workspace.join(".stage.json");
        words.extend(["--stage".into(), inside.into_os_string()]);
        words.extend(["--only".into(), ids.join(",").into()]);
        words.extend(["--seconds".into(), SECONDS.into()]);
        if keep {
            words.push("--keep".into());
        }
        let failed = |source| AttackError::Run {
            doing: "attack",
            source,
        };
        let program = self.attacker.program(words).map_err(failed)?;
        program.run(MOST, RUNNING).map_err(failed)
    }

    /// Waits until whatever outlived a run has shown itself.
    pub(crate) fn wait_for_survivors(&self) {
        std::thread::sleep(SURVIVAL);
    }

    /// What the host saw since the stage was set.
    pub(crate) fn seen(&mut self) -> Result<Seen, AttackError> {
        let failed = |source| AttackError::Run {
            doing: "judge the host",
            source,
        };
        self.server.write(b"verdict?\n").map_err(failed)?;
        let line = self.server.line(STAGING).map_err(failed)?;
        serde_json::from_slice(&line).map_err(AttackError::Language)
    }

    /// Clears it away.
    pub(crate) fn end(mut self) -> Result<(), AttackError> {
        let doing = "clear the stage";
        match self.server.end(STAGING) {
            Ok(HostEnd::Exited(0)) => Ok(()),
            Ok(_) => Err(self.attacker.failed(doing)),
            Err(source) => Err(AttackError::Run { doing, source }),
        }
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        // It clears everything away when its input ends; nobody is left to be told otherwise.
        let _ = self.server.end(STAGING);
    }
}

fn lines<T: serde::de::DeserializeOwned>(text: &[u8]) -> Result<Vec<T>, AttackError> {
    text.split(|it| *it == b'\n')
        .filter(|it| !it.is_empty())
        .map(|it| serde_json::from_slice(it).map_err(AttackError::Language))
        .collect()
}
