//! What rules mean, said as plainly as possible and without any text. Tests only.
//!
//! Paths are lists of components here, as the kernel reports them: `/tmp` is `/private/tmp`.

use std::path::{Path, PathBuf};

use super::SeatbeltRules;
use super::tables::{SYSTEM_FILES, SYSTEM_LINKS, SYSTEM_TREES};

/// Operations on files that the model answers for.
pub(super) const OPERATIONS: [&str; 11] = [
    "file-ioctl",
    "file-link",
    "file-map-executable",
    "file-read-data",
    "file-read-metadata",
    "file-write-create",
    "file-write-data",
    "file-write-mode",
    "file-write-setugid",
    "file-write-unlink",
    "process-exec",
];

/// `path` without the links of the root folder.
pub(super) fn canonical(path: &Path) -> Vec<String> {
    let text = path.to_str().unwrap();
    let mut parts: Vec<String> = Vec::new();
    for part in text.split('/').filter(|it| !it.is_empty()) {
        parts.push(part.to_owned());
    }
    if let Some("tmp" | "var" | "etc") = parts.first().map(String::as_str) {
        parts.insert(0, "private".to_owned());
    }
    parts
}

/// Whether `rules` let `operation` (one of [`OPERATIONS`]) happen to `path`.
pub(super) fn allows(rules: &SeatbeltRules, operation: &str, path: &Path) -> bool {
    let path = canonical(path);
    let all =
        |paths: &[PathBuf]| -> Vec<Vec<String>> { paths.iter().map(|it| canonical(it)).collect() };
    let deny = all(&rules.deny);
    let protect = all(&rules.protect);
    let mut write = all(&rules.write);
    write.push(canonical(&rules.private_tmp));
    let mut read = all(&rules.read);
    read.extend(write.iter().cloned());
    let system = |it: &super::tables::Entry| canonical(Path::new(it.name));
    read.extend(SYSTEM_TREES.iter().map(system));

    let within = |roots: &[Vec<String>]| roots.iter().any(|root| path.starts_with(root));
    let above = |paths: &[Vec<String>]| {
        !path.is_empty() && (paths.iter()).any(|it| it.len() > path.len() && it.starts_with(&path))
    };
    let above_protected = !path.is_empty()
        && (protect.iter()).any(|it| it.len() > path.len() && same(&it[..path.len()], &path));
    let protected = (protect.iter())
        .any(|it| path.len() >= it.len() && same(&path[..it.len()], it))
        || write
            .iter()
            .any(|root| path.starts_with(root) && has_name(rules, &path[root.len()..]));
    let leading = write
        .iter()
        .any(|root| path.starts_with(root) && ends_in_leading_part(rules, &path[root.len()..]));
    let root = write.contains(&path);
    let system_file = SYSTEM_FILES.iter().any(|it| system(it) == path);
    let on_the_way =
        SYSTEM_LINKS.iter().any(|it| system(it) == path) || rules_lead_through(rules, &path);

    if within(&deny) {
        return false;
    }
    let writable = within(&write) && !protected;
    let held = leading || above_protected || above(&write) || above(&deny);
    match operation {
        "file-ioctl" | "file-link" | "file-write-setugid" => false,
        "file-map-executable" | "process-exec" => within(&read),
        "file-read-data" => within(&read) || system_file,
        "file-read-metadata" => within(&read) || system_file || on_the_way,
        "file-write-data" | "file-write-mode" => writable,
        "file-write-create" => writable && !held,
        "file-write-unlink" => writable && !held && !root,
        other => panic!("no answer for {other}"),
    }
}

fn rules_lead_through(rules: &SeatbeltRules, path: &[String]) -> bool {
    let granted = rules.read.iter().chain(&rules.write);
    let mut granted = granted.chain([&rules.private_tmp]);
    granted.any(|it| canonical(it).starts_with(path))
}

fn has_name(rules: &SeatbeltRules, below: &[String]) -> bool {
    rules.protect_names.iter().any(|name| {
        let name: Vec<_> = name.iter().map(|it| it.to_str().unwrap()).collect();
        below.windows(name.len()).any(|window| same(window, &name))
    })
}

fn ends_in_leading_part(rules: &SeatbeltRules, below: &[String]) -> bool {
    rules.protect_names.iter().any(|name| {
        let name: Vec<_> = name.iter().map(|it| it.to_str().unwrap()).collect();
        (1..name.len()).any(|length| {
            below.len() >= length && same(&below[below.len() - length..], &name[..length])
        })
    })
}

fn same<A: AsRef<str>, B: AsRef<str>>(one: &[A], other: &[B]) -> bool {
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .all(|(a, b)| a.as_ref().eq_ignore_ascii_case(b.as_ref()))
}
