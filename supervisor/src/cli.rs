//! The command line, as clap reads it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::backends::BackendName;
use crate::overrides::Overrides;

/// Runs commands inside a complete kernel sandbox.
#[derive(Debug, Parser)]
#[command(
    name = "stockade",
    version,
    max_term_width = 100,
    after_help = "Exit codes: the command's own; 128+n for a signal; 124 wall time over; 125 not \
                  confined; 126 not executable; 127 not found; 2 wrong usage or profile."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one command in a sandbox.
    #[command(after_help = "\
Examples:
  stockade exec -- cargo test
  stockade exec --profile strict -- ./configure
  stockade exec --read ~/data --limit memory=2GiB -- python3 train.py
  stockade exec --staged -- make            then: stockade changes list
  stockade exec --network host -- npm ci    opens loopback services and cloud metadata too
  stockade exec -- bash                     a shell with a terminal of its own")]
    Exec(ExecArgs),
    /// Show, apply or throw away work that was staged.
    Changes {
        #[command(subcommand)]
        action: Option<ChangesAction>,
    },
    /// Say what this machine can enforce, what is missing, and what to do about it.
    #[command(after_help = "\
Examples:
  stockade doctor                       the machine, and the default profile tried on it
  stockade doctor --profile ci --json
  stockade doctor --attack              every probe free, then confined under `strict`
  stockade doctor --attack --backend bwrap

Exit codes: 0 the profile can run, and with --attack nothing broke out; 1 it can not, or something
did; 2 wrong usage or profile.")]
    Doctor(DoctorArgs),
    /// List and check profiles.
    Profile {
        #[command(subcommand)]
        action: ProfileAction,
    },
    /// List the sandboxes that run.
    Ps {
        /// As JSON, one object a line.
        #[arg(long)]
        json: bool,
    },
    /// End a sandbox that runs: TERM, and two seconds later KILL, for everything inside.
    Kill {
        /// Its id, as `stockade ps` prints it.
        id: String,
        /// Do not wait for it to end itself.
        #[arg(long)]
        force: bool,
    },
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the man pages into a folder.
    Man {
        /// The folder.
        folder: PathBuf,
    },
}

/// Options of `stockade exec`.
#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// A shipped profile, one of your own by name, or a file.
    #[arg(short, long, default_value = "standard", value_name = "NAME|FILE")]
    pub(crate) profile: String,
    /// The folder to work in.
    #[arg(short, long, default_value = ".", value_name = "DIR")]
    pub(crate) workspace: PathBuf,
    /// Let a path be read.
    #[arg(long, value_name = "PATH")]
    pub(crate) read: Vec<OsString>,
    /// Let a path be read and written.
    #[arg(long, value_name = "PATH")]
    pub(crate) write: Vec<OsString>,
    /// Hide a path or pattern.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) deny: Vec<String>,
    /// What is reached of the network: `off` or `host`.
    #[arg(long, value_name = "MODE")]
    pub(crate) network: Option<String>,
    /// Pass a variable on, or set one.
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<OsString>,
    /// Change a limit: processes, memory, `cpu_time`, `file_size`, `open_files`, `wall_time`,
    /// `tmp_size`.
    #[arg(long, value_name = "NAME=AMOUNT")]
    pub(crate) limit: Vec<String>,
    /// Keep writes apart until `stockade changes apply`.
    #[arg(long)]
    pub(crate) staged: bool,
    /// Use this back end or none.
    #[arg(long, value_enum, value_name = "BACKEND")]
    pub(crate) backend: Option<BackendName>,
    /// Print what the kernel enforced, and what the command left, to standard error.
    #[arg(long, value_enum, value_name = "FORMAT", num_args = 0..=1, default_missing_value = "text")]
    pub(crate) report: Option<ReportFormat>,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// How a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// One JSON object.
    Json,
    /// For people.
    Text,
}

/// Options of `stockade doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Run the attack probes against the live configuration and print a table.
    #[arg(long)]
    pub(crate) attack: bool,
    /// The profile that is tried (default: `standard`) or attacked (default: `strict`).
    #[arg(short, long, value_name = "NAME|FILE")]
    pub(crate) profile: Option<String>,
    /// The back end that is tried or attacked; the default is the one that `exec` would take.
    #[arg(long, value_enum, value_name = "BACKEND")]
    pub(crate) backend: Option<BackendName>,
}

/// What to do with staged work.
#[derive(Debug, Subcommand)]
pub(crate) enum ChangesAction {
    /// List what is staged.
    List,
    /// Show the difference that applying would make.
    Diff {
        /// The stage.
        id: String,
        /// Only these paths, relative to the workspace.
        paths: Vec<OsString>,
    },
    /// Apply it; conflicts with the workspace and protected names stay staged.
    Apply {
        /// The stage.
        id: String,
        /// Only these paths, relative to the workspace.
        paths: Vec<OsString>,
    },
    /// Throw it away.
    Discard {
        /// The stage.
        id: String,
    },
}

/// What to do with profiles.
#[derive(Debug, Subcommand)]
pub(crate) enum ProfileAction {
    /// List the profiles that can be chosen by name.
    List,
    /// Print a profile.
    Show {
        /// Its name or file.
        name: String,
        /// Composed with what it extends, each value with the place it came from.
        #[arg(long)]
        effective: bool,
    },
    /// Read a profile and say what is wrong with it.
    Check {
        /// The file.
        file: String,
    },
}

impl ExecArgs {
    /// What the options add to the profile.
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides {
            read: self.read.clone(),
            write: self.write.clone(),
            deny: self.deny.clone(),
            network: self.network.clone(),
            environment: self.env.clone(),
            limits: self.limit.clone(),
            staged: self.staged,
        }
    }
}
