//! Probes on files outside the workspace: secrets, start-up files, shared places, aliases.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, Uid, XattrFlags, inotify,
};

use crate::attempt::{
    Attempt, Planted, Preserve, append, c_path, create, read_canary, refused, worked,
};
use crate::probe::{Class::Files, Probe};
use crate::stage::Stage;
use crate::sys;

#[rustfmt::skip] // One row for each probe: this is a table.
pub(crate) const PROBES: &[Probe] = &[
    Probe::held("fs01_write_rc", Files, "Appends to a shell start-up file in the home directory.", write_rc),
    Probe::held("fs02_read_key", Files, "Reads a private key in the home directory.", read_key),
    Probe::held("fs03_read_ws_env", Files, "Reads a secret that lies inside the workspace.", read_ws_env),
    Probe::held("fs04_symlink_out", Files, "Writes outside through a new symlink in the workspace.", symlink_out),
    Probe::held("fs05_hardlink_out", Files, "Links an outside file into the workspace and writes to it.", hardlink_out),
    Probe::held("fs12_chmod_out", Files, "Opens an outside file to everybody by chmod.", chmod_out),
    Probe::held("fs13_utime_out", Files, "Changes the times of an outside file.", utime_out),
    Probe::held("fs14_xattr_out", Files, "Sets an extended attribute on an outside file.", xattr_out),
    Probe::held("fs15_stat_denied", Files, "Learns the size of a private key.", stat_denied),
    Probe::held("fs29_dev_shm_host", Files, "Reads a file in the host's shared memory.", dev_shm_host),
    Probe::held("fs30_tmp_host", Files, "Reads a file in the host's temporary directory.", tmp_host),
    Probe::held("fs31_tmp_write", Files, "Drops a file into the host's temporary directory.", tmp_write),
    Probe::held("fs38_proc_self_root_alias", Files, "Spells a key's path through its own root link.", self_root_alias),
    Probe::held("fs39_open_by_handle", Files, "Opens a key by its handle instead of its name.", open_by_handle),
    Probe::held("fs40_inotify_out", Files, "Watches the host's home directory for changes.", inotify_out),
    Probe::held("fs41_truncate_out", Files, "Empties an outside file by truncate.", truncate_out),
    Probe::held("fs52_otmpfile_link", Files, "Links a nameless file into an outside directory.", tmpfile_link),
    Probe::held("fs56_read_aws", Files, "Reads cloud credentials in the home directory.", read_aws),
    Probe::held("fs57_read_gh_token", Files, "Reads the token of a forge's command line.", read_gh),
    Probe::held("fs58_read_gnupg", Files, "Reads a secret keyring of GnuPG.", read_gnupg),
    Probe::held("fs59_read_netrc", Files, "Reads the passwords of a netrc file.", read_netrc),
    Probe::held("fs60_read_docker_config", Files, "Reads registry passwords of docker.", read_docker),
    Probe::held("fs61_list_ssh", Files, "Lists the names of the private keys.", list_ssh),
    Probe::held("fs62_read_deep_env", Files, "Reads a denied file deep inside the workspace.", read_deep_env),
    Probe::by_policy("fs63_existing_hardlink", Files, "Writes through a hard link that was there before.", existing_hardlink),
    Probe::held("fs64_existing_symlink", Files, "Writes through a symlink that was there before.", existing_symlink),
    Probe::held("fs65_create_out", Files, "Creates a file in an outside directory.", create_out),
    Probe::held("fs66_mkdir_out", Files, "Creates a directory in the home directory.", mkdir_out).judged_by_host(),
    Probe::held("fs67_rename_out", Files, "Moves a workspace file over an outside name.", rename_out),
    Probe::held("fs68_unlink_out", Files, "Deletes an outside file.", unlink_out),
    Probe::held("fs69_chown_out", Files, "Gives an outside file to another user.", chown_out),
    Probe::held("fs70_autostart", Files, "Plants a program that the desktop starts.", autostart),
    Probe::held("fs71_ssh_authorized", Files, "Plants a key that may log in.", authorized_keys),
    Probe::held("fs72_shadow", Files, "Opens the password file of the system.", shadow),
    Probe::held("fs73_dotdot", Files, "Climbs out of the workspace by its parent links.", dotdot),
    Probe::held("fs74_unlink_env", Files, "Deletes a denied file, mask and all.", unlink_env),
    Probe::held("fs75_rename_env", Files, "Moves a denied file to a name without a mask.", rename_env),
    Probe::held("fs76_link_env", Files, "Gives a denied file a second name.", link_env),
    Probe::held("fs77_tmp_swap", Files, "Makes a name in the host's temporary directory a link.", tmp_symlink),
    Probe::held("fs78_etc_write", Files, "Opens a system configuration file for writing.", etc_write),
];

fn write_rc(stage: &Stage) -> Attempt {
    append(&stage.home.join(".bashrc"))
}

fn read_key(stage: &Stage) -> Attempt {
    read_canary(&stage.home.join(".ssh/id_rsa"), &stage.canary)
}

fn read_ws_env(stage: &Stage) -> Attempt {
    read_canary(&stage.workspace.join(".env"), &stage.canary)
}

fn symlink_out(stage: &Stage) -> Attempt {
    let link = stage.workspace.join("probe-link");
    let _undo = Planted::new(stage, &link);
    symlink(stage.home.join(".profile"), &link)?;
    append(&link)
}

fn hardlink_out(stage: &Stage) -> Attempt {
    let link = stage.workspace.join("probe-hard");
    let _undo = Planted::new(stage, &link);
    fs::hard_link(stage.outside.join("target.txt"), &link)?;
    append(&link)
}

fn chmod_out(stage: &Stage) -> Attempt {
    let path = stage.outside.join("target.txt");
    let _undo = Preserve::of(&path);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666))?;
    worked("mode is 666")
}

fn utime_out(stage: &Stage) -> Attempt {
    let path = stage.outside.join("target.txt");
    let _undo = Preserve::of(&path);
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    let times = Timestamps {
        last_access: now,
        last_modification: now,
    };
    rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty())?;
    worked("times are now")
}

fn xattr_out(stage: &Stage) -> Attempt {
    let path = stage.outside.join("target.txt");
    rustix::fs::setxattr(&path, "user.probe", b"x", XattrFlags::empty())?;
    rustix::fs::removexattr(&path, "user.probe")?;
    worked("attribute set")
}

fn stat_denied(stage: &Stage) -> Attempt {
    let length = fs::metadata(stage.home.join(".ssh/id_rsa"))?.len();
    let real = "TOKEN=\n".len() + stage.canary.len();
    if length == real as u64 {
        return worked("size is known");
    }
    refused("ENOENT", format!("{length} bytes: masked"))
}

fn dev_shm_host(stage: &Stage) -> Attempt {
    read_canary(&stage.shm_file, &stage.canary)
}

fn tmp_host(stage: &Stage) -> Attempt {
    read_canary(&stage.tmp_file, &stage.canary)
}

fn tmp_write(stage: &Stage) -> Attempt {
    let here = fs::metadata("/tmp")?;
    let answer = create(stage, Path::new(&format!("/tmp/{}.dropped", stage.nonce)))?;
    if (here.dev(), here.ino()) == stage.tmp_identity {
        return worked(answer);
    }
    refused("ENOENT", "went to a private /tmp")
}

fn self_root_alias(stage: &Stage) -> Attempt {
    let key = stage.home.join(".ssh/id_rsa");
    let key = key.strip_prefix("/").unwrap_or(&key);
    read_canary(&Path::new("/proc/self/root").join(key), &stage.canary)
}

fn open_by_handle(stage: &Stage) -> Attempt {
    let mount = File::open(&stage.workspace)?;
    // The handle must be made from a name that is visible; the power is to open it unseen.
    sys::files::open_by_handle(&c_path(&stage.workspace.join("src/main.rs"))?, mount)?;
    worked("opened by handle")
}

fn inotify_out(stage: &Stage) -> Attempt {
    let key = fs::metadata(stage.home.join(".bashrc"))?;
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK)?;
    inotify::add_watch(&watch, &stage.home, inotify::WatchFlags::CREATE)?;
    if key.len() == 0 {
        return refused("ENOENT", "the home directory is not the host's");
    }
    worked("watching")
}

fn truncate_out(stage: &Stage) -> Attempt {
    let path = stage.outside.join("target.txt");
    let _undo = Preserve::of(&path);
    let file = rustix::fs::open(&path, OFlags::WRONLY | OFlags::TRUNC, Mode::empty())?;
    drop(file);
    worked("emptied")
}

fn tmpfile_link(stage: &Stage) -> Attempt {
    let nameless = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .mode(0o644)
        .open(&stage.workspace)?;
    let to = stage.outside.join("dir/linked-in");
    let _undo = Planted::new(stage, &to);
    let from = format!(
        "/proc/self/fd/{}",
        std::os::fd::AsRawFd::as_raw_fd(&nameless)
    );
    rustix::fs::linkat(CWD, from, CWD, &to, AtFlags::SYMLINK_FOLLOW)?;
    worked("linked")
}

fn read_aws(stage: &Stage) -> Attempt {
    read_canary(&stage.home.join(".aws/credentials"), &stage.canary)
}

fn read_gh(stage: &Stage) -> Attempt {
    read_canary(&stage.home.join(".config/gh/hosts.yml"), &stage.canary)
}

fn read_gnupg(stage: &Stage) -> Attempt {
    read_canary(&stage.home.join(".gnupg/secring.gpg"), &stage.canary)
}

fn read_netrc(stage: &Stage) -> Attempt {
    read_canary(&stage.home.join(".netrc"), &stage.canary)
}

fn read_docker(stage: &Stage) -> Attempt {
    read_canary(&stage.home.join(".docker/config.json"), &stage.canary)
}

fn list_ssh(stage: &Stage) -> Attempt {
    let names = fs::read_dir(stage.home.join(".ssh"))?.flatten();
    if names.into_iter().any(|it| it.file_name() == "id_rsa") {
        return worked("names are known");
    }
    refused("ENOENT", "an empty directory: masked")
}

fn read_deep_env(stage: &Stage) -> Attempt {
    read_canary(&stage.workspace.join("conf/deep/.env"), &stage.canary)
}

fn existing_hardlink(stage: &Stage) -> Attempt {
    append(&stage.workspace.join("hard-link"))
}

fn existing_symlink(stage: &Stage) -> Attempt {
    append(&stage.workspace.join("out-link"))
}

fn create_out(stage: &Stage) -> Attempt {
    create(stage, &stage.outside.join("dir/created"))
}

fn mkdir_out(stage: &Stage) -> Attempt {
    let path = stage.home.join(".probe");
    let _undo = Planted::new(stage, &path);
    fs::create_dir(&path)?;
    worked("created")
}

fn rename_out(stage: &Stage) -> Attempt {
    let from = stage.workspace.join("probe-moved");
    let to = stage.outside.join("dir/moved");
    let _undo = (Planted::new(stage, &from), Planted::new(stage, &to));
    fs::write(&from, "moved\n")?;
    fs::rename(&from, &to)?;
    worked("moved")
}

fn unlink_out(stage: &Stage) -> Attempt {
    let path = stage.outside.join("dir/inner.txt");
    let aside = stage.outside.join("dir/inner.aside");
    // A second name keeps the file, so that it can come back as it was.
    let kept = fs::hard_link(&path, &aside);
    let removed = fs::remove_file(&path);
    if kept.is_ok() {
        fs::rename(&aside, &path)?;
        fs::remove_file(&aside).ok();
    }
    removed?;
    worked("deleted")
}

fn chown_out(stage: &Stage) -> Attempt {
    let path = stage.outside.join("target.txt");
    let before = fs::metadata(&path)?;
    rustix::fs::chown(
        &path,
        Some(Uid::from_raw(12345)),
        Some(Gid::from_raw(12345)),
    )?;
    let (owner, group) = (Uid::from_raw(before.uid()), Gid::from_raw(before.gid()));
    rustix::fs::chown(&path, Some(owner), Some(group))?;
    worked("given away")
}

fn autostart(stage: &Stage) -> Attempt {
    create(stage, &stage.home.join(".config/autostart/probe.desktop"))
}

fn authorized_keys(stage: &Stage) -> Attempt {
    create(stage, &stage.home.join(".ssh/authorized_keys"))
}

fn shadow(_: &Stage) -> Attempt {
    // Opened, never read.
    File::open("/etc/shadow")?;
    worked("opened")
}

fn dotdot(stage: &Stage) -> Attempt {
    let depth = stage.workspace.components().count();
    let mut path = stage.workspace.clone();
    path.extend(std::iter::repeat_n("..", depth));
    let target = stage.home.join(".ssh/id_rsa");
    path.push(target.strip_prefix("/").unwrap_or(&target));
    read_canary(&path, &stage.canary)
}

fn unlink_env(stage: &Stage) -> Attempt {
    let path = stage.workspace.join("conf/deep/.env");
    let aside = stage.workspace.join("conf/deep/aside");
    let kept = fs::hard_link(&path, &aside);
    let removed = fs::remove_file(&path);
    if kept.is_ok() {
        fs::rename(&aside, &path)?;
        fs::remove_file(&aside).ok();
    }
    removed?;
    worked("deleted")
}

fn rename_env(stage: &Stage) -> Attempt {
    let path = stage.workspace.join(".env");
    let aside = stage.workspace.join("env-aside");
    fs::rename(&path, &aside)?;
    let answer = read_canary(&aside, &stage.canary);
    fs::rename(&aside, &path)?;
    answer
}

fn link_env(stage: &Stage) -> Attempt {
    let second = stage.workspace.join("env-second");
    let _undo = Planted::new(stage, &second);
    fs::hard_link(stage.workspace.join(".env"), &second)?;
    read_canary(&second, &stage.canary)
}

fn tmp_symlink(stage: &Stage) -> Attempt {
    let here = fs::metadata("/tmp")?;
    let path = format!("/tmp/{}.link", stage.nonce);
    let _undo = Planted::new(stage, Path::new(&path));
    symlink(stage.home.join(".bashrc"), &path)?;
    if (here.dev(), here.ino()) == stage.tmp_identity {
        return worked("planted");
    }
    refused("ENOENT", "went to a private /tmp")
}

fn etc_write(_: &Stage) -> Attempt {
    // Opened for appending, never written.
    let mut file = OpenOptions::new().append(true).open("/etc/passwd")?;
    file.flush()?;
    worked("opened")
}
