//! What a command can see and change of the files around it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Instant;

use crate::harness::{Output, Place, finish, is_root, lacks, names, stockade};

/// Runs `script` free, where it has to succeed, and then inside, where it must not.
#[track_caller]
fn refused(place: &Place, options: &[&str], script: &str) {
    place.free(script).exits(0);
    let inside = place.exec(options, script);
    assert_ne!(inside.code(), Some(0), "{script}\n{}", inside.errors);
}

#[test]
fn a_pattern_hides_every_match() {
    let place = Place::new();
    for name in ["a.pem", "deep/er/b.pem", ".hidden/.c.pem", "deep/kept.txt"] {
        place.write(name, "canary");
    }
    for name in ["a.pem", "deep/er/b.pem", ".hidden/.c.pem"] {
        refused(&place, &["--deny", "*.pem"], &format!("cat {name}"));
    }
    let kept = place.exec(&["--deny", "*.pem"], "cat deep/kept.txt");
    assert_eq!(kept.success(), "canary");
}

#[test]
fn a_denied_folder_is_closed_with_all_that_it_holds() {
    let place = Place::new();
    place.write("secrets/a", "canary");
    place.write("secrets/deep/b", "canary");
    for script in ["cat secrets/a", "cat secrets/deep/b", "touch secrets/new"] {
        refused(&place, &["--deny", "secrets"], script);
    }
    let inside = place.exec(&["--deny", "secrets"], "grep -r canary . || true");
    assert_eq!(inside.success(), "");
}

#[test]
fn thousands_of_denied_files_start_and_stay_hidden() {
    let place = Place::new();
    for count in [2_000, 10_000] {
        for number in 0..count {
            place.write(
                format!("keys{count}/d{}/k{number}.key", number % 50),
                "canary",
            );
        }
        let script = format!("cat keys{count}/*/*.key 2>/dev/null | wc -c");
        let expected = (count * 6).to_string();
        assert_eq!(place.free(&script).success(), expected);
        let started = Instant::now();
        let inside = place.exec(&["--deny", &format!("keys{count}/*/*.key")], &script);
        assert_eq!(inside.success(), "0", "{count}");
        eprintln!("{count} denies: {:?}", started.elapsed());
    }
}

#[test]
fn a_trailing_slash_changes_nothing() {
    let place = Place::new();
    place.write("private/key", "canary");
    for deny in ["private/", "private", "${workspace}/private/", "private//"] {
        refused(&place, &["--deny", deny], "cat private/key");
    }
}

#[test]
fn a_pattern_character_in_a_real_name_can_be_written_literally() {
    let place = Place::new();
    for name in ["[ab].txt", "a.txt", "what?.txt", "whats.txt", "s*r", "star"] {
        place.write(name, "canary");
    }
    let cases = [
        (r"\[ab\].txt", "[ab].txt", "a.txt"),
        (r"what\?.txt", "what?.txt", "whats.txt"),
        (r"s\*r", "s*r", "star"),
    ];
    for (deny, hidden, shown) in cases {
        refused(&place, &["--deny", deny], &format!("cat '{hidden}'"));
        let other = place.exec(&["--deny", deny], &format!("cat '{shown}'"));
        assert_eq!(other.success(), "canary", "{deny}");
    }
}

#[test]
fn a_name_with_brackets_is_hidden_by_its_own_text() {
    let place = Place::new();
    place.write("[id].env", "canary");
    refused(&place, &["--deny", "[id].env"], "cat '[id].env'");
}

#[test]
fn a_deny_through_links_reaches_the_real_place() {
    let place = Place::new();
    place.write("real/secret", "canary");
    symlink("real", place.workspace.join("link")).unwrap();
    symlink("link", place.workspace.join("link2")).unwrap();
    for deny in ["${workspace}/link/secret", "${workspace}/link2/secret"] {
        for path in ["link/secret", "real/secret", "link2/secret"] {
            refused(&place, &["--deny", deny], &format!("cat {path}"));
        }
    }
    // The denied name itself is a link.
    symlink("real/secret", place.workspace.join("named")).unwrap();
    refused(&place, &["--deny", "${workspace}/named"], "cat real/secret");
    refused(&place, &["--deny", "named"], "cat named");
}

#[test]
fn a_deny_above_the_workspace_leaves_the_workspace() {
    let place = Place::new();
    place.write("file", "canary");
    fs::write(place.home.join("beside"), "canary").unwrap();
    let home = place.home.to_str().unwrap();
    for deny in ["~", "${home}/", home] {
        let inside = place.exec(&["--deny", deny], "cat file && echo more >> file");
        assert_eq!(inside.success(), "canary", "{deny}");
        assert_eq!(place.read("file"), "canarymore\n");
        place.write("file", "canary");
        refused(&place, &["--deny", deny], "cat ../beside");
    }
}

#[test]
fn a_profile_may_deny_the_temp_folder() {
    let place = Place::new();
    let host = tempfile::NamedTempFile::new_in("/tmp").unwrap();
    let name = host.path().to_str().unwrap();
    let profile = place.profile(
        "schema = 1\nname = \"no-temp\"\nextends = \"standard\"\n\
         [filesystem]\ndeny = [\"/tmp\", \"/var/tmp\"]\n",
    );
    place.exec(&["--profile", &profile], "true").exits(0);
    refused(&place, &["--profile", &profile], &format!("test -e {name}"));
}

#[test]
fn a_protected_name_that_is_a_link_is_held_or_refused() {
    let place = Place::new();
    place.write("plain.json", "before");
    symlink("plain.json", place.workspace.join(".mcp.json")).unwrap();
    place.write("tools/run", "before");
    symlink("tools", place.workspace.join(".claude")).unwrap();
    let scripts = [
        "echo after > .mcp.json",
        "echo after > plain.json",
        "echo after > tools/run",
        "echo after > .claude/run",
        "ln -sfn elsewhere .mcp.json",
        "mv tools tools2",
    ];
    for script in scripts {
        let inside = place.exec(&[], script);
        assert_ne!(inside.code(), Some(0), "{script}");
        assert_eq!(place.read(".mcp.json"), "before", "{script}");
        assert_eq!(place.read(".claude/run"), "before", "{script}");
        let target = fs::read_link(place.workspace.join(".mcp.json")).unwrap();
        assert_eq!(target, Path::new("plain.json"), "{script}");
    }
    for script in scripts {
        place.free(script).exits(0);
    }
}

#[test]
fn ordinary_directories_can_be_renamed() {
    let place = Place::new();
    place.write(".git/config", "");
    place.write("src/a", "");
    place.write("pkg/one/b", "");
    place.write("held/.mcp.json", "before");
    let inside = place.exec(&[], "mv src lib && mv pkg/one pkg/two && mv pkg package");
    inside.exits(0);
    assert!(place.workspace.join("lib/a").exists());
    assert!(place.workspace.join("package/two/b").exists());
    // What holds a protected name stays where it is.
    let inside = place.exec(&[], "mv held gone");
    assert_ne!(inside.code(), Some(0));
    assert_eq!(place.read("held/.mcp.json"), "before");
    place.free("mv held gone").exits(0);
}

#[test]
fn top_level_links_stay_links() {
    let place = Place::new();
    let script = "for it in /bin /sbin /lib /lib64; do echo $it $(readlink $it); done";
    assert_eq!(
        place.exec(&[], script).success(),
        place.free(script).success()
    );
    place.exec(&[], "/bin/true && /usr/bin/true").exits(0);
}

#[test]
fn a_workspace_whose_top_is_read_only_starts() {
    let place = Place::new();
    place.write("file", "canary");
    place.write("sub/.git/config", "");
    let mode = |mode| fs::set_permissions(&place.workspace, fs::Permissions::from_mode(mode));
    mode(0o555).unwrap();
    let before = names(&place.workspace);
    let inside = place.exec(&[], "cat file; echo x > sub/new");
    assert_eq!(inside.success(), "canary");
    assert_eq!(names(&place.workspace), before);
    assert!(place.workspace.join("sub/new").exists());
    mode(0o755).unwrap();
}

#[test]
fn missing_protected_names_leave_nothing_on_the_host() {
    let place = Place::new();
    place.write("only", "");
    // While it runs, as well as afterwards.
    let inside = place.exec(&[], "ls -A");
    assert_eq!(inside.success(), "only");
    assert_eq!(names(&place.workspace), ["only"]);
    let made = place.exec(
        &[],
        "mkdir -p .git/hooks .claude sub && touch sub/.mcp.json",
    );
    made.exits(0);
    for name in [".git/hooks", ".claude", "sub/.mcp.json"] {
        let path = place.workspace.join(name);
        // An empty folder of hooks runs nothing.
        let inert = path.is_dir() && names(&path).is_empty() && name == ".git/hooks";
        assert!(inert || !path.exists(), "{name}");
    }
}

#[test]
fn a_protected_name_that_appears_is_moved_aside_with_its_content() {
    let place = Place::new();
    let inside = place.exec(
        &[],
        "echo evil > .mcp.json; git init -q repo 2>/dev/null || mkdir -p repo/.git/hooks; \
         echo evil > repo/.git/hooks/pre-commit; chmod +x repo/.git/hooks/pre-commit; chmod 555 .",
    );
    inside.exits(0);
    inside
        .says("`.mcp.json.stockade-quarantine-")
        .says("hooks.stockade-quarantine-");
    fs::set_permissions(&place.workspace, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(!place.workspace.join(".mcp.json").exists());
    assert!(!place.workspace.join("repo/.git/hooks/pre-commit").exists());
    let aside = names(&place.workspace)
        .into_iter()
        .find(|it| it.as_bytes().starts_with(b".mcp.json.stockade-quarantine-"));
    assert_eq!(place.read(aside.unwrap()), "evil\n");
}

#[test]
fn a_protected_file_with_another_name_is_refused() {
    let place = Place::new();
    let config = place.write(".git/config", "before");
    fs::hard_link(&config, place.workspace.join("other")).unwrap();
    let inside = place.exec(&[], "echo ran");
    assert_ne!(inside.code(), Some(0));
    assert_eq!(inside.text(), "");
    inside.says("hard link").says("config");
    fs::remove_file(place.workspace.join("other")).unwrap();
    assert_eq!(place.exec(&[], "echo ran").success(), "ran");
}

#[test]
fn an_optional_root_that_is_missing_or_a_link_is_skipped() {
    let place = Place::new();
    let missing: Vec<String> = (0..20).map(|it| format!("\"~/none/{it}/deep\"")).collect();
    fs::create_dir(place.home.join("real")).unwrap();
    symlink("real", place.home.join("link")).unwrap();
    symlink("nowhere", place.home.join("broken")).unwrap();
    symlink("circle", place.home.join("circle")).unwrap();
    let profile = place.profile(&format!(
        "schema = 1\nname = \"many\"\nextends = \"standard\"\n[filesystem]\n\
         write = [{}, \"~/link\", \"~/broken\", \"~/circle\"]\nread = [\"/none/at/all\"]\n",
        missing.join(", ")
    ));
    let inside = place.exec(
        &["--profile", &profile],
        "echo x > ~/link/new && echo started",
    );
    assert_eq!(inside.success(), "started");
    assert!(place.home.join("real/new").exists());
    assert!(!place.home.join("none").exists());
    assert!(!place.home.join("nowhere").exists());
}

#[test]
fn a_workspace_may_have_any_path() {
    let cases: [&[u8]; 5] = [
        b"with spaces  in it",
        b"new\nline",
        b"not \xff\xfe utf-8",
        b"quote'\"$(x)\\",
        b"-- --deny [a-z]*{x}",
    ];
    for name in cases {
        let place = Place::below(Path::new("/var/tmp"), OsStr::from_bytes(name));
        place.write(".git/config", "before");
        place.write("secret.pem", "canary");
        let shown = OsStr::from_bytes(name).display().to_string();
        let inside = place.exec(&["--deny", "*.pem"], "echo new > made && pwd");
        inside.exits(0);
        let pwd = [place.workspace.as_os_str().as_bytes(), b"\n"].concat();
        assert_eq!(inside.bytes, pwd, "{shown}");
        assert_eq!(place.read("made"), "new\n", "{shown}");
        refused(&place, &["--deny", "*.pem"], "cat secret.pem");
        let inside = place.exec(&[], "echo after > .git/config");
        assert_ne!(inside.code(), Some(0), "{shown}");
        assert_eq!(place.read(".git/config"), "before", "{shown}");
    }
}

#[test]
fn a_workspace_may_lie_behind_a_link() {
    let place = Place::new();
    place.write(".git/config", "before");
    let link = place.home.join("link");
    symlink("work", &link).unwrap();
    let mut command = place.command(stockade());
    command.current_dir(&link).env("PWD", &link);
    command.args([
        "exec",
        "--",
        "sh",
        "-c",
        "echo new > made && echo x > .git/config",
    ]);
    assert_ne!(finish(command, b"").code(), Some(0));
    assert_eq!(place.read("made"), "new\n");
    assert_eq!(place.read(".git/config"), "before");
    // Named by the link, from elsewhere.
    let mut command = place.command(stockade());
    command.current_dir("/").args(["exec", "--workspace"]);
    command.arg(&link).args(["--", "sh", "-c", "cat made"]);
    assert_eq!(finish(command, b"").success(), "new");
}

/// Runs `script` where it may mount, and nobody else sees what it mounts; `$0` is `stockade`.
fn with_mounts(place: &Place, script: &str) -> Output {
    let unshare = if is_root() {
        "unshare --mount"
    } else {
        "unshare --user --mount --map-current-user --keep-caps"
    };
    let quoted = script.replace('\'', "'\\''");
    place.free(&format!(
        "{unshare} sh -ec '{quoted}' {}",
        stockade().display()
    ))
}

#[test]
fn a_workspace_may_lie_on_a_tmpfs() {
    let place = Place::new();
    let run = with_mounts(
        &place,
        "mount -t tmpfs own ../work; cd ../work; mkdir .git; echo before > .git/config
         $0 exec -- sh -c 'echo new > made; echo after > .git/config' && exit 3
         cat made .git/config",
    );
    assert_eq!(run.success(), "new\nbefore");
}

#[test]
fn what_is_not_granted_is_not_visited() {
    let place = Place::new();
    fs::create_dir(place.home.join("hung")).unwrap();
    let fuse = fs::File::options().read(true).write(true).open("/dev/fuse");
    if fuse.is_err() {
        // Distributions differ in whom they let open it; root's run of this test can.
        if !is_root() || lacks("a mount that never answers: /dev/fuse can not be opened") {
            return;
        }
    }
    // A file system whose server never says a word: whoever asks it, waits.
    let run = with_mounts(
        &place,
        "exec 3<>/dev/fuse
         mount -i -t fuse -o fd=3,rootmode=40000,user_id=$(id -u),group_id=$(id -g) hung ../hung
         timeout -s KILL 1 stat -f ../hung/x && exit 3
         exec $0 exec -- echo started",
    );
    assert_eq!(run.success(), "started");
}
