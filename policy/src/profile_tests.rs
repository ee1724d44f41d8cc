//! Tests of reading and composing profiles.

use proptest::prelude::*;

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

fn shipped() -> impl Iterator<Item = Profile> {
    BUILTIN_NAMES.into_iter().map(|name| {
        Profile::load(&source(name, builtin(name).unwrap()), &Texts(Vec::new())).unwrap()
    })
}

#[test]
fn no_shipped_profile_passes_a_variable_that_holds_a_secret_by_custom() {
    let secrets = "AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY ANTHROPIC_API_KEY OPENAI_API_KEY \
        GITHUB_TOKEN GH_TOKEN CI_JOB_TOKEN CARGO_REGISTRY_TOKEN CARGO_REGISTRIES_X_TOKEN NPM_TOKEN \
        NODE_AUTH_TOKEN NPM_CONFIG__AUTH PIP_INDEX_URL UV_INDEX_URL GOPROXY HTTPS_PROXY \
        SSH_AUTH_SOCK GPG_AGENT_INFO DOCKER_HOST DBUS_SESSION_BUS_ADDRESS XDG_RUNTIME_DIR \
        KUBECONFIG LD_PRELOAD LD_LIBRARY_PATH GIT_CONFIG_GLOBAL GIT_SSH_COMMAND BASH_ENV ENV \
        NODE_OPTIONS PYTHONSTARTUP";
    for profile in shipped() {
        for name in secrets.split_whitespace() {
            let passed = profile
                .pass
                .iter()
                .find(|it| it.value.matches(name.as_bytes()));
            assert_eq!(passed, None, "{}: {name}", profile.name);
        }
        assert!(profile.pass.iter().any(|it| it.value.matches(b"PATH")));
    }
}

#[test]
fn no_shipped_profile_grants_a_place_that_holds_secrets_by_custom() {
    let secrets = "/home/u/.ssh/id_rsa /home/u/.aws/credentials /home/u/.gnupg/x /home/u/.netrc \
        /home/u/.npmrc /home/u/.pypirc /home/u/.git-credentials /home/u/.config/gh/hosts.yml \
        /home/u/.config/git/credentials /home/u/.config/pip/pip.conf /home/u/.bash_history \
        /home/u/.cargo/credentials.toml /home/u/.docker/config.json /home/u/.gem/credentials \
        /home/u/.gradle/gradle.properties /home/u/.kube/config /home/u/.m2/settings.xml \
        /home/u/.local/share/keyrings/x /home/u/.local/share/uv/credentials/x \
        /home/u/.mozilla/x /home/u/Documents/x /etc/shadow /etc/sudoers /etc/ssh/ssh_host_rsa_key \
        /etc/ssl/private/x /etc/pki/tls/private/x /etc/environment /etc/docker/key.json \
        /etc/kubernetes/admin.conf /root/.ssh/id_rsa /run/docker.sock /run/user/1000/bus \
        /run/secrets/x /var/run/docker.sock /var/lib/x /proc/1/environ /sys/kernel/x /dev/sda /srv/x";
    let variables = crate::Variables {
        workspace: "/home/u/w".into(),
        home: Some("/home/u".into()),
    };
    for profile in shipped() {
        let grants = [&profile.read, &profile.write, &profile.cache];
        let grants: Vec<crate::Resolved> = grants
            .iter()
            .flat_map(|it| it.iter())
            .filter_map(|it| it.value.resolve(&variables))
            .collect();
        for secret in secrets.split_whitespace() {
            let mut above = std::path::Path::new(secret).ancestors();
            let granted = above.find(|it| grants.iter().any(|grant| grant.matches(it)));
            assert_eq!(granted, None, "{}: {secret}", profile.name);
        }
        let bin = std::path::Path::new("/usr");
        assert!(grants.iter().any(|it| it.matches(bin)), "{}", profile.name);
    }
}

#[test]
fn shipped_profiles_protect_what_git_shells_editors_and_agents_obey() {
    let names = ".git/hooks .git/config .git/config.worktree .git/commondir .GIT/Hooks \
        a/b/.git/hooks .hg/hgrc .bashrc sub/.zshrc .envrc .vscode sub/x.code-workspace .idea \
        .mcp.json .claude .codex .cursor .stockade";
    let ordinary = "src/main.rs Makefile package.json .gitignore .gitattributes .github/workflows \
        .git/HEAD .git/index .git/objects .git/refs .git/logs .npmrc .cargo/config.toml target \
        node_modules/.bin .venv";
    for profile in shipped() {
        let is_protected = |name: &str| {
            let name = std::path::Path::new(name);
            profile.protect.iter().any(|it| it.value.matches_end(name))
        };
        for name in names.split_whitespace() {
            assert!(is_protected(name), "{}: {name}", profile.name);
        }
        for name in ordinary.split_whitespace() {
            assert!(!is_protected(name), "{}: {name}", profile.name);
        }
    }
}

const REFERENCE: &str = include_str!("../../docs/PROFILES.md");

#[test]
fn the_reference_describes_every_key_and_its_examples_load() {
    let keys = "schema name description extends require require_landlock require_limits read write \
        deny protect cache private tmp_size mode allow_ptrace_of_children \
        allow_nested_user_namespaces pass set";
    for key in keys.split_whitespace().chain(LIMIT_NAMES) {
        let row = format!("| `{key}` |");
        assert!(REFERENCE.contains(&row), "{key} has no row");
    }
    for name in BUILTIN_NAMES {
        let row = format!("| `{name}`");
        assert!(REFERENCE.contains(&row), "{name} has no row");
    }
    let blocks = REFERENCE.split("```toml\n").skip(1);
    let mut examples = 0;
    for text in blocks.filter_map(|it| it.split("```").next()) {
        let loaded = Profile::load(&source("p", text), &Texts(Vec::new()));
        assert_eq!(loaded.err().map(|it| it.to_string()), None, "{text}");
        examples += 1;
    }
    assert_eq!(examples, 3);
}

/// Every shipped profile as `stockade profile show --effective` prints it.
#[test]
fn the_shipped_profiles_are_in_effect_what_is_recorded() {
    for profile in shipped() {
        let name = &profile.name;
        // Lines move with every comment; the file that a value came from does not.
        let text: String = profile
            .to_toml()
            .lines()
            .map(|line| match line.rsplit_once(':') {
                Some((before, number)) if number.parse::<u32>().is_ok() => format!("{before}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        expect_test::expect_file![format!("../golden/{name}.toml")].assert_eq(&text);
    }
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
