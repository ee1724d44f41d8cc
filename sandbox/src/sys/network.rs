//! Bringing up the loopback device of a new network namespace, netdevice(7).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::check;

/// Sets `IFF_UP` on `lo` in the network namespace of `socket`.
pub(crate) fn raise_loopback(socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut name = [0; libc::IFNAMSIZ];
    for (slot, byte) in name.iter_mut().zip(*b"lo") {
        *slot = libc::c_char::from_ne_bytes([byte]);
    }
    let flags = libc::IFF_UP | libc::IFF_RUNNING;
    let request = libc::ifreq {
        ifr_name: name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_flags: libc::c_short::try_from(flags).unwrap_or_default(),
        },
    };
    // SAFETY: SIOCSIFFLAGS reads one `ifreq`, which `request` is; it lives until the call
    // returns, and its name is NUL-terminated because the array is longer than `lo`.
    let result = unsafe {
        libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCSIFFLAGS as libc::Ioctl,
            &raw const request,
        )
    };
    check(result.into()).map(drop)
}
