//! What a git configuration could make git run, read from its text, git-config(1).
//!
//! # Invariants
//!
//! - **Total.** Any bytes have an answer, in one pass; what is not understood is not inert.
//! - **As git reads.** Where a line, a comment, a quote or a value ends is decided as git's own
//!   reader does, since a key that only git sees is a way round. Names are bytes.
//!
//! Absent on purpose: where a relative path starts and what `~` is; the caller knows.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A git configuration, read leniently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitConfig {
    entries: Vec<Entry>,
    /// Whether some of it was not understood; git itself refuses such a file.
    unclear: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// In lower case.
    section: Vec<u8>,
    /// As written.
    subsection: Option<Vec<u8>>,
    /// In lower case.
    name: Vec<u8>,
    /// `None` for a name alone, which means `true`.
    value: Option<Vec<u8>>,
}

/// Keys that can neither run a program nor change where git finds its files.
const INERT: &[(&str, &str)] = &[
    ("branch", "autosetupmerge"),
    ("branch", "autosetuprebase"),
    ("core", "autocrlf"),
    ("core", "eol"),
    ("core", "filemode"),
    ("core", "ignorecase"),
    ("core", "logallrefupdates"),
    ("core", "precomposeunicode"),
    ("core", "quotepath"),
    ("core", "repositoryformatversion"),
    ("core", "symlinks"),
    ("extensions", "objectformat"),
    ("extensions", "refstorage"),
    ("init", "defaultbranch"),
    ("pull", "ff"),
    ("pull", "rebase"),
    ("push", "default"),
    ("user", "email"),
    ("user", "name"),
];

impl GitConfig {
    /// Reads `text`.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        let mut reader = Reader {
            rest: text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text),
        };
        let mut entries = Vec::new();
        // A NUL ends a value early in git's eyes and not in ours.
        let unclear = reader.read(&mut entries).is_none() || text.contains(&0);
        Self { entries, unclear }
    }

    /// The values that name a file or folder from which git takes programs or configuration,
    /// as they are written.
    #[must_use]
    pub fn paths(&self) -> Vec<&Path> {
        self.entries.iter().filter_map(Entry::path).collect()
    }

    /// The programs that values name by a path, without their arguments: of filters, drivers,
    /// helpers, pagers, editors and aliases.
    #[must_use]
    pub fn programs(&self) -> Vec<&Path> {
        self.entries.iter().filter_map(Entry::program).collect()
    }

    /// Whether nothing in it can make git run a program or look elsewhere.
    #[must_use]
    pub fn is_inert(&self) -> bool {
        !self.unclear && self.entries.iter().all(Entry::is_inert)
    }
}

impl Entry {
    /// `key` is `section`, dots, subsection, dot, `name`, split as git splits it.
    fn new(key: &[u8], value: Option<Vec<u8>>) -> Option<Self> {
        let first = key.iter().position(|it| *it == b'.')?;
        let last = key.iter().rposition(|it| *it == b'.')?;
        Some(Self {
            section: key.get(..first)?.to_vec(),
            subsection: key.get(first + 1..last).map(<[u8]>::to_vec),
            name: key.get(last + 1..)?.to_vec(),
            value,
        })
    }

    fn program(&self) -> Option<&Path> {
        let runs = matches!(
            (self.section.as_slice(), self.name.as_slice()),
            (b"alias", _)
                | (
                    b"core",
                    b"askpass" | b"editor" | b"gitproxy" | b"pager" | b"sshcommand"
                )
                | (b"credential", b"helper")
                | (b"diff", b"command" | b"external" | b"textconv")
                | (
                    b"difftool" | b"mergetool" | b"man" | b"browser",
                    b"cmd" | b"path"
                )
                | (b"filter", b"clean" | b"process" | b"smudge")
                | (b"gpg", b"program" | b"defaultkeycommand")
                | (b"interactive", b"difffilter")
                | (b"merge", b"driver")
                | (b"pager", _)
                | (b"remote", b"receivepack" | b"uploadpack" | b"vcs")
                | (b"sequence", b"editor")
                | (b"uploadpack", b"packobjectshook")
        );
        let value = self.value.as_deref().filter(|_| runs)?;
        let value = value.strip_prefix(b"!").unwrap_or(value).trim_ascii();
        let word = value.split(u8::is_ascii_whitespace).next()?;
        let word = word
            .strip_prefix(b"\"")
            .or_else(|| word.strip_prefix(b"'"))
            .unwrap_or(word);
        let word = word
            .strip_suffix(b"\"")
            .or_else(|| word.strip_suffix(b"'"))
            .unwrap_or(word);
        word.contains(&b'/')
            .then(|| Path::new(OsStr::from_bytes(word)))
    }

    fn path(&self) -> Option<&Path> {
        let names_a_path = match (self.section.as_slice(), self.name.as_slice()) {
            (b"core", b"attributesfile" | b"fsmonitor" | b"hookspath") | (b"include", b"path") => {
                self.subsection.is_none()
            }
            (b"includeif", b"path") => self.subsection.is_some(),
            _ => false,
        };
        let value = self.value.as_deref()?;
        let value = value.strip_prefix(b":(optional)").unwrap_or(value);
        let is_switch = self.name == b"fsmonitor" && is_boolean(value);
        (names_a_path && !is_switch && !value.is_empty())
            .then(|| Path::new(OsStr::from_bytes(value)))
    }

    fn is_inert(&self) -> bool {
        let value = self.value.as_deref().unwrap_or(b"true");
        let (section, name) = (self.section.as_slice(), self.name.as_slice());
        if self.subsection.is_none() {
            return match (section, name) {
                (b"core", b"bare") => value == b"false",
                _ => INERT
                    .iter()
                    .any(|it| (it.0.as_bytes(), it.1.as_bytes()) == (section, name)),
            };
        }
        match (section, name) {
            (b"remote", b"url" | b"pushurl") | (b"submodule", b"url") => is_plain_url(value),
            // The remote of a branch may be a URL as well as a name.
            (b"branch", b"remote" | b"pushremote") => is_plain_url(value),
            (b"branch", b"merge" | b"rebase") | (b"remote", b"fetch") => !value.starts_with(b"-"),
            (b"remote", b"prune" | b"tagopt") | (b"submodule", b"active") => true,
            _ => false,
        }
    }
}

/// Whether git reads `value` as true or false, git-config(1), "Values".
fn is_boolean(value: &[u8]) -> bool {
    let words: [&[u8]; 6] = [b"true", b"yes", b"on", b"false", b"no", b"off"];
    value.iter().all(u8::is_ascii_digit) || words.iter().any(|it| it.eq_ignore_ascii_case(value))
}

/// Whether a remote is reached by a transport of git's own.
///
/// `NAME::…` and an unknown `NAME://…` run the program `git-remote-NAME`, gitremote-helpers(7);
/// a host or a path that begins with `-` would be an option of `ssh` or of the other side.
fn is_plain_url(value: &[u8]) -> bool {
    const SCHEMES: [&[u8]; 7] = [
        b"file", b"git", b"git+ssh", b"http", b"https", b"ssh", b"ssh+git",
    ];
    let has = |part: &[u8]| value.windows(part.len()).any(|it| it == part);
    let scheme = value
        .windows(3)
        .position(|it| it == b"://")
        .and_then(|at| value.get(..at));
    !value.is_empty()
        && !value.starts_with(b"-")
        && !has(b"::")
        && !has(b":-")
        && !has(b"//-")
        && !value.iter().any(u8::is_ascii_control)
        && scheme.is_none_or(|it| SCHEMES.contains(&it))
}

/// Reads bytes as `git_parse_source` of git's `config.c` does.
struct Reader<'t> {
    rest: &'t [u8],
}

impl Reader<'_> {
    /// The next byte; a line end is one byte. `None` at the end.
    fn next(&mut self) -> Option<u8> {
        if let Some(rest) = self.rest.strip_prefix(b"\r\n") {
            self.rest = rest;
            return Some(b'\n');
        }
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// Collects entries; `None` where git would refuse the file.
    fn read(&mut self, entries: &mut Vec<Entry>) -> Option<()> {
        let mut section: Vec<u8> = Vec::new();
        while let Some(byte) = self.next() {
            match byte {
                b'#' | b';' => while !matches!(self.next(), None | Some(b'\n')) {},
                b'[' => section = self.header()?,
                byte if is_space(byte) => (),
                byte if byte.is_ascii_alphabetic() && !section.is_empty() => {
                    let mut key = section.clone();
                    key.extend([b'.', byte.to_ascii_lowercase()]);
                    let value = self.rest_of_entry(&mut key)?;
                    entries.push(Entry::new(&key, value)?);
                }
                _ => return None,
            }
        }
        Some(())
    }

    /// `section]`, `section.sub]` or `section "sub"]`.
    fn header(&mut self) -> Option<Vec<u8>> {
        let mut name = Vec::new();
        loop {
            match self.next()? {
                b']' => return (!name.is_empty()).then_some(name),
                b'\n' => return None,
                byte if is_space(byte) => break,
                byte if is_key(byte) || byte == b'.' => name.push(byte.to_ascii_lowercase()),
                _ => return None,
            }
        }
        loop {
            match self.next()? {
                b'"' => break,
                b'\n' => return None,
                byte if is_space(byte) => (),
                _ => return None,
            }
        }
        name.push(b'.');
        loop {
            let byte = match self.next()? {
                b'"' => break,
                b'\\' => self.next()?,
                byte => byte,
            };
            if byte == b'\n' {
                return None;
            }
            name.push(byte);
        }
        (self.next()? == b']').then_some(name)
    }

    /// What follows the first letter of a name: outside `None`, git would refuse it.
    #[expect(
        clippy::option_option,
        reason = "refused, without a value, or with one"
    )]
    fn rest_of_entry(&mut self, key: &mut Vec<u8>) -> Option<Option<Vec<u8>>> {
        let mut byte = self.next();
        while let Some(letter) = byte.filter(|it| is_key(*it)) {
            key.push(letter.to_ascii_lowercase());
            byte = self.next();
        }
        while matches!(byte, Some(b' ' | b'\t')) {
            byte = self.next();
        }
        match byte {
            None | Some(b'\n') => Some(None),
            Some(b'=') => self.value().map(Some),
            Some(_) => None,
        }
    }

    /// A value up to the end of its line, without quotes, comment and space around it.
    fn value(&mut self) -> Option<Vec<u8>> {
        let (mut value, mut kept, mut quoted) = (Vec::new(), 0, false);
        loop {
            match self.next() {
                None | Some(b'\n') if quoted => return None,
                None | Some(b'\n') => break,
                Some(b'#' | b';') if !quoted => {
                    while !matches!(self.next(), None | Some(b'\n')) {}
                    break;
                }
                Some(byte) if is_space(byte) && !quoted => {
                    if !value.is_empty() {
                        value.push(byte);
                    }
                    continue;
                }
                Some(b'"') => quoted = !quoted,
                Some(b'\\') => match self.next()? {
                    // Joins lines, and keeps the space before it.
                    b'\n' => (),
                    b't' => value.push(b'\t'),
                    b'b' => value.push(8),
                    b'n' => value.push(b'\n'),
                    byte @ (b'\\' | b'"') => value.push(byte),
                    _ => return None,
                },
                Some(byte) => value.push(byte),
            }
            kept = value.len();
        }
        value.truncate(kept);
        Some(value)
    }
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// The path in a `.git` file (`gitdir: PATH`), gitrepository-layout(5).
///
/// As git has it: everything after the one space, but for line ends at its end.
#[must_use]
pub fn pointer(text: &[u8]) -> Option<&[u8]> {
    commondir(text.strip_prefix(b"gitdir: ")?)
}

/// The path in a `commondir` file, gitrepository-layout(5): all but line ends at its end.
#[must_use]
pub fn commondir(text: &[u8]) -> Option<&[u8]> {
    let length = text.iter().rposition(|it| !matches!(it, b'\n' | b'\r'))? + 1;
    let path = text.get(..length)?;
    (!path.contains(&0)).then_some(path)
}

#[cfg(test)]
#[path = "git_config_tests.rs"]
mod tests;
