//! Turns granted paths into what the view shows: real places, and the links that lead there.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;
use sandbox::{AbsPath, Access, Grant, Link};

/// Most links on the way to one place, as for the kernel, path_resolution(7).
const MOST_LINKS: usize = 40;

/// Grants and links, collected.
#[derive(Debug, Default)]
pub(crate) struct Places {
    grants: BTreeMap<AbsPath, (Access, bool)>,
    links: BTreeMap<AbsPath, OsString>,
    private: Vec<AbsPath>,
    /// What was found to exist and to be no link.
    plain: HashSet<PathBuf>,
}

impl Places {
    /// Grants `path`, if it exists. What it resolves to is granted; links on the way are kept.
    ///
    /// Returns the real place.
    pub(crate) fn grant(&mut self, path: &Path, access: Access, owned: bool) -> Option<AbsPath> {
        let (place, exists) = self.follow(path)?;
        if !exists {
            return None;
        }
        let entry = self.grants.entry(place.clone()).or_insert((access, owned));
        *entry = (entry.0.max(access), entry.1 || owned);
        Some(place)
    }

    /// Makes `path` a private directory, whether or not it exists.
    pub(crate) fn private(&mut self, path: &Path) {
        if let Some((place, _)) = self.follow(path)
            && !self.private.contains(&place)
        {
            self.private.push(place);
        }
    }

    /// Resolves every link on the way and notes it; what does not exist is taken as it is.
    ///
    /// Returns the place, and whether it exists.
    fn follow(&mut self, path: &Path) -> Option<(AbsPath, bool)> {
        let mut rest: Vec<OsString> = components(path);
        rest.reverse();
        let mut done = PathBuf::from("/");
        let mut exists = true;
        let mut links = 0;
        while let Some(name) = rest.pop() {
            if name == ".." {
                done.pop();
                continue;
            }
            let next = done.join(&name);
            if !exists || self.plain.contains(&next) {
                done = next;
                continue;
            }
            let target = match rustix::fs::readlink(&next, Vec::new()) {
                Ok(target) => PathBuf::from(OsString::from_vec(target.into_bytes())),
                Err(error) => {
                    // EINVAL: it is there and no link, readlink(2).
                    exists = error == Errno::INVAL;
                    if exists {
                        self.plain.insert(next.clone());
                    }
                    done = next;
                    continue;
                }
            };
            links += 1;
            if links > MOST_LINKS {
                return None;
            }
            self.links
                .insert(AbsPath::new(&next).ok()?, target.clone().into_os_string());
            if target.is_absolute() {
                done = PathBuf::from("/");
            }
            rest.extend(components(&target).into_iter().rev());
        }
        Some((AbsPath::new(done).ok()?, exists))
    }

    /// The grants without those that another one covers, the links that no grant shows
    /// anyway, and the private directories.
    pub(crate) fn finish(self) -> (Vec<Grant>, Vec<Link>, Vec<AbsPath>) {
        let Self {
            grants,
            links,
            private,
            plain: _,
        } = self;
        let mut kept: Vec<Grant> = Vec::new();
        // Ordered, so that a tree comes before what lies in it.
        for (path, (access, owned)) in grants {
            let over = kept.iter().rfind(|it| path.is_within(&it.path));
            let covered = over.is_some_and(|it| {
                let hidden = private
                    .iter()
                    .any(|private| path.is_within(private) && private.is_within(&it.path));
                it.access == access && it.owned == owned && !hidden
            });
            if !covered {
                kept.push(Grant {
                    path,
                    access,
                    owned,
                });
            }
        }
        let links = links
            .into_iter()
            .filter(|(path, _)| !kept.iter().any(|it| path.is_within(&it.path)))
            .map(|(path, target)| Link { path, target })
            .collect();
        (kept, links, private)
    }
}

fn components(path: &Path) -> Vec<OsString> {
    path.components()
        .filter_map(|it| match it {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_on_the_way_are_kept_and_the_real_place_is_granted() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("usr/bin")).unwrap();
        std::os::unix::fs::symlink("usr/bin", root.join("bin")).unwrap();
        let mut places = Places::default();
        let place = places
            .grant(&root.join("bin"), Access::Read, false)
            .unwrap();
        assert_eq!(*place, *root.join("usr/bin"));
        let (grants, links, _) = places.finish();
        assert_eq!(grants.len(), 1);
        assert_eq!(*links[0].path, *root.join("bin"));
        assert_eq!(links[0].target, "usr/bin");
    }

    #[test]
    fn a_grant_below_another_of_the_same_kind_is_dropped_and_a_stronger_one_kept() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::create_dir_all(root.join("a/c")).unwrap();
        let mut places = Places::default();
        for (name, access) in [
            ("a", Access::Read),
            ("a/b", Access::Read),
            ("a/c", Access::Write),
        ] {
            places.grant(&root.join(name), access, false).unwrap();
        }
        let (grants, _, _) = places.finish();
        let names: Vec<_> = grants
            .iter()
            .map(|it| it.path.strip_prefix(&root).unwrap())
            .collect();
        assert_eq!(names, [Path::new("a"), Path::new("a/c")]);
    }

    #[test]
    fn a_circle_of_links_and_a_missing_path_grant_nothing() {
        let root = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("y", root.path().join("x")).unwrap();
        std::os::unix::fs::symlink("x", root.path().join("y")).unwrap();
        let mut places = Places::default();
        assert_eq!(
            places.grant(&root.path().join("x"), Access::Read, false),
            None
        );
        assert_eq!(
            places.grant(&root.path().join("none"), Access::Read, false),
            None
        );
    }
}
