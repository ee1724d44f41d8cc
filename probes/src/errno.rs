//! Names kernel error numbers and signals, as errno(3) and signal(7) do.

/// The name of an error number, or `E` and the number where it has none here.
pub(crate) fn name(number: i32) -> String {
    let known = [
        (libc::E2BIG, "E2BIG"),
        (libc::EACCES, "EACCES"),
        (libc::EADDRINUSE, "EADDRINUSE"),
        (libc::EADDRNOTAVAIL, "EADDRNOTAVAIL"),
        (libc::EAFNOSUPPORT, "EAFNOSUPPORT"),
        (libc::EAGAIN, "EAGAIN"),
        (libc::EBADF, "EBADF"),
        (libc::EBUSY, "EBUSY"),
        (libc::ECONNREFUSED, "ECONNREFUSED"),
        (libc::ECONNRESET, "ECONNRESET"),
        (libc::EDQUOT, "EDQUOT"),
        (libc::EEXIST, "EEXIST"),
        (libc::EFAULT, "EFAULT"),
        (libc::EFBIG, "EFBIG"),
        (libc::EHOSTUNREACH, "EHOSTUNREACH"),
        (libc::EINVAL, "EINVAL"),
        (libc::EIO, "EIO"),
        (libc::EISDIR, "EISDIR"),
        (libc::ELOOP, "ELOOP"),
        (libc::EMFILE, "EMFILE"),
        (libc::ENETDOWN, "ENETDOWN"),
        (libc::ENETUNREACH, "ENETUNREACH"),
        (libc::ENODEV, "ENODEV"),
        (libc::ENODATA, "ENODATA"),
        (libc::ENOENT, "ENOENT"),
        (libc::ENOKEY, "ENOKEY"),
        (libc::ENOMEM, "ENOMEM"),
        (libc::ENOPROTOOPT, "ENOPROTOOPT"),
        (libc::ENOSPC, "ENOSPC"),
        (libc::ENOSYS, "ENOSYS"),
        (libc::ENOTDIR, "ENOTDIR"),
        (libc::ENOTEMPTY, "ENOTEMPTY"),
        (libc::ENOTSUP, "ENOTSUP"),
        (libc::ENOTTY, "ENOTTY"),
        (libc::ENXIO, "ENXIO"),
        (libc::EPERM, "EPERM"),
        (libc::EPIPE, "EPIPE"),
        (libc::EPROTONOSUPPORT, "EPROTONOSUPPORT"),
        (libc::EROFS, "EROFS"),
        (libc::ESOCKTNOSUPPORT, "ESOCKTNOSUPPORT"),
        (libc::ESRCH, "ESRCH"),
        (libc::ETIMEDOUT, "ETIMEDOUT"),
        (libc::ETXTBSY, "ETXTBSY"),
        (libc::EUSERS, "EUSERS"),
        (libc::EXDEV, "EXDEV"),
    ];
    find(&known, number).unwrap_or_else(|| format!("E{number}"))
}

/// The name of a signal, or `SIG` and the number where it has none here.
pub(crate) fn signal(number: i32) -> String {
    let known = [
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGSYS, "SIGSYS"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGXCPU, "SIGXCPU"),
        (libc::SIGXFSZ, "SIGXFSZ"),
    ];
    find(&known, number).unwrap_or_else(|| format!("SIG{number}"))
}

fn find(known: &[(i32, &str)], number: i32) -> Option<String> {
    known
        .iter()
        .find(|(it, _)| *it == number)
        .map(|(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_manual_names_and_unknown_ones_keep_the_number() {
        assert_eq!(name(libc::EROFS), "EROFS");
        assert_eq!(name(9999), "E9999");
        assert_eq!(signal(libc::SIGSYS), "SIGSYS");
        assert_eq!(signal(99), "SIG99");
    }
}
