//! Probes on the kernel's files: `/proc/sys`, `/proc`, `/sys`, cgroups and devices.

use std::fs::{self, File, OpenOptions};
use std::path::Path;

use crate::attempt::{Attempt, Stop, contains, read_some, refused, worked};
use crate::probe::{Class::Kernel, Probe};
use crate::stage::Stage;

#[rustfmt::skip] // One row for each probe: this is a table.
pub(crate) const PROBES: &[Probe] = &[
    Probe::held("fs28_block_dev", Kernel, "Opens the disk.", block_device),
    Probe::held("fs32_core_pattern", Kernel, "Opens the program that the kernel runs on crashes.", core_pattern),
    Probe::held("fs33_cgroup_write", Kernel, "Creates a control group.", cgroup),
    Probe::held("fs34_sysfs_write", Kernel, "Opens a setting of a device for writing.", sysfs),
    Probe::held("fs35_sysrq", Kernel, "Opens the trigger that can restart the machine.", sysrq),
    Probe::held("ks14_kallsyms", Kernel, "Reads the addresses of kernel functions.", kallsyms),
    Probe::held("ks19_proc_keys", Kernel, "Lists the keys of the host.", proc_keys),
    Probe::held("ks20_proc_kcore", Kernel, "Opens the memory of the kernel as a file.", kcore),
    Probe::held("kf01_modprobe", Kernel, "Opens the program that loads modules.", modprobe),
    Probe::held("kf02_sysctl_list", Kernel, "Opens any of a list of settings for writing.", sysctls),
    Probe::held("kf03_proc_kmsg", Kernel, "Opens the kernel log as a file.", kmsg),
    Probe::held("kf04_dev_kmsg", Kernel, "Opens the kernel log as a device.", dev_kmsg),
    Probe::held("kf05_timer_list", Kernel, "Reads the timers of all processes.", timer_list),
    Probe::held("kf06_sched_debug", Kernel, "Reads what the scheduler knows of all processes.", sched_debug),
    Probe::held("kf07_dev_mem", Kernel, "Opens physical memory.", dev_mem),
    Probe::held("kf08_dev_kvm", Kernel, "Opens the virtual machine device.", dev_kvm),
    Probe::held("kf09_dev_fuse", Kernel, "Opens the device that serves file systems.", dev_fuse),
    Probe::held("kf10_debugfs", Kernel, "Lists the kernel's debugging files.", debugfs),
    Probe::held("kf11_cgroup_procs", Kernel, "Opens a control group's list of processes for writing.", cgroup_procs),
    Probe::held("kf12_release_agent", Kernel, "Opens the program that a control group runs when empty.", release_agent),
    Probe::held("kf13_proc_irq", Kernel, "Opens the routing of interrupts for writing.", interrupts),
    Probe::held("kf14_uevent_helper", Kernel, "Opens the program that handles devices.", uevent_helper),
    Probe::held("kf15_proc_key_users", Kernel, "Reads which users have keys.", key_users),
    Probe::held("kf16_dev_net_tun", Kernel, "Opens the device that makes network interfaces.", tun),
    Probe::held("kf17_dev_loop", Kernel, "Opens the device that makes disks from files.", loop_control),
    Probe::held("kf18_binfmt", Kernel, "Opens the list of foreign program formats for writing.", binfmt),
    Probe::held("kf19_proc_vmallocinfo", Kernel, "Reads where the kernel's memory lies.", vmallocinfo),
    Probe::held("kf20_sys_firmware", Kernel, "Lists the firmware's variables.", firmware),
];

/// Opens for writing and closes again: nothing is ever written.
fn open_for_writing(path: &str) -> Attempt {
    OpenOptions::new().write(true).open(path)?;
    worked("opened for writing")
}

/// Opens for reading without reading.
fn open_for_reading(path: &str) -> Attempt {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    worked("opened")
}

/// Opens both ways, as devices that are commanded need it.
fn open_both(path: &str) -> Attempt {
    OpenOptions::new().read(true).write(true).open(path)?;
    worked("opened")
}

/// Reads a little, and works unless that is nothing: a mask is an empty file.
fn read_any(path: &str) -> Attempt {
    let bytes = read_some(Path::new(path))?;
    if bytes.is_empty() {
        refused("ENOENT", "empty: masked")
    } else {
        worked(format!("{} bytes", bytes.len()))
    }
}

/// Works with the first path that does; otherwise the last refusal counts.
fn first_of(paths: &[&str], attempt: impl Fn(&str) -> Attempt) -> Attempt {
    let mut last = Err(Stop::Failed("nothing was tried".to_owned()));
    for path in paths {
        last = attempt(path).map(|it| format!("{path}: {it}"));
        if last.is_ok() {
            return last;
        }
    }
    last
}

fn block_device(_: &Stage) -> Attempt {
    let disks = [
        "/dev/vda",
        "/dev/sda",
        "/dev/nvme0n1",
        "/dev/xvda",
        "/dev/mmcblk0",
        "/dev/dm-0",
        "/dev/loop0",
    ];
    first_of(&disks, open_for_reading)
}

fn core_pattern(_: &Stage) -> Attempt {
    open_for_writing("/proc/sys/kernel/core_pattern")
}

fn modprobe(_: &Stage) -> Attempt {
    open_for_writing("/proc/sys/kernel/modprobe")
}

fn sysctls(_: &Stage) -> Attempt {
    let settings = [
        "/proc/sys/kernel/randomize_va_space",
        "/proc/sys/kernel/hostname",
        "/proc/sys/kernel/sysrq",
        "/proc/sys/kernel/ns_last_pid",
        "/proc/sys/kernel/shmmax",
        "/proc/sys/kernel/keys/maxkeys",
        "/proc/sys/fs/suid_dumpable",
        "/proc/sys/fs/protected_symlinks",
        "/proc/sys/fs/mqueue/msg_max",
        "/proc/sys/vm/overcommit_memory",
        "/proc/sys/vm/drop_caches",
        "/proc/sys/net/ipv4/ip_forward",
        "/proc/sys/net/ipv4/ping_group_range",
        "/proc/sys/user/max_user_namespaces",
    ];
    first_of(&settings, open_for_writing)
}

fn cgroup_folders() -> Vec<String> {
    let mut folders = vec!["/sys/fs/cgroup".to_owned()];
    let children = fs::read_dir("/sys/fs/cgroup")
        .into_iter()
        .flatten()
        .flatten();
    folders.extend(
        children
            .filter(|it| it.path().is_dir())
            .map(|it| it.path().to_string_lossy().into_owned()),
    );
    folders
}

fn each_cgroup(attempt: impl Fn(&str) -> Attempt) -> Attempt {
    let folders = cgroup_folders();
    let folders: Vec<&str> = folders.iter().map(String::as_str).collect();
    first_of(&folders, attempt)
}

fn cgroup(stage: &Stage) -> Attempt {
    each_cgroup(|folder| {
        // On a plain directory (cgroup v1's parent is a tmpfs) this makes no group.
        fs::metadata(format!("{folder}/cgroup.procs"))?;
        let group = format!("{folder}/{}", stage.nonce);
        fs::create_dir(&group)?;
        fs::remove_dir(&group)?;
        worked("group made")
    })
}

fn cgroup_procs(_: &Stage) -> Attempt {
    each_cgroup(|folder| open_for_writing(&format!("{folder}/cgroup.procs")))
}

fn release_agent(_: &Stage) -> Attempt {
    each_cgroup(|folder| open_for_writing(&format!("{folder}/release_agent")))
}

fn sysfs(_: &Stage) -> Attempt {
    let settings = [
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/kernel/mm/ksm/run",
        "/sys/block/vda/queue/read_ahead_kb",
        "/sys/module/kernel/parameters/panic",
        "/sys/power/state",
    ];
    first_of(&settings, open_for_writing)
}

fn sysrq(_: &Stage) -> Attempt {
    open_for_writing("/proc/sysrq-trigger")
}

fn kallsyms(_: &Stage) -> Attempt {
    let bytes = read_some(Path::new("/proc/kallsyms"))?;
    let text = String::from_utf8_lossy(&bytes);
    let is_address = |line: &str| {
        line.split(' ')
            .next()
            .is_some_and(|it| it.bytes().any(|it| it != b'0'))
    };
    if bytes.is_empty() {
        refused("ENOENT", "empty: masked")
    } else if text.lines().any(is_address) {
        worked("real addresses")
    } else {
        refused("EPERM", "all addresses are zero")
    }
}

/// Descriptions are shown to everybody who may see the key.
fn proc_keys(stage: &Stage) -> Attempt {
    let bytes = read_some(Path::new("/proc/keys"))?;
    if contains(&bytes, stage.nonce.as_bytes()) {
        return worked("the stage's key is listed");
    }
    // The stage has no key where the kernel has no keyrings.
    if bytes.is_empty() {
        refused("ENOENT", "empty: masked")
    } else {
        worked("other keys are listed")
    }
}

fn key_users(_: &Stage) -> Attempt {
    read_any("/proc/key-users")
}

fn kcore(_: &Stage) -> Attempt {
    let length = fs::metadata("/proc/kcore")?.len();
    File::open("/proc/kcore")?;
    if length == 0 {
        refused("ENOENT", "empty: masked")
    } else {
        worked("opened")
    }
}

fn kmsg(_: &Stage) -> Attempt {
    open_kernel_file("/proc/kmsg")
}

fn dev_kmsg(_: &Stage) -> Attempt {
    open_kernel_file("/dev/kmsg")
}

/// A mask can be opened as well; only a file of the kernel's own is on `/proc` or a device.
fn open_kernel_file(path: &str) -> Attempt {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let metadata = fs::metadata(path)?;
    open_for_reading(path)?;
    let proc = fs::metadata("/proc/self/status")?.dev();
    let is_null = metadata.rdev() == rustix::fs::makedev(1, 3);
    let is_kernel = metadata.dev() == proc || (metadata.file_type().is_char_device() && !is_null);
    if is_kernel {
        worked("opened")
    } else {
        refused("ENOENT", "masked")
    }
}

fn timer_list(_: &Stage) -> Attempt {
    read_any("/proc/timer_list")
}

fn sched_debug(_: &Stage) -> Attempt {
    first_of(
        &[
            "/proc/sched_debug",
            "/sys/kernel/debug/sched/debug",
            "/proc/latency_stats",
        ],
        read_any,
    )
}

fn vmallocinfo(_: &Stage) -> Attempt {
    first_of(
        &["/proc/vmallocinfo", "/proc/slabinfo", "/proc/pagetypeinfo"],
        read_any,
    )
}

fn dev_mem(_: &Stage) -> Attempt {
    first_of(&["/dev/mem", "/dev/port", "/dev/kmem"], open_for_reading)
}

fn dev_kvm(_: &Stage) -> Attempt {
    open_both("/dev/kvm")
}

fn dev_fuse(_: &Stage) -> Attempt {
    open_both("/dev/fuse")
}

fn tun(_: &Stage) -> Attempt {
    open_both("/dev/net/tun")
}

fn loop_control(_: &Stage) -> Attempt {
    open_both("/dev/loop-control")
}

fn list(path: &str) -> Attempt {
    let count = fs::read_dir(path)?.count();
    if count == 0 {
        refused("ENOENT", "empty")
    } else {
        worked(format!("{count} entries"))
    }
}

fn debugfs(_: &Stage) -> Attempt {
    first_of(
        &[
            "/sys/kernel/debug",
            "/sys/kernel/tracing",
            "/sys/kernel/security",
        ],
        list,
    )
}

fn firmware(_: &Stage) -> Attempt {
    first_of(
        &[
            "/sys/firmware/efi/efivars",
            "/sys/firmware/acpi/tables",
            "/sys/firmware/dmi/tables",
        ],
        list,
    )
}

fn interrupts(_: &Stage) -> Attempt {
    open_for_writing("/proc/irq/default_smp_affinity")
}

fn uevent_helper(_: &Stage) -> Attempt {
    first_of(
        &[
            "/sys/kernel/uevent_helper",
            "/proc/sys/kernel/hotplug",
            "/proc/sys/kernel/poweroff_cmd",
        ],
        open_for_writing,
    )
}

fn binfmt(_: &Stage) -> Attempt {
    first_of(
        &[
            "/proc/sys/fs/binfmt_misc/register",
            "/proc/sys/fs/binfmt_misc/status",
        ],
        open_for_writing,
    )
}
