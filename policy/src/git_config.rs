//! What a git configuration could make git run, read from its text, git-config(1).
//!
//! # Invariants
//!
//! - **Total.** Any bytes have an answer; what is not understood is not inert.

/// A git configuration, read leniently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitConfig {
    /// Key in lower case (`section.subsection.name`, the subsection as written) and value.
    entries: Vec<(String, String)>,
    /// Whether some line was not understood.
    unclear: bool,
}

/// Keys that can neither run a program nor change where git finds its files.
const INERT: &[&str] = &[
    "core.repositoryformatversion",
    "core.filemode",
    "core.logallrefupdates",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.symlinks",
    "core.autocrlf",
    "core.eol",
    "extensions.objectformat",
    "extensions.refstorage",
    "init.defaultbranch",
    "user.name",
    "user.email",
];

impl GitConfig {
    /// Reads `text`.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let mut config = Self {
            entries: Vec::new(),
            unclear: text.contains('\u{fffd}'),
        };
        let mut section = String::new();
        let joined = text.replace("\r\n", "\n").replace("\\\n", "");
        for line in joined.lines() {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            let rest = match line.strip_prefix('[') {
                None => line,
                Some(header) => match read_header(header) {
                    Some((name, rest)) => {
                        section = name;
                        rest
                    }
                    None => {
                        config.unclear = true;
                        continue;
                    }
                },
            };
            if rest.is_empty() || rest.starts_with(['#', ';']) {
                continue;
            }
            let (key, value) = rest.split_once('=').unwrap_or((rest, "true"));
            let key = key.trim().to_ascii_lowercase();
            let name_is_valid = !key.is_empty()
                && key
                    .chars()
                    .all(|it| it.is_ascii_alphanumeric() || it == '-');
            config.unclear |= section.is_empty() || !name_is_valid;
            config
                .entries
                .push((format!("{section}.{key}"), read_value(value)));
        }
        config
    }

    /// The values that name a file or folder from which git takes programs or configuration.
    #[must_use]
    pub fn paths(&self) -> Vec<&str> {
        self.entries
            .iter()
            .filter(|(key, _)| {
                key == "core.hookspath"
                    || key == "core.fsmonitor"
                    || key == "core.attributesfile"
                    || key == "include.path"
                    || (key.starts_with("includeif.") && key.ends_with(".path"))
            })
            .map(|(_, value)| value.as_str())
            .filter(|it| !matches!(*it, "true" | "false" | ""))
            .collect()
    }

    /// The value of a key, written in lower case.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&str> {
        let found = self.entries.iter().rev().find(|it| it.0 == key);
        found.map(|it| it.1.as_str())
    }

    /// Whether nothing in it can make git run a program or look elsewhere.
    #[must_use]
    pub fn is_inert(&self) -> bool {
        !self.unclear && self.entries.iter().all(|(key, value)| is_inert(key, value))
    }
}

fn is_inert(key: &str, value: &str) -> bool {
    if INERT.contains(&key) {
        return true;
    }
    let last = key.rsplit('.').next().unwrap_or("");
    let in_section = |name: &str| key.starts_with(name) && key.matches('.').count() >= 2;
    match last {
        "bare" => key == "core.bare" && value == "false",
        "url" | "pushurl" => {
            (in_section("remote.") || in_section("submodule.")) && is_plain_url(value)
        }
        "fetch" => in_section("remote."),
        "remote" | "merge" | "rebase" => in_section("branch.") && !value.starts_with('-'),
        "active" => in_section("submodule."),
        _ => false,
    }
}

/// Whether a remote is reached by a transport of git's own: `ext::` and the like run programs.
fn is_plain_url(value: &str) -> bool {
    !value.contains("::") && !value.starts_with('-') && !value.chars().any(char::is_control)
}

/// The name of a section and what follows its `]`.
fn read_header(header: &str) -> Option<(String, &str)> {
    let (name, rest) = match header.split_once('"') {
        // The quote has to come before the section ends.
        Some((section, rest)) if !section.contains(']') => {
            let (subsection, rest) = rest.split_once('"')?;
            if subsection.contains('\\') {
                return None;
            }
            let rest = rest.trim_start().strip_prefix(']')?;
            (
                format!("{}.{subsection}", section.trim().to_ascii_lowercase()),
                rest,
            )
        }
        _ => {
            let (section, rest) = header.split_once(']')?;
            (section.trim().to_ascii_lowercase(), rest)
        }
    };
    Some((name, rest.trim()))
}

/// A value without its quotes and its comment.
fn read_value(raw: &str) -> String {
    let mut value = String::new();
    let mut quoted = false;
    let mut characters = raw.trim().chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => quoted = !quoted,
            '#' | ';' if !quoted => break,
            '\\' => value.extend(characters.next()),
            other => value.push(other),
        }
    }
    value.trim_end().to_owned()
}

/// The path in a `.git` file (`gitdir: PATH`), gitrepository-layout(5).
#[must_use]
pub fn pointer(text: &[u8]) -> Option<&[u8]> {
    let rest = text.strip_prefix(b"gitdir:")?;
    let rest = rest.trim_ascii();
    let line = rest.split(|it| *it == b'\n').next()?;
    (!line.is_empty() && !line.contains(&0)).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_writes_by_itself_is_inert() {
        let text = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\
            \tlogallrefupdates = true\n[remote \"origin\"]\n\turl = https://example.org/x.git\n\
            \tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\
            \tmerge = refs/heads/main\n";
        assert!(GitConfig::parse(text).is_inert());
        assert!(GitConfig::parse(b"").is_inert());
    }

    #[test]
    fn what_runs_a_program_or_is_unclear_is_not_inert() {
        let cases: [&[u8]; 14] = [
            b"[core]\nfsmonitor = ./x",
            b"[core]\nhooksPath = h",
            b"[CORE]\nsshCommand = x",
            b"[core] fsmonitor = ./x",
            b"[core]\nfsmon\\\nitor = ./x",
            b"[include]\npath = x",
            b"[includeIf \"gitdir:~/\"]\npath = x",
            b"[alias]\nst = !x",
            b"[remote \"o\"]\nurl = ext::sh -c x",
            b"[remote \"o\"]\nurl = --upload-pack=x",
            b"[remote \"o\"]\nuploadpack = x",
            b"[core]\nbare = true",
            b"[filter \"x\"]\nclean = y",
            b"[broken\nx = y",
        ];
        for text in cases {
            let shown = String::from_utf8_lossy(text);
            assert!(!GitConfig::parse(text).is_inert(), "{shown}");
        }
    }

    #[test]
    fn paths_that_git_takes_programs_from_are_found() {
        let text =
            b"[core]\nhooksPath = \"my hooks\" # c\nfsmonitor = true\n[include]\npath = ../x\n";
        assert_eq!(GitConfig::parse(text).paths(), ["my hooks", "../x"]);
    }

    #[test]
    fn a_pointer_is_one_line() {
        assert_eq!(pointer(b"gitdir: /a/b\n"), Some(b"/a/b".as_slice()));
        assert_eq!(pointer(b"gitdir: "), None);
        assert_eq!(pointer(b"x"), None);
    }
}
