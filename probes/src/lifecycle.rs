//! Probes that try to outlive the call, or to clutter the process table beyond it.

use std::fs;

use rustix::process::{Signal, WaitOptions, kill_process, setsid, waitpid};

use crate::attempt::{Attempt, pause, refused, worked};
use crate::probe::{Class::Lifecycle, Probe};
use crate::stage::{Stage, verify};
use crate::sys::{self, Fork, exit_now, fork, terminal};

#[rustfmt::skip] // One row for each probe: this is a table.
pub(crate) const PROBES: &[Probe] = &[
    Probe::held("pr07_daemon_survive", Lifecycle, "Outlives the call as a daemon.", daemon).judged_by_host(),
    Probe::held("pr22_timeout_tree", Lifecycle, "Outlives the call as a tree that ignores the request to end.", stubborn_tree).judged_by_host(),
    Probe::held("pr23_zombie_flood", Lifecycle, "Fills the process table with orphans that nobody reaps.", orphans),
    Probe::held("pr26_exit_race", Lifecycle, "Holds the output open after the command has ended.", holds_output).judged_by_host(),
    Probe::held("lf01_orphan_plain", Lifecycle, "Outlives the call as a simple background process.", background).judged_by_host(),
    Probe::held("lf02_new_session_terminal", Lifecycle, "Outlives the call by a session of its own without a terminal.", detached).judged_by_host(),
    Probe::held("lf03_stopped_child", Lifecycle, "Outlives the call as a stopped process.", stopped_child).judged_by_host(),
];

/// When a survivor writes its flag, in milliseconds: later than any end of the call.
const LATER: u64 = 2500;

/// Waits until the call must be over and writes the flag that `verify` looks for.
///
/// It must not hold the answer's pipe nor the caller's output, so that those end without it.
fn survive(stage: &Stage, id: &str, hold_output: bool) -> ! {
    if !hold_output
        && let Ok(null) = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/null")
    {
        for number in [1, 2] {
            sys::exec::place(&null, number).ok();
        }
    }
    pause(LATER);
    fs::write(verify::survivor_flag(stage, id), "survived\n").ok();
    exit_now(0)
}

fn daemon(stage: &Stage) -> Attempt {
    if let Fork::Child = fork()? {
        setsid().ok();
        if let Ok(Fork::Child) = fork() {
            survive(stage, "pr07", false)
        }
        exit_now(0)
    }
    worked("started; verify tells whether it survived")
}

fn background(stage: &Stage) -> Attempt {
    if let Fork::Child = fork()? {
        survive(stage, "lf01", false)
    }
    worked("started; verify tells whether it survived")
}

fn detached(stage: &Stage) -> Attempt {
    if let Fork::Child = fork()? {
        setsid().ok();
        // A parent that dies first must not take this one along.
        rustix::process::set_parent_process_death_signal(None).ok();
        survive(stage, "lf02", false)
    }
    worked("started; verify tells whether it survived")
}

fn holds_output(stage: &Stage) -> Attempt {
    if let Fork::Child = fork()? {
        setsid().ok();
        survive(stage, "pr26", true)
    }
    worked("started; the runner tells whether the call returned")
}

/// Five processes that ignore the polite signals.
fn stubborn_tree(stage: &Stage) -> Attempt {
    for _ in 0..5 {
        if let Fork::Child = fork()? {
            terminal::ignore_polite_signals();
            setsid().ok();
            survive(stage, "pr22", false)
        }
    }
    worked("started; verify tells whether it survived")
}

/// A stopped process takes no polite signal; one that is woken later writes its flag.
fn stopped_child(stage: &Stage) -> Attempt {
    // The kernel hangs up on a stopped group whose parent ends; the child inherits this.
    terminal::ignore_polite_signals();
    let Fork::Parent(sleeper) = fork()? else {
        survive(stage, "lf03", false)
    };
    kill_process(sleeper, Signal::STOP)?;
    if let Fork::Child = fork()? {
        setsid().ok();
        pause(LATER / 2);
        kill_process(sleeper, Signal::CONT).ok();
        exit_now(0)
    }
    worked("stopped; verify tells whether it survived")
}

/// Makes orphans that end at once; whoever adopts them must reap them.
fn orphans(_: &Stage) -> Attempt {
    const ORPHANS: u32 = 300;
    for _ in 0..ORPHANS {
        match fork()? {
            Fork::Child => {
                if let Ok(Fork::Child) = fork() {
                    pause(5);
                }
                exit_now(0)
            }
            Fork::Parent(pid) => {
                waitpid(Some(pid), WaitOptions::empty())?;
            }
        }
    }
    pause(400);
    let zombies = fs::read_dir("/proc")?
        .flatten()
        .filter(|it| is_zombie(&it.path().join("stat")))
        .count();
    // A few may belong to others on the host.
    if zombies > 100 {
        worked(format!("{zombies} zombies"))
    } else {
        refused("ESRCH", format!("{zombies} zombies: reaped"))
    }
}

/// The state stands after the name, which is in parentheses (`proc_pid_stat(5)`).
fn is_zombie(path: &std::path::Path) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('Z'))
}
