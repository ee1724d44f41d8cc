//! Tests of the search for names.

use super::*;

fn names() -> Names {
    let rules = |texts: &[&str]| -> Vec<PathRule> {
        texts
            .iter()
            .map(|it| PathRule::parse(it).unwrap())
            .collect()
    };
    let protect = rules(&[".git/hooks", ".git/config", ".mcp.json"]);
    let deny = rules(&[".env", "*.pem"]);
    Names::new(protect.iter(), deny.iter())
}

fn tree(files: &[&str]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for file in files {
        let path = root.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        if !file.ends_with('/') {
            std::fs::write(path, "x").unwrap();
        }
    }
    root
}

fn relative(root: &Path, paths: &[PathBuf]) -> Vec<String> {
    let mut all: Vec<String> = paths
        .iter()
        .map(|it| it.strip_prefix(root).unwrap().display().to_string())
        .collect();
    all.sort();
    all
}

#[test]
fn names_are_found_at_any_depth_and_in_any_case() {
    let root = tree(&[
        ".git/hooks/x",
        ".git/config",
        "a/b/.GIT/Hooks/x",
        "a/.Mcp.json",
        "a/.env",
        "a/keys/k.pem",
        "a/hooks/x",
    ]);
    let found = walk(root.path(), &names(), Moment::Before).unwrap();
    assert_eq!(
        relative(root.path(), &found.protected),
        [".git/config", ".git/hooks", "a/.Mcp.json", "a/b/.GIT/Hooks"]
    );
    assert_eq!(
        relative(root.path(), &found.masked),
        ["a/.env", "a/keys/k.pem"]
    );
}

#[test]
fn a_repository_is_known_by_what_it_holds_whatever_its_name() {
    let root = tree(&[
        "bare/HEAD",
        "bare/objects/x",
        "bare/refs/x",
        "bare/config",
        "sub/.git",
    ]);
    let found = walk(root.path(), &names(), Moment::Before).unwrap();
    assert_eq!(relative(root.path(), &found.repositories), ["bare"]);
    assert_eq!(
        relative(root.path(), &found.protected),
        ["bare/config", "sub/.git"]
    );
}

#[test]
fn a_repository_whose_parts_are_links_is_known_as_well() {
    let root = tree(&[
        ".git/objects/x",
        ".git/refs/x",
        "HEAD",
        "config",
        "w/HEAD",
        "w/commondir",
    ]);
    for name in ["objects", "refs"] {
        let target = format!(".git/{name}");
        std::os::unix::fs::symlink(target, root.path().join(name)).unwrap();
    }
    let found = walk(root.path(), &names(), Moment::Before).unwrap();
    assert_eq!(relative(root.path(), &found.repositories), ["", "w"]);
    assert!(found.protected.contains(&root.path().join("config")));
    assert!(found.protected.contains(&root.path().join("w/commondir")));
}

#[test]
fn a_protected_file_with_another_name_is_noted() {
    let root = tree(&[".git/config", ".git/hooks/x"]);
    std::fs::hard_link(root.path().join(".git/config"), root.path().join("c")).unwrap();
    std::fs::hard_link(root.path().join(".git/hooks/x"), root.path().join("h")).unwrap();
    let found = walk(root.path(), &names(), Moment::Before).unwrap();
    assert_eq!(
        relative(root.path(), &found.linked),
        [".git/config", ".git/hooks/x"]
    );
}

#[test]
fn links_are_not_followed() {
    let outside = tree(&[".git/config"]);
    let root = tree(&["a/x"]);
    std::os::unix::fs::symlink(outside.path(), root.path().join("a/out")).unwrap();
    let found = walk(root.path(), &names(), Moment::Before).unwrap();
    assert_eq!(found.protected, Vec::<PathBuf>::new());
}

#[test]
fn a_closed_folder_is_an_error_before_a_run_and_opened_after_it() {
    use std::os::unix::fs::PermissionsExt;
    let root = tree(&["z/.mcp.json"]);
    let closed = || {
        let mode = std::fs::Permissions::from_mode(0o000);
        std::fs::set_permissions(root.path().join("z"), mode).unwrap();
    };
    closed();
    if !rustix::process::geteuid().is_root() {
        walk(root.path(), &names(), Moment::Before).unwrap_err();
    }
    closed();
    let found = walk(root.path(), &names(), Moment::After).unwrap();
    assert_eq!(relative(root.path(), &found.protected), ["z/.mcp.json"]);
}

#[test]
fn what_was_masked_or_lies_among_objects_is_searched_after_a_run() {
    let root = tree(&[
        ".env/.mcp.json",
        "r/HEAD",
        "r/refs/x",
        "r/objects/x/.mcp.json",
    ]);
    let before = walk(root.path(), &names(), Moment::Before).unwrap();
    assert_eq!(
        relative(root.path(), &before.protected),
        Vec::<String>::new()
    );
    let after = walk(root.path(), &names(), Moment::After).unwrap();
    assert_eq!(
        relative(root.path(), &after.protected),
        [".env/.mcp.json", "r/objects/x/.mcp.json"]
    );
}

#[test]
fn a_deep_tree_is_searched() {
    let deep = "d/".repeat(600);
    let root = tree(&[&format!("{deep}.mcp.json")]);
    let found = walk(root.path(), &names(), Moment::Before).unwrap();
    assert_eq!(found.protected.len(), 1);
}

#[test]
fn a_mark_changes_with_content_and_with_identity() {
    let root = tree(&[".git/config", ".git/hooks/x"]);
    let mark = |name: &str| {
        let found = walk(root.path(), &names(), Moment::Before).unwrap();
        *found.marks.get(&root.path().join(name)).unwrap()
    };
    let (config, hooks) = (mark(".git/config"), mark(".git/hooks"));
    assert_eq!((config, hooks), (mark(".git/config"), mark(".git/hooks")));
    std::fs::write(root.path().join(".git/hooks/x"), "other").unwrap();
    assert_ne!(mark(".git/hooks"), hooks);
    std::fs::write(root.path().join("new"), "x").unwrap();
    std::fs::rename(root.path().join("new"), root.path().join(".git/config")).unwrap();
    assert_ne!(mark(".git/config"), config);
}
