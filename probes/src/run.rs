//! Runs one probe in a child of its own, with a time limit, and reads its answer from a pipe.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, waitpid,
};

use crate::errno;
use crate::probe::{Outcome, Probe, Report};
use crate::stage::Stage;
use crate::sys::{Fork, exit_now, fork};

/// How long one probe may take, unless `--seconds` says otherwise.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Makes the attack in a child and reports what became of it, within `limit`.
pub(crate) fn run(probe: &Probe, stage: &Stage, limit: Duration) -> Report {
    let (reader, writer) = match pipe_with(PipeFlags::CLOEXEC) {
        Ok(ends) => ends,
        Err(error) => return failure(probe, &format!("no pipe: {error}")),
    };
    match fork() {
        Ok(Fork::Child) => {
            drop(reader);
            // A group of its own, so that what it starts can be ended with it.
            rustix::process::setpgid(None, None).ok();
            let report = Report::new(probe.id, probe.run(stage));
            let line = serde_json::to_vec(&report).unwrap_or_default();
            let sent = File::from(writer).write_all(&line);
            exit_now(u8::from(sent.is_err()))
        }
        Ok(Fork::Parent(pid)) => {
            drop(writer);
            let answer = collect(reader, limit);
            let status = end(pid, answer.is_some());
            match answer {
                None => failure(probe, &format!("no answer within {} s", limit.as_secs())),
                Some(line) => serde_json::from_slice(&line).unwrap_or_else(|_| died(probe, status)),
            }
        }
        Err(error) => failure(probe, &format!("cannot fork: {error}")),
    }
}

/// What the child wrote until it closed the pipe; nothing where it did not in time.
///
/// A daemon that the probe leaves behind holds the pipe open, so a whole answer ends the wait.
fn collect(reader: OwnedFd, limit: Duration) -> Option<Vec<u8>> {
    let end = Instant::now() + limit;
    let mut file = File::from(reader);
    let mut answer = Vec::new();
    loop {
        let left = end.checked_duration_since(Instant::now())?;
        let timeout = Timespec::try_from(left).ok()?;
        let mut polled = [PollFd::new(&file, PollFlags::IN)];
        if poll(&mut polled, Some(&timeout)).ok()? == 0 {
            return None;
        }
        let mut buffer = [0_u8; 1024];
        let length = file.read(&mut buffer).ok()?;
        answer.extend_from_slice(buffer.get(..length).unwrap_or_default());
        let is_whole = || serde_json::from_slice::<Report>(&answer).is_ok();
        if length == 0 || is_whole() {
            return Some(answer);
        }
    }
}

/// Waits for the child, after killing it and its group where it did not answer.
fn end(pid: Pid, answered: bool) -> Option<WaitStatus> {
    if !answered {
        // Either may be gone already.
        kill_process_group(pid, Signal::KILL).ok();
        kill_process(pid, Signal::KILL).ok();
    }
    waitpid(Some(pid), WaitOptions::empty())
        .ok()
        .flatten()
        .map(|(_, status)| status)
}

fn died(probe: &Probe, status: Option<WaitStatus>) -> Report {
    let Some(signal) = status.and_then(WaitStatus::terminating_signal) else {
        return failure(
            probe,
            &format!("the probe ended without an answer: {status:?}"),
        );
    };
    let name = errno::signal(signal);
    // These are the probe's own mistakes, unless proven otherwise.
    if [libc::SIGABRT, libc::SIGILL, libc::SIGSEGV].contains(&signal) {
        return failure(probe, &format!("the probe crashed: {name}"));
    }
    Report::new(
        probe.id,
        Outcome::Refused(name, "killed by the kernel".to_owned()),
    )
}

fn failure(probe: &Probe, detail: &str) -> Report {
    Report::new(probe.id, Outcome::Error(detail.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::attempt::{Attempt, pause, worked};
    use crate::probe::{Class, Word};

    fn answer(attempt: fn(&Stage) -> Attempt) -> Report {
        let probe = Probe::held("xx", Class::Files, "Is tried by a test.", attempt);
        run(
            &probe,
            &Stage::example(Path::new("/nonexistent")),
            Duration::from_millis(400),
        )
    }

    fn end_by(signal: Signal) -> Attempt {
        kill_process(rustix::process::getpid(), signal)?;
        pause(10_000);
        worked("survived the signal")
    }

    #[test]
    fn a_probe_that_hangs_is_killed_in_time_and_proves_nothing() {
        let start = Instant::now();
        let report = answer(|_| {
            pause(60_000);
            worked("late")
        });
        assert_eq!(report.outcome, Word::Error);
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn the_filters_signal_is_a_refusal_and_a_crash_is_not() {
        let filtered = answer(|_| end_by(Signal::SYS));
        assert_eq!(
            (filtered.outcome, filtered.errno.as_str()),
            (Word::Refused, "SIGSYS")
        );
        assert_eq!(answer(|_| end_by(Signal::SEGV)).outcome, Word::Error);
    }

    #[test]
    fn an_answer_comes_through_although_a_daemon_holds_the_pipe() {
        let report = answer(|_| {
            if let Fork::Child = fork()? {
                pause(3_000);
                exit_now(0)
            }
            worked("left one behind")
        });
        assert_eq!(report.outcome, Word::Worked);
    }
}
