//! Probes on the kernel's rare calls, which an ordinary program never makes.

use std::ffi::CString;

use libc::{EFAULT, EINVAL};
use rustix::system::{sethostname, uname};

use crate::attempt::{
    Attempt, Stop, child_answer, in_child, in_host_namespace, refused, victim, worked,
};
use crate::probe::{Class::Kernel, Probe};
use crate::stage::Stage;
use crate::sys::surface::{Call, numeric, numeric_descriptor};
use crate::sys::{Fork, exit_now, ipc, surface, trace};

#[rustfmt::skip] // One row for each probe: this is a table.
pub(crate) const PROBES: &[Probe] = &[
    Probe::held("ks01_userns", Kernel, "Creates a user namespace by unshare.", user_namespace),
    Probe::held("ks02_clone3_userns", Kernel, "Creates a user namespace by clone3.", clone3_namespace),
    Probe::held("ks03_bpf", Kernel, "Creates a map of the kernel's bytecode machine.", bpf_map),
    Probe::held("ks04_perf", Kernel, "Opens a performance counter.", perf),
    Probe::held("ks05_userfaultfd", Kernel, "Handles its own page faults.", userfaultfd),
    Probe::held("ks06_keyctl_add", Kernel, "Adds a key to a keyring.", add_key),
    Probe::held("ks07_ptrace_child", Kernel, "Traces a child of its own.", trace_child),
    Probe::held("ks08_ia32", Kernel, "Makes 32-bit system calls.", ia32),
    Probe::held("ks09_x32", Kernel, "Makes x32 system calls.", x32),
    Probe::held("ks11_module_kexec", Kernel, "Reaches the loading of modules and kernels.", modules),
    Probe::held("ks12_personality", Kernel, "Turns off address randomisation.", personality),
    Probe::held("ks13_dmesg", Kernel, "Reads the kernel log.", kernel_log),
    Probe::held("ks15_fanotify", Kernel, "Creates a notification group for files.", fanotify),
    Probe::held("ks16_sethostname", Kernel, "Sets the host's name.", host_name),
    Probe::held("ks18_modify_ldt", Kernel, "Reads its local descriptor table.", local_descriptors),
    Probe::by_policy("ks21_seccomp_notify_self", Kernel, "Installs a filter with a listener for itself.", seccomp_listener),
    Probe::held("kn01_clone_userns", Kernel, "Creates a user namespace by clone.", clone_namespace),
    Probe::held("kn02_unshare_mount", Kernel, "Creates a mount namespace.", mount_namespace),
    Probe::held("kn03_unshare_rest", Kernel, "Creates the other kinds of namespaces.", other_namespaces),
    Probe::held("kn04_iopl", Kernel, "Asks for access to all ports.", io_privilege),
    Probe::held("kn05_settime", Kernel, "May set the clock.", set_time),
    Probe::held("kn06_reboot", Kernel, "Reaches the call that restarts the machine.", reboot),
    Probe::held("kn07_swap", Kernel, "Reaches the call that adds swap space.", swap),
    Probe::held("kn08_acct", Kernel, "Reaches the call that logs every process.", accounting),
    Probe::held("kn09_quotactl", Kernel, "Reaches the quota calls.", quota),
    Probe::held("kn10_bpf_prog", Kernel, "Loads a program of the kernel's bytecode.", bpf_program),
    Probe::held("kn11_name_to_handle", Kernel, "Reaches the call that turns names into handles.", name_to_handle),
    Probe::held("kn12_keyctl_session", Kernel, "Starts a session keyring.", session_keyring),
    Probe::held("kn13_request_key", Kernel, "Reaches the call that starts a key helper.", request_key),
    Probe::by_policy("kn14_landlock_stack", Kernel, "Stacks Landlock domains until the kernel refuses.", landlock_stack),
    Probe::held("kn15_migrate_pages", Kernel, "Moves another process' memory between nodes.", migrate_pages),
    Probe::held("kn16_process_madvise", Kernel, "Reaches the call that advises on another's memory.", process_madvise),
    Probe::held("kn17_setdomainname", Kernel, "Reaches the call that sets the domain name.", domain_name),
    Probe::held("kn18_memfd_secret", Kernel, "Makes memory that the kernel cannot see.", secret_memory),
    Probe::held("kn19_ptrace_filter", Kernel, "Is traced together with a filtered child.", traced_pair),
    Probe::held("kn20_clock_settime", Kernel, "Reaches the call that sets any clock.", clock),
    Probe::held("kn21_userfaultfd_kernel", Kernel, "Handles the kernel's page faults.", userfaultfd_kernel),
    Probe::held("kn22_ia32_socketcall", Kernel, "Makes a socket by the 32-bit table.", ia32_socketcall),
    Probe::held("kn23_ia32_unshare", Kernel, "Creates a user namespace by the 32-bit table.", ia32_unshare),
    Probe::held("kn24_iouring_bare", Kernel, "Reaches the ring calls with empty arguments.", ring_bare),
];

/// Reaching a call is the attack: an answer about the arguments means that it looked at them.
fn reached(call: Call, arguments: [u16; 6], answers: &[i32]) -> Attempt {
    match numeric(call, arguments) {
        Ok(_) => worked("it went through"),
        Err(error) if error.raw_os_error().is_some_and(|it| answers.contains(&it)) => {
            worked(format!("reached: {error}"))
        }
        Err(error) => Err(error.into()),
    }
}

fn user_namespace(_: &Stage) -> Attempt {
    surface::unshare(libc::CLONE_NEWUSER)?;
    worked("created")
}

fn ended(fork: &Fork) -> Attempt {
    match fork {
        Fork::Child => exit_now(0),
        Fork::Parent(pid) => {
            child_answer(*pid)?;
            worked("created")
        }
    }
}

fn clone_namespace(_: &Stage) -> Attempt {
    ended(&surface::clone_into(libc::CLONE_NEWUSER)?)
}

fn clone3_namespace(_: &Stage) -> Attempt {
    ended(&surface::clone3_into(libc::CLONE_NEWUSER)?)
}

fn mount_namespace(_: &Stage) -> Attempt {
    surface::unshare(libc::CLONE_NEWNS)?;
    worked("created")
}

fn other_namespaces(_: &Stage) -> Attempt {
    let kinds = [
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWCGROUP,
    ];
    let mut last = None;
    for kind in kinds {
        match surface::unshare(kind) {
            Ok(()) => return worked(format!("created, flag {kind:#x}")),
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or_else(|| Stop::Failed("nothing was tried".to_owned()), Stop::from))
}

fn bpf_map(_: &Stage) -> Attempt {
    surface::create_bpf_map()?;
    worked("created")
}

fn bpf_program(_: &Stage) -> Attempt {
    surface::load_bpf_program()?;
    worked("loaded")
}

fn perf(_: &Stage) -> Attempt {
    surface::perf_counter()?;
    worked("opened")
}

fn userfaultfd(_: &Stage) -> Attempt {
    // UFFD_USER_MODE_ONLY is 1.
    numeric_descriptor(Call::Userfaultfd, [1, 0, 0, 0, 0, 0])?;
    worked("created")
}

fn userfaultfd_kernel(_: &Stage) -> Attempt {
    numeric_descriptor(Call::Userfaultfd, [0; 6])?;
    worked("created")
}

fn add_key(stage: &Stage) -> Attempt {
    let name = CString::new(format!("{}-added", stage.nonce))?;
    let serial = ipc::add_key(&name, b"x", ipc::Keyring::Process)?;
    ipc::unlink_key(serial, ipc::Keyring::Process)?;
    worked("added")
}

fn session_keyring(_: &Stage) -> Attempt {
    ipc::join_session_keyring()?;
    worked("joined")
}

fn request_key(_: &Stage) -> Attempt {
    reached(Call::RequestKey, [0; 6], &[EFAULT, EINVAL])
}

fn trace_child(_: &Stage) -> Attempt {
    in_child(trace::trace_me)?;
    worked("traced")
}

/// The child stops for its parent, which then has hold of it: the way to undo what a filter
/// with `SECCOMP_RET_TRACE` decides.
fn traced_pair(_: &Stage) -> Attempt {
    match crate::sys::fork()? {
        Fork::Child => {
            crate::attempt::pause(2000);
            exit_now(0)
        }
        Fork::Parent(pid) => {
            let answer = trace::attach_and_detach(pid);
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
            rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).ok();
            answer?;
            worked("attached to its child")
        }
    }
}

/// Number 20 is getpid in the 32-bit table, and writev in the 64-bit one.
#[cfg(target_arch = "x86_64")]
fn ia32(_: &Stage) -> Attempt {
    let answer = crate::sys::foreign::ia32(20, 0);
    if answer == rustix::process::getpid().as_raw_nonzero().get() {
        return worked("getpid by its 32-bit number");
    }
    refused(
        &crate::errno::name(answer.saturating_neg()),
        "the kernel has no 32-bit calls",
    )
}

/// Number 102 is socketcall; with a call number of 0 and no arguments it can only refuse.
#[cfg(target_arch = "x86_64")]
fn ia32_socketcall(_: &Stage) -> Attempt {
    foreign_answer(crate::sys::foreign::ia32(102, 0), &[EINVAL, EFAULT])
}

/// Number 310 is unshare.
#[cfg(target_arch = "x86_64")]
fn ia32_unshare(_: &Stage) -> Attempt {
    foreign_answer(
        crate::sys::foreign::ia32(310, libc::CLONE_NEWUSER.cast_unsigned()),
        &[],
    )
}

#[cfg(target_arch = "x86_64")]
fn foreign_answer(answer: i32, reaching: &[i32]) -> Attempt {
    let error = answer.saturating_neg();
    if answer >= 0 || reaching.contains(&error) {
        return worked("reached by its 32-bit number");
    }
    refused(&crate::errno::name(error), "by its 32-bit number")
}

#[cfg(target_arch = "x86_64")]
fn x32(_: &Stage) -> Attempt {
    crate::sys::foreign::x32_getpid()?;
    worked("getpid by its x32 number")
}

#[cfg(not(target_arch = "x86_64"))]
fn ia32(_: &Stage) -> Attempt {
    refused("ENOSYS", "not on this architecture")
}

#[cfg(not(target_arch = "x86_64"))]
use ia32 as ia32_socketcall;
#[cfg(not(target_arch = "x86_64"))]
use ia32 as ia32_unshare;
#[cfg(not(target_arch = "x86_64"))]
use ia32 as io_privilege;
#[cfg(not(target_arch = "x86_64"))]
use ia32 as local_descriptors;
#[cfg(not(target_arch = "x86_64"))]
use ia32 as x32;

/// Only refusals for lack of power count; every one of these needs it before its arguments.
fn modules(_: &Stage) -> Attempt {
    // A flag that no version knows makes kexec_load refuse before it does anything.
    for (call, arguments) in [
        (Call::InitModule, [0; 6]),
        (Call::DeleteModule, [0; 6]),
        (Call::KexecLoad, [0, 0, 0, 0x4000, 0, 0]),
    ] {
        let answer = reached(
            call,
            arguments,
            &[EFAULT, EINVAL, libc::ENOEXEC, libc::ENOENT],
        );
        if answer.is_ok() {
            return worked(format!("{call:?} was reached"));
        }
    }
    refused("EPERM", "none was reached")
}

fn personality(_: &Stage) -> Attempt {
    const ADDR_NO_RANDOMIZE: libc::c_ulong = 0x0004_0000;
    surface::personality(ADDR_NO_RANDOMIZE)?;
    worked("set for itself")
}

fn kernel_log(_: &Stage) -> Attempt {
    surface::read_kernel_log()?;
    worked("read")
}

fn fanotify(_: &Stage) -> Attempt {
    // FAN_REPORT_FID (0x200) is what ordinary users need (fanotify_init(2)).
    numeric_descriptor(Call::FanotifyInit, [0x200, 0, 0, 0, 0, 0])?;
    worked("created")
}

/// Sets the name that the host has, so nothing changes.
fn host_name(stage: &Stage) -> Attempt {
    sethostname(uname().nodename().to_bytes())?;
    if in_host_namespace(stage, "uts") {
        worked("set")
    } else {
        refused("EPERM", "in a namespace of its own")
    }
}

fn domain_name(stage: &Stage) -> Attempt {
    if !in_host_namespace(stage, "uts") {
        return refused("EPERM", "in a namespace of its own");
    }
    reached(Call::Setdomainname, [0, 65, 0, 0, 0, 0], &[EFAULT, EINVAL])
}

#[cfg(target_arch = "x86_64")]
fn local_descriptors(_: &Stage) -> Attempt {
    surface::read_local_descriptors()?;
    worked("read")
}

fn seccomp_listener(_: &Stage) -> Attempt {
    surface::seccomp_listener()?;
    worked("installed")
}

#[cfg(target_arch = "x86_64")]
fn io_privilege(_: &Stage) -> Attempt {
    surface::raise_io_privilege()?;
    worked("granted")
}

/// With neither time nor zone the call only looks at the caller's powers.
fn set_time(_: &Stage) -> Attempt {
    reached(Call::Settimeofday, [0; 6], &[])
}

/// Clock 0 with no time: the pointer is looked at before the powers, so this says only that
/// the call is there.
fn clock(_: &Stage) -> Attempt {
    reached(Call::ClockSettime, [0; 6], &[EFAULT])
}

/// Without the magic numbers the call refuses after it has looked at the caller's powers.
fn reboot(_: &Stage) -> Attempt {
    reached(Call::Reboot, [0; 6], &[EINVAL])
}

fn swap(_: &Stage) -> Attempt {
    reached(Call::Swapon, [0; 6], &[EFAULT])
}

fn accounting(_: &Stage) -> Attempt {
    // A null name would turn accounting off, so it is an address that nothing lies at.
    reached(Call::Acct, [1, 0, 0, 0, 0, 0], &[EFAULT])
}

fn quota(_: &Stage) -> Attempt {
    reached(
        Call::Quotactl,
        [0, 1, 0, 0, 0, 0],
        &[EFAULT, EINVAL, libc::ENODEV, libc::ENOENT],
    )
}

fn name_to_handle(_: &Stage) -> Attempt {
    reached(Call::NameToHandle, [0; 6], &[EFAULT, EINVAL])
}

fn landlock_stack(_: &Stage) -> Attempt {
    let mut count = 0_u32;
    let last = loop {
        match surface::stack_landlock_domain() {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
    };
    if count == 0 {
        return Err(last.into());
    }
    worked(format!("{count} domains, then: {last}"))
}

fn migrate_pages(stage: &Stage) -> Attempt {
    let Ok(pid) = u16::try_from(victim(stage)?.as_raw_nonzero().get()) else {
        return refused("ESRCH", "the number is too large for this probe");
    };
    reached(Call::MigratePages, [pid, 0, 0, 0, 0, 0], &[EINVAL, EFAULT])
}

fn process_madvise(_: &Stage) -> Attempt {
    reached(
        Call::ProcessMadvise,
        [0xffff, 0, 0, 0, 0, 0],
        &[libc::EBADF, EINVAL],
    )
}

fn secret_memory(_: &Stage) -> Attempt {
    numeric_descriptor(Call::MemfdSecret, [0; 6])?;
    worked("made")
}

fn ring_bare(_: &Stage) -> Attempt {
    reached(Call::IoUringSetup, [1, 0, 0, 0, 0, 0], &[EFAULT, EINVAL])
}
