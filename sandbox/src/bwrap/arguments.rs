//! Translates a confinement into bubblewrap's arguments, with the meaning of the native view.
//!
//! # Invariants
//!
//! - **Same order.** The mounts are those of [`entry::sorted`], laid in that order.
//! - **Nothing is made on the host.** Bubblewrap makes a missing mount point, in a writable
//!   grant on the host itself; so each one below a grant is known to exist, or it is refused.
//! - **No link is followed unseen.** Bubblewrap follows links; what is mounted is recorded by
//!   device and inode here, and compared by the second stage inside.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::NAME;
use crate::channel;
use crate::confinement::{Confinement, Network};
use crate::error::SandboxError;
use crate::filesystem::{Access, Filesystem};
use crate::path::AbsPath;
use crate::scratch::Scratch;
use crate::step::{Failure, Stage as _};
use crate::view::entry::{self, Entry, Kind};
use crate::view::{proc, root};

/// Where the second stage appears inside: in the root itself, which no grant can cover.
pub(super) const STAGE: &str = "/.stockade-stage";

/// Bubblewrap 0.8 refuses more than 9,000 arguments, those on its command line included.
const MOST: usize = 8_900;

/// With more denies than this, one empty file and one empty directory of the host are bound
/// over each: three arguments instead of six, and no descriptor.
pub(super) const MANY: usize = 200;

/// A name inside and what it must be: device and inode.
pub(crate) type Seen = (AbsPath, u64, u64);

/// Arguments, and what the second stage has to know about them.
#[derive(Debug)]
pub(super) struct Arguments {
    words: Vec<OsString>,
    set_uid: bool,
    /// Descriptors that the arguments name by number.
    pub(super) descriptors: Vec<OwnedFd>,
    pub(super) notes: Vec<String>,
    seen: BTreeMap<AbsPath, (u64, u64)>,
    /// Names that must be unreadable.
    pub(super) hidden: Vec<AbsPath>,
}

/// What to build, beside the confinement.
#[derive(Debug)]
pub(super) struct Order<'a> {
    pub(super) confinement: &'a Confinement,
    pub(super) stage: &'a AbsPath,
    pub(super) set_uid: bool,
    /// Where `none` and `nothing` are, if there are many denies.
    pub(super) scratch: Option<&'a Scratch>,
    /// The descriptor on which bubblewrap says the pid of the sandbox's first process.
    pub(super) info: i32,
}

impl Arguments {
    pub(super) fn build(order: &Order<'_>) -> Result<Self, SandboxError> {
        let mut arguments = Self {
            words: Vec::new(),
            set_uid: order.set_uid,
            descriptors: Vec::new(),
            notes: Vec::new(),
            seen: BTreeMap::new(),
            hidden: Vec::new(),
        };
        arguments.namespaces(order);
        let filesystem = &order.confinement.filesystem;
        if order.scratch.is_some() {
            arguments.notes.push(format!(
                "bubblewrap takes a time that grows with the square of the mounts, and here are \
                 {} denies; the native back end does not",
                filesystem.masks.len()
            ));
        }
        for link in &filesystem.links {
            arguments.add(&[OsStr::new("--symlink"), &link.target, link.path.as_os_str()]);
        }
        for entry in entry::sorted(filesystem) {
            arguments.entry(&entry, filesystem, order.scratch)?;
        }
        arguments.devices(filesystem.tmp_size);
        arguments.proc(order.scratch)?;
        arguments.bind("--ro-bind", order.stage, Path::new(STAGE));
        arguments.add(&["--remount-ro", "/dev"]);
        arguments.add(&["--remount-ro", "/"]);
        if arguments.words.len() > MOST {
            return Err(not_held(format!(
                "{} mounts and denies need {} arguments, and bubblewrap takes {MOST}; use the \
                 native back end, or deny folders instead of the files in them",
                filesystem.grants.len() + filesystem.masks.len() + filesystem.protected.len(),
                arguments.words.len(),
            )));
        }
        Ok(arguments)
    }

    /// The arguments, each ended by a NUL, for `--args`.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in &self.words {
            bytes.extend(word.as_bytes());
            bytes.push(0);
        }
        bytes
    }

    /// What the names inside must be.
    pub(super) fn seen(&self) -> Vec<Seen> {
        let identities = self.seen.iter();
        identities
            .map(|(path, (device, inode))| (path.clone(), *device, *inode))
            .collect()
    }

    fn add<S: AsRef<OsStr>>(&mut self, words: &[S]) {
        self.words
            .extend(words.iter().map(|it| it.as_ref().to_owned()));
    }

    fn bind(&mut self, how: &str, source: &Path, target: &Path) {
        self.add(&[OsStr::new(how), source.as_os_str(), target.as_os_str()]);
    }

    fn namespaces(&mut self, order: &Order<'_>) {
        let Confinement {
            network, powers, ..
        } = order.confinement;
        if order.set_uid {
            // With user namespaces forbidden the set-uid program goes on without one.
            self.add(&["--unshare-user-try"]);
        } else {
            self.add(&["--unshare-user"]);
            if !powers.nested_user_namespaces {
                self.add(&["--disable-userns"]);
            }
        }
        self.add(&[
            "--unshare-pid",
            "--unshare-ipc",
            "--unshare-uts",
            "--unshare-cgroup",
        ]);
        if *network == Network::Off {
            self.add(&["--unshare-net"]);
        }
        self.add(&["--hostname", "localhost"]);
        // The second stage is the namespace's first process: none of bubblewrap's is inside.
        self.add(&["--as-pid-1", "--die-with-parent"]);
        self.add(&["--cap-drop", "ALL", "--clearenv", "--chdir", "/"]);
        self.add(&["--info-fd", &order.info.to_string()]);
    }

    fn entry(
        &mut self,
        entry: &Entry<'_>,
        filesystem: &Filesystem,
        scratch: Option<&Scratch>,
    ) -> Result<(), SandboxError> {
        let path = entry.path;
        match entry.kind {
            Kind::Private => {
                self.mount_point(path, filesystem)?;
                let mode = crate::view::private_mode(path);
                self.tmpfs(path, mode, filesystem.tmp_size);
                self.seen.remove(path);
            }
            Kind::Host { access, owned: _ } => {
                self.identify(path)?;
                if access == Access::Cache {
                    self.notes.push(format!(
                        "`{}` is read-only: bubblewrap 0.8 lays no overlay over a cache",
                        path.display()
                    ));
                }
                let how = if access == Access::Write {
                    "--bind"
                } else {
                    "--ro-bind"
                };
                self.bind(how, path, path);
            }
            Kind::Staged(staging) => {
                return Err(not_held(format!(
                    "staged writes to `{}`: bubblewrap 0.8 lays no overlay; use the native back \
                     end, or write directly",
                    staging.root.display()
                )));
            }
            Kind::Pin => {
                self.visible(path, filesystem)?;
                self.bind("--bind", path, path);
            }
            Kind::Protected => {
                if self.visible(path, filesystem)? == FileType::Symlink {
                    return Err(link(path, "protected"));
                }
                self.bind("--ro-bind", path, path);
            }
            Kind::Mask => {
                let kind = self.visible(path, filesystem)?;
                if kind == FileType::Symlink {
                    return Err(link(path, "denied"));
                }
                self.seen.remove(path);
                self.hide(path, kind == FileType::Directory, scratch)?;
            }
            Kind::Made(content) => {
                let granted = filesystem.grant_over(path).is_some();
                if granted && kind_of(path).is_err() {
                    return Ok(());
                }
                self.seen.remove(path);
                self.data("0444", content, path)?;
            }
        }
        Ok(())
    }

    fn tmpfs(&mut self, path: &Path, mode: u32, size: u64) {
        self.add(&["--perms", &format!("{mode:o}")]);
        // The set-uid program does not let its caller choose.
        if !self.set_uid {
            self.add(&["--size", &size.to_string()]);
        }
        self.add(&[OsStr::new("--tmpfs"), path.as_os_str()]);
    }

    fn data(&mut self, mode: &str, content: &[u8], path: &Path) -> Result<(), SandboxError> {
        let file = channel::seal_bytes(content)?;
        self.add(&[
            "--perms",
            mode,
            "--ro-bind-data",
            &file.as_raw_fd().to_string(),
        ]);
        self.add(&[path]);
        self.descriptors.push(file);
        Ok(())
    }

    /// Lays something empty and unreadable over a name.
    fn hide(
        &mut self,
        path: &AbsPath,
        is_directory: bool,
        scratch: Option<&Scratch>,
    ) -> Result<(), SandboxError> {
        self.hidden.push(path.clone());
        match (scratch, is_directory) {
            (Some(scratch), _) => {
                let name = if is_directory { NONE } else { NOTHING };
                self.bind("--ro-bind", &scratch.path().join(name), path);
                Ok(())
            }
            (None, true) => {
                self.add(&["--perms", "000", "--tmpfs"]);
                self.add(&[
                    path.as_os_str(),
                    OsStr::new("--remount-ro"),
                    path.as_os_str(),
                ]);
                Ok(())
            }
            // A descriptor for each: bubblewrap closes it after use.
            (None, false) => self.data("000", &[], path),
        }
    }

    /// Records what lies at `path` on the host, links refused.
    fn identify(&mut self, path: &AbsPath) -> Result<FileType, SandboxError> {
        let attributes = look(path)?;
        self.seen
            .insert(path.clone(), (attributes.st_dev, attributes.st_ino));
        Ok(FileType::from_raw_mode(attributes.st_mode))
    }

    /// Records a name that a grant shows.
    fn visible(
        &mut self,
        path: &AbsPath,
        filesystem: &Filesystem,
    ) -> Result<FileType, SandboxError> {
        match filesystem.grant_over(path) {
            Some(_) => self.identify(path),
            None => Err(Errno::NOENT).stage_at("opening a name of the view", path)?,
        }
    }

    /// Checks that bubblewrap will not make the mount point on the host.
    fn mount_point(&self, path: &AbsPath, filesystem: &Filesystem) -> Result<(), SandboxError> {
        let private = |it: &&AbsPath| path.starts_with(it) && *it != path;
        let inner = filesystem
            .private
            .iter()
            .filter(private)
            .map(|it| it.depth())
            .max();
        let grant = filesystem.grant_over(path).map(|it| it.path.depth());
        if grant.is_some() && grant > inner {
            look(path)?;
        }
        Ok(())
    }

    fn devices(&mut self, size: u64) {
        self.add(&["--dev", "/dev"]);
        self.tmpfs(Path::new("/dev/shm"), 0o1777, size);
    }

    /// A `/proc` of the sandbox's own processes, its dangerous parts shut as in the native view.
    fn proc(&mut self, scratch: Option<&Scratch>) -> Result<(), SandboxError> {
        self.add(&["--proc", "/proc"]);
        for (names, masked) in [
            (proc::READ_ONLY.as_slice(), false),
            (proc::MASKED.as_slice(), true),
        ] {
            for name in names {
                let path = Path::new("/proc").join(name);
                let Ok(kind) = kind_of(&path) else { continue };
                if masked {
                    let path = AbsPath::new(path)
                        .map_err(|_| Errno::INVAL)
                        .stage("naming /proc")?;
                    self.hide(&path, kind == FileType::Directory, scratch)?;
                } else {
                    self.bind("--ro-bind", &path, &path);
                }
            }
        }
        Ok(())
    }
}

/// The empty directory in scratch space.
pub(super) const NONE: &str = "none";
/// The empty file in scratch space.
pub(super) const NOTHING: &str = "nothing";

/// What lies at `path`; the last component may be a link, and is not followed.
fn look(path: &AbsPath) -> Result<rustix::fs::Stat, Failure> {
    let above = path.parent().and_then(|it| AbsPath::new(it).ok());
    let above = root::open_host(&above.unwrap_or_else(AbsPath::root))?;
    let name = path.file_name().unwrap_or_else(|| OsStr::new("."));
    rustix::fs::statat(above.as_fd(), name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
        .stage_at("opening a granted path", path)
}

fn kind_of(path: &Path) -> Result<FileType, Errno> {
    rustix::fs::lstat(path).map(|it| FileType::from_raw_mode(it.st_mode))
}

fn link(path: &AbsPath, what: &str) -> SandboxError {
    not_held(format!(
        "`{}` is {what} and is a symbolic link, which bubblewrap would follow; name what it \
         points to, or use the native back end",
        path.display()
    ))
}

pub(super) fn not_held(what: String) -> SandboxError {
    SandboxError::NotHeld {
        backend: NAME,
        what,
    }
}
