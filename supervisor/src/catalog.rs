//! Finds profiles: shipped ones by name, a person's own by name, any by path.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use policy::{Catalog, Source, builtin};
use rustix::fs::{Mode, OFlags};

use crate::caller::Caller;

/// Profiles by name or path.
#[derive(Debug)]
pub(crate) struct Profiles {
    folder: Option<PathBuf>,
    directory: PathBuf,
}

impl Profiles {
    pub(crate) fn new(caller: &Caller) -> Self {
        Self {
            folder: caller.profile_folder(),
            directory: caller.directory.clone(),
        }
    }

    /// A person's own profiles, by name.
    pub(crate) fn own_names(&self) -> Vec<String> {
        let Some(Ok(entries)) = self.folder.as_ref().map(std::fs::read_dir) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|it| Some(it.file_name().to_str()?.strip_suffix(".toml")?.to_owned()))
            .collect();
        names.sort();
        names
    }
}

impl Catalog for Profiles {
    fn fetch(&self, name: &str) -> Result<Option<Source>, String> {
        if let Some(text) = builtin(name) {
            return Ok(Some(Source {
                origin: format!("built-in {name}"),
                text: text.to_owned(),
            }));
        }
        let path = if name.contains('/') || Path::new(name).extension().is_some() {
            self.directory.join(name)
        } else {
            match &self.folder {
                Some(folder) => folder.join(name).with_extension("toml"),
                None => return Ok(None),
            }
        };
        match read(&path) {
            Ok(text) => {
                let real = path.canonicalize().map_err(|error| error.to_string())?;
                Ok(Some(Source {
                    origin: real.display().to_string(),
                    text,
                }))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Most bytes of a profile: ten thousand denies are less.
const MOST: u64 = 4 << 20;

/// Reads a profile, and never waits: a name that leads to a pipe or a device is no file.
fn read(path: &Path) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = std::fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let attributes = file.metadata()?;
    if !attributes.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if attributes.len() > MOST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut text = String::new();
    file.take(MOST).read_to_string(&mut text)?;
    Ok(text)
}
