//! The decision on every system call that Linux has had up to [`NEWEST_KERNEL`].
//!
//! A group has one decision and one reason; each call in it is followed by its number on
//! `x86_64` and on `aarch64`, or a dash. The filter, the documentation and the tests are all
//! made from this table.
//!
//! # Invariants
//!
//! - **Allow-list.** A number that is not here answers ENOSYS, as on an older kernel, so
//!   that libraries fall back. EPERM is given only where programs know how to take it.
//! - **Complete.** A test compares with an independent list and fails on a call without a
//!   decision; an ENOSYS that is spelled out says that the call was judged.

use super::Architecture;
use super::Errno;
use super::kernel::Errno::{NoSuchOperation, NotPermitted};
use super::rule::ArgumentRule;
use super::rule::ArgumentRule::{
    CloneFlags, CreationMode, IoctlRequest, Mode, NodeKind, OwnProcess, Personality, PrctlOption,
    RenameFlags, SeccompFlags, SendFlags, Socket, SocketPair,
};
use Decision::{Allow, AllowIf, AllowWith, Deny, NoSys};
use Grant::{NestedUserNamespaces, Ptrace};

/// The newest kernel whose calls were judged.
pub const NEWEST_KERNEL: &str = "6.18";

/// What the filter does with a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Decision {
    /// Let it through.
    Allow,
    /// Let it through if its arguments pass.
    AllowIf(ArgumentRule),
    /// Let it through if the policy grants it, else answer the error.
    AllowWith(Grant, Errno),
    /// Answer the error.
    Deny(Errno),
    /// Judged, and answered as by a kernel that does not have it: ENOSYS.
    NoSys,
}

/// A field of [`SyscallPolicy`](super::SyscallPolicy) that opens whole calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Grant {
    /// `nested_user_namespaces`.
    NestedUserNamespaces,
    /// `ptrace`.
    Ptrace,
}

/// One system call, what is decided about it, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The name, as in syscalls(2).
    pub name: &'static str,
    /// Its number in the native `x86_64` table, if it is there.
    pub x86_64: Option<u16>,
    /// Its number on `aarch64`, if it is there.
    pub aarch64: Option<u16>,
    /// What the filter does.
    pub decision: Decision,
    /// Why, in one line.
    pub reason: &'static str,
}

impl Entry {
    /// The number on `architecture`, or `None` where the call does not exist.
    #[must_use]
    pub fn number(&self, architecture: Architecture) -> Option<u32> {
        match architecture {
            Architecture::Aarch64 => self.aarch64.map(u32::from),
            Architecture::X86_64 => self.x86_64.map(u32::from),
        }
    }
}

macro_rules! number {
    (-) => {
        None
    };
    ($number:literal) => {
        Some($number)
    };
}

macro_rules! entries {
    ($($decision:expr, $reason:literal => $($name:ident $x86_64:tt $aarch64:tt),+;)+) => {
        &[$($(Entry {
            name: stringify!($name),
            x86_64: number!($x86_64),
            aarch64: number!($aarch64),
            decision: $decision,
            reason: $reason,
        }),+),+]
    };
}

/// Every system call with its decision, grouped by subject, in no order of numbers.
#[must_use]
pub fn table() -> &'static [Entry] {
    TABLE
}

static TABLE: &[Entry] = entries! {
    // Files, by descriptor and by name. Which names exist is for mounts and Landlock to say.
    Allow, "moves data between memory and held descriptors" =>
        read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, pwrite64 18 68,
        preadv 295 69, pwritev 296 70, preadv2 327 286, pwritev2 328 287, lseek 8 62;
    Allow, "moves data between held descriptors" =>
        sendfile 40 71, splice 275 76, tee 276 77, vmsplice 278 75, copy_file_range 326 285;
    Allow, "acts on held descriptors only" =>
        close 3 57, close_range 436 436, dup 32 23, dup2 33 -, dup3 292 24, fcntl 72 25,
        flock 73 32, fsync 74 82, fdatasync 75 83, ftruncate 77 46, fallocate 285 47,
        fadvise64 221 223, readahead 187 213, sync_file_range 277 84, cachestat 451 451;
    Allow, "flushes what was written; dpkg and databases rely on it" =>
        sync 162 81, syncfs 306 267;
    Allow, "makes a private channel" => pipe 22 -, pipe2 293 59;
    AllowIf(CreationMode { flags: 1 }), "opens, but creates nothing set-user-id" => open 2 -;
    AllowIf(CreationMode { flags: 2 }), "opens, but creates nothing set-user-id" => openat 257 56;
    AllowIf(Mode { mode: 1 }), "creates, but nothing set-user-id" => creat 85 -, mkdir 83 -;
    AllowIf(Mode { mode: 2 }), "creates, but nothing set-user-id" => mkdirat 258 34;
    AllowIf(Mode { mode: 1 }), "changes modes, but not to set-user-id" => chmod 90 -, fchmod 91 52;
    AllowIf(Mode { mode: 2 }), "changes modes, but not to set-user-id" =>
        fchmodat 268 53, fchmodat2 452 452;
    AllowIf(NodeKind { mode: 1 }), "makes FIFOs, never a device or a whiteout" => mknod 133 -;
    AllowIf(NodeKind { mode: 2 }), "makes FIFOs, never a device or a whiteout" => mknodat 259 33;
    AllowIf(RenameFlags), "renames, but leaves no whiteout device" => renameat2 316 276;
    Allow, "changes names below the writable mounts" =>
        rename 82 -, renameat 264 38, rmdir 84 -, unlink 87 -, unlinkat 263 35, link 86 -,
        linkat 265 37, symlink 88 -, symlinkat 266 36, truncate 76 45;
    Allow, "reads names and attributes" =>
        stat 4 -, fstat 5 80, lstat 6 -, newfstatat 262 79, statx 332 291, access 21 -,
        faccessat 269 48, faccessat2 439 439, readlink 89 -, readlinkat 267 78, getdents 78 -,
        getdents64 217 61, getcwd 79 17, statfs 137 43, fstatfs 138 44, file_getattr 468 468;
    Allow, "changes owners and times; without capabilities, of own files only" =>
        chown 92 -, fchown 93 55, lchown 94 -, fchownat 260 54, utime 132 -, utimes 235 -,
        futimesat 261 -, utimensat 280 88, file_setattr 469 469;
    Allow, "attributes; privileged name spaces need a capability" =>
        setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, getxattr 191 8, lgetxattr 192 9,
        fgetxattr 193 10, listxattr 194 11, llistxattr 195 12, flistxattr 196 13,
        removexattr 197 14, lremovexattr 198 15, fremovexattr 199 16, setxattrat 463 463,
        getxattrat 464 464, listxattrat 465 465, removexattrat 466 466;
    Allow, "own working directory and creation mask" => chdir 80 49, fchdir 81 50, umask 95 166;
    AllowIf(IoctlRequest), "terminals and files, but no typing into a terminal" => ioctl 16 29;
    Allow, "watches what can be opened; file watchers need it" =>
        inotify_init 253 -, inotify_init1 294 26, inotify_add_watch 254 27,
        inotify_rm_watch 255 28;
    Allow, "waits for held descriptors" =>
        poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72, epoll_create 213 -,
        epoll_create1 291 20, epoll_ctl 233 21, epoll_wait 232 -, epoll_pwait 281 22,
        epoll_pwait2 441 441;
    Allow, "own event, signal and timer descriptors" =>
        eventfd 284 -, eventfd2 290 19, signalfd 282 -, signalfd4 289 74,
        timerfd_create 283 85, timerfd_settime 286 86, timerfd_gettime 287 87;
    Allow, "Linux AIO reads and writes held descriptors; databases use it" =>
        io_setup 206 0, io_destroy 207 1, io_submit 209 2, io_cancel 210 3,
        io_getevents 208 4, io_pgetevents 333 292;

    // Memory.
    Allow, "own address space" =>
        mmap 9 222, munmap 11 215, mremap 25 216, mprotect 10 226, brk 12 214, madvise 28 233,
        msync 26 227, mincore 27 232, mseal 462 462, map_shadow_stack 453 453,
        membarrier 324 283, memfd_create 319 279;
    Allow, "locks own memory within RLIMIT_MEMLOCK" =>
        mlock 149 228, mlock2 325 284, munlock 150 229, mlockall 151 230, munlockall 152 231;
    Allow, "protection keys of own memory" =>
        pkey_mprotect 329 288, pkey_alloc 330 289, pkey_free 331 290;
    Allow, "asks where own memory lies; runtimes do at start" => get_mempolicy 239 236;
    Deny(NotPermitted), "steers memory placement; runtimes carry on without" =>
        set_mempolicy 238 237, mbind 237 235, set_mempolicy_home_node 450 450;
    Deny(NotPermitted), "moves memory of processes by number" =>
        migrate_pages 256 238, move_pages 279 239;

    // Processes, threads and signals. Other processes are fenced off by the PID namespace.
    AllowIf(CloneFlags), "processes and threads, but no namespaces" => clone 56 220;
    NoSys, "its flags lie behind a pointer; libraries fall back to clone" => clone3 435 435;
    Allow, "starts, ends and awaits own processes" =>
        fork 57 -, vfork 58 -, execve 59 221, execveat 322 281, exit 60 93, exit_group 231 94,
        wait4 61 260, waitid 247 95;
    Allow, "process groups and sessions, for job control" =>
        setpgid 109 154, getpgid 121 155, getpgrp 111 -, setsid 112 157, getsid 124 156;
    Allow, "reads own identity" =>
        getpid 39 172, getppid 110 173, gettid 186 178, getuid 102 174, geteuid 107 175,
        getgid 104 176, getegid 108 177, getresuid 118 148, getresgid 120 150,
        getgroups 115 158, capget 125 90;
    Allow, "changes identity within what no capability permits" =>
        setuid 105 146, setgid 106 144, setreuid 113 145, setregid 114 143, setresuid 117 147,
        setresgid 119 149, setfsuid 122 151, setfsgid 123 152, setgroups 116 159, capset 126 91;
    Allow, "thread bookkeeping" =>
        set_tid_address 218 96, set_robust_list 273 99, get_robust_list 274 100, rseq 334 293,
        arch_prctl 158 -, restart_syscall 219 128;
    Allow, "locks between threads" =>
        futex 202 98, futex_waitv 449 449, futex_wake 454 454, futex_wait 455 455,
        futex_requeue 456 456;
    Allow, "own signal handling" =>
        rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136,
        rt_sigtimedwait 128 137, rt_sigsuspend 130 133, sigaltstack 131 132, pause 34 -;
    Allow, "signals processes inside; Landlock and the namespace bound it" =>
        kill 62 129, tkill 200 130, tgkill 234 131, rt_sigqueueinfo 129 138,
        rt_tgsigqueueinfo 297 240, pidfd_open 434 434, pidfd_send_signal 424 424,
        process_mrelease 448 448;
    Allow, "scheduling of own processes; raising it needs a capability" =>
        sched_yield 24 124, sched_setparam 142 118, sched_getparam 143 121,
        sched_setscheduler 144 119, sched_getscheduler 145 120, sched_get_priority_max 146 125,
        sched_get_priority_min 147 126, sched_rr_get_interval 148 127, sched_setaffinity 203 122,
        sched_getaffinity 204 123, sched_setattr 314 274, sched_getattr 315 275,
        getpriority 140 141, setpriority 141 140, ioprio_set 251 30, ioprio_get 252 31,
        getcpu 309 168;
    Allow, "own limits and usage; hard limits only fall" =>
        getrlimit 97 163, setrlimit 160 164, getrusage 98 165;
    AllowIf(OwnProcess { pid: 0 }), "own limits; another's would end it, or disarm what watches" =>
        prlimit64 302 261;
    AllowIf(PrctlOption), "the options that were judged" => prctl 157 167;
    AllowIf(Personality), "the plain personality only; others weaken address layout" =>
        personality 135 92;
    Allow, "a process may confine itself further" =>
        landlock_create_ruleset 444 444, landlock_add_rule 445 445, landlock_restrict_self 446 446;
    AllowIf(SeccompFlags), "filters stack, but a listener may be ours" => seccomp 317 277;

    // Time, randomness and the name of the machine.
    Allow, "reads clocks and waits" =>
        time 201 -, gettimeofday 96 169, clock_gettime 228 113, clock_getres 229 114,
        clock_nanosleep 230 115, nanosleep 35 101, times 100 153;
    Allow, "own timers" =>
        alarm 37 -, getitimer 36 102, setitimer 38 103, timer_create 222 107,
        timer_settime 223 110, timer_gettime 224 108, timer_getoverrun 225 109,
        timer_delete 226 111;
    Allow, "reads facts about the machine" => uname 63 160, sysinfo 99 179;
    Allow, "randomness" => getrandom 318 278;

    // Channels.
    AllowIf(Socket), "granted families; no raw, SCTP, MPTCP or exotic sockets" => socket 41 198;
    AllowIf(SocketPair), "Unix pairs; runtimes wake themselves through them" => socketpair 53 199;
    AllowIf(SendFlags { flags: 3 }), "sends, but Fast Open would connect past Landlock" =>
        sendto 44 206, sendmmsg 307 269;
    AllowIf(SendFlags { flags: 2 }), "sends, but Fast Open would connect past Landlock" =>
        sendmsg 46 211;
    Allow, "acts on sockets that could be made" =>
        connect 42 203, accept 43 202, accept4 288 242, bind 49 200, listen 50 201,
        shutdown 48 210, recvfrom 45 207, recvmsg 47 212, recvmmsg 299 243,
        getsockname 51 204, getpeername 52 205, setsockopt 54 208, getsockopt 55 209;
    Allow, "System V channels of the IPC namespace" =>
        shmget 29 194, shmat 30 196, shmctl 31 195, shmdt 67 197, semget 64 190, semop 65 193,
        semctl 66 191, semtimedop 220 192, msgget 68 186, msgsnd 69 189, msgrcv 70 188,
        msgctl 71 187;
    Allow, "POSIX queues of the IPC namespace" =>
        mq_open 240 180, mq_unlink 241 181, mq_timedsend 242 182, mq_timedreceive 243 183,
        mq_notify 244 184, mq_getsetattr 245 185;

    // Powers over the view.
    AllowWith(NestedUserNamespaces, NotPermitted), "builds or changes a view of the system" =>
        unshare 272 97, setns 308 268, mount 165 40, umount2 166 39, pivot_root 155 41,
        chroot 161 51, sethostname 170 161, setdomainname 171 162;
    NoSys, "the new mount API; libmount falls back to mount" =>
        open_tree 428 428, open_tree_attr 467 467, move_mount 429 429, fsopen 430 430,
        fsconfig 431 431, fsmount 432 432, fspick 433 433, mount_setattr 442 442;
    NoSys, "lists mounts; libmount falls back to mountinfo" => statmount 457 457, listmount 458 458;
    NoSys, "its mode lies behind a pointer; programs fall back to openat" => openat2 437 437;
    Deny(NotPermitted), "handles pass mounts and names by" => open_by_handle_at 304 265;
    Deny(NoSuchOperation), "handles are of no use inside" => name_to_handle_at 303 264;
    Deny(NotPermitted), "watches whole mounts" => fanotify_init 300 262, fanotify_mark 301 263;

    // Powers over other processes.
    AllowWith(Ptrace, NotPermitted), "reads and writes other processes; debuggers need it" =>
        ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271,
        process_madvise 440 440;
    Deny(NotPermitted), "takes descriptors out of other processes" => pidfd_getfd 438 438;
    Deny(NotPermitted), "compares kernel pointers of other processes" => kcmp 312 272;

    // Powers over the kernel.
    NoSys, "works past seccomp and Landlock; runtimes fall back to epoll" =>
        io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427;
    Deny(NotPermitted), "programs the kernel" => bpf 321 280;
    Deny(NotPermitted), "wide attack surface; profilers only" => perf_event_open 298 241;
    Deny(NotPermitted), "pauses the kernel within a copy, for exploits" => userfaultfd 323 282;
    Deny(NotPermitted), "kernel keyrings are shared beyond the namespaces" =>
        add_key 248 217, request_key 249 218, keyctl 250 219;
    Deny(NotPermitted), "loads or replaces kernel code" =>
        init_module 175 105, finit_module 313 273, delete_module 176 106, kexec_load 246 104,
        kexec_file_load 320 294;
    Deny(NotPermitted), "runs the machine" =>
        reboot 169 142, swapon 167 224, swapoff 168 225, acct 163 89, quotactl 179 60,
        quotactl_fd 443 443, vhangup 153 58;
    Deny(NotPermitted), "reads or clears the kernel log" => syslog 103 116;
    Deny(NotPermitted), "sets the clock, or reads its discipline" =>
        settimeofday 164 170, clock_settime 227 112, adjtimex 159 171, clock_adjtime 305 266;
    Deny(NotPermitted), "reaches hardware ports" => iopl 172 -, ioperm 173 -;
    NoSys, "16-bit segments; optional in the kernel, and a source of exploits" => modify_ldt 154 -;
    NoSys, "hides memory from the kernel; optional, and unused by tools" => memfd_secret 447 447;
    NoSys, "security labels are set from outside; libraries read /proc" =>
        lsm_get_self_attr 459 459, lsm_set_self_attr 460 460, lsm_list_modules 461 461;
    Allow, "only from trampolines of a tracer outside; the kernel refuses others" =>
        uretprobe 335 -, uprobe 336 -;

    // What nobody needs any more.
    NoSys, "obsolete, and emulated only" => remap_file_pages 216 234;
    NoSys, "obsolete; no program of today calls it" => uselib 134 -, ustat 136 -, sysfs 139 -;
    NoSys, "removed from the kernel or never there" =>
        _sysctl 156 -, create_module 174 -, get_kernel_syms 177 -, query_module 178 -,
        nfsservctl 180 42, getpmsg 181 -, putpmsg 182 -, afs_syscall 183 -, tuxcall 184 -,
        security 185 -, vserver 236 -, set_thread_area 205 -, get_thread_area 211 -,
        lookup_dcookie 212 18, epoll_ctl_old 214 -, epoll_wait_old 215 -;
};
