//! Making processes, and turning one into another program.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::process::Pid;

use super::check;

/// Which side of a fork this is.
#[derive(Debug)]
pub(crate) enum Fork {
    /// The new process.
    Child,
    /// The old one, with the new one's id in this PID namespace and a descriptor for it.
    Parent {
        /// Id of the child.
        pid: Pid,
        /// Descriptor of the child, closed on exec.
        pidfd: OwnedFd,
    },
}

/// Threads of the calling process: the link count of its task folder, less two, proc(5).
pub(crate) fn threads() -> io::Result<u64> {
    let task = rustix::fs::statx(
        rustix::fs::CWD,
        "/proc/self/task",
        rustix::fs::AtFlags::empty(),
        rustix::fs::StatxFlags::NLINK,
    )?;
    Ok(u64::from(task.stx_nlink).saturating_sub(2).max(1))
}

/// Forks into the new namespaces of `flags` (`CLONE_NEW*`).
///
/// # Errors
///
/// The kernel's, and `EBUSY` when this process has more than one thread.
pub(crate) fn clone3(flags: u64) -> io::Result<Fork> {
    if threads()? != 1 {
        return Err(io::Error::from_raw_os_error(libc::EBUSY));
    }
    let mut pidfd: RawFd = -1;
    let clone_pidfd = u64::try_from(libc::CLONE_PIDFD).unwrap_or_default();
    let arguments = libc::clone_args {
        flags: flags | clone_pidfd,
        pidfd: (&raw mut pidfd).expose_provenance() as u64,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: u64::try_from(libc::SIGCHLD).unwrap_or_default(),
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: 0,
    };
    // SAFETY: without CLONE_VM the child gets a copy of this memory and stack, so a zero
    // stack is right, and no lock is held in the copy because this process has one thread
    // (checked above). `pidfd` outlives the call; the size is that of the structure.
    let result = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw const arguments,
            size_of::<libc::clone_args>(),
        )
    };
    let result = match check(result) {
        // Container runtimes refuse clone3, whose flags their filters cannot see.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            clone(flags | clone_pidfd, &mut pidfd)
        }
        other => other,
    };
    match result? {
        0 => Ok(Fork::Child),
        child => {
            // SAFETY: the kernel stored a descriptor that it just opened for us alone.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            let pid = i32::try_from(child)
                .ok()
                .and_then(Pid::from_raw)
                .ok_or_else(|| io::Error::from_raw_os_error(libc::ECHILD))?;
            Ok(Fork::Parent { pid, pidfd })
        }
    }
}

/// The older call of the same meaning, clone(2).
fn clone(flags: u64, pidfd: &mut RawFd) -> io::Result<libc::c_long> {
    let signal = u64::try_from(libc::SIGCHLD).unwrap_or_default();
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: without CLONE_VM the child gets a copy of this memory and stack, so a zero stack
    // is right; the caller checked that there is one thread. With CLONE_PIDFD the kernel writes
    // one descriptor to the third argument, which outlives the call; the other two, in either
    // order of the architectures, are unused without their flags.
    let result = unsafe {
        libc::syscall(
            libc::SYS_clone,
            flags | signal,
            none,
            &raw mut *pidfd,
            none,
            none,
        )
    };
    check(result)
}

/// Forks as fork(2) does: the only form that the sandbox's own filter lets through.
///
/// Returns `None` in the child.
///
/// # Errors
///
/// The kernel's, and `EBUSY` when this process has more than one thread.
pub(crate) fn fork() -> io::Result<Option<Pid>> {
    if threads()? != 1 {
        return Err(io::Error::from_raw_os_error(libc::EBUSY));
    }
    // SAFETY: this process has one thread (checked above), so the child may do anything.
    let result = unsafe { libc::fork() };
    check(result.into())?;
    Ok(Pid::from_raw(result))
}

/// Becomes `program`; returns only the error if it cannot.
pub(crate) fn execve(program: &CStr, arguments: &[CString], variables: &[CString]) -> io::Error {
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings
            .iter()
            .map(|it| it.as_ptr())
            .chain([std::ptr::null()])
            .collect()
    };
    let (arguments, variables) = (pointers(arguments), pointers(variables));
    // SAFETY: `program` is NUL-terminated; both arrays end with a null pointer and hold
    // pointers to NUL-terminated strings that live in the caller's slices.
    unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), variables.as_ptr()) };
    io::Error::last_os_error()
}

/// Ends the process at once, without running what was registered to run at exit.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: `_exit` has no precondition.
    unsafe { libc::_exit(code) }
}

/// Gives the process a new, empty session keyring, keyctl(2).
pub(crate) fn new_session_keyring() -> io::Result<()> {
    const JOIN_SESSION_KEYRING: libc::c_int = 1;
    // SAFETY: a null name asks for an anonymous keyring; no memory is read.
    let result = unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            JOIN_SESSION_KEYRING,
            std::ptr::null::<libc::c_char>(),
        )
    };
    check(result).map(drop)
}

/// Blocks every signal and returns a descriptor that reads the `SIGCHLD`s, signalfd(2).
pub(crate) fn block_all_and_watch_children() -> io::Result<OwnedFd> {
    let mut all = empty_set();
    // SAFETY: `all` is a valid set.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: `all` is a valid set; a null pointer says that the old mask is not wanted.
    let result =
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut()) };
    check(result.into())?;
    let mut child = empty_set();
    // SAFETY: `child` is a valid set and SIGCHLD a valid signal.
    unsafe { libc::sigaddset(&raw mut child, libc::SIGCHLD) };
    let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
    // SAFETY: -1 asks for a new descriptor; `child` is a valid set that outlives the call.
    let result = unsafe { libc::signalfd(-1, &raw const child, flags) };
    check(result.into())?;
    // SAFETY: the kernel just opened this descriptor for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(result) })
}

/// Unblocks every signal and gives each its default action, as a new program expects.
pub(crate) fn reset_signals() -> io::Result<()> {
    for signal in 1..=64 {
        // SAFETY: SIG_DFL is a valid action. For signals whose action cannot change, or that
        // the C library keeps, the call fails and nothing happens.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let none = empty_set();
    // SAFETY: `none` is a valid set; a null pointer says that the old mask is not wanted.
    let result =
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) };
    check(result.into()).map(drop)
}

fn empty_set() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the pointer is to memory of the right size, which the call initialises.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: `sigemptyset` initialised it.
    unsafe { set.assume_init() }
}

/// Closes every descriptor that is not in `keep`.
pub(crate) fn close_except(keep: &[RawFd]) -> io::Result<()> {
    let mut keep: Vec<u32> = keep
        .iter()
        .filter_map(|it| u32::try_from(*it).ok())
        .collect();
    keep.sort_unstable();
    let mut first = 0;
    for fd in keep {
        if fd > first {
            close_range(first, fd - 1)?;
        }
        first = fd + 1;
    }
    close_range(first, u32::MAX)
}

fn close_range(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: the call takes integers. The caller is a forked child that uses none of the
    // descriptors that Rust values of its parent still name, and that never drops those.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0_u32) };
    check(result).map(drop)
}

/// What ended children used: user and system microseconds, and the largest resident set in KiB.
pub(crate) fn usage_of_children() -> io::Result<(u64, u64, u64)> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to memory of the right size; the call writes one `rusage`.
    let result = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) };
    check(result.into())?;
    // SAFETY: the call succeeded, and the memory was zeroed before, which is a valid value.
    let usage = unsafe { usage.assume_init() };
    let micros = |it: libc::timeval| {
        let seconds = u64::try_from(it.tv_sec).unwrap_or_default();
        seconds * 1_000_000 + u64::try_from(it.tv_usec).unwrap_or_default()
    };
    let resident = u64::try_from(usage.ru_maxrss).unwrap_or_default();
    Ok((micros(usage.ru_utime), micros(usage.ru_stime), resident))
}

/// Takes over a descriptor that this process inherited, once it is known to be open.
pub(crate) fn take_descriptor(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_SETFD with an integer reads no memory; on a closed number it fails.
    let result = unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    check(result.into())?;
    // SAFETY: the descriptor is open (the call above succeeded). It was inherited for this
    // purpose, so nothing else in this process owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Sends a signal to every process that this one may signal, kill(2) with -1.
///
/// Only init of a PID namespace may call it: there it reaches the sandbox alone.
pub(crate) fn signal_everyone(number: i32) {
    if rustix::process::getpid() != Pid::INIT {
        return;
    }
    // SAFETY: `kill` takes integers. That nothing was there to signal is no error for us.
    unsafe { libc::kill(-1, number) };
}

/// Moves this process into a new user namespace, unshare(2).
pub(crate) fn enter_new_user_namespace() -> io::Result<()> {
    // SAFETY: `unshare` is unsafe because other threads may not expect what they share to
    // change (CLONE_FILES); a user namespace shares no memory and no descriptors.
    Ok(unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWUSER) }?)
}

/// Moves this process into a new, empty network namespace, unshare(2).
pub(crate) fn enter_new_network_namespace() -> io::Result<()> {
    // SAFETY: `unshare` is unsafe because other threads may not expect what they share to
    // change (CLONE_FILES); a network namespace shares no memory and no descriptors.
    Ok(unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }?)
}

/// Makes `descriptor` appear as `number` in the program that this process becomes.
pub(crate) fn inherit_as(descriptor: BorrowedFd<'_>, number: RawFd) -> io::Result<()> {
    if descriptor.as_raw_fd() == number {
        // SAFETY: F_SETFD with an integer reads no memory; the descriptor is open.
        let result = unsafe { libc::fcntl(number, libc::F_SETFD, 0) };
        return check(result.into()).map(drop);
    }
    // SAFETY: `dup2` takes integers. What was open as `number` is closed under its owner,
    // which the caller, a forked child about to exec, never uses again.
    let result = unsafe { libc::dup2(descriptor.as_raw_fd(), number) };
    check(result.into()).map(drop)
}
