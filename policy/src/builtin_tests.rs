//! Tests of the shipped profiles, and of the page that describes profiles.

use std::path::Path;

use super::*;
use crate::{Catalog, LIMIT_NAMES, Profile, Resolved, Source, Variables};

struct Shipped;

impl Catalog for Shipped {
    fn fetch(&self, name: &str) -> Result<Option<Source>, String> {
        Ok(builtin(name).map(|text| source(name, text)))
    }
}

fn source(origin: &str, text: &str) -> Source {
    Source {
        origin: origin.to_owned(),
        text: text.to_owned(),
    }
}

#[test]
fn every_shipped_profile_loads_says_what_it_is_for_and_prints_what_reads_back() {
    for name in BUILTIN_NAMES {
        let text = builtin(name).unwrap();
        let profile = Profile::load(&source(name, text), &Shipped).unwrap();
        assert_eq!(profile.name, name);
        assert!(!profile.description.is_empty(), "{name}");
        let printed = profile.to_toml();
        let back = Profile::load(&source("printed", &printed), &Shipped).unwrap();
        assert_eq!(
            back.to_toml_without_origins(),
            profile.to_toml_without_origins(),
            "{name}"
        );
    }
}

fn shipped() -> impl Iterator<Item = Profile> {
    BUILTIN_NAMES
        .into_iter()
        .map(|name| Profile::load(&source(name, builtin(name).unwrap()), &Shipped).unwrap())
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
    let variables = Variables {
        workspace: "/home/u/w".into(),
        home: Some("/home/u".into()),
    };
    for profile in shipped() {
        let grants = [&profile.read, &profile.write, &profile.cache];
        let grants: Vec<Resolved> = grants
            .iter()
            .flat_map(|it| it.iter())
            .filter_map(|it| it.value.resolve(&variables))
            .collect();
        for secret in secrets.split_whitespace() {
            let mut above = Path::new(secret).ancestors();
            let granted = above.find(|it| grants.iter().any(|grant| grant.matches(it)));
            assert_eq!(granted, None, "{}: {secret}", profile.name);
        }
        let bin = Path::new("/usr");
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
            let name = Path::new(name);
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
        let loaded = Profile::load(&source("p", text), &Shipped);
        assert_eq!(loaded.err().map(|it| it.to_string()), None, "{text}");
        examples += 1;
    }
    assert_ne!(examples, 0);
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
