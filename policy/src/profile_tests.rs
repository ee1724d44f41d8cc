//! Tests of reading and composing profiles.

use super::*;
use crate::builtin::{BUILTIN_NAMES, builtin};
use crate::source::{Catalog, Source};

struct Texts(Vec<(&'static str, &'static str)>);

impl Catalog for Texts {
    fn fetch(&self, name: &str) -> Result<Option<Source>, String> {
        let own = self.0.iter().find(|it| it.0 == name).map(|it| it.1);
        Ok(own.or_else(|| builtin(name)).map(|text| source(name, text)))
    }
}

fn source(origin: &str, text: &str) -> Source {
    Source {
        origin: origin.to_owned(),
        text: text.to_owned(),
    }
}

fn load(text: &'static str, others: &[(&'static str, &'static str)]) -> Result<Profile, String> {
    let mut all = others.to_vec();
    all.push(("p", text));
    Profile::load(&source("p", text), &Texts(all)).map_err(|error| {
        let help = error
            .help()
            .map(|it| format!(" ({it})"))
            .unwrap_or_default();
        format!("{error}{help}")
    })
}

#[test]
fn every_mistake_is_found_with_its_place() {
    let cases: [(&str, &str); 15] = [
        (
            "name = 'x'",
            "p:1:1: `schema` is missing (begin the file with `schema = 1`)",
        ),
        (
            "schema = 2",
            "p:1:10: `schema`: schema 2 is not known; this version reads schema 1",
        ),
        (
            "schema = 1\n[filesystem]\nwirte = []",
            "p:3:1: unknown key `wirte` in [filesystem] (did you mean `write`?)",
        ),
        (
            "schema = 1\nnme = 'x'",
            "p:2:1: unknown key `nme` (did you mean `name`?)",
        ),
        (
            "schema = 1\n[filesystem]\nread = '/usr'",
            "p:3:8: `filesystem.read` has to be a list of texts, not string",
        ),
        (
            "schema = 1\n[filesystem]\nread = ['/usr', 3]",
            "p:3:17: `filesystem.read` has to be a list of texts, not integer",
        ),
        (
            "schema = 1\n[filesystem]\ndeny = ['a//b']",
            "p:3:9: `filesystem.deny`: `a//b`: a path can not have `.`, `..` or empty components",
        ),
        (
            "schema = 1\n[network]\nmode = 'proxy'",
            "p:3:8: `network.mode`: `proxy` is reserved for the filtering proxy, which does not \
             exist yet; say `off` or, knowing what it opens, `host`",
        ),
        (
            "schema = 1\n[limits]\nmemory = '4GB'",
            "p:3:10: `limits.memory`: `4GB` is not a size such as `4GiB`, or `unlimited`",
        ),
        (
            "schema = 1\n[limits]\nprocesses = 0",
            "p:3:13: `limits.processes`: 0 would let nothing run; drop the key, or say `unlimited`",
        ),
        (
            "schema = 1\nrequire = 'some'",
            "p:2:11: `require`: `some` is neither `full` nor `landlock`",
        ),
        (
            "schema = 1\n[environment]\npass = ['*']",
            "p:3:9: `environment.pass`: `*` is neither a name nor a prefix with a `*` after it",
        ),
        (
            "schema = 1\n[filesystem]\nread = ['~/.ssh']\ndeny = ['~/.ssh/']",
            "p:3:10: `~/.ssh` is granted (p:3) and denied (p:4) (drop one of the two; a deny of a \
             parent can not be dropped)",
        ),
        (
            "schema = 1\nextends = 'nowhere'",
            "p:2:12: `nowhere`, which this profile extends, is not known",
        ),
        (
            "schema = 1\n[process]\nallow_ptrace_of_children = 'yes'",
            "p:3:28: `process.allow_ptrace_of_children` has to be true or false, not string",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(load(text, &[]).unwrap_err(), expected, "{text}");
    }
}

#[test]
fn a_text_that_is_no_toml_is_refused_with_its_place() {
    let error = load("schema = 1\nname = ", &[]).unwrap_err();
    assert!(error.starts_with("p:2:"), "{error}");
    let error = load("schema = 1\nschema = 1", &[]).unwrap_err();
    assert!(error.starts_with("p:2:1: duplicate key"), "{error}");
}

#[test]
fn a_profile_that_extends_itself_is_refused_with_the_circle() {
    let error = load(
        "schema = 1\nextends = 'q'",
        &[("q", "schema = 1\nextends = 'p'")],
    );
    assert_eq!(
        error.unwrap_err(),
        "q:2:12: a profile extends itself: p → q → p"
    );
}

#[test]
fn a_child_profile_keeps_every_deny_of_its_parent() {
    let parent = "schema = 1\n[filesystem]\ndeny = ['a']\nprotect = ['b']";
    let child = "schema = 1\nextends = 'q'\n[filesystem]\ndeny = []\nprotect = ['c']";
    let profile = load(child, &[("q", parent)]).unwrap();
    let texts = |list: &[Valued<PathRule>]| -> Vec<String> {
        list.iter().map(|it| it.value.to_string()).collect()
    };
    assert_eq!(texts(&profile.deny), ["a"]);
    assert_eq!(texts(&profile.protect), ["b", "c"]);
}

#[test]
fn a_child_cannot_accept_less_isolation_than_its_parent() {
    let parent = "schema = 1\nrequire = 'full'";
    let weaker = load(
        "schema = 1\nextends = 'q'\nrequire = 'landlock'",
        &[("q", parent)],
    );
    assert!(weaker.unwrap_err().contains("weaker"));
    let parent = "schema = 1\nrequire = 'landlock'";
    let stricter = load(
        "schema = 1\nextends = 'q'\nrequire = 'full'",
        &[("q", parent)],
    )
    .unwrap();
    assert_eq!(stricter.require.unwrap().value, Require::Full);
}

#[test]
fn single_values_are_replaced_by_the_child_and_know_their_line() {
    let parent = "schema = 1\n[limits]\nprocesses = 5\nopen_files = 7";
    let child = "schema = 1\nextends = ['q']\n[limits]\nprocesses = 'unlimited'";
    let profile = load(child, &[("q", parent)]).unwrap();
    let processes = profile.limits.get("processes").unwrap();
    assert_eq!(processes.value, Limit::Unlimited);
    assert_eq!(processes.origin.to_string(), "p:4");
    assert_eq!(
        profile.limits.get("open_files").unwrap().origin.to_string(),
        "q:4"
    );
}

#[test]
fn every_shipped_profile_loads_says_what_it_is_for_and_prints_what_reads_back() {
    for name in BUILTIN_NAMES {
        let text = builtin(name).unwrap();
        let profile = Profile::load(&source(name, text), &Texts(Vec::new())).unwrap();
        assert_eq!(profile.name, name);
        assert!(!profile.description.is_empty(), "{name}");
        let printed = profile.to_toml();
        let back = Profile::load(&source("printed", &printed), &Texts(Vec::new())).unwrap();
        assert_eq!(
            back.to_toml_without_origins(),
            profile.to_toml_without_origins(),
            "{name}"
        );
    }
}
