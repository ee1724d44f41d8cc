//! The mounts of a view in the order in which they are laid.

use std::collections::BTreeSet;

use crate::filesystem::{Access, Filesystem, Staging};
use crate::path::AbsPath;

/// One mount of the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) path: &'a AbsPath,
    pub(crate) kind: Kind<'a>,
}

/// What is mounted. The order is that of layers at the same path, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind<'a> {
    /// A fresh directory.
    Private,
    /// A tree or file of the host.
    Host { access: Access, owned: bool },
    /// An overlay over the tree below it.
    Staged(&'a Staging),
    /// The directory itself once more, so that it cannot be renamed.
    Pin,
    /// The name itself once more, read-only.
    Protected,
    /// Nothing, unreadable.
    Mask,
    /// A file made for the sandbox.
    Made(&'a [u8]),
}

/// Every mount, shallow paths first and, at one path, lower layers first.
///
/// What lies below a mask is left out: the mask hides it.
pub(crate) fn sorted(filesystem: &Filesystem) -> Vec<Entry<'_>> {
    let pins = &filesystem.pins;
    let masks: BTreeSet<&AbsPath> = filesystem.masks.iter().collect();
    let below_mask = |path: &AbsPath| {
        !masks.is_empty()
            && path
                .ancestors()
                .skip(1)
                .any(|it| AbsPath::new(it).is_ok_and(|it| masks.contains(&it)))
    };
    let mut entries: Vec<Entry<'_>> = Vec::new();
    entries.extend(filesystem.private.iter().map(|path| Entry {
        path,
        kind: Kind::Private,
    }));
    entries.extend(filesystem.grants.iter().map(|grant| Entry {
        path: &grant.path,
        kind: Kind::Host {
            access: grant.access,
            owned: grant.owned,
        },
    }));
    entries.extend(filesystem.staging.iter().map(|staging| Entry {
        path: &staging.root,
        kind: Kind::Staged(staging),
    }));
    let names = [
        (pins, Kind::Pin),
        (&filesystem.protected, Kind::Protected),
        (&filesystem.masks, Kind::Mask),
    ];
    for (paths, kind) in names {
        entries.extend(paths.iter().map(|path| Entry { path, kind }));
    }
    entries.extend(filesystem.files.iter().map(|file| Entry {
        path: &file.path,
        kind: Kind::Made(&file.content),
    }));
    entries.retain(|it| !below_mask(it.path));
    entries.sort_by_cached_key(|it| (it.path.depth(), it.kind, it.path));
    entries
}
