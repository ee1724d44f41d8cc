//! What to do about a missing protection, as exact as the machine's settings allow.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sys;

/// The settings that decide about user namespaces.
#[derive(Clone, Debug, Default)]
struct Settings {
    /// Ubuntu's `kernel.apparmor_restrict_unprivileged_userns`.
    apparmor: Option<String>,
    /// Debian's `kernel.unprivileged_userns_clone`.
    clone: Option<String>,
    /// `user.max_user_namespaces`, namespaces(7).
    most: Option<String>,
    /// Whether the kernel has them at all.
    built: bool,
    /// Whether a system call filter is already on this process, as in a container.
    filtered: bool,
    program: PathBuf,
}

/// What to do where user namespaces are refused.
#[must_use]
pub fn user_namespaces() -> String {
    let read = |name: &str| {
        let text = fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?;
        Some(text.trim().to_owned())
    };
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    say(&Settings {
        apparmor: read("kernel/apparmor_restrict_unprivileged_userns"),
        clone: read("kernel/unprivileged_userns_clone"),
        most: read("user/max_user_namespaces"),
        built: Path::new("/proc/self/ns/user").exists(),
        filtered: status
            .lines()
            .any(|it| it.starts_with("Seccomp:") && it.ends_with('2')),
        program: fs::read_link("/proc/self/exe").unwrap_or_else(|_| "/usr/bin/stockade".into()),
    })
}

fn say(settings: &Settings) -> String {
    let Settings {
        apparmor,
        clone,
        most,
        built,
        filtered,
        program,
    } = settings;
    let mut ways = Vec::new();
    if !built {
        ways.push("use a kernel that is built with CONFIG_USER_NS".to_owned());
    }
    if apparmor.as_deref() == Some("1") {
        ways.push(apparmor_profile(program));
    }
    if clone.as_deref() == Some("0") {
        ways.push("run as root: sysctl -w kernel.unprivileged_userns_clone=1".to_owned());
    }
    if most.as_deref() == Some("0") {
        ways.push("run as root: sysctl -w user.max_user_namespaces=15000".to_owned());
    }
    if *filtered {
        ways.push(
            "a system call filter is on this process already, as in a container: start the \
             container with --security-opt seccomp=unconfined --security-opt \
             systempaths=unconfined, or use a profile that accepts `landlock`"
                .to_owned(),
        );
    }
    if ways.is_empty() {
        ways.push(
            "no setting known to forbid them was found: ask who runs this machine to allow user \
             namespaces, install bubblewrap, or use a profile that accepts `landlock`"
                .to_owned(),
        );
    }
    ways.join("\nand ")
}

/// The profile that Ubuntu 23.10 and later want, apparmor.d(5).
fn apparmor_profile(program: &Path) -> String {
    format!(
        "AppArmor keeps user namespaces from programs without a profile; run as root:\n\
         cat >/etc/apparmor.d/stockade <<'END'\n\
         abi <abi/4.0>,\n\
         include <tunables/global>\n\
         profile stockade \"{}\" flags=(unconfined) {{\n  \
           userns,\n  \
           include if exists <local/stockade>\n\
         }}\n\
         END\n\
         apparmor_parser -r /etc/apparmor.d/stockade\n\
         or, for every program: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        program.display()
    )
}

/// What to do where Landlock is missing, or too old.
#[must_use]
pub fn landlock() -> String {
    let modules = fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    landlock_for(
        sys::landlock::abi().map_err(|it| it.raw_os_error()),
        modules.trim(),
    )
}

fn landlock_for(abi: Result<u32, Option<i32>>, modules: &str) -> String {
    match abi {
        Ok(abi) => format!("use a newer kernel: this one's is {}", self::abi(abi)),
        Err(Some(libc::EOPNOTSUPP)) => {
            let rest = if modules.is_empty() {
                String::new()
            } else {
                format!(",{modules}")
            };
            format!(
                "Landlock is built in but not enabled: add `lsm=landlock{rest}` to the kernel's \
                 command line and boot again"
            )
        }
        Err(_) => "use a kernel of 5.13 or later with CONFIG_SECURITY_LANDLOCK; in a container, \
                   one whose system call filter lets landlock_create_ruleset through"
            .to_owned(),
    }
}

/// What came with each ABI, landlock(7).
const ABIS: [(u32, &str); 5] = [
    (2, "renames between directories"),
    (3, "truncation"),
    (4, "TCP"),
    (5, "ioctls of devices"),
    (6, "abstract sockets and signals"),
];

/// An ABI, and what is missing at it.
pub(super) fn abi(abi: u32) -> String {
    let missing: Vec<&str> = ABIS.iter().filter(|it| it.0 > abi).map(|it| it.1).collect();
    if missing.is_empty() {
        format!("abi {abi}")
    } else {
        format!("abi {abi}, without rules for {}", missing.join(", "))
    }
}

/// What to do where no control group can be made.
pub(super) fn cgroups() -> String {
    "have the service manager delegate one: systemd-run --user --scope -p Delegate=yes stockade …"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_that_forbids_gets_its_own_remedy() {
        let free = Settings {
            built: true,
            program: "/opt/stockade".into(),
            ..Settings::default()
        };
        let zero = || Some("0".to_owned());
        let cases = [
            (free.clone(), "no setting known"),
            (
                Settings {
                    apparmor: Some("1".to_owned()),
                    ..free.clone()
                },
                "profile stockade \"/opt/stockade\"",
            ),
            (
                Settings {
                    apparmor: zero(),
                    ..free.clone()
                },
                "no setting known",
            ),
            (
                Settings {
                    clone: zero(),
                    ..free.clone()
                },
                "kernel.unprivileged_userns_clone=1",
            ),
            (
                Settings {
                    most: zero(),
                    ..free.clone()
                },
                "user.max_user_namespaces=",
            ),
            (
                Settings {
                    filtered: true,
                    ..free.clone()
                },
                "seccomp=unconfined",
            ),
            (
                Settings {
                    built: false,
                    ..free.clone()
                },
                "CONFIG_USER_NS",
            ),
        ];
        for (settings, expected) in cases {
            assert!(
                say(&settings).contains(expected),
                "{settings:?}: {}",
                say(&settings)
            );
        }
        let both = say(&Settings {
            clone: zero(),
            most: zero(),
            ..free
        });
        assert!(
            both.contains("userns_clone=1") && both.contains("max_user_namespaces="),
            "{both}"
        );
    }

    #[test]
    fn a_missing_landlock_is_told_from_one_that_is_off_or_old() {
        let cases = [
            (Err(Some(libc::EOPNOTSUPP)), "lsm=landlock,capability,yama"),
            (Err(Some(libc::ENOSYS)), "CONFIG_SECURITY_LANDLOCK"),
            (Ok(5), "without rules for abstract sockets and signals"),
        ];
        for (abi, expected) in cases {
            let text = landlock_for(abi, "capability,yama");
            assert!(text.contains(expected), "{text}");
        }
        assert_eq!(abi(6), "abi 6");
    }
}
