//! The command line of `stockade-probe`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use thiserror::Error;

use crate::probe::{Class, Expect, Judge, Probe, Report, probes};
use crate::stage::{INSIDE, Limits, Omit, Stage, StageError, serve, verify, victim};
use crate::{caller, run};

const USAGE: &str = "\
Hostile probes: each tries one attack and says whether it worked.

usage:
  stockade-probe list [--json]
  stockade-probe stage DIR --out FILE [--limit NAME=NUMBER]... [--without denied|linked]...
      Outside, first: builds victims and canaries below DIR, writes FILE and
      DIR/workspace/.stage.json, prints `ready`, serves until stdin closes, and
      then removes everything. Answers the lines `received?` and `verdict?`.
      Give it the ceilings of the profile under test (processes, memory,
      file_size, open_files, tmp_size): the probes go a quarter beyond. --without
      leaves out what some sandbox refuses to start with: denied files in the
      workspace, or a git directory that is a symlink.
  stockade-probe caller --stage FILE -- COMMAND [ARGUMENT]...
      Outside: runs COMMAND as a careless caller would, with descriptors 8 and 9
      leaked, canaries in the environment and a terminal as standard input.
  stockade-probe run ID --stage FILE [--seconds N] [--keep]
  stockade-probe run-all --stage FILE [--only ID,ID...] [--seconds N] [--keep]
      Inside, or outside as a control: one JSON line for each probe. --keep leaves
      in place what worked, for `verify` to judge.
  stockade-probe verify FILE
  stockade-probe verdict FILE
      Outside, afterwards: what changed on the host, arrived or survived, as JSON.

exit status: 0 reported; 1 could not; 2 usage.
";

/// The command could not be carried out.
#[derive(Debug, Error)]
enum CliError {
    #[error("{0}")]
    Stage(#[from] StageError),
    #[error("no probe is called `{0}`; see `stockade-probe list`")]
    UnknownProbe(String),
    #[error("{0}; see `stockade-probe --help`")]
    Usage(String),
    #[error("cannot write the answer: {0}")]
    Write(#[from] io::Error),
    #[error("cannot run `{command}`: {source}")]
    Caller { command: String, source: io::Error },
}

/// Carries out one command line, without the program's name.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let error = match dispatch(arguments) {
        Ok(code) => return code,
        Err(error) => error,
    };
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(it) = cause {
        let more = it.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = it.source();
    }
    // With standard error closed there is nobody left to tell.
    writeln!(io::stderr(), "stockade-probe: {text}").ok();
    ExitCode::from(if matches!(error, CliError::Usage(_)) {
        2
    } else {
        1
    })
}

/// What follows the command word.
#[derive(Default)]
struct Options {
    positional: Vec<String>,
    stage: Option<PathBuf>,
    out: Option<PathBuf>,
    only: Vec<String>,
    limits: Vec<String>,
    without: Vec<String>,
    seconds: Option<u64>,
    json: bool,
    keep: bool,
    command: Vec<OsString>,
}

fn dispatch(mut arguments: impl Iterator<Item = OsString>) -> Result<ExitCode, CliError> {
    let word = arguments
        .next()
        .and_then(|it| it.into_string().ok())
        .unwrap_or_default();
    let options = parse(arguments)?;
    match word.as_str() {
        "-h" | "--help" => write_line(USAGE)?,
        "caller" => return call(&options),
        "list" => list(options.json)?,
        "run" => {
            let id = first(&options, "name a probe")?;
            report(&options, &[find(&id)?])?;
        }
        "run-all" => {
            let only: Result<Vec<Probe>, CliError> =
                options.only.iter().map(|it| find(it)).collect();
            let chosen = Some(only?)
                .filter(|it| !it.is_empty())
                .unwrap_or_else(probes);
            report(&options, &chosen)?;
        }
        "stage" => {
            let root = first(&options, "name a directory")?;
            let out = options
                .out
                .clone()
                .ok_or_else(|| CliError::Usage("--out is missing".to_owned()))?;
            let mut limits = Limits::HARMLESS;
            for assignment in &options.limits {
                limits.set(assignment)?;
            }
            let omit = Omit::parse(&options.without)?;
            serve::run(Path::new(&root), &out, limits, omit)?;
        }
        "verdict" | "verify" => {
            let stage = Stage::read(Path::new(&first(&options, "name a stage file")?))?;
            write_json(&verify::judge(&stage)?)?;
        }
        // Not for people: what `stage` starts as its victim.
        "victim" => {
            if let [canary, target] = options.positional.as_slice() {
                victim::be(canary, Path::new(target))?;
            }
        }
        _ => return Err(CliError::Usage(format!("unknown command `{word}`"))),
    }
    Ok(ExitCode::SUCCESS)
}

fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Options, CliError> {
    let mut options = Options::default();
    while let Some(argument) = arguments.next() {
        let Some(text) = argument.to_str() else {
            return Err(CliError::Usage(format!(
                "`{}` is not UTF-8",
                argument.display()
            )));
        };
        let mut value = || {
            arguments
                .next()
                .ok_or_else(|| CliError::Usage(format!("{text} needs a value")))
        };
        match text {
            "--" => {
                options.command = arguments.collect();
                break;
            }
            "--json" => options.json = true,
            "--keep" => options.keep = true,
            "--limit" => options.limits.push(value()?.to_string_lossy().into_owned()),
            "--only" => options
                .only
                .extend(value()?.to_string_lossy().split(',').map(str::to_owned)),
            "--out" => options.out = Some(value()?.into()),
            "--seconds" => {
                let given = value()?.to_string_lossy().into_owned();
                let number = given.parse();
                let wrong = |_| CliError::Usage(format!("`{given}` is no number of seconds"));
                options.seconds = Some(number.map_err(wrong)?);
            }
            "--without" => options
                .without
                .push(value()?.to_string_lossy().into_owned()),
            "--stage" => options.stage = Some(value()?.into()),
            _ if text.starts_with('-') => {
                return Err(CliError::Usage(format!("unknown option `{text}`")));
            }
            _ => options.positional.push(text.to_owned()),
        }
    }
    Ok(options)
}

fn first(options: &Options, complaint: &str) -> Result<String, CliError> {
    options
        .positional
        .first()
        .cloned()
        .ok_or_else(|| CliError::Usage(complaint.to_owned()))
}

fn find(id: &str) -> Result<Probe, CliError> {
    probes()
        .into_iter()
        .find(|it| it.id == id)
        .ok_or_else(|| CliError::UnknownProbe(id.to_owned()))
}

/// Reads the stage file that was named, or the one in the current directory.
fn stage(options: &Options) -> Result<Stage, CliError> {
    let path = options
        .stage
        .clone()
        .unwrap_or_else(|| PathBuf::from(INSIDE));
    Ok(Stage {
        keep: options.keep,
        ..Stage::read(&path)?
    })
}

fn report(options: &Options, chosen: &[Probe]) -> Result<(), CliError> {
    let stage = stage(options)?;
    let limit = options.seconds.map_or(run::TIME_LIMIT, Duration::from_secs);
    for probe in chosen {
        let report: Report = run::run(probe, &stage, limit);
        write_json(&report)?;
    }
    Ok(())
}

fn call(options: &Options) -> Result<ExitCode, CliError> {
    let stage = stage(options)?;
    let Some(program) = options.command.first() else {
        return Err(CliError::Usage("name a command after `--`".to_owned()));
    };
    let failed = |source| CliError::Caller {
        command: program.display().to_string(),
        source,
    };
    caller::call(&stage, &options.command)
        .map(ExitCode::from)
        .map_err(failed)
}

/// One probe in `list --json`.
#[derive(Serialize)]
struct Listed {
    id: &'static str,
    class: Class,
    expect: Expect,
    judge: Judge,
    tries: &'static str,
}

fn list(json: bool) -> Result<(), CliError> {
    for Probe {
        id,
        class,
        tries,
        expect,
        judge,
        ..
    } in probes()
    {
        if json {
            write_json(&Listed {
                id,
                class,
                expect,
                judge,
                tries,
            })?;
        } else {
            let policy = if expect == Expect::AllowedByPolicy {
                " (allowed by policy)"
            } else {
                ""
            };
            write_line(&format!("{id:32} {tries}{policy}\n"))?;
        }
    }
    Ok(())
}

fn write_json(value: &impl Serialize) -> Result<(), CliError> {
    let line = serde_json::to_string(value).map_err(io::Error::from)?;
    write_line(&format!("{line}\n"))
}

fn write_line(text: &str) -> Result<(), CliError> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    Ok(output.flush()?)
}
