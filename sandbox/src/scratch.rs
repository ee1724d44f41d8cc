//! A private folder on the host for the life of one sandbox, or for the time of building it.
//!
//! # Invariants
//!
//! - **Nobody else's.** The name cannot be guessed, the folder is made anew and is closed to
//!   other users.
//! - **Removed without following a link.** By then nothing that could race is alive.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;

use crate::path::AbsPath;

/// A private folder. Its owner removes it by [`Scratch::remove`].
#[derive(Clone, Debug)]
pub(crate) struct Scratch {
    path: AbsPath,
}

/// Where a folder may be made, in the order in which it is tried.
const PLACES: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

impl Scratch {
    /// Makes one.
    ///
    /// # Errors
    ///
    /// The kernel's, for the last place that was tried.
    pub(crate) fn make() -> io::Result<Self> {
        let mut last = io::Error::from(Errno::NOENT);
        for place in PLACES {
            let own = rustix::process::getpid().as_raw_nonzero();
            let path = Path::new(place).join(format!("stockade-{own}-{}", random_word()?));
            match rustix::fs::mkdir(&path, Mode::RWXU) {
                Ok(()) => {
                    let path = AbsPath::new(path).map_err(io::Error::other)?;
                    return Ok(Self { path });
                }
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    }

    pub(crate) fn path(&self) -> &AbsPath {
        &self.path
    }

    /// Removes the folder and all in it. What cannot be removed stays, and nobody is told:
    /// this runs where nobody listens any more.
    pub(crate) fn remove(&self) {
        if std::fs::remove_dir_all(&self.path).is_err() {
            open_up(&self.path, 0);
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Deepest folder that is opened up, so that a hostile tree cannot exhaust the stack.
const DEEPEST: u32 = 512;

/// Gives the owner back what the payload's chmod took.
fn open_up(folder: &Path, depth: u32) {
    let _ = std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700));
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let folders: Vec<PathBuf> = entries
        .flatten()
        .filter(|it| it.file_type().is_ok_and(|it| it.is_dir()))
        .map(|it| it.path())
        .collect();
    for it in folders.into_iter().filter(|_| depth < DEEPEST) {
        open_up(&it, depth + 1);
    }
}

fn random_word() -> io::Result<String> {
    let mut bytes = [0_u8; 12];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|it| format!("{it:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_private_and_goes_even_if_closed_by_chmod() {
        let scratch = Scratch::make().unwrap();
        let mode = std::fs::metadata(scratch.path())
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
        let inner = scratch.path().join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(inner.join("file"), "x").unwrap();
        for shut in [inner, scratch.path().join("a")] {
            std::fs::set_permissions(shut, std::fs::Permissions::from_mode(0o000)).unwrap();
        }
        scratch.remove();
        assert!(!scratch.path().exists());
    }

    #[test]
    fn what_a_link_in_it_points_to_stays() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("kept"), "x").unwrap();
        let scratch = Scratch::make().unwrap();
        std::os::unix::fs::symlink(outside.path(), scratch.path().join("link")).unwrap();
        scratch.remove();
        assert!(!scratch.path().exists());
        assert!(outside.path().join("kept").exists());
    }
}
