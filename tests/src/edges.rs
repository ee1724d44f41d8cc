//! Which crate may know which, as `docs/ARCHITECTURE.md` §3 draws it.

use crate::tree::SourceFile;
use toml::{Table, Value};

/// A crate of the workspace, the crates of the workspace it may name, and why not others.
struct MayKnow {
    folder: &'static str,
    others: &'static [&'static str],
}

/// The whole graph. A crate that is not listed here is a violation, so that a new one is a decision.
const GRAPH: [MayKnow; 7] = [
    MayKnow {
        folder: "birdcage-helper",
        others: &[],
    },
    MayKnow {
        folder: "policy",
        others: &[],
    },
    MayKnow {
        folder: "probes",
        others: &[],
    },
    MayKnow {
        folder: "runtime",
        others: &["policy"],
    },
    MayKnow {
        folder: "sandbox",
        others: &[],
    },
    MayKnow {
        folder: "supervisor",
        others: &["policy", "runtime", "sandbox"],
    },
    MayKnow {
        folder: "tests",
        others: &["policy", "runtime", "sandbox"],
    },
];

/// Crates that bring an executor: a process that forks must have one thread.
const ASYNC: [&str; 7] = [
    "async-io",
    "async-std",
    "embassy-executor",
    "futures",
    "mio",
    "smol",
    "tokio",
];

/// What a crate leaves to another by design.
const FORBIDDEN: [(&str, &[&str]); 4] = [
    // Knows the kernel, and neither profiles nor their syntax.
    ("sandbox", &["clap", "globset", "toml"]),
    // Pure: nothing that starts, opens or waits.
    ("policy", &["libc", "nix", "rustix", "tempfile"]),
    // Can only ask.
    (
        "runtime",
        &["landlock", "libc", "nix", "rustix", "seccompiler"],
    ),
    // Small, and shipped: nothing but the kernel.
    ("probes", &["clap", "landlock", "seccompiler", "toml"]),
];

/// Edges of the crate graph that the architecture does not draw.
///
/// Takes every file; looks at the manifests of the crates, and at the members of the workspace.
#[must_use]
pub fn violations_of_edges(files: &[SourceFile]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        let Some(folder) = file.path.strip_suffix("/Cargo.toml") else {
            continue;
        };
        let manifest = match file.text.parse::<Table>() {
            Ok(it) => it,
            Err(error) => {
                found.push(format!("{}: not TOML: {error}", file.path));
                continue;
            }
        };
        let Some(known) = GRAPH.iter().find(|it| it.folder == folder) else {
            found.push(format!(
                "{}: crate `{folder}` is not in the graph",
                file.path
            ));
            continue;
        };
        for dependency in dependencies(&manifest) {
            let name = dependency.as_str();
            // GPL-3.0-or-later: whoever links it is under that licence, so one program alone does.
            if name == "birdcage" && folder != "birdcage-helper" {
                found.push(format!("{}: `{folder}` would be under the GPL", file.path));
            }
            let is_ours = GRAPH.iter().any(|it| it.folder == name);
            if is_ours && !known.others.contains(&name) {
                found.push(format!("{}: `{folder}` may not know `{name}`", file.path));
            }
            if matches!(folder, "policy" | "probes" | "sandbox") && ASYNC.contains(&name) {
                found.push(format!(
                    "{}: `{folder}` stays free of async, `{name}`",
                    file.path
                ));
            }
            for (_, names) in FORBIDDEN.iter().filter(|(it, _)| *it == folder) {
                if names.contains(&name) {
                    found.push(format!(
                        "{}: `{folder}` leaves `{name}` to others",
                        file.path
                    ));
                }
            }
        }
    }
    found
}

/// Every crate that a manifest names in any of its tables, under all names it goes by.
fn dependencies(manifest: &Table) -> Vec<String> {
    let mut found = Vec::new();
    collect(manifest, &mut found);
    let targets = manifest.get("target").and_then(Value::as_table);
    for target in targets
        .into_iter()
        .flat_map(Table::values)
        .filter_map(Value::as_table)
    {
        collect(target, &mut found);
    }
    found.sort();
    found.dedup();
    found
}

fn collect(table: &Table, found: &mut Vec<String>) {
    for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
        for (key, value) in table
            .get(kind)
            .and_then(Value::as_table)
            .into_iter()
            .flatten()
        {
            let package = value.get("package").and_then(Value::as_str);
            let path = value.get("path").and_then(Value::as_str);
            let folder = path.and_then(|it| it.trim_end_matches('/').rsplit('/').next());
            for name in [Some(key.as_str()), package, folder].into_iter().flatten() {
                found.push(name.strip_prefix("stockade-").unwrap_or(name).to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, expected: &[&str]) {
        let actual = violations_of_edges(&[SourceFile::new(path, text)]);
        let matches = actual.len() == expected.len()
            && actual
                .iter()
                .zip(expected)
                .all(|(it, part)| it.contains(part));
        assert!(
            matches,
            "{path}: {text}\nexpected {expected:?}\nactual {actual:?}"
        );
    }

    #[test]
    fn an_edge_that_is_not_drawn_is_found_under_every_name() {
        let no_policy = &["`sandbox` may not know `policy`"][..];
        let cases = [
            ("[dependencies]\npolicy.workspace = true", no_policy),
            ("[dependencies]\nstockade-policy = '1'", no_policy),
            (
                "[dependencies]\np = { package = 'stockade-policy', version = '1' }",
                no_policy,
            ),
            ("[dependencies]\np = { path = '../policy' }", no_policy),
            ("[dev-dependencies]\npolicy.workspace = true", no_policy),
            ("[build-dependencies]\npolicy.workspace = true", no_policy),
            (
                "[target.'cfg(unix)'.dependencies]\npolicy.workspace = true",
                no_policy,
            ),
            ("[dependencies]\nthiserror.workspace = true", &[]),
        ];
        for (text, expected) in cases {
            check("sandbox/Cargo.toml", text, expected);
        }
    }

    #[test]
    fn the_agent_side_has_no_edge_by_which_to_start_anything() {
        check(
            "runtime/Cargo.toml",
            "[dependencies]\nsandbox.workspace = true",
            &["`runtime` may not know `sandbox`"],
        );
    }

    #[test]
    fn the_sandbox_stays_free_of_async_and_of_toml() {
        check(
            "sandbox/Cargo.toml",
            "[dependencies]\ntokio = '1'",
            &["free of async, `tokio`"],
        );
        check(
            "sandbox/Cargo.toml",
            "[dependencies]\ntoml = '1'",
            &["leaves `toml` to others"],
        );
    }

    #[test]
    fn one_program_alone_is_under_the_gpl() {
        let text = "[dependencies]\nbirdcage = '0.8'";
        check("sandbox/Cargo.toml", text, &["would be under the GPL"]);
        check("birdcage-helper/Cargo.toml", text, &[]);
        let text = "[dependencies]\nbirdcage-helper = { path = '../birdcage-helper' }";
        check(
            "supervisor/Cargo.toml",
            text,
            &["may not know `birdcage-helper`"],
        );
    }

    #[test]
    fn a_crate_nobody_decided_on_and_a_manifest_nobody_can_read_are_found() {
        check(
            "extra/Cargo.toml",
            "",
            &["crate `extra` is not in the graph"],
        );
        check("policy/Cargo.toml", "= =", &["not TOML"]);
    }
}
