//! A minimal `io_uring`: one entry at a time, submitted and awaited.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::check;

const ENTRIES: u32 = 4;
/// One page holds the four submission entries and, in the other mapping, both small rings.
const PAGE: usize = 4096;
const OFFSET_SUBMISSION: i64 = 0;
const OFFSET_ENTRIES: i64 = 0x1000_0000;

/// The fields of `struct io_uring_params` that are needed, by their place in its 30 words.
struct Layout {
    submission_tail: u32,
    submission_mask: u32,
    submission_array: u32,
    completion_head: u32,
    completion_tail: u32,
    completion_mask: u32,
    completion_entries: u32,
}

/// One ring and its mappings, which live until the process ends.
pub(crate) struct Ring {
    fd: OwnedFd,
    rings: *mut u8,
    entries: *mut Entry,
    layout: Layout,
}

/// The part of `struct io_uring_sqe` that socket, connect and write use; 64 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    operation: u8,
    flags: u8,
    priority: u16,
    fd: i32,
    offset: u64,
    address: u64,
    length: u32,
    operation_flags: u32,
    rest: [u64; 4],
}

impl Ring {
    /// Sets up a ring, `io_uring_setup(2)`.
    pub(crate) fn new() -> io::Result<Self> {
        let mut parameters = [0_u32; 30];
        // SAFETY: `parameters` has the 120 bytes of an io_uring_params, all zero, as the call
        // demands; the kernel fills it.
        let answer =
            unsafe { libc::syscall(libc::SYS_io_uring_setup, ENTRIES, parameters.as_mut_ptr()) };
        let number = i32::try_from(check(answer)?).map_err(io::Error::other)?;
        // SAFETY: the kernel has just made this descriptor, and nothing else knows its number.
        let fd = unsafe { OwnedFd::from_raw_fd(number) };
        let word = |index: usize| parameters.get(index).copied().unwrap_or(0);
        let layout = Layout {
            submission_tail: word(11),
            submission_mask: word(12),
            submission_array: word(16),
            completion_head: word(20),
            completion_tail: word(21),
            completion_mask: word(22),
            completion_entries: word(25),
        };
        let rings = map(&fd, OFFSET_SUBMISSION)?;
        let entries = map(&fd, OFFSET_ENTRIES)?.cast();
        Ok(Self {
            fd,
            rings,
            entries,
            layout,
        })
    }

    /// `IORING_OP_SOCKET`: a stream socket of `family`; returns its number.
    pub(crate) fn socket(&mut self, family: i32) -> io::Result<i32> {
        let kind = u64::try_from(libc::SOCK_STREAM).unwrap_or(1);
        self.run(Entry {
            operation: 45,
            fd: family,
            offset: kind,
            ..Entry::default()
        })
    }

    /// `IORING_OP_CONNECT`: connects `socket` to a raw socket address.
    pub(crate) fn connect(&mut self, socket: i32, address: &[u8]) -> io::Result<i32> {
        let pointer = super::memory::address_of(address);
        self.run(Entry {
            operation: 16,
            fd: socket,
            offset: address.len() as u64,
            address: pointer,
            ..Entry::default()
        })
    }

    /// `IORING_OP_WRITE`: writes `bytes` to `socket`.
    pub(crate) fn write(&mut self, socket: i32, bytes: &[u8]) -> io::Result<i32> {
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        let pointer = super::memory::address_of(bytes);
        self.run(Entry {
            operation: 23,
            fd: socket,
            address: pointer,
            length,
            ..Entry::default()
        })
    }

    /// Submits one entry and waits for its completion, `io_uring_enter(2)`.
    fn run(&mut self, entry: Entry) -> io::Result<i32> {
        const GET_EVENTS: u32 = 1;
        // The sixth argument travels on the stack, so it must have a register's width.
        const NO_MASK: libc::c_long = 0;
        let tail = self
            .shared(self.layout.submission_tail)
            .load(Ordering::Acquire);
        let slot = tail
            & self
                .shared(self.layout.submission_mask)
                .load(Ordering::Relaxed);
        let place = self.entries.wrapping_add(slot as usize);
        // SAFETY: `slot` is masked by the ring's size, so `place` lies in the mapping of the
        // entries; one entry is in flight at a time, so the kernel is not reading it.
        unsafe { ptr::write_volatile(place, entry) };
        let array = self.layout.submission_array + slot * 4;
        self.shared(array).store(slot, Ordering::Relaxed);
        self.shared(self.layout.submission_tail)
            .store(tail.wrapping_add(1), Ordering::Release);
        let fd = self.fd.as_raw_fd();
        // SAFETY: the signal mask is null. What the entry points to is borrowed by the public
        // functions above until this call has returned with its completion.
        check(unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                fd,
                1,
                1,
                GET_EVENTS,
                NO_MASK,
                NO_MASK,
            )
        })?;
        let head = self
            .shared(self.layout.completion_head)
            .load(Ordering::Acquire);
        if head
            == self
                .shared(self.layout.completion_tail)
                .load(Ordering::Acquire)
        {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        let slot = head
            & self
                .shared(self.layout.completion_mask)
                .load(Ordering::Relaxed);
        // A completion has 16 bytes: user data (8), result (4), flags (4).
        let result = self
            .shared(self.layout.completion_entries + slot * 16 + 8)
            .load(Ordering::Relaxed);
        self.shared(self.layout.completion_head)
            .store(head.wrapping_add(1), Ordering::Release);
        let result = result.cast_signed();
        if result < 0 {
            Err(io::Error::from_raw_os_error(-result))
        } else {
            Ok(result)
        }
    }

    fn shared(&self, offset: u32) -> &AtomicU32 {
        let place = self.rings.wrapping_add(offset as usize).cast::<u32>();
        // SAFETY: the kernel gave `offset` as the place of a 32-bit word in this mapping, or
        // it is such a place plus a masked index; the mapping is never taken down, and the
        // kernel changes the word only atomically.
        unsafe { AtomicU32::from_ptr(place) }
    }
}

fn map(fd: &OwnedFd, offset: i64) -> io::Result<*mut u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a null address lets the kernel choose, so no existing mapping is replaced.
    let start = unsafe {
        libc::mmap(
            ptr::null_mut(),
            PAGE,
            protection,
            libc::MAP_SHARED,
            fd.as_raw_fd(),
            offset,
        )
    };
    if start == libc::MAP_FAILED {
        Err(io::Error::last_os_error())
    } else {
        Ok(start.cast())
    }
}
