//! The processes below this one, read from `/proc`: their memory, and ending them.

use rustix::process::{Pid, Signal, WaitOptions};

/// Bytes of memory that the processes in this `/proc` use.
///
/// Resident sets are added up first, which counts shared pages often; only when that passes
/// `most` are proportional set sizes read, which the kernel has to walk page tables for.
///
/// `fenced`: whether this `/proc` shows the sandbox alone; else only what is below this process
/// counts.
pub(crate) fn bytes_of_tree(most: u64, fenced: bool) -> u64 {
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    let pids = if fenced { pids() } else { descendants() };
    let rough: u64 = pids
        .iter()
        .filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/statm")).ok())
        .filter_map(|text| text.split(' ').nth(1)?.parse::<u64>().ok())
        .map(|pages| pages.saturating_mul(page))
        .sum();
    if rough <= most {
        return rough;
    }
    pids.iter()
        .filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok())
        .filter_map(|text| proportional_set(&text))
        .sum()
}

fn proportional_set(rollup: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|it| it.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024))
}

fn pids() -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|it| it.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != 1)
        .collect()
}

/// Processes and threads of a user on the whole host, as `RLIMIT_NPROC` counts them.
pub(crate) fn tasks_of(uid: u32) -> u64 {
    let own = |pid: &i32| -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|it| it.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        (field("Uid:")? == u64::from(uid)).then(|| field("Threads:"))?
    };
    pids().iter().filter_map(own).sum()
}

/// The children of this process, and theirs, from the parent ids in `/proc`, proc(5).
fn descendants() -> Vec<i32> {
    let parents: Vec<(i32, i32)> = pids()
        .into_iter()
        .filter_map(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The name in parentheses may hold anything; the last one closes it.
            let (_, rest) = stat.rsplit_once(") ")?;
            let parent = rest.split(' ').nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect();
    let me = rustix::process::getpid().as_raw_nonzero().get();
    let mut found = vec![me];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(parents.iter().filter(|it| it.1 == parent).map(|it| it.0));
        at += 1;
    }
    found.retain(|it| *it != me);
    found
}

/// Kills everything in the session that `leader` led, whatever became of the leader.
pub(crate) fn kill_session(leader: Pid) {
    let leader = leader.as_raw_nonzero().get();
    for pid in pids() {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let session = stat
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.split(' ').nth(3)?.parse::<i32>().ok());
        if let (true, Some(pid)) = (session == Some(leader) && pid != leader, Pid::from_raw(pid)) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

/// Sends a signal to everything below this process.
pub(crate) fn signal_descendants(number: i32) {
    let Some(signal) = Signal::from_named_raw(number) else {
        return;
    };
    for pid in descendants() {
        if let Some(pid) = Pid::from_raw(pid) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

/// Kills everything below this process, until nothing is left.
///
/// This process is a subreaper: what loses its parent becomes its child, prctl(2), so a
/// process that forks while it is hunted is found in a later round.
pub(crate) fn kill_descendants() {
    for _ in 0..1000 {
        signal_descendants(libc::SIGKILL);
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        if descendants().is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proportional_set_is_read_in_bytes() {
        let text = "00400000-7fff 0 [rollup]\nRss:  100 kB\nPss:       12 kB\nPss_Dirty: 1 kB\n";
        assert_eq!(proportional_set(text), Some(12 * 1024));
        assert_eq!(proportional_set("Rss: 1 kB"), None);
    }
}
