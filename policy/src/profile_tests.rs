//! Tests of reading and composing profiles.

use proptest::prelude::*;

use super::*;
use crate::builtin::builtin;
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

fn check(cases: &[(&'static str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(load(text, &[]).unwrap_err(), *expected, "{text}");
    }
}

#[test]
fn every_mistake_is_found_with_its_place() {
    let cases: [(&str, &str); 25] = [
        (
            "name = 'x'",
            "p:1:1: `schema` is missing (begin the file with `schema = 1`)",
        ),
        (
            "schema = 2",
            "p:1:10: `schema`: schema 2 is not known; this version reads schema 1",
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
            "p:3:9: `~/.ssh` is granted (p:3) and denied with `~/.ssh/` (p:4) (drop one of the two; \
             what a parent has denied can not be granted again)",
        ),
        (
            "schema = 1\nextends = 'nowhere'",
            "p:2:11: `nowhere`, which this profile extends, is not known (`stockade profile list` \
             shows what there is)",
        ),
        (
            "schema = 1\nextends = 'standart'",
            "p:2:11: `standart`, which this profile extends, is not known (did you mean `standard`?)",
        ),
        (
            "schema = 1\nextends = []",
            "p:2:11: `extends` is empty (drop the key)",
        ),
        (
            "schema = '1'",
            "p:1:10: `schema` has to be a number, not string",
        ),
        (
            "schema = 1\nname = 5",
            "p:2:8: `name` has to be a text, not integer",
        ),
        (
            "schema = 1\n[limits]\nmemory = -1",
            "p:3:10: `limits.memory`: `-1` is not a size such as `4GiB`, or `unlimited`",
        ),
        (
            "schema = 1\n[filesystem]\ntmp_size = 0",
            "p:3:12: `filesystem.tmp_size`: 0 would mean no bound; give a size such as `512MiB`",
        ),
        (
            "schema = 1\n[environment.set]\nA = '${user}'",
            "p:3:5: the value of `A`: only `${home}` and `${workspace}` are known",
        ),
        (
            "schema = 1\n[environment.set]\n'A=B' = 'x'",
            "p:3:9: `A=B` is no name of a variable",
        ),
        (
            "schema = 1\n[environment.set]\nA = \"\\u0000\"",
            "p:3:5: the value of `A` has a NUL",
        ),
        (
            "schema = 1\nrequire_limits = ['memory']\n[limits]\nmemory = 'unlimited'",
            "p:2:19: `require_limits` names `memory`, which has no limit (give it an amount, or \
             drop it from `require_limits`)",
        ),
        (
            "schema = 1\n[filesystem]\nread = ['~/.ssh/config']\ndeny = ['~/.ssh']",
            "p:3:9: `~/.ssh/config` is granted (p:3) and denied with `~/.ssh` (p:4) (drop one of \
             the two; what a parent has denied can not be granted again)",
        ),
        (
            "schema = 1\n[filesystem]\nwrite = ['/a']\nprotect = ['/a']",
            "p:3:10: `/a` is granted (p:3) and protected (p:4) (drop one of the two; what a parent \
             has protected can not be granted again)",
        ),
        (
            "schema = 1\n[process]\nallow_ptrace_of_children = 'yes'",
            "p:3:28: `process.allow_ptrace_of_children` has to be true or false, not string",
        ),
    ];
    check(&cases);
}

#[test]
fn an_unknown_key_is_refused_with_its_place() {
    check(&[
        (
            "schema = 1\n[filesystem]\nwirte = []",
            "p:3:1: unknown key `wirte` in [filesystem] (did you mean `write`?)",
        ),
        (
            "schema = 1\nnme = 'x'",
            "p:2:1: unknown key `nme` (did you mean `name`?)",
        ),
        (
            "schema = 1\n\"n\\u001bx\" = 1",
            "p:2:1: unknown key `n\\u{1b}x` (known keys are schema, extends, name, description, \
             require, require_landlock, require_limits, filesystem, network, process, limits, \
             environment)",
        ),
        (
            "schema = 1\n[filesytem]\nread = []",
            "p:2:2: unknown key `filesytem` (did you mean `filesystem`?)",
        ),
        (
            "schema = 1\n[limits]\n\nmemroy = 1",
            "p:4:1: unknown key `memroy` in [limits] (did you mean `memory`?)",
        ),
    ]);
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
        "q:2:11: a profile extends itself: p → q → p"
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
    assert_eq!(
        weaker.unwrap_err(),
        "p:3:11: `require` is weaker than in `q:2`, which this profile extends (extend `base` or \
         another profile, or drop `require`)"
    );
    let parent = "schema = 1\nrequire = 'landlock'";
    let stricter = load(
        "schema = 1\nextends = 'q'\nrequire = 'full'",
        &[("q", parent)],
    )
    .unwrap();
    assert_eq!(stricter.require.unwrap().value, Require::Full);
}

#[test]
fn a_child_may_deny_what_its_parent_grants_and_not_the_reverse() {
    let grants = "schema = 1\n[filesystem]\nread = ['/a']";
    let tighter = "schema = 1\nextends = 'q'\n[filesystem]\ndeny = ['/a']";
    assert_eq!(load(tighter, &[("q", grants)]).unwrap().deny.len(), 1);
    let denies = "schema = 1\n[filesystem]\ndeny = ['/a']";
    let looser = "schema = 1\nextends = 'q'\n[filesystem]\nread = ['/a/b']";
    let error = load(looser, &[("q", denies)]).unwrap_err();
    assert!(error.starts_with("p:4:9: `/a/b` is granted"), "{error}");
}

#[test]
fn the_least_landlock_only_rises() {
    let parent = "schema = 1\nrequire_landlock = 4";
    let lower = "schema = 1\nextends = 'q'\nrequire_landlock = 3";
    let error = load(lower, &[("q", parent)]).unwrap_err();
    assert!(
        error.starts_with("p:3:20: `require_landlock` is weaker"),
        "{error}"
    );
    let higher = "schema = 1\nextends = 'q'\nrequire_landlock = 6";
    let profile = load(higher, &[("q", parent)]).unwrap();
    assert_eq!(profile.require_landlock.unwrap().value, 6);
}

#[test]
fn numbers_mean_what_toml_says_they_mean() {
    let profile = load(
        "schema = 1\n[limits]\nprocesses = 0x10\nmemory = 1_024\nopen_files = '0o10'",
        &[],
    );
    assert!(profile.unwrap_err().starts_with("p:5:14"));
    let profile = load(
        "schema = 1\n[limits]\nprocesses = 0x10\nmemory = 1_024",
        &[],
    )
    .unwrap();
    let amounts: Vec<Limit> = profile.limits.values().map(|it| it.value).collect();
    assert_eq!(amounts, [Limit::AtMost(1024), Limit::AtMost(16)]);
}

#[test]
fn a_profile_made_of_very_many_is_refused() {
    const TWICE: &str = "schema = 1\nextends = ['NEXT', 'NEXT']";
    let names: Vec<String> = (0..15).map(|it| format!("n{it}")).collect();
    let texts: Vec<String> = (1..15)
        .map(|it| TWICE.replace("NEXT", &format!("n{it}")))
        .collect();
    let mut all: Vec<(&'static str, &'static str)> = Vec::new();
    for (name, text) in names.iter().zip(&texts) {
        all.push((name.clone().leak(), text.clone().leak()));
    }
    all.push(("n14", "schema = 1"));
    let error = load("schema = 1\nextends = 'n0'", &all).unwrap_err();
    assert!(error.contains("made of too many"), "{error}");
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

proptest! {
    #[test]
    fn a_profile_prints_as_what_reads_the_same(
        paths in prop::collection::vec("[a/*?~.\\[\\]\\\\!x\"'\u{1b}é -]{1,8}", 0..8),
        names in prop::collection::vec("[A-C_é\"]{1,3}[*]?", 0..4),
        values in prop::collection::vec("[a$\\\\\"\n\u{85}é]{0,4}", 0..3),
        size in 1_u64..,
    ) {
        let paths: Vec<Valued<PathRule>> = paths
            .iter()
            .filter_map(|it| PathRule::parse(it).ok())
            .map(Valued::on_command_line)
            .collect();
        let profile = Profile {
            name: values.concat(),
            deny: paths.clone(),
            protect: paths,
            tmp_size: Some(Valued::on_command_line(size)),
            pass: names
                .iter()
                .filter_map(|it| NamePattern::parse(it))
                .map(Valued::on_command_line)
                .collect(),
            set: values
                .into_iter()
                .map(|it| (format!("N{it}"), Valued::on_command_line(it)))
                .collect(),
            ..Profile::default()
        };
        let printed = profile.to_toml_without_origins();
        let back = Profile::load(&source("printed", &profile.to_toml()), &Texts(Vec::new()));
        let back = back.map_err(|error| TestCaseError::fail(format!("{error}\n{printed}")))?;
        // A list keeps one of two that are the same.
        let again = back.to_toml_without_origins();
        let mut seen: Vec<&str> = printed.lines().collect();
        let mut kept: Vec<&str> = again.lines().collect();
        for lines in [&mut seen, &mut kept] {
            lines.sort_unstable();
            lines.dedup();
        }
        prop_assert_eq!(seen, kept);
    }
}
