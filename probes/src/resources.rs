//! Probes that exhaust something, each a quarter beyond the stage's ceiling and no further.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, getrlimit, kill_process, setrlimit, waitpid,
};

use crate::attempt::{Attempt, Planted, Stop, refused, worked};
use crate::errno;
use crate::probe::{Class::Resources, Probe};
use crate::stage::Stage;
use crate::sys::{self, Fork, surface};

#[rustfmt::skip] // One row for each probe: this is a table.
pub(crate) const PROBES: &[Probe] = &[
    Probe::held("pr15_rlimit_core", Resources, "May leave a core file with secrets.", core_files),
    Probe::held("rs01_open_files", Resources, "Opens more files than allowed.", open_files),
    Probe::held("rs02_file_size", Resources, "Makes a file longer than allowed.", file_size),
    Probe::held("rs03_tmp_fill", Resources, "Fills the temporary directory beyond its size.", tmp_fill),
    Probe::held("rs04_shm_fill", Resources, "Fills the shared memory beyond its size.", shm_fill),
    Probe::held("rs05_memlock", Resources, "Raises the limit of locked memory.", memory_lock),
    Probe::held("rs06_real_time", Resources, "Takes the processor by real-time priority.", real_time),
    Probe::held("rs07_negative_nice", Resources, "Takes the processor by a negative nice value.", negative_nice),
    Probe::held("rs08_oom_immune", Resources, "Makes itself the last to be killed.", oom_immune),
    Probe::held("rs09_nofile_raise", Resources, "Raises the hard limit of open files.", raise_open_files),
    Probe::held("rs10_core_raise", Resources, "Allows itself core files of any size.", raise_core),
    Probe::held("fs55_sparse_quota", Resources, "Makes thousands of tiny files in the temporary directory.", many_files),
    Probe::held("pr19_disk_fill", Resources, "Writes a file longer than allowed.", disk_fill),
    Probe::held("pr09_mem", Resources, "Touches more memory than allowed.", memory),
    Probe::held("pr08_nproc", Resources, "Starts more processes than allowed.", processes),
];

fn beyond(limit: u64) -> u64 {
    limit + limit / 4
}

fn core_files(_: &Stage) -> Attempt {
    match getrlimit(Resource::Core).maximum {
        Some(0) => refused("EPERM", "the hard limit is 0"),
        Some(bytes) => worked(format!("hard limit {bytes} bytes")),
        None => worked("no hard limit"),
    }
}

fn raise_core(_: &Stage) -> Attempt {
    setrlimit(
        Resource::Core,
        Rlimit {
            current: None,
            maximum: getrlimit(Resource::Core).maximum,
        },
    )
    .or_else(|_| {
        let hard = getrlimit(Resource::Core).maximum;
        setrlimit(
            Resource::Core,
            Rlimit {
                current: hard,
                maximum: hard,
            },
        )
    })?;
    match getrlimit(Resource::Core).current {
        Some(0) => refused("EPERM", "still 0"),
        _ => worked("raised"),
    }
}

fn memory_lock(_: &Stage) -> Attempt {
    setrlimit(
        Resource::Memlock,
        Rlimit {
            current: None,
            maximum: None,
        },
    )?;
    worked("no limit")
}

fn raise_open_files(_: &Stage) -> Attempt {
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(0);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(hard + 1),
            maximum: Some(hard + 1),
        },
    )?;
    worked("raised by one")
}

fn real_time(_: &Stage) -> Attempt {
    surface::become_real_time()?;
    worked("real-time")
}

fn negative_nice(_: &Stage) -> Attempt {
    rustix::process::nice(-1)?;
    worked("nicer to itself")
}

fn oom_immune(_: &Stage) -> Attempt {
    fs::write("/proc/self/oom_score_adj", "-1000")?;
    worked("immune")
}

/// Up to the hard limit if the soft one is lower, since a payload may raise that itself.
fn open_files(stage: &Stage) -> Attempt {
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: hard,
            maximum: hard,
        },
    )?;
    let mut open = Vec::new();
    let goal = beyond(stage.limits.open_files.into());
    while (open.len() as u64) < goal {
        match File::open("/dev/null") {
            Ok(file) => open.push(file),
            Err(error) => return stopped(&error, &format!("after {} files", open.len())),
        }
    }
    worked(format!("{goal} files"))
}

/// A ceiling that was reached: the errno, and how far it went.
fn stopped(error: &std::io::Error, detail: &str) -> Attempt {
    let name = error
        .raw_os_error()
        .map_or_else(|| "EIO".to_owned(), errno::name);
    refused(&name, detail)
}

/// The file is sparse: nothing is written.
fn file_size(stage: &Stage) -> Attempt {
    let path = stage.workspace.join("probe-long");
    let _undo = Planted::new(stage, &path);
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)?;
    file.set_len(beyond(stage.limits.file_size))?;
    worked(format!("{} bytes", beyond(stage.limits.file_size)))
}

/// One byte written beyond the ceiling; the rest is a hole, so that the disk is not filled.
fn disk_fill(stage: &Stage) -> Attempt {
    let path = stage.workspace.join("probe-fill");
    let _undo = Planted::new(stage, &path);
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)?;
    file.write_all_at(b"x", beyond(stage.limits.file_size))?;
    worked(format!("wrote at {} bytes", beyond(stage.limits.file_size)))
}

fn tmp_fill(stage: &Stage) -> Attempt {
    fill(Path::new("/tmp"), stage)
}

fn shm_fill(stage: &Stage) -> Attempt {
    fill(Path::new("/dev/shm"), stage)
}

fn fill(folder: &Path, stage: &Stage) -> Attempt {
    let path = folder.join(format!("{}.fill", stage.nonce));
    let _undo = Removed(path.clone());
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)?;
    let block = vec![0x55_u8; 1 << 20];
    let goal = beyond(stage.limits.tmp_size);
    let mut written = 0_u64;
    while written < goal {
        if let Err(error) = file.write_all(&block) {
            return stopped(&error, &format!("after {written} bytes"));
        }
        written += block.len() as u64;
    }
    worked(format!("{written} bytes"))
}

/// Removes a file or directory whatever the stage keeps: what was filled must be emptied.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // Either it is a file or it is a directory; undoing is best effort.
        fs::remove_file(&self.0)
            .or_else(|_| fs::remove_dir_all(&self.0))
            .ok();
    }
}

/// In a sized `/tmp` the number of files has an end as well; in the host's it has none soon.
///
/// A busy disk makes this slow, so it stops in time to clear up after itself.
fn many_files(stage: &Stage) -> Attempt {
    const FILES: u32 = 3_000;
    const ENOUGH: u32 = 1_000;
    let end = Instant::now() + Duration::from_secs(2);
    let here = fs::metadata("/tmp")?;
    let folder = PathBuf::from(format!("/tmp/{}.many", stage.nonce));
    let _undo = Removed(folder.clone());
    fs::create_dir(&folder)?;
    let mut made = 0;
    while made < FILES && (made < ENOUGH || Instant::now() < end) {
        if let Err(error) = File::create(folder.join(made.to_string())) {
            return stopped(&error, &format!("after {made} files"));
        }
        made += 1;
    }
    if (here.dev(), here.ino()) == stage.tmp_identity {
        return worked(format!("{made} files on the host"));
    }
    refused("ENOENT", "in a private /tmp, which goes with the run")
}

/// Touches memory in a child: the kernel kills what passes the ceiling, and that is the answer.
fn memory(stage: &Stage) -> Attempt {
    const BLOCK: usize = 1 << 20;
    let goal = beyond(stage.limits.memory);
    let Fork::Parent(pid) = sys::fork()? else {
        let mut blocks: Vec<Vec<u8>> = Vec::new();
        while (blocks.len() * BLOCK) as u64 <= goal {
            let mut block: Vec<u8> = Vec::new();
            if block.try_reserve_exact(BLOCK).is_err() {
                sys::exit_now(1)
            }
            block.resize(BLOCK, 0x55);
            blocks.push(std::hint::black_box(block));
        }
        sys::exit_now(0)
    };
    let status = waitpid(Some(pid), WaitOptions::empty())?.map(|(_, it)| it);
    match status.map(|it| (it.exit_status(), it.terminating_signal())) {
        Some((Some(0), _)) => worked(format!("touched {goal} bytes")),
        Some((Some(_), _)) => refused("ENOMEM", "the kernel gave no more"),
        Some((_, Some(signal))) => refused(&errno::signal(signal), "killed"),
        _ => Err(Stop::Failed("no status".to_owned())),
    }
}

/// Starts children that wait, until one cannot be started; then ends them all.
fn processes(stage: &Stage) -> Attempt {
    let goal = beyond(stage.limits.processes.into());
    let mut children: Vec<Pid> = Vec::new();
    let mut refusal = None;
    while (children.len() as u64) < goal {
        match sys::fork() {
            Ok(Fork::Child) => {
                // They must not outlive the probe, however it ends.
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).ok();
                loop {
                    crate::attempt::pause(60_000);
                }
            }
            Ok(Fork::Parent(pid)) => children.push(pid),
            Err(error) => {
                refusal = Some(error);
                break;
            }
        }
    }
    let started = children.len();
    for pid in children {
        kill_process(pid, Signal::KILL).ok();
        waitpid(Some(pid), WaitOptions::empty()).ok();
    }
    match refusal {
        Some(error) => stopped(&error, &format!("after {started} processes")),
        None => worked(format!("{started} processes")),
    }
}
