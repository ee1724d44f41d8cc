//! Probes on other processes: the victim outside, and the init of the sandbox.

use std::fs::{self, File, OpenOptions};

use rustix::fs::{Mode, OFlags};
use rustix::process::{
    PidfdFlags, PidfdGetfdFlags, Resource, Rlimit, getpriority_process, pidfd_getfd, pidfd_open,
    pidfd_send_signal, prlimit, setpriority_process, test_kill_process, test_kill_process_group,
};

use crate::attempt::{
    Attempt, Stop, contains, failed, init, read_canary, read_some, refused, victim, worked,
};
use crate::probe::{Class::Processes, Probe};
use crate::stage::Stage;
use crate::sys::{surface, trace};

#[rustfmt::skip] // One row for each probe: this is a table.
pub(crate) const PROBES: &[Probe] = &[
    Probe::held("fs19_proc_root", Processes, "Reaches a key through another process' root.", proc_root),
    Probe::held("fs20_proc_environ", Processes, "Reads the environment of another process.", proc_environ),
    Probe::held("fs21_proc_mem", Processes, "Opens the memory of another process for writing.", proc_mem),
    Probe::held("fs22_proc_pidlist", Processes, "Sees a process of the host in the process list.", proc_list),
    Probe::held("pr01_kill_victim", Processes, "Signals a process of the host.", kill_victim),
    Probe::held("pr02_ptrace", Processes, "Attaches to a process of the host.", ptrace_attach),
    Probe::held("pr03_vm_readv", Processes, "Reads the memory of a process of the host.", vm_read),
    Probe::held("pr04_pidfd_getfd", Processes, "Steals an open file of another process.", steal_descriptor),
    Probe::held("pr05_prlimit", Processes, "Changes the limits of another process.", change_limits),
    Probe::held("pr06_setpriority", Processes, "Changes the priority of another process.", renice),
    Probe::held("pr14_setns_victim", Processes, "Joins the mount namespace of another process.", setns_mount),
    Probe::held("pr18_caps", Processes, "Keeps a capability, effective or within reach.", capabilities),
    Probe::held("pr20_pid1_inject", Processes, "Opens the memory of the init process for writing.", init_memory),
    Probe::held("pr24_pgid_signal", Processes, "Signals the process group of a host process.", signal_group),
    Probe::held("ps01_pid1_environ", Processes, "Reads the environment of the init process.", init_environ),
    Probe::held("ps02_kcmp", Processes, "Compares kernel objects with another process.", compare),
    Probe::held("ps03_ptrace_seize", Processes, "Seizes a process of the host.", ptrace_seize),
    Probe::held("ps04_vm_writev", Processes, "Writes into the memory of a process of the host.", vm_write),
    Probe::held("ps05_proc_fd", Processes, "Opens a file through another process' descriptor.", proc_fd),
    Probe::held("ps06_proc_cwd", Processes, "Opens the working directory of another process.", proc_cwd),
    Probe::held("ps07_pidfd_open", Processes, "Gets a handle of a process of the host.", handle),
    Probe::held("ps08_pidfd_signal", Processes, "Signals a process of the host by its handle.", handle_signal),
    Probe::held("ps09_affinity", Processes, "Pins a process of the host to processors.", affinity),
    Probe::held("ps10_ioprio", Processes, "Changes the input and output priority of another process.", io_priority),
    Probe::held("ps11_oom_score", Processes, "Makes another process the first to be killed.", oom_score),
    Probe::held("ps12_proc_maps", Processes, "Reads the memory map of another process.", proc_maps),
    Probe::held("ps13_setns_net", Processes, "Joins the network namespace of another process.", setns_network),
    Probe::held("ps14_setns_user", Processes, "Joins the user namespace of the init process.", setns_user),
    Probe::held("ps15_pid1_ptrace", Processes, "Seizes the init process.", init_seize),
    Probe::held("ps16_pid1_fd", Processes, "Opens what the init process has open.", init_descriptors),
    Probe::held("ps17_new_privs", Processes, "May gain privileges from the next program.", new_privileges),
    Probe::held("ps18_self_mem_mask", Processes, "Writes to a read-only file through its own memory.", self_memory),
    Probe::held("ps19_proc_cmdline", Processes, "Reads the arguments of another process.", proc_cmdline),
    Probe::held("ps20_proc_task_children", Processes, "Finds the processes of its caller in the process list.", parent_list),
];

/// The victim's directory in `/proc`, if that is the victim: it has the canary in its arguments.
fn victim_proc(stage: &Stage) -> Result<String, Stop> {
    let path = format!("/proc/{}", victim(stage)?.as_raw_nonzero());
    let arguments = fs::read(format!("{path}/cmdline"))?;
    if contains(&arguments, stage.canary.as_bytes()) {
        return Ok(path);
    }
    Err(Stop::Refused(
        "ESRCH".to_owned(),
        "the number names another process in here".to_owned(),
    ))
}

fn proc_root(stage: &Stage) -> Attempt {
    let path = victim_proc(stage)?;
    let key = stage.home.join(".ssh/id_rsa");
    let key = key.strip_prefix("/").unwrap_or(&key);
    read_canary(
        &std::path::Path::new(&path).join("root").join(key),
        &stage.canary,
    )
}

fn proc_environ(stage: &Stage) -> Attempt {
    let path = victim_proc(stage)?;
    read_canary(
        std::path::Path::new(&format!("{path}/environ")),
        &stage.canary,
    )
}

fn proc_mem(stage: &Stage) -> Attempt {
    let path = victim_proc(stage)?;
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("{path}/mem"))?;
    worked("opened")
}

fn proc_list(stage: &Stage) -> Attempt {
    for entry in fs::read_dir("/proc")?.flatten() {
        let arguments = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if contains(&arguments, stage.canary.as_bytes()) {
            return worked("the victim is in the list");
        }
    }
    refused("ESRCH", "the victim is not in the list")
}

fn kill_victim(stage: &Stage) -> Attempt {
    test_kill_process(victim(stage)?)?;
    worked("may signal it")
}

fn signal_group(stage: &Stage) -> Attempt {
    let group = rustix::process::getpgid(Some(victim(stage)?))?;
    test_kill_process_group(group)?;
    worked("may signal its group")
}

fn ptrace_attach(stage: &Stage) -> Attempt {
    trace::attach_and_detach(victim(stage)?)?;
    worked("attached")
}

fn ptrace_seize(stage: &Stage) -> Attempt {
    trace::seize(victim(stage)?)?;
    worked("seized")
}

fn vm_read(stage: &Stage) -> Attempt {
    let bytes = trace::read_memory(victim(stage)?, stage.victim_address, stage.canary.len())?;
    if contains(&bytes, stage.canary.as_bytes()) {
        worked("read the canary")
    } else {
        failed("read other bytes")
    }
}

/// Writes the bytes that are there already.
fn vm_write(stage: &Stage) -> Attempt {
    trace::write_memory(
        victim(stage)?,
        stage.victim_address,
        stage.canary.as_bytes(),
    )?;
    worked("wrote the same bytes")
}

fn steal_descriptor(stage: &Stage) -> Attempt {
    let handle = pidfd_open(victim(stage)?, PidfdFlags::empty())?;
    let stolen = pidfd_getfd(handle, stage.victim_fd, PidfdGetfdFlags::empty())?;
    let mut buffer = [0_u8; 256];
    let length = rustix::io::pread(stolen, &mut buffer, 0)?;
    let bytes = buffer.get(..length).unwrap_or_default();
    if contains(bytes, stage.canary.as_bytes()) {
        worked("read the canary")
    } else {
        failed("another file")
    }
}

fn change_limits(stage: &Stage) -> Attempt {
    let victim = victim(stage)?;
    let none = Rlimit {
        current: Some(0),
        maximum: None,
    };
    // Asked with a limit that is put back at once.
    let before = prlimit(
        Some(victim),
        Resource::Core,
        Rlimit {
            maximum: Some(0),
            ..none
        },
    );
    match before {
        Ok(before) => {
            // Lowered hard limits cannot be raised again by an ordinary user: the victim needs none.
            prlimit(Some(victim), Resource::Core, before).ok();
            worked("limits changed")
        }
        Err(error) => Err(error.into()),
    }
}

fn renice(stage: &Stage) -> Attempt {
    let victim = victim(stage)?;
    let now = getpriority_process(Some(victim))?;
    setpriority_process(Some(victim), now)?;
    worked("may change it")
}

fn affinity(stage: &Stage) -> Attempt {
    let victim = victim(stage)?;
    let now = rustix::thread::sched_getaffinity(Some(victim))?;
    rustix::thread::sched_setaffinity(Some(victim), &now)?;
    worked("may change it")
}

fn io_priority(stage: &Stage) -> Attempt {
    surface::set_io_priority(victim(stage)?)?;
    worked("changed")
}

fn oom_score(stage: &Stage) -> Attempt {
    let path = victim_proc(stage)?;
    OpenOptions::new()
        .write(true)
        .open(format!("{path}/oom_score_adj"))?;
    worked("opened for writing")
}

fn setns_mount(stage: &Stage) -> Attempt {
    let path = victim_proc(stage)?;
    surface::setns(File::open(format!("{path}/ns/mnt"))?)?;
    worked("joined")
}

fn setns_network(stage: &Stage) -> Attempt {
    let path = victim_proc(stage)?;
    surface::setns(File::open(format!("{path}/ns/net"))?)?;
    worked("joined")
}

fn setns_user(stage: &Stage) -> Attempt {
    let init = init(stage)?.as_raw_nonzero();
    surface::setns(File::open(format!("/proc/{init}/ns/user"))?)?;
    worked("joined")
}

fn capabilities(_: &Stage) -> Attempt {
    let status = fs::read_to_string("/proc/self/status")?;
    let sets = status.lines().filter(|it| it.starts_with("Cap"));
    let left: Vec<&str> = sets
        .filter(|it| !it.ends_with("\t0000000000000000"))
        .collect();
    match left.first() {
        Some(_) => worked(left.join(", ").replace('\t', " ")),
        None => refused("EPERM", "all sets are empty"),
    }
}

fn init_memory(stage: &Stage) -> Attempt {
    let init = init(stage)?.as_raw_nonzero();
    // Opened, never written: the host's own PID 1 is not touched at all.
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/proc/{init}/mem"))?;
    worked("opened")
}

fn init_environ(stage: &Stage) -> Attempt {
    let init = init(stage)?.as_raw_nonzero();
    let bytes = read_some(std::path::Path::new(&format!("/proc/{init}/environ")))?;
    worked(format!("{} bytes", bytes.len()))
}

fn init_seize(stage: &Stage) -> Attempt {
    trace::seize(init(stage)?)?;
    worked("seized")
}

fn init_descriptors(stage: &Stage) -> Attempt {
    let init = init(stage)?.as_raw_nonzero();
    // Kernel uid 0 may list the numbers of any process; what is behind them is what counts.
    let mut answer = refused("ENOENT", "nothing is open");
    for entry in fs::read_dir(format!("/proc/{init}/fd"))? {
        let link = entry?.path();
        match fs::read_link(&link) {
            Ok(target) => return worked(format!("{} is {}", link.display(), target.display())),
            Err(error) => answer = Err(error.into()),
        }
    }
    answer
}

fn compare(stage: &Stage) -> Attempt {
    surface::compare_files(rustix::process::getpid(), victim(stage)?)?;
    worked("compared")
}

fn proc_fd(stage: &Stage) -> Attempt {
    let path = victim_proc(stage)?;
    let link = format!("{path}/fd/{}", stage.victim_fd);
    read_canary(std::path::Path::new(&link), &stage.canary)
}

fn proc_cwd(stage: &Stage) -> Attempt {
    let path = victim_proc(stage)?;
    rustix::fs::open(
        format!("{path}/cwd"),
        OFlags::DIRECTORY | OFlags::RDONLY,
        Mode::empty(),
    )?;
    worked("opened")
}

fn proc_maps(stage: &Stage) -> Attempt {
    let path = victim_proc(stage)?;
    let bytes = read_some(std::path::Path::new(&format!("{path}/maps")))?;
    if bytes.is_empty() {
        refused("EACCES", "empty")
    } else {
        worked("read")
    }
}

fn proc_cmdline(stage: &Stage) -> Attempt {
    victim_proc(stage)?;
    worked("read the canary")
}

fn handle(stage: &Stage) -> Attempt {
    pidfd_open(victim(stage)?, PidfdFlags::empty())?;
    worked("got a handle")
}

/// The signal is one that the victim ignores by default.
fn handle_signal(stage: &Stage) -> Attempt {
    let handle = pidfd_open(victim(stage)?, PidfdFlags::empty())?;
    pidfd_send_signal(handle, rustix::process::Signal::CONT)?;
    worked("signalled")
}

fn new_privileges(_: &Stage) -> Attempt {
    if rustix::thread::no_new_privs()? {
        refused("EPERM", "no_new_privs is set")
    } else {
        worked("it may")
    }
}

/// The kernel forbids it for shared mappings of files opened for reading; the answer is only
/// whether the file's content changed.
fn self_memory(stage: &Stage) -> Attempt {
    let path = stage.workspace.join(".git/config");
    let before = fs::read(&path)?;
    let _undo = crate::attempt::Preserve::of(&path);
    let answer = crate::sys::memory::force_store(&File::open(&path)?, b'#');
    if fs::read(&path)? != before {
        return worked("the file changed");
    }
    answer?;
    refused("EFAULT", "only a private copy changed")
}

/// The stage is the victim's parent; seeing it means seeing the caller's processes.
fn parent_list(stage: &Stage) -> Attempt {
    let path = victim_proc(stage)?;
    let status = fs::read_to_string(format!("{path}/status"))?;
    let parent = status
        .lines()
        .find_map(|it| it.strip_prefix("PPid:\t"))
        .unwrap_or("0");
    fs::read(format!("/proc/{parent}/cmdline"))?;
    worked("the caller is in the list")
}
