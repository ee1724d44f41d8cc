//! The same commands without a sandbox: what must succeed free, so that refusing it means something.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// What a script prints when nothing confines it, both streams together.
pub(crate) fn output(script: &str, variables: &[(&str, String)]) -> String {
    let output = Command::new("/bin/sh")
        .arg("-c")
        .arg(format!("exec 2>&1; {script}"))
        .env_clear()
        .envs(
            variables
                .iter()
                .map(|(name, value)| (*name, value.as_str())),
        )
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A copy of this binary that every user can run.
pub(crate) fn readable_copy() -> TempDir {
    let folder = tempfile::Builder::new()
        .prefix("backends-")
        .tempdir_in("/tmp")
        .unwrap();
    let copy = folder.path().join("backends");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    for path in [folder.path(), &copy] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    // As where user namespaces are forbidden and the distribution ships it so.
    let set_uid = folder.path().join(SET_UID);
    if std::fs::copy("/usr/bin/bwrap", &set_uid).is_ok() {
        std::fs::set_permissions(set_uid, std::fs::Permissions::from_mode(0o4755)).unwrap();
    }
    folder
}

/// This binary's copy in `folder`, as another user.
pub(crate) fn as_user(user: &str, folder: &std::path::Path) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", user, "--regid", user, "--clear-groups", "--"])
        .arg(folder.join("backends"));
    command
}

/// A bubblewrap that is set-uid root, beside the copy of this binary.
pub(crate) const SET_UID: &str = "bwrap-set-uid";

/// Processes of the host whose arguments hold `marker`.
pub(crate) fn processes_with(marker: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap();
    entries
        .flatten()
        .filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(marker)
        })
        .collect()
}

/// Folders that a sandbox of this supervisor left on the host.
pub(crate) fn leftovers(supervisor: rustix::process::Pid) -> Vec<String> {
    let prefix = format!("stockade-{}-", supervisor.as_raw_nonzero());
    ["/tmp", "/var/tmp", "/dev/shm"]
        .iter()
        .flat_map(|place| std::fs::read_dir(place).into_iter().flatten().flatten())
        .filter(|it| it.file_name().to_string_lossy().starts_with(&prefix))
        .map(|it| it.path().display().to_string())
        .collect()
}
