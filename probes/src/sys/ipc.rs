//! System V shared memory, POSIX message queues and the kernel's keyrings.

use std::ffi::CStr;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use super::check;

/// Bytes of the shared segment that a stage makes.
pub(crate) const SEGMENT_BYTES: usize = 4096;

/// Makes a segment under `key`, shmget(2), holding `text`. Returns its id.
pub(crate) fn create_segment(key: i32, text: &[u8]) -> io::Result<i32> {
    // SAFETY: shmget takes integers and touches no memory.
    let id = unsafe { libc::shmget(key, SEGMENT_BYTES, libc::IPC_CREAT | libc::IPC_EXCL | 0o600) };
    check(id.into())?;
    let start = attach(id, 0)?;
    let length = text.len().min(SEGMENT_BYTES);
    // SAFETY: `start` is a writable segment of SEGMENT_BYTES, `length` is no more than that
    // and no more than `text`; a fresh mapping does not overlap `text`.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), start, length) };
    detach(start);
    Ok(id)
}

/// The bytes of the segment under `key`.
pub(crate) fn read_segment(key: i32) -> io::Result<Vec<u8>> {
    // SAFETY: shmget takes integers and touches no memory.
    let id = unsafe { libc::shmget(key, SEGMENT_BYTES, 0) };
    check(id.into())?;
    let start = attach(id, libc::SHM_RDONLY)?;
    let mut copy = vec![0_u8; SEGMENT_BYTES];
    // SAFETY: shmget has checked that the segment has SEGMENT_BYTES, and `copy` has as many;
    // a fresh mapping does not overlap it.
    unsafe { std::ptr::copy_nonoverlapping(start, copy.as_mut_ptr(), SEGMENT_BYTES) };
    detach(start);
    Ok(copy)
}

/// Removes a segment.
pub(crate) fn remove_segment(id: i32) -> io::Result<()> {
    // SAFETY: IPC_RMID ignores the buffer, which may be null.
    check(unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) }.into())?;
    Ok(())
}

fn attach(id: i32, flags: i32) -> io::Result<*mut u8> {
    // SAFETY: a null address lets the kernel choose, so no existing mapping is replaced.
    let start = unsafe { libc::shmat(id, std::ptr::null(), flags) };
    if start.addr() == usize::MAX {
        Err(io::Error::last_os_error())
    } else {
        Ok(start.cast())
    }
}

fn detach(start: *mut u8) {
    // SAFETY: `start` came from `attach` and is not used afterwards.
    unsafe { libc::shmdt(start.cast()) };
}

/// Opens the message queue `name` (without the leading slash), `mq_open(2)`.
pub(crate) fn open_queue(name: &CStr, create: bool) -> io::Result<OwnedFd> {
    let flags = libc::O_RDWR
        | if create {
            libc::O_CREAT | libc::O_EXCL
        } else {
            0
        };
    // SAFETY: `name` ends in NUL; a null attribute pointer asks for the defaults.
    let answer = unsafe { libc::syscall(libc::SYS_mq_open, name.as_ptr(), flags, 0o600, 0) };
    let number = i32::try_from(check(answer)?).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor, and nothing else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Removes the message queue `name`, `mq_unlink(2)`.
pub(crate) fn remove_queue(name: &CStr) -> io::Result<()> {
    // SAFETY: `name` ends in NUL and is only read.
    check(unsafe { libc::syscall(libc::SYS_mq_unlink, name.as_ptr()) })?;
    Ok(())
}

/// A keyring that every process names by a fixed number, keyrings(7).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keyring {
    /// The keyring of this process alone.
    Process,
    /// The keyring of the user id.
    User,
}

impl Keyring {
    fn serial(self) -> libc::c_long {
        match self {
            Self::Process => -2,
            Self::User => -4,
        }
    }
}

/// Adds a key of type `user`, `add_key(2)`, and returns its serial number.
pub(crate) fn add_key(
    description: &CStr,
    payload: &[u8],
    ring: Keyring,
) -> io::Result<libc::c_long> {
    // SAFETY: both strings end in NUL; `payload` is read for as many bytes as it has.
    check(unsafe {
        libc::syscall(
            libc::SYS_add_key,
            c"user".as_ptr(),
            description.as_ptr(),
            payload.as_ptr(),
            payload.len(),
            ring.serial(),
        )
    })
}

/// Lets everybody of the owner's user id do everything with a key, `KEYCTL_SETPERM`.
pub(crate) fn open_key(serial: libc::c_long) -> io::Result<()> {
    const SETPERM: libc::c_long = 5;
    const POSSESSOR_AND_USER_ALL: libc::c_long = 0x3f3f_0000;
    // SAFETY: KEYCTL_SETPERM takes integers and touches no memory.
    check(unsafe { libc::syscall(libc::SYS_keyctl, SETPERM, serial, POSSESSOR_AND_USER_ALL) })?;
    Ok(())
}

/// Finds a key of type `user` in the user's keyring, `KEYCTL_SEARCH`.
pub(crate) fn search_key(description: &CStr) -> io::Result<libc::c_long> {
    const SEARCH: libc::c_long = 10;
    // SAFETY: both strings end in NUL and are only read; the other arguments are integers.
    check(unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            SEARCH,
            Keyring::User.serial(),
            c"user".as_ptr(),
            description.as_ptr(),
            0,
        )
    })
}

/// The payload of a key, `KEYCTL_READ`.
pub(crate) fn read_key(serial: libc::c_long) -> io::Result<Vec<u8>> {
    const READ: libc::c_long = 11;
    let mut buffer = vec![0_u8; 256];
    // SAFETY: the kernel writes at most as many bytes as it is told `buffer` has.
    let length = check(unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            READ,
            serial,
            buffer.as_mut_ptr(),
            buffer.len(),
        )
    })?;
    buffer.truncate(usize::try_from(length).unwrap_or(0));
    Ok(buffer)
}

/// Takes a key out of the user's keyring, `KEYCTL_UNLINK`.
pub(crate) fn unlink_key(serial: libc::c_long, ring: Keyring) -> io::Result<()> {
    const UNLINK: libc::c_long = 9;
    // SAFETY: KEYCTL_UNLINK takes integers and touches no memory.
    check(unsafe { libc::syscall(libc::SYS_keyctl, UNLINK, serial, ring.serial()) })?;
    Ok(())
}

/// Starts an anonymous session keyring, `KEYCTL_JOIN_SESSION_KEYRING`.
pub(crate) fn join_session_keyring() -> io::Result<()> {
    const JOIN_SESSION: libc::c_long = 1;
    // SAFETY: a null name asks for an anonymous keyring; nothing is read or written.
    check(unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION, 0) })?;
    Ok(())
}
