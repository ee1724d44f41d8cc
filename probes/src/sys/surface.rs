//! System calls that take integers only, or are called so that the kernel finds no memory.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use libc::c_long;
use rustix::process::Pid;

use super::{Fork, check};

/// A call that is only asked whether it is there and permitted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Acct,
    ClockSettime,
    DeleteModule,
    FanotifyInit,
    FsmountBare,
    InitModule,
    IoUringSetup,
    KexecLoad,
    MemfdSecret,
    MigratePages,
    NameToHandle,
    OpenTreeBare,
    ProcessMadvise,
    Quotactl,
    Reboot,
    RequestKey,
    Setdomainname,
    Settimeofday,
    Swapon,
    Userfaultfd,
}

impl Call {
    fn number(self) -> c_long {
        match self {
            Self::Acct => libc::SYS_acct,
            Self::ClockSettime => libc::SYS_clock_settime,
            Self::DeleteModule => libc::SYS_delete_module,
            Self::FanotifyInit => libc::SYS_fanotify_init,
            Self::FsmountBare => libc::SYS_fsmount,
            Self::InitModule => libc::SYS_init_module,
            Self::IoUringSetup => libc::SYS_io_uring_setup,
            Self::KexecLoad => libc::SYS_kexec_load,
            Self::MemfdSecret => libc::SYS_memfd_secret,
            Self::MigratePages => libc::SYS_migrate_pages,
            Self::NameToHandle => libc::SYS_name_to_handle_at,
            Self::OpenTreeBare => libc::SYS_open_tree,
            Self::ProcessMadvise => libc::SYS_process_madvise,
            Self::Quotactl => libc::SYS_quotactl,
            Self::Reboot => libc::SYS_reboot,
            Self::RequestKey => libc::SYS_request_key,
            Self::Setdomainname => libc::SYS_setdomainname,
            Self::Settimeofday => libc::SYS_settimeofday,
            Self::Swapon => libc::SYS_swapon,
            Self::Userfaultfd => libc::SYS_userfaultfd,
        }
    }
}

/// Makes `call` with small integers. Where it takes a pointer, the kernel finds no memory there.
pub(crate) fn numeric(call: Call, arguments: [u16; 6]) -> io::Result<c_long> {
    let [a, b, c, d, e, f] = arguments.map(c_long::from);
    // SAFETY: no member of `Call` ends the process, closes or maps anything. Each argument is
    // below 65536, where Linux maps nothing unless root asks for it by address (mmap(2),
    // vm.mmap_min_addr) and this program does not: taken for a pointer it gives EFAULT.
    check(unsafe { libc::syscall(call.number(), a, b, c, d, e, f) })
}

/// As [`numeric`], for calls that return a new descriptor.
pub(crate) fn numeric_descriptor(call: Call, arguments: [u16; 6]) -> io::Result<OwnedFd> {
    let number = i32::try_from(numeric(call, arguments)?).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor, and nothing else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Leaves the namespaces in `flags` for new ones, unshare(2).
pub(crate) fn unshare(flags: i32) -> io::Result<()> {
    // SAFETY: unshare takes an integer. The flags used name namespaces; none makes threads
    // stop sharing memory or descriptors.
    check(unsafe { libc::unshare(flags) }.into())?;
    Ok(())
}

/// Joins the namespace that `fd` stands for, setns(2).
pub(crate) fn setns(fd: impl AsFd) -> io::Result<()> {
    // SAFETY: setns takes a descriptor and an integer and touches no memory of the process.
    check(unsafe { libc::setns(fd.as_fd().as_raw_fd(), 0) }.into())?;
    Ok(())
}

/// Makes a child in new namespaces by clone(2), sharing nothing, on a copy of this stack.
pub(crate) fn clone_into(flags: i32) -> io::Result<Fork> {
    let flags = c_long::from(flags | libc::SIGCHLD);
    // SAFETY: without CLONE_VM and with a null stack, clone is a fork: the child runs on its
    // own copy of this stack. The pointers for ids and thread storage are null and unused.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    forked(pid)
}

/// The same by clone3(2), where the flags lie behind a pointer.
pub(crate) fn clone3_into(flags: i32) -> io::Result<Fork> {
    let flags = u64::try_from(flags).map_err(io::Error::other)?;
    let signal = u64::try_from(libc::SIGCHLD).map_err(io::Error::other)?;
    // `struct clone_args` of clone3(2), first version: flags, pidfd, child_tid, parent_tid,
    // exit_signal, stack, stack_size, tls.
    let arguments: [u64; 8] = [flags, 0, 0, 0, signal, 0, 0, 0];
    // SAFETY: `arguments` is a valid clone_args of the size given and outlives the call. As
    // above, without CLONE_VM and with no stack this is a fork.
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            arguments.as_ptr(),
            size_of_val(&arguments),
        )
    };
    forked(pid)
}

fn forked(pid: c_long) -> io::Result<Fork> {
    let pid = i32::try_from(check(pid)?).map_err(io::Error::other)?;
    Ok(Pid::from_raw(pid).map_or(Fork::Child, Fork::Parent))
}

/// Sets the execution domain, personality(2), and returns the one before.
pub(crate) fn personality(persona: libc::c_ulong) -> io::Result<i32> {
    // SAFETY: personality takes an integer and touches no memory.
    let before = unsafe { libc::personality(persona) };
    check(before.into())?;
    Ok(before)
}

/// Asks for I/O privilege level 3, iopl(2), and gives it back.
#[cfg(target_arch = "x86_64")]
pub(crate) fn raise_io_privilege() -> io::Result<()> {
    // SAFETY: iopl takes an integer. A raised level permits port instructions, of which this
    // program has none.
    check(unsafe { libc::iopl(3) }.into())?;
    // SAFETY: as above; level 0 takes the permission back.
    check(unsafe { libc::iopl(0) }.into())?;
    Ok(())
}

/// Compares the file tables of two processes, kcmp(2) with `KCMP_FILES`.
pub(crate) fn compare_files(one: Pid, other: Pid) -> io::Result<()> {
    const KCMP_FILES: c_long = 2;
    let (one, other) = (one.as_raw_nonzero().get(), other.as_raw_nonzero().get());
    // SAFETY: kcmp with KCMP_FILES takes integers and touches no memory.
    check(unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_FILES, 0, 0) })?;
    Ok(())
}

/// Sets the I/O priority of a process to what best-effort processes have, `ioprio_set(2)`.
pub(crate) fn set_io_priority(pid: Pid) -> io::Result<()> {
    const WHO_PROCESS: c_long = 1;
    const BEST_EFFORT_4: c_long = (2 << 13) | 4;
    let pid = c_long::from(pid.as_raw_nonzero().get());
    // SAFETY: ioprio_set takes three integers and touches no memory.
    check(unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, pid, BEST_EFFORT_4) })?;
    Ok(())
}

/// Reads one byte of the kernel log, syslog(2) action 3 (`SYSLOG_ACTION_READ_ALL`).
pub(crate) fn read_kernel_log() -> io::Result<()> {
    let mut buffer = [0_u8; 16];
    // SAFETY: the kernel writes at most 15 bytes into `buffer`, which has 16.
    check(unsafe { libc::klogctl(3, buffer.as_mut_ptr().cast(), 15) }.into())?;
    Ok(())
}

/// Puts this thread under real-time scheduling, `sched_setscheduler(2)`, and takes it out again.
pub(crate) fn become_real_time() -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid `sched_param`, which holds integers only.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = 1;
    // SAFETY: pid 0 is this thread; `parameters` is valid and outlives the call, which only
    // reads it.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) }.into())?;
    parameters.sched_priority = 0;
    // SAFETY: as above.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const parameters) }.into())?;
    Ok(())
}

/// Stacks one more Landlock domain that handles one right and grants nothing of it.
pub(crate) fn stack_landlock_domain() -> io::Result<()> {
    // `struct landlock_ruleset_attr`, first version: handled_access_fs = MAKE_SYM.
    let attributes: [u64; 1] = [1 << 12];
    // SAFETY: `attributes` is a valid landlock_ruleset_attr of the size given; it is only read.
    let ruleset = check(unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            attributes.as_ptr(),
            size_of_val(&attributes),
            0,
        )
    })?;
    let number = i32::try_from(ruleset).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor, and nothing else knows its number.
    let ruleset = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::thread::set_no_new_privs(true)?;
    // SAFETY: landlock_restrict_self takes a descriptor and flags and touches no memory.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) })?;
    Ok(())
}

/// Installs a filter that allows everything and asks for its listener, seccomp(2).
pub(crate) fn seccomp_listener() -> io::Result<OwnedFd> {
    rustix::thread::set_no_new_privs(true)?;
    let mut program = [libc::sock_filter {
        code: 0x06,
        jt: 0,
        jf: 0,
        k: libc::SECCOMP_RET_ALLOW,
    }];
    let filter = libc::sock_fprog {
        len: 1,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: `filter` names one valid instruction ("return allow"), which outlives the call.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const filter,
        )
    };
    let number = i32::try_from(check(answer)?).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor, and nothing else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Makes a one-element BPF array map, bpf(2) `BPF_MAP_CREATE`.
pub(crate) fn create_bpf_map() -> io::Result<OwnedFd> {
    // `union bpf_attr` for BPF_MAP_CREATE: type array, key size 4, value size 8, one entry.
    let attributes: [u32; 18] = {
        let mut words = [0; 18];
        let [kind, key, value, entries, ..] = &mut words;
        (*kind, *key, *value, *entries) = (2, 4, 8, 1);
        words
    };
    bpf(0, &attributes)
}

/// Loads a socket filter of two instructions, bpf(2) `BPF_PROG_LOAD`.
pub(crate) fn load_bpf_program() -> io::Result<OwnedFd> {
    // `r0 = 0; exit`, each instruction eight bytes.
    let program: [u64; 2] = [0x0000_0000_0000_00b7, 0x0000_0000_0000_0095];
    let address = program.as_ptr().addr() as u64;
    let license = c"MIT".as_ptr().addr() as u64;
    let halves = |word: u64| [(word & 0xffff_ffff) as u32, (word >> 32) as u32];
    let [program_low, program_high] = halves(address);
    let [license_low, license_high] = halves(license);
    // `union bpf_attr` for BPF_PROG_LOAD: type socket filter, two instructions, both pointers.
    let mut attributes = [0_u32; 18];
    let [kind, count, first, second, third, fourth, ..] = &mut attributes;
    (*kind, *count) = (1, 2);
    (*first, *second, *third, *fourth) = (program_low, program_high, license_low, license_high);
    bpf(5, &attributes)
}

fn bpf(command: c_long, attributes: &[u32; 18]) -> io::Result<OwnedFd> {
    // SAFETY: `attributes` is a bpf_attr of the size given, zero where it is unused. The
    // pointers inside, if any, are to memory that the caller keeps alive over the call and
    // that the kernel only reads.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            attributes.as_ptr(),
            size_of_val(attributes),
        )
    };
    let number = i32::try_from(check(answer)?).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor, and nothing else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Counts this task's context switches in software, `perf_event_open(2)`.
pub(crate) fn perf_counter() -> io::Result<OwnedFd> {
    // `struct perf_event_attr`, first version (64 bytes): type software, size 64, config
    // task clock (1), and the bits exclude_kernel and exclude_hv in the flag word.
    let mut attributes = [0_u64; 8];
    let [kind_and_size, config, _, _, _, flags, ..] = &mut attributes;
    *kind_and_size = 1 | (64 << 32);
    *config = 1;
    *flags = (1 << 5) | (1 << 6);
    // SAFETY: `attributes` is a perf_event_attr of the size that it names itself; the kernel
    // may write its own size into that field on E2BIG, which stays inside the array.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_mut_ptr(),
            0,
            -1,
            -1,
            0,
        )
    };
    let number = i32::try_from(check(answer)?).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor, and nothing else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Reads the local descriptor table, `modify_ldt(2)` function 0.
#[cfg(target_arch = "x86_64")]
pub(crate) fn read_local_descriptors() -> io::Result<()> {
    let mut buffer = [0_u8; 64];
    // SAFETY: function 0 writes at most as many bytes as it is told `buffer` has.
    check(unsafe { libc::syscall(libc::SYS_modify_ldt, 0, buffer.as_mut_ptr(), buffer.len()) })?;
    Ok(())
}
