//! Signals as data: a mask that holds them back and a descriptor that yields them.
//!
//! # Invariants
//!
//! - **The mask is the calling thread's** (pthread_sigmask(3)). Block before the first thread
//!   is started, or the kernel hands the signal to one that does not block it.
//! - **No handler is ever installed.** Nothing runs asynchronously.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::ptr;

use rustix::process::Signal;

/// A set of signals, as sigsetops(3) knows them.
#[derive(Clone, Copy)]
pub struct SignalSet(libc::sigset_t);

impl SignalSet {
    /// The set with nothing in it.
    pub fn empty() -> Self {
        let mut set = MaybeUninit::uninit();
        // SAFETY: `sigemptyset` writes a whole `sigset_t` through a pointer that must be
        // valid for writes of one; `set` is a local of that type.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        // SAFETY: the set was initialised right above, and `sigemptyset` cannot fail on a
        // valid pointer.
        Self(unsafe { set.assume_init() })
    }

    /// Adds `signal`.
    #[must_use]
    pub fn with(mut self, signal: Signal) -> Self {
        // SAFETY: the pointer is to an initialised set that this value owns. A number that
        // is no signal would be refused with EINVAL; a `Signal` is always one.
        unsafe { libc::sigaddset(&raw mut self.0, signal.as_raw()) };
        self
    }

    /// Whether `signal` is in the set.
    pub fn contains(&self, signal: Signal) -> bool {
        // SAFETY: the pointer is to an initialised set, and the callee only reads it.
        unsafe { libc::sigismember(&raw const self.0, signal.as_raw()) == 1 }
    }
}

impl FromIterator<Signal> for SignalSet {
    fn from_iter<I: IntoIterator<Item = Signal>>(signals: I) -> Self {
        signals.into_iter().fold(Self::empty(), Self::with)
    }
}

impl std::fmt::Debug for SignalSet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let members = (1..=libc::SIGSYS)
            .filter_map(Signal::from_named_raw)
            .filter(|signal| self.contains(*signal));
        formatter.debug_set().entries(members).finish()
    }
}

/// Adds `set` to what the calling thread holds back, and returns the mask from before.
///
/// # Errors
///
/// The kernel's; pthread_sigmask(3) names none that valid arguments can meet.
pub fn block(set: &SignalSet) -> io::Result<SignalSet> {
    change_mask(libc::SIG_BLOCK, set)
}

/// Makes `mask`, as [`block`] returned it, the calling thread's mask again.
///
/// # Errors
///
/// As for [`block`].
pub fn restore(mask: &SignalSet) -> io::Result<()> {
    change_mask(libc::SIG_SETMASK, mask).map(drop)
}

fn change_mask(how: libc::c_int, set: &SignalSet) -> io::Result<SignalSet> {
    let mut previous = SignalSet::empty();
    // SAFETY: both pointers are to initialised sets that outlive the call: `set` is only
    // read, `previous` is a local that is only written.
    let rc = unsafe { libc::pthread_sigmask(how, &raw const set.0, &raw mut previous.0) };
    // pthread functions return the error instead of setting errno.
    if rc == 0 {
        Ok(previous)
    } else {
        Err(io::Error::from_raw_os_error(rc))
    }
}

/// Opens a descriptor that becomes readable when a signal of `set` is pending (signalfd(2)).
///
/// It is close-on-exec and never waits. The signals must be blocked, or they are delivered
/// instead.
///
/// # Errors
///
/// EMFILE, ENFILE, ENODEV or ENOMEM.
pub fn signalfd(set: &SignalSet) -> io::Result<OwnedFd> {
    let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
    // SAFETY: the set is initialised and only read; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &raw const set.0, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned `fd` as a new descriptor, so it is open and
    // nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes the next pending signal from a descriptor of [`signalfd`], or `None` if none is.
///
/// A signal without a name (a real-time one) can only come from a set that this module
/// cannot express; it is skipped.
///
/// # Errors
///
/// The kernel's, and `InvalidData` if `fd` is no signalfd.
pub fn read_signal(fd: impl AsFd) -> io::Result<Option<Signal>> {
    /// The size of `signalfd_siginfo`, fixed by the kernel's interface.
    const RECORD: usize = size_of::<libc::signalfd_siginfo>();
    let mut record = [0; RECORD];
    loop {
        let length = match rustix::io::read(fd.as_fd(), &mut record) {
            Ok(length) => length,
            Err(rustix::io::Errno::AGAIN) => return Ok(None),
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        // `ssi_signo` is the record's first field, 32 bits wide (signalfd(2)).
        let Some((number, _)) = record.split_first_chunk().filter(|_| length == RECORD) else {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        };
        let signal = i32::from_ne_bytes(*number);
        if let Some(signal) = Signal::from_named_raw(signal) {
            return Ok(Some(signal));
        }
    }
}

/// Whether the process ignores `signal`, for example because `nohup` started it.
///
/// An ignored signal that is also *blocked* is queued all the same and a signalfd yields it,
/// so whoever blocks must leave the ignored ones out.
///
/// # Errors
///
/// EINVAL for a number that the C library keeps for itself.
pub fn is_ignored(signal: Signal) -> io::Result<bool> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: a null new action only queries; the old one is written through a pointer that
    // must be valid for writes of a `sigaction`, which the local is.
    let rc = unsafe { libc::sigaction(signal.as_raw(), ptr::null(), action.as_mut_ptr()) };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it has written the whole structure.
    let action = unsafe { action.assume_init() };
    Ok(action.sa_sigaction == libc::SIG_IGN)
}

/// Gives SIGCHLD its default effect again.
///
/// Where a parent has left it ignored, children are reaped unseen and waitid(2) fails with
/// ECHILD.
///
/// # Errors
///
/// The kernel's; sigaction(2) names none that applies.
pub fn reset_child_signal() -> io::Result<()> {
    // SAFETY: SIG_DFL is no function of ours, so no handler's obligations arise; SIGCHLD is
    // a signal that may be changed.
    let previous = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    if previous == libc::SIG_ERR {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Sends `signal` to the calling thread (raise(3)).
///
/// With [`Signal::STOP`] the process stops here until it is continued.
///
/// # Errors
///
/// The kernel's; raise(3) names none that a valid signal can meet.
pub fn raise(signal: Signal) -> io::Result<()> {
    // SAFETY: `raise` takes a number and reads no memory.
    let rc = unsafe { libc::raise(signal.as_raw()) };
    if rc == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `body` on a thread of its own: masks are the thread's.
    fn on_a_thread(body: impl FnOnce() + Send + 'static) {
        std::thread::spawn(body).join().unwrap();
    }

    #[test]
    fn a_set_holds_what_was_put_in_and_nothing_else() {
        let set: SignalSet = [Signal::TERM, Signal::WINCH].into_iter().collect();
        assert!(set.contains(Signal::TERM) && set.contains(Signal::WINCH));
        assert!(!set.contains(Signal::INT));
        assert_eq!(format!("{:?}", SignalSet::empty()), "{}");
    }

    #[test]
    fn a_blocked_signal_is_read_from_the_descriptor_once() {
        on_a_thread(|| {
            let set = SignalSet::empty().with(Signal::USR1).with(Signal::TERM);
            block(&set).unwrap();
            let fd = signalfd(&set).unwrap();
            let flags = rustix::io::fcntl_getfd(&fd).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
            assert_eq!(read_signal(&fd).unwrap(), None);
            raise(Signal::TERM).unwrap();
            assert_eq!(read_signal(&fd).unwrap(), Some(Signal::TERM));
            assert_eq!(read_signal(&fd).unwrap(), None);
        });
    }

    #[test]
    fn restore_puts_the_former_mask_back() {
        on_a_thread(|| {
            let before = block(&SignalSet::empty().with(Signal::USR2)).unwrap();
            assert!(!before.contains(Signal::USR2));
            assert!(block(&SignalSet::empty()).unwrap().contains(Signal::USR2));
            restore(&before).unwrap();
            assert!(!block(&SignalSet::empty()).unwrap().contains(Signal::USR2));
        });
    }

    #[test]
    fn something_that_is_no_signalfd_is_refused() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let error = read_signal(&file).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn the_rust_runtime_ignores_sigpipe_and_not_sigterm() {
        assert!(is_ignored(Signal::PIPE).unwrap());
        assert!(!is_ignored(Signal::TERM).unwrap());
    }

    #[test]
    fn the_child_signal_is_not_ignored_after_a_reset() {
        // SAFETY: SIG_IGN is no function of ours; no test of this crate relies on SIGCHLD.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
        assert!(is_ignored(Signal::CHILD).unwrap());
        reset_child_signal().unwrap();
        assert!(!is_ignored(Signal::CHILD).unwrap());
    }
}
