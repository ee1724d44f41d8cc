//! The services, sysctls, devices and system paths that a profile opens, each with its reason.
//!
//! Names are whole: no wildcard and no prefix, so that what is open can be read here. The names
//! are those that published profiles of other projects list; none was tried on a Mac by us.

/// Something that is open inside, and why.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) name: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "read by people, and by a test"))]
    pub(super) reason: &'static str,
}

const fn entry(name: &'static str, reason: &'static str) -> Entry {
    Entry { name, reason }
}

/// Mach services that can be looked up under every profile.
pub(super) const SERVICES: [Entry; 4] = [
    entry(
        "com.apple.bsd.dirhelper",
        "confstr(3) of the user's temporary and cache folder: clang, xcrun",
    ),
    entry(
        "com.apple.system.notification_center",
        "notify(3), by which libc learns that the time zone changed",
    ),
    entry(
        "com.apple.system.opendirectoryd.libinfo",
        "getpwuid(3) and getgrgid(3): shells, git, ssh, whoami",
    ),
    entry(
        "com.apple.system.opendirectoryd.membership",
        "getgrouplist(3): id, and access checks by group",
    ),
];

/// Mach services that can be looked up beside them where the host's network is granted.
pub(super) const NETWORK_SERVICES: [Entry; 3] = [
    entry(
        "com.apple.SystemConfiguration.DNSConfiguration",
        "which name servers to ask: libresolv, Go",
    ),
    entry(
        "com.apple.SystemConfiguration.configd",
        "proxies and interfaces: curl, Python",
    ),
    entry(
        "com.apple.trustd.agent",
        "certificate checks of Go and of Security.framework; it fetches revocation lists for \
         the caller, which adds nothing to an open network and would pierce a closed one",
    ),
];

/// Sysctls that can be read.
pub(super) const SYSCTLS: [Entry; 40] = [
    entry("hw.activecpu", "how many jobs to run: make, ninja"),
    entry("hw.byteorder", "uname-like queries of build scripts"),
    entry("hw.cachelinesize", "allocators, BLAS"),
    entry("hw.cpufamily", "CPU dispatch: OpenSSL, ring"),
    entry("hw.cpusubtype", "choice of the slice of a universal binary"),
    entry("hw.cputype", "choice of the slice of a universal binary"),
    entry("hw.l1dcachesize", "BLAS, JVM"),
    entry("hw.l1icachesize", "BLAS, JVM"),
    entry("hw.l2cachesize", "BLAS, JVM"),
    entry("hw.l3cachesize", "BLAS, JVM"),
    entry("hw.logicalcpu", "how many jobs to run: cargo, Node, Go"),
    entry("hw.logicalcpu_max", "how many jobs to run: cargo, Node, Go"),
    entry("hw.machine", "uname(3)"),
    entry("hw.memsize", "heap sizing: Node, JVM, Go"),
    entry("hw.model", "sysconf-like queries: Node os.cpus"),
    entry("hw.ncpu", "sysconf(_SC_NPROCESSORS_CONF)"),
    entry("hw.nperflevels", "fast and slow cores: Go, JVM"),
    entry("hw.optional.arm.FEAT_LSE", "atomics: compiler-rt, JVM"),
    entry("hw.optional.arm.FEAT_SHA512", "CPU dispatch: OpenSSL, Go"),
    entry("hw.optional.arm64", "native or translated: Homebrew, Node"),
    entry("hw.pagesize", "getpagesize(3)"),
    entry("hw.pagesize_compat", "getpagesize(3)"),
    entry("hw.perflevel0.logicalcpu", "fast cores: JVM"),
    entry("hw.physicalcpu", "how many jobs to run: cmake"),
    entry("hw.physicalcpu_max", "how many jobs to run: cmake"),
    entry("hw.tbfrequency", "clock scale: Rust and Go timers"),
    entry("kern.argmax", "sysconf(_SC_ARG_MAX): xargs, make"),
    entry("kern.hostname", "gethostname(3)"),
    entry("kern.maxfilesperproc", "sysconf(_SC_OPEN_MAX): Node, Go"),
    entry("kern.ngroups", "getgroups(2) sizing"),
    entry("kern.osproductversion", "version checks: clang, Python"),
    entry("kern.osrelease", "uname(3)"),
    entry("kern.ostype", "uname(3)"),
    entry("kern.osvariant_status", "start of libSystem"),
    entry("kern.osversion", "uname(3)"),
    entry("kern.secure_kernel", "start of libSystem"),
    entry("kern.usrstack64", "thread stacks: pthread, Ruby"),
    entry("kern.version", "uname(3)"),
    entry("machdep.cpu.brand_string", "Node os.cpus"),
    entry(
        "sysctl.proc_translated",
        "whether Rosetta runs this process",
    ),
];

/// Sysctls that can be read beside them where the host's network is granted.
pub(super) const NETWORK_SYSCTLS: [Entry; 1] = [entry(
    "net.routetable.0.0.3.0",
    "getifaddrs(3): Go, JVM, Node",
)];

/// Patterns of POSIX semaphore names. Other names would meet programs of the host.
pub(super) const SEMAPHORES: [Entry; 1] = [entry("^/mp-", "locks of Python's multiprocessing")];

/// Patterns of POSIX shared memory names.
pub(super) const SHARED_MEMORY: [Entry; 2] = [
    entry("^/__KMP_REGISTERED_LIB_", "start of LLVM's OpenMP"),
    entry("^/psm_", "Python's multiprocessing.shared_memory"),
];

/// Devices that can be read, written and controlled.
pub(super) const DEVICES: [Entry; 3] = [
    entry("/dev/dtracehelper", "start of programs with DTrace probes"),
    entry("/dev/null", "everything"),
    entry("/dev/zero", "mmap of anonymous memory in old programs"),
];

/// Devices that can be read.
pub(super) const READ_DEVICES: [Entry; 2] = [
    entry("/dev/random", "seeds"),
    entry("/dev/urandom", "seeds"),
];

/// Names of a process's own descriptors.
pub(super) const DESCRIPTORS: [Entry; 4] = [
    entry("/dev/fd", "process substitution of shells"),
    entry("/dev/stderr", "shell scripts"),
    entry("/dev/stdin", "shell scripts"),
    entry("/dev/stdout", "shell scripts"),
];

/// Trees of the system that can be read and executed.
pub(super) const SYSTEM_TREES: [Entry; 17] = [
    entry("/Library/Apple", "Apple's own additions: Rosetta"),
    entry(
        "/Library/Developer/CommandLineTools",
        "clang, git, make, Python",
    ),
    entry("/System/Cryptexes", "the dyld shared cache"),
    entry("/System/Library", "frameworks and dyld"),
    entry(
        "/System/Volumes/Preboot/Cryptexes",
        "where the cryptexes really lie",
    ),
    entry("/bin", "shells and basic commands"),
    entry("/private/etc/paths.d", "path_helper(8) in login shells"),
    entry(
        "/private/etc/ssl",
        "certificate bundle: OpenSSL, Python, Ruby",
    ),
    entry(
        "/private/var/db/dyld",
        "the dyld shared cache, older systems",
    ),
    entry("/private/var/db/timezone", "time zones"),
    entry("/private/var/select", "which shell `sh` is"),
    entry("/sbin", "basic commands"),
    entry("/usr/bin", "commands"),
    entry("/usr/lib", "libraries and dyld"),
    entry("/usr/libexec", "helpers of commands"),
    entry("/usr/sbin", "commands"),
    entry("/usr/share", "locales, terminfo, time zones"),
];

/// Single files of the system that can be read. The password database is not a secret on macOS:
/// hashes lie in Directory Services, which are closed.
pub(super) const SYSTEM_FILES: [Entry; 13] = [
    entry(
        "/",
        "getcwd(3) and start of dyld read the root folder itself",
    ),
    entry("/private/etc/bashrc", "start of bash"),
    entry("/private/etc/group", "getgrgid(3) fallback"),
    entry("/private/etc/hosts", "getaddrinfo(3)"),
    entry("/private/etc/localtime", "time zone: a link"),
    entry("/private/etc/passwd", "getpwuid(3) fallback"),
    entry("/private/etc/paths", "path_helper(8) in login shells"),
    entry("/private/etc/profile", "start of login shells"),
    entry("/private/etc/protocols", "getprotobyname(3)"),
    entry("/private/etc/services", "getservbyname(3)"),
    entry("/private/etc/shells", "chsh-like checks"),
    entry("/private/etc/zshrc", "start of zsh"),
    entry(
        "/private/var/db/xcode_select_link",
        "xcrun: which tools are chosen",
    ),
];

/// Links and folders that can be seen and followed, but not listed.
pub(super) const SYSTEM_LINKS: [Entry; 9] = [
    entry("/dev", "stat(2) on the way to devices"),
    entry("/etc", "link to /private/etc"),
    entry("/private", "on the way to its folders"),
    entry("/private/etc", "on the way to its files"),
    entry("/private/tmp", "on the way to the private folder"),
    entry("/private/var", "on the way to its folders"),
    entry("/tmp", "link to /private/tmp"),
    entry("/usr", "on the way to its folders"),
    entry("/var", "link to /private/var"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_has_a_reason_and_stands_once_in_order() {
        let tables: [&[Entry]; 12] = [
            &SERVICES,
            &NETWORK_SERVICES,
            &SYSCTLS,
            &NETWORK_SYSCTLS,
            &SEMAPHORES,
            &SHARED_MEMORY,
            &DEVICES,
            &READ_DEVICES,
            &DESCRIPTORS,
            &SYSTEM_TREES,
            &SYSTEM_FILES,
            &SYSTEM_LINKS,
        ];
        for table in tables {
            for entry in table {
                assert!(entry.reason.len() >= 5, "{entry:?}");
            }
            for pair in table.windows(2) {
                assert!(pair[0].name < pair[1].name, "{pair:?}");
            }
        }
    }
}
