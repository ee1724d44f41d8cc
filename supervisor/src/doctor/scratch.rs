//! A folder of this run alone, removed at its end.

use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sandbox::AbsPath;

use crate::caller::Caller;
use crate::session;

/// A private folder with a name that nobody can guess.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: AbsPath,
}

impl Scratch {
    /// Makes one below the caller's cache folder, so that it lies where a home's files lie; in
    /// `/var/tmp` or `/tmp` where there is none.
    ///
    /// # Errors
    ///
    /// The kernel's, for the last place that was tried.
    pub(crate) fn make(caller: &Caller) -> io::Result<Self> {
        let own = caller.cache_folder();
        let places = own
            .iter()
            .map(PathBuf::as_path)
            .chain(["/var/tmp", "/tmp"].map(Path::new));
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for place in places {
            match make_in(place) {
                Ok(path) => return Ok(Self { path }),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    pub(crate) fn path(&self) -> &AbsPath {
        &self.path
    }

    /// A workspace in it, made now, with names that the profiles protect, so that how they are
    /// held can be reported.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub(crate) fn workspace(&self) -> io::Result<AbsPath> {
        let path = self.path.join("workspace");
        std::fs::create_dir_all(path.join(".git/hooks"))?;
        std::fs::write(path.join(".git/config"), "[core]\n\tbare = false\n")?;
        AbsPath::new(path).map_err(io::Error::other)
    }
}

fn make_in(place: &Path) -> io::Result<AbsPath> {
    std::fs::create_dir_all(place)?;
    let place = place.canonicalize()?;
    let path = place.join(format!("stockade-doctor-{}", session::session_id()));
    std::fs::DirBuilder::new().mode(0o700).create(&path)?;
    AbsPath::new(path).map_err(io::Error::other)
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if std::fs::remove_dir_all(&self.path).is_err() {
            open_up(&self.path, 0);
            let _ = std::fs::remove_dir_all(&self.path);
        }
        // The folder above, if it was made for us.
        if self
            .path
            .parent()
            .is_some_and(|it| it.ends_with("stockade"))
        {
            let _ = self.path.parent().map(std::fs::remove_dir);
        }
    }
}

/// Gives the owner back what a probe's chmod took; no link is followed.
fn open_up(folder: &Path, depth: u32) {
    let _ = std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700));
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        if depth < 256 && entry.file_type().is_ok_and(|it| it.is_dir()) {
            open_up(&entry.path(), depth + 1);
        }
    }
}
