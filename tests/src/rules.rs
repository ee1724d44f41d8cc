//! The rules that every source file keeps, each as a function that lists who breaks it.
//!
//! A violation reads `path:line: what is wrong`.

use crate::scan::{Token, split, tokens};
use crate::tree::SourceFile;
use std::iter::repeat;

/// The most lines a file may have above its tests.
pub const LONGEST: usize = 400;

/// Where `unsafe` may stand: a system call per function, behind a safe signature.
const UNSAFE_HOMES: [&str; 2] = ["probes/src/sys", "sandbox/src/sys"];

/// Where a process may be started: the sandbox and the helper of one back end, the hostile
/// probes, and the suites.
const SPAWN_HOMES: [&str; 4] = ["birdcage-helper", "probes", "sandbox/src", "tests"];

/// How far above an `unsafe` block its comment may end, in lines of one statement.
const STATEMENT: usize = 4;

/// Rust files whose first line is not a `//!` that says what the module is for.
#[must_use]
pub fn violations_of_module_docs(files: &[SourceFile]) -> Vec<String> {
    let rust = files.iter().filter(|it| it.is_rust());
    let lacking = rust.filter(|it| !it.text.starts_with("//! "));
    lacking
        .map(|it| format!("{}:1: does not open with `//! `", it.path))
        .collect()
}

/// `unsafe` outside its two homes, and `unsafe` blocks that no comment answers for.
#[must_use]
pub fn violations_of_unsafe(files: &[SourceFile]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|it| it.is_rust()) {
        let views = split(&file.text);
        let at_home = UNSAFE_HOMES.iter().any(|it| is_module(file, it));
        let comments: Vec<&str> = views.comments.lines().collect();
        for pair in with_next(&tokens(&views.code)).filter(|(it, _)| it.text == "unsafe") {
            let (token, next) = pair;
            if !at_home {
                found.push(format!(
                    "{}:{}: `unsafe` outside `sys`",
                    file.path, token.line
                ));
            } else if next == Some("{") && !is_answered(&comments, token.line) {
                found.push(format!("{}:{}: no SAFETY comment", file.path, token.line));
            }
        }
    }
    found
}

/// Whether `file` is the module `home` or lies in its folder.
fn is_module(file: &SourceFile, home: &str) -> bool {
    file.is_below(home) || file.path.strip_suffix(".rs") == Some(home)
}

/// Each token with the text of the one behind it.
fn with_next<'a>(
    tokens: &'a [Token<'a>],
) -> impl Iterator<Item = (&'a Token<'a>, Option<&'a str>)> + 'a {
    let next = tokens.iter().skip(1).map(|it| Some(it.text)).chain([None]);
    tokens.iter().zip(next)
}

/// Whether the comment that ends on `line` or shortly above it answers for what is unsafe.
fn is_answered(comments: &[&str], line: usize) -> bool {
    let comment = |at: usize| comments.get(at).copied().unwrap_or_default();
    // Lines are counted from 1: the line itself is at `line - 1`.
    let above = (0..line).rev();
    let mut block = above
        .skip_while(|at| comment(*at).is_empty() && at + STATEMENT >= line)
        .take_while(|at| !comment(*at).is_empty());
    block.any(|at| comment(at).contains("SAFETY:"))
}

/// Processes started outside the sandbox, the probes and the suites.
///
/// Code behind a file's `#[cfg(test)]` is a suite too.
#[must_use]
pub fn violations_of_spawning(files: &[SourceFile]) -> Vec<String> {
    const CALLS: [&str; 8] = [
        "clone3",
        "execve",
        "execveat",
        "fexecve",
        "fork",
        "posix_spawn",
        "posix_spawnp",
        "vfork",
    ];
    let mut found = Vec::new();
    for file in files.iter().filter(|it| it.is_rust() && !it.is_suite()) {
        if SPAWN_HOMES.iter().any(|it| file.is_below(it)) {
            continue;
        }
        let code = split(&file.text).code;
        let tokens = tokens(above_tests(&code));
        for (at, token) in tokens.iter().enumerate() {
            let path = tokens.iter().skip(at).take(4).map(|it| it.text);
            let is_command = path.eq(["Command", ":", ":", "new"]);
            if is_command || CALLS.contains(&token.text) {
                let what = if is_command {
                    "Command::new"
                } else {
                    token.text
                };
                found.push(format!(
                    "{}:{}: `{what}` outside `sandbox`",
                    file.path, token.line
                ));
            }
        }
    }
    found
}

/// I/O, clock, environment and processes in `policy`; executors in `sandbox` and `probes`.
#[must_use]
pub fn violations_of_purity(files: &[SourceFile]) -> Vec<String> {
    const WORLD: [&str; 5] = ["env", "fs", "net", "process", "time"];
    let mut found = Vec::new();
    for file in files.iter().filter(|it| it.is_rust()) {
        let code = split(&file.text).code;
        let tokens = tokens(above_tests(&code));
        for (at, token) in tokens.iter().enumerate() {
            if file.is_below("policy/src") && token.text == "std" {
                let path: Vec<&str> = tokens.iter().skip(at).take(4).map(|it| it.text).collect();
                if let ["std", ":", ":", module] = path.as_slice()
                    && WORLD.contains(module)
                {
                    found.push(format!(
                        "{}:{}: `std::{module}` in `policy`",
                        file.path, token.line
                    ));
                }
            }
            let is_sync = file.is_below("sandbox") || file.is_below("probes");
            if is_sync && matches!(token.text, "async" | "await") {
                found.push(format!(
                    "{}:{}: `{}` here",
                    file.path, token.line, token.text
                ));
            }
        }
    }
    found
}

/// Files with more than [`LONGEST`] lines above their tests. Suites are all tests.
#[must_use]
pub fn violations_of_length(files: &[SourceFile]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|it| it.is_rust() && !it.is_suite()) {
        let lines = above_tests(&file.text).lines().count();
        if lines > LONGEST {
            found.push(format!("{}:1: {lines} lines above its tests", file.path));
        }
    }
    found
}

/// The part of a source above its first `#[cfg(test)]` that stands at the margin.
fn above_tests(text: &str) -> &str {
    text.split_once("\n#[cfg(test)]")
        .map_or(text, |(above, _)| above)
}

/// What is not finished, and tests that do not say what they expect.
#[must_use]
pub fn violations_of_completeness(files: &[SourceFile]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|it| it.is_rust()) {
        let views = split(&file.text);
        // A view may end before the source does, where nothing of its kind follows.
        let code = views.code.lines().chain(repeat(""));
        let comments = views.comments.lines().chain(repeat(""));
        for (index, ((raw, code), comment)) in file.text.lines().zip(code).zip(comments).enumerate()
        {
            let mut add = |what: &str| found.push(format!("{}:{}: {what}", file.path, index + 1));
            for name in ["todo!", "unimplemented!"] {
                if code.contains(name) {
                    add(name);
                }
            }
            for mark in ["FIXME", "TODO", "XXX"] {
                if comment.contains(mark) {
                    add(mark);
                }
            }
            if code.contains("#[should_panic") {
                add("`should_panic` accepts any panic; compare the message");
            }
            if code.contains("#[ignore") && !names_an_issue(raw) {
                add("an ignored test names its issue: `#[ignore = \"#12\"]`");
            }
        }
    }
    found
}

/// Whether a line reads `#[ignore = "#12…"]`.
fn names_an_issue(line: &str) -> bool {
    let reason = line.split_once("#[ignore = \"#").map(|(_, reason)| reason);
    reason.is_some_and(|it| it.starts_with(|digit: char| digit.is_ascii_digit()))
}

/// Traces of the machine that a file was written on: the path of the checkout `root`, and of its kind.
#[must_use]
pub fn violations_of_places(files: &[SourceFile], root: &str) -> Vec<String> {
    // Spelt in two parts, so that this file does not name what it looks for.
    const SHARED: [&str; 4] = [
        concat!("/wo", "rk/main"),
        concat!("/wo", "rk/shared"),
        concat!("/wo", "rk/target"),
        concat!("/wo", "rk/wt"),
    ];
    let is_telling = root.split('/').filter(|it| !it.is_empty()).count() >= 2;
    let mut found = Vec::new();
    for file in files {
        for (index, line) in file.text.lines().enumerate() {
            let own = is_telling && line.contains(root);
            if own || SHARED.iter().any(|it| line.contains(it)) {
                found.push(format!(
                    "{}:{}: names a place of one machine",
                    file.path,
                    index + 1
                ));
            }
        }
    }
    found
}

/// Package registries other than the public index that `Cargo.lock` records, and settings that name one.
#[must_use]
pub fn violations_of_registries(files: &[SourceFile]) -> Vec<String> {
    const PUBLIC: &str = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    const SETTINGS: [&str; 4] = [
        concat!("index", "-url"),
        concat!("replace", "-with"),
        concat!("sparse", "+http"),
        concat!("source", ".crates-io"),
    ];
    let mut found = Vec::new();
    for file in files {
        let is_lock = has_name(&file.path, "Cargo.lock");
        for (index, line) in file.text.lines().enumerate() {
            let other = is_lock && line.starts_with("source = ") && line != PUBLIC;
            if other || SETTINGS.iter().any(|it| line.contains(it)) {
                found.push(format!("{}:{}: names a registry", file.path, index + 1));
            }
        }
    }
    found
}

fn has_name(path: &str, name: &str) -> bool {
    path.rsplit('/').next() == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rule = fn(&[SourceFile]) -> Vec<String>;

    /// Applies `rule` to each file alone and compares the start of what it finds.
    fn check(rule: Rule, cases: &[(&str, &str, Option<&str>)]) {
        for (path, text, expected) in cases {
            let found = rule(&[SourceFile::new(*path, *text)]);
            let matches = match expected {
                Some(part) => found.len() == 1 && found[0].contains(part),
                None => found.is_empty(),
            };
            assert!(
                matches,
                "{path}: {text}\nexpected {expected:?}\nfound {found:?}"
            );
        }
    }

    #[test]
    fn a_module_says_first_what_it_is_for() {
        check(
            violations_of_module_docs,
            &[
                ("policy/src/a.rs", "//! Reads.\n", None),
                ("policy/src/a.rs", "use a;\n", Some("a.rs:1: does not open")),
                ("policy/src/a.rs", "//!\n", Some("does not open")),
                ("docs/a.md", "text", None),
            ],
        );
    }

    #[test]
    fn unsafe_has_two_homes_and_always_an_answer() {
        let bare = "//! A.\nfn f() {\n    unsafe { g() }\n}\n";
        let answered =
            "//! A.\nfn f() {\n    // SAFETY: `g` asks nothing.\n    unsafe { g() }\n}\n";
        let long = "/* */ // SAFETY: `g` asks\n// two lines.\nlet it =\n    h(\n        unsafe { g() });\n";
        let far = "/* */ // SAFETY: of another.\n\n\n\n\n\nunsafe { g() }\n";
        check(
            violations_of_unsafe,
            &[
                (
                    "policy/src/a.rs",
                    answered,
                    Some("a.rs:4: `unsafe` outside"),
                ),
                ("sandbox/src/system.rs", answered, Some("outside")),
                ("sandbox/src/sys/a.rs", answered, None),
                ("sandbox/src/sys.rs", answered, None),
                ("probes/src/sys/a.rs", bare, Some("a.rs:3: no SAFETY")),
                ("probes/src/sys/a.rs", long, None),
                ("probes/src/sys/a.rs", far, Some("no SAFETY")),
                (
                    "policy/src/a.rs",
                    "#![forbid(unsafe_code)] // unsafe\nconst A: &str = \"unsafe\";",
                    None,
                ),
            ],
        );
    }

    #[test]
    fn a_process_starts_in_the_sandbox_or_in_a_suite() {
        let spawn = "//! A.\nfn f() { std::process::Command::new(p); }\n";
        let in_tests = "//! A.\n#[cfg(test)]\nmod tests { fn f() { Command::new(p); } }\n";
        check(
            violations_of_spawning,
            &[
                (
                    "supervisor/src/a.rs",
                    spawn,
                    Some("a.rs:2: `Command::new` outside"),
                ),
                (
                    "supervisor/src/a.rs",
                    "fn f() { libc::fork(); }",
                    Some("`fork`"),
                ),
                (
                    "supervisor/src/a.rs",
                    "fn f() { libc::posix_spawn(); }",
                    Some("`posix_spawn`"),
                ),
                ("sandbox/src/a.rs", spawn, None),
                ("probes/src/a.rs", spawn, None),
                ("supervisor/tests/a.rs", spawn, None),
                ("supervisor/src/a.rs", in_tests, None),
                (
                    "supervisor/src/a.rs",
                    "// fork\nconst A: &str = \"fork\"; let forked = 1;",
                    None,
                ),
            ],
        );
    }

    #[test]
    fn policy_sees_nothing_of_the_world_and_the_sandbox_never_awaits() {
        check(
            violations_of_purity,
            &[
                ("policy/src/a.rs", "use std::fs;", Some("`std::fs`")),
                (
                    "policy/src/a.rs",
                    "let now = std::time::Instant::now();",
                    Some("`std::time`"),
                ),
                ("policy/src/a.rs", "use std::fmt;", None),
                ("supervisor/src/a.rs", "use std::fs;", None),
                ("sandbox/src/a.rs", "async fn f() {}", Some("`async`")),
                ("sandbox/src/a.rs", "let a = \"async\";", None),
            ],
        );
    }

    #[test]
    fn a_file_is_measured_above_its_tests() {
        let body = "let a = 1;\n".repeat(LONGEST);
        let tested = format!("{body}#[cfg(test)]\n{body}");
        let long = format!("{body}let a = 1;\n");
        check(
            violations_of_length,
            &[
                ("policy/src/a.rs", &body, None),
                ("policy/src/a.rs", &tested, None),
                ("policy/src/a.rs", &long, Some("401 lines")),
                ("policy/tests/a.rs", &long, None),
            ],
        );
    }

    #[test]
    fn nothing_is_left_for_later_without_an_issue() {
        check(
            violations_of_completeness,
            &[
                ("a.rs", "fn f() { todo!() }", Some("a.rs:1: todo!")),
                (
                    "a.rs",
                    "\nfn f() { unimplemented!() }",
                    Some("a.rs:2: unimplemented!"),
                ),
                ("a.rs", "// FIXME: later", Some("FIXME")),
                ("a.rs", "let a = \"FIXME\";", None),
                ("a.rs", "#[should_panic]\nfn f() {}", Some("should_panic")),
                ("a.rs", "#[ignore]\nfn f() {}", Some("names its issue")),
                (
                    "a.rs",
                    "#[ignore = \"slow\"]\nfn f() {}",
                    Some("names its issue"),
                ),
                ("a.rs", "#[ignore = \"#12\"]\nfn f() {}", None),
            ],
        );
    }

    #[test]
    fn no_file_tells_where_it_was_written() {
        let root = "/elsewhere/checkout";
        let cases = [
            ("see /elsewhere/checkout/docs", root, 1),
            (concat!("see /wo", "rk/main/docs"), root, 1),
            ("see /elsewhere/docs", root, 0),
            // A checkout at `/src` would forbid too much.
            ("see /src/docs", "/src", 0),
        ];
        for (text, root, expected) in cases {
            let found = violations_of_places(&[SourceFile::new("a.md", text)], root);
            assert_eq!(found.len(), expected, "{text}");
        }
    }

    #[test]
    fn the_lock_file_names_the_public_index_alone() {
        let public = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
        let mirror = "source = \"registry+https://mirror.example/index\"";
        let setting = concat!("replace", "-with = \"mirror\"");
        check(
            violations_of_registries,
            &[
                ("Cargo.lock", public, None),
                (
                    "birdcage-helper/Cargo.lock",
                    mirror,
                    Some("names a registry"),
                ),
                ("Cargo.lock", mirror, Some("Cargo.lock:1: names a registry")),
                (".cargo/config.toml", setting, Some("names a registry")),
            ],
        );
    }
}
