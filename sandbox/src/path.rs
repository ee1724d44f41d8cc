//! An absolute path in normal form, as bytes.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::fmt;
use std::ops::Deref;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An absolute path: no `.`, no `..`, no empty component, no NUL, no trailing slash.
///
/// Names are bytes, as for the kernel. Comparing two of these by component is meaningful;
/// what the name resolves to is found, without following a link, when it is opened.
#[derive(Clone)]
pub struct AbsPath(PathBuf);

/// A path is not absolute and in normal form.
#[derive(Debug, thiserror::Error)]
#[error("path `{}` is not absolute and in normal form", .path.display())]
pub struct AbsPathError {
    path: PathBuf,
}

impl AbsPath {
    /// Takes `path` as it is.
    ///
    /// # Errors
    ///
    /// [`AbsPathError`] when it is not in normal form.
    pub fn new(path: impl Into<PathBuf>) -> Result<Self, AbsPathError> {
        let path = path.into();
        if is_normal(&path) {
            Ok(Self(path))
        } else {
            Err(AbsPathError { path })
        }
    }

    /// `/`.
    #[must_use]
    pub fn root() -> Self {
        Self(PathBuf::from("/"))
    }

    /// The path, relative to `/`, for calls that start at a directory descriptor.
    #[must_use]
    pub fn relative(&self) -> &Path {
        self.0.strip_prefix("/").unwrap_or(&self.0)
    }

    /// Whether it is `base` or lies below it.
    ///
    /// The same answer as from `Path::starts_with`, by comparing bytes alone.
    #[must_use]
    pub fn is_within(&self, base: &Self) -> bool {
        base.holds(self)
    }

    /// Whether `path` is this one or lies below it, by its text alone.
    ///
    /// The same answer as from `Path::starts_with`.
    #[must_use]
    pub fn holds(&self, path: &Path) -> bool {
        let (base, bytes) = (self.bytes(), path.as_os_str().as_bytes());
        let rest = bytes.strip_prefix(base);
        let below = rest.is_some_and(|it| base == b"/" || it.first().is_none_or(|it| *it == b'/'));
        // A path that is not in normal form has to be read name by name.
        below || (!is_normal(path) && path.starts_with(&self.0))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_os_str().as_bytes()
    }

    /// How deep it lies: `/` is 0, `/a` is 1.
    #[must_use]
    pub fn depth(&self) -> usize {
        let bytes = self.bytes();
        let slashes = bytes.iter().filter(|it| **it == b'/').count();
        if bytes == b"/" { 0 } else { slashes }
    }

    /// The ancestors that lie strictly between `root` and this path, outermost first.
    #[must_use]
    pub fn ancestors_below(&self, root: &Path) -> Vec<Self> {
        let mut all: Vec<Self> = self
            .0
            .ancestors()
            .skip(1)
            .take_while(|it| it.starts_with(root) && *it != root)
            .map(|it| Self(it.to_owned()))
            .collect();
        all.reverse();
        all
    }

    /// This path with `name` below it; `name` is one component.
    ///
    /// # Errors
    ///
    /// [`AbsPathError`] when `name` is not one normal component.
    pub fn join_name(&self, name: impl AsRef<OsStr>) -> Result<Self, AbsPathError> {
        Self::new(self.0.join(name.as_ref()))
    }
}

/// The bytes decide: in normal form there is one spelling for each path.
impl PartialEq for AbsPath {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for AbsPath {}

impl std::hash::Hash for AbsPath {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.bytes().hash(state);
    }
}

impl PartialOrd for AbsPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for AbsPath {
    /// By component, as `Path` has it: a tree comes before what lies in it, and all of that
    /// before the next tree. So a slash counts as less than any other byte.
    fn cmp(&self, other: &Self) -> Ordering {
        let (one, two) = (self.bytes(), other.bytes());
        let differ = one.iter().zip(two).find(|(one, two)| one != two);
        match differ {
            Some((b'/', _)) => Ordering::Less,
            Some((_, b'/')) => Ordering::Greater,
            Some((one, two)) => one.cmp(two),
            None => one.len().cmp(&two.len()),
        }
    }
}

fn is_normal(path: &Path) -> bool {
    let Some(rest) = path.as_os_str().as_bytes().strip_prefix(b"/") else {
        return false;
    };
    let is_name = |it: &[u8]| !it.is_empty() && it != b"." && it != b".." && !it.contains(&0);
    rest.is_empty() || rest.split(|it| *it == b'/').all(is_name)
}

impl Deref for AbsPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for AbsPath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl fmt::Debug for AbsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for AbsPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0.as_os_str().as_bytes())
    }
}

impl<'de> Deserialize<'de> for AbsPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = Vec::<u8>::deserialize(deserializer)?;
        Self::new(std::ffi::OsString::from_vec(bytes)).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_paths_without_detours_are_normal() {
        let cases = [
            ("/", true),
            ("/a/b", true),
            ("/a/..b", true),
            ("a/b", false),
            ("/a/../b", false),
            ("/a/./b", false),
            ("/a//b", false),
            ("/a/", false),
            ("/a\0b", false),
        ];
        for (path, expected) in cases {
            assert_eq!(AbsPath::new(path).is_ok(), expected, "{path:?}");
        }
    }

    #[test]
    fn lying_within_is_by_whole_names() {
        let path = |it: &str| AbsPath::new(it).unwrap();
        let paths = [
            "/",
            "/a",
            "/a/b",
            "/a/bc",
            "/ab",
            "/a/b/c",
            "/a-b",
            "/a/b/\u{1}",
        ];
        for base in paths {
            for below in paths {
                let (below, base) = (path(below), path(base));
                let both = format!("{below:?} {base:?}");
                assert_eq!(below.is_within(&base), below.starts_with(&base), "{both}");
                assert_eq!(below.cmp(&base), (*below).cmp(&*base), "{both}");
                assert_eq!(below == base, *below == *base, "{both}");
            }
            for other in ["//a", "/a//b", "/a/./b/", "/a/", "a", "", "/."] {
                let other = Path::new(other);
                assert_eq!(
                    path(base).holds(other),
                    other.starts_with(base),
                    "{other:?}"
                );
            }
        }
        assert_eq!(["/", "/a", "/a/b"].map(|it| path(it).depth()), [0, 1, 2]);
    }

    #[test]
    fn ancestors_below_a_root_are_outermost_first_and_exclude_both_ends() {
        let path = AbsPath::new("/w/a/b/c").unwrap();
        let found = path.ancestors_below(Path::new("/w"));
        let expected: Vec<AbsPath> = ["/w/a", "/w/a/b"]
            .iter()
            .map(|it| AbsPath::new(*it).unwrap())
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_name_that_is_not_utf8_survives_the_wire() {
        let path = AbsPath::new(std::ffi::OsString::from_vec(b"/w/\xff\n".to_vec())).unwrap();
        let bytes = postcard::to_stdvec(&path).unwrap();
        let back: AbsPath = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(back, path);
    }

    #[test]
    fn a_detour_does_not_survive_the_wire() {
        let bytes = postcard::to_stdvec(&b"/w/../x".as_slice()).unwrap();
        postcard::from_bytes::<AbsPath>(&bytes).unwrap_err();
    }
}
