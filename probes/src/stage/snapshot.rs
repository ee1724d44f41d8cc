//! Records the host's files before the probes, and tells two recordings apart.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{INSIDE, Stage, StageError};

/// What is compared of one name. Directories have no times: a probe that comes and goes
/// changes those without harm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    mode: u32,
    owner: (u32, u32),
    modified: Option<(i64, i64)>,
    content: Option<Vec<u8>>,
    target: Option<PathBuf>,
    attributes: Vec<String>,
}

/// All names below the stage's places, and the two planted elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Snapshot(BTreeMap<PathBuf, Entry>);

/// Writes the baseline that [`load`] reads.
pub(crate) fn record(stage: &Stage) -> Result<(), StageError> {
    let path = stage.baseline();
    let text = serde_json::to_vec(&take(stage)?).map_err(|source| StageError::Format {
        path: path.clone(),
        source,
    })?;
    fs::write(&path, text).map_err(StageError::file(&path))
}

/// Reads the baseline.
pub(crate) fn load(stage: &Stage) -> Result<Snapshot, StageError> {
    let path = stage.baseline();
    let text = fs::read(&path).map_err(StageError::file(&path))?;
    serde_json::from_slice(&text).map_err(|source| StageError::Format { path, source })
}

/// Looks at everything now.
pub(crate) fn take(stage: &Stage) -> Result<Snapshot, StageError> {
    let mut snapshot = Snapshot::default();
    for root in [
        &stage.workspace,
        &stage.home,
        &stage.outside,
        &stage.root.join("sockets"),
    ] {
        walk(root, &mut snapshot).map_err(StageError::file(root))?;
    }
    // In shared places, only names of this stage are ours to look at.
    for shared in ["/tmp", "/dev/shm"] {
        let shared = Path::new(shared);
        for entry in fs::read_dir(shared)
            .map_err(StageError::file(shared))?
            .flatten()
        {
            if entry.file_name().to_string_lossy().contains(&stage.nonce) {
                walk(&entry.path(), &mut snapshot).map_err(StageError::file(shared))?;
            }
        }
    }
    snapshot.0.remove(&stage.workspace.join(INSIDE));
    Ok(snapshot)
}

impl Snapshot {
    /// Each path that differs, with one word on how.
    pub(crate) fn differences(&self, after: &Self) -> Vec<(PathBuf, &'static str)> {
        let mut found = Vec::new();
        for (path, before) in &self.0 {
            match after.0.get(path) {
                None => found.push((path.clone(), "gone")),
                Some(now) => found.extend(difference(before, now).map(|how| (path.clone(), how))),
            }
        }
        // What lies in a new directory goes without saying.
        let is_new = |path: &Path| after.0.contains_key(path) && !self.0.contains_key(path);
        let is_top = |path: &Path| is_new(path) && !path.parent().is_some_and(is_new);
        let new = after.0.keys().filter(|path| is_top(path));
        found.extend(new.map(|path| (path.clone(), "new")));
        found
    }
}

fn difference(before: &Entry, now: &Entry) -> Option<&'static str> {
    if before.mode != now.mode {
        Some("mode")
    } else if before.owner != now.owner {
        Some("owner")
    } else if before.content != now.content {
        Some("content")
    } else if before.target != now.target {
        Some("link target")
    } else if before.attributes != now.attributes {
        Some("extended attributes")
    } else if before.modified != now.modified {
        Some("modification time")
    } else {
        None
    }
}

fn walk(path: &Path, snapshot: &mut Snapshot) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    snapshot.0.insert(path.to_owned(), entry(path, &metadata));
    if metadata.is_dir() {
        for child in fs::read_dir(path)? {
            walk(&child?.path(), snapshot)?;
        }
    }
    Ok(())
}

fn entry(path: &Path, metadata: &Metadata) -> Entry {
    let is_file = metadata.is_file();
    Entry {
        mode: metadata.mode(),
        owner: (metadata.uid(), metadata.gid()),
        modified: is_file.then(|| (metadata.mtime(), metadata.mtime_nsec())),
        content: is_file.then(|| crate::attempt::read_some(path).unwrap_or_default()),
        target: fs::read_link(path).ok(),
        attributes: attributes(path),
    }
}

/// The names of a file's extended attributes; none where the file system has none.
fn attributes(path: &Path) -> Vec<String> {
    let mut buffer = vec![0_u8; 1024];
    let length = rustix::fs::llistxattr(path, &mut buffer).unwrap_or(0);
    let names = buffer.get(..length).unwrap_or_default();
    let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
    names
        .split(|it| *it == 0)
        .filter(|it| !it.is_empty())
        .map(text)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(mode: u32, content: &str) -> Entry {
        Entry {
            mode,
            owner: (0, 0),
            modified: Some((1, 0)),
            content: Some(content.as_bytes().to_vec()),
            target: None,
            attributes: Vec::new(),
        }
    }

    #[test]
    fn a_name_that_changed_appeared_or_went_is_named_with_how() {
        let before = Snapshot(BTreeMap::from([
            ("/a".into(), entry(0o644, "x")),
            ("/b".into(), entry(0o644, "x")),
            ("/c".into(), entry(0o644, "x")),
            ("/same".into(), entry(0o644, "x")),
        ]));
        let after = Snapshot(BTreeMap::from([
            ("/a".into(), entry(0o666, "x")),
            ("/b".into(), entry(0o644, "y")),
            ("/d".into(), entry(0o755, "")),
            ("/d/inside".into(), entry(0o644, "x")),
            ("/same".into(), entry(0o644, "x")),
        ]));
        let expected: Vec<(PathBuf, &str)> = vec![
            ("/a".into(), "mode"),
            ("/b".into(), "content"),
            ("/c".into(), "gone"),
            ("/d".into(), "new"),
        ];
        assert_eq!(before.differences(&after), expected);
        assert_eq!(before.differences(&before), Vec::new());
    }
}
