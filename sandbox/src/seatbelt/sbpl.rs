//! A parser and evaluator of the part of SBPL that the generator writes. Tests only.
//!
//! It knows nothing of the generator. Whatever it does not know is an error, so that the text
//! cannot drift beyond what is evaluated: operations, filters and parameters alike.

use std::collections::BTreeMap;
use std::path::Path;

use regex::bytes::Regex;

use super::SeatbeltProfile;

/// Operations that can occur in a rule, as published lists of them give them.
const OPERATIONS: [&str; 30] = [
    "appleevent-send",
    "default",
    "file*",
    "file-ioctl",
    "file-link",
    "file-map-executable",
    "file-read*",
    "file-read-data",
    "file-read-metadata",
    "file-write*",
    "file-write-create",
    "file-write-data",
    "file-write-mode",
    "file-write-setugid",
    "file-write-unlink",
    "iokit-open",
    "ipc-posix-sem",
    "ipc-posix-shm",
    "lsopen",
    "mach-lookup",
    "network-bind",
    "network-inbound",
    "network-outbound",
    "process-exec*",
    "process-fork",
    "process-info*",
    "pseudo-tty",
    "signal",
    "sysctl-read",
    "system-socket",
];

/// One parsed expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    List(Vec<Form>),
    Symbol(String),
    Text(String),
}

/// Reads all expressions of `text`.
pub(super) fn parse(text: &str) -> Result<Vec<Form>, String> {
    let mut stack = vec![Vec::new()];
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            ';' => while rest.next_if(|it| *it != '\n').is_some() {},
            '(' => stack.push(Vec::new()),
            ')' => {
                let list = stack.pop().unwrap();
                let outer = stack.last_mut().ok_or("unbalanced `)`")?;
                outer.push(Form::List(list));
            }
            '"' => {
                let mut value = String::new();
                loop {
                    match rest.next().ok_or("string without end")? {
                        '"' => break,
                        '\\' => match rest.next().ok_or("string without end")? {
                            escaped @ ('"' | '\\') => value.push(escaped),
                            other => return Err(format!("unknown escape `{other}`")),
                        },
                        '\n' => return Err("newline in string".to_owned()),
                        other => value.push(other),
                    }
                }
                stack.last_mut().unwrap().push(Form::Text(value));
            }
            space if space.is_whitespace() => (),
            first => {
                let mut symbol = String::from(first);
                let ends = |it: &char| it.is_whitespace() || "()\";".contains(*it);
                while let Some(next) = rest.next_if(|it| !ends(it)) {
                    symbol.push(next);
                }
                stack.last_mut().unwrap().push(Form::Symbol(symbol));
            }
        }
    }
    let forms = stack.pop().unwrap();
    if stack.is_empty() {
        Ok(forms)
    } else {
        Err("unbalanced `(`".to_owned())
    }
}

/// What a rule looks at.
#[derive(Clone, Debug)]
enum Filter {
    All(Vec<Filter>),
    Any(Vec<Filter>),
    Not(Box<Filter>),
    /// A fact that must have this value.
    Is(String, String),
    /// A fact that must match.
    Matches(String, Regex),
    Subpath(String),
    /// A fact that must be there.
    Has(String),
    /// A path filter on the address of a UNIX socket.
    Socket(String, Box<Filter>),
}

/// One `allow` or `deny`.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) allow: bool,
    pub(super) operations: Vec<String>,
    /// The kind of each filter.
    pub(super) kinds: Vec<String>,
    filters: Vec<Filter>,
}

/// A profile that can be asked.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) rules: Vec<Rule>,
}

/// An operation and what is known of its object, such as `("path", "/etc/hosts")`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    pub(super) operation: &'a str,
    pub(super) facts: &'a [(&'a str, &'a str)],
}

impl Program {
    /// Loads a profile with its parameters. Each parameter must be used.
    pub(super) fn load(profile: &SeatbeltProfile) -> Result<Self, String> {
        let mut parameters = BTreeMap::new();
        for (name, value) in &profile.parameters {
            let value = value.to_str().ok_or("value is not UTF-8")?.to_owned();
            if parameters.insert(name.clone(), (value, false)).is_some() {
                return Err(format!("parameter `{name}` given twice"));
            }
        }
        let forms = parse(&profile.text)?;
        let (version, forms) = forms.split_first().ok_or("empty profile")?;
        if *version != parse("(version 1)")?[0] {
            return Err("no version".to_owned());
        }
        let mut rules = Vec::new();
        for form in forms {
            rules.push(load_rule(form, &mut parameters)?);
        }
        match parameters.iter().find(|(_, (_, used))| !used) {
            Some((name, _)) => Err(format!("parameter `{name}` is not used")),
            None => Ok(Self { rules }),
        }
    }

    /// Whether the request is allowed: the last rule that matches decides.
    pub(super) fn allows(&self, request: Request<'_>) -> bool {
        let matching = self.rules.iter().rev().find(|rule| rule.matches(request));
        matching.is_some_and(|rule| rule.allow)
    }
}

type Parameters = BTreeMap<String, (String, bool)>;

fn load_rule(form: &Form, parameters: &mut Parameters) -> Result<Rule, String> {
    let (action, rest) = head(form)?;
    let allow = match action {
        "allow" => true,
        "deny" => false,
        other => return Err(format!("unknown action `{other}`")),
    };
    let mut rule = Rule {
        allow,
        operations: Vec::new(),
        kinds: Vec::new(),
        filters: Vec::new(),
    };
    for part in rest {
        match part {
            Form::Symbol(name) if OPERATIONS.contains(&name.as_str()) => {
                rule.operations.push(name.clone());
            }
            Form::List(_) if head(part)?.0 == "with" => {
                if head(part)?.1.first() != Some(&Form::Symbol("message".to_owned())) {
                    return Err(format!("unknown modifier {part:?}"));
                }
            }
            Form::List(_) => {
                rule.kinds.push(head(part)?.0.to_owned());
                rule.filters.push(load_filter(part, parameters)?);
            }
            other => return Err(format!("unknown part {other:?}")),
        }
    }
    if rule.operations.is_empty() {
        return Err(format!("rule without operation {form:?}"));
    }
    Ok(rule)
}

fn load_filter(form: &Form, parameters: &mut Parameters) -> Result<Filter, String> {
    let (kind, arguments) = head(form)?;
    let mut all = |forms: &[Form]| -> Result<Vec<Filter>, String> {
        let filters = forms.iter().map(|it| load_filter(it, parameters));
        filters.collect()
    };
    match (kind, arguments) {
        ("require-all", parts) => return Ok(Filter::All(all(parts)?)),
        ("require-any", parts) => return Ok(Filter::Any(all(parts)?)),
        ("require-not", [part]) => {
            return Ok(Filter::Not(Box::new(load_filter(part, parameters)?)));
        }
        ("local" | "remote", [Form::Symbol(family), address]) => {
            let fact = format!("{kind} {family}");
            return match (family.as_str(), address) {
                ("ip", Form::Text(any)) if any == "*:*" => Ok(Filter::Has(fact)),
                ("unix-socket", path) => Ok(Filter::Socket(
                    fact,
                    Box::new(load_filter(path, parameters)?),
                )),
                _ => Err(format!("unknown address {form:?}")),
            };
        }
        _ => (),
    }
    let [argument] = arguments else {
        return Err(format!("filter takes one argument {form:?}"));
    };
    let value = match argument {
        Form::Text(text) | Form::Symbol(text) => text.clone(),
        Form::List(_) => {
            let ("param", [Form::Text(name)]) = head(argument)? else {
                return Err(format!("unknown value {argument:?}"));
            };
            let (value, used) = parameters.get_mut(name).ok_or("unknown parameter")?;
            *used = true;
            value.clone()
        }
    };
    // Bytes, not characters: the stricter guess of how the kernel's engine reads.
    let regex = |text: &str| Regex::new(&format!("(?-u){text}")).map_err(|it| it.to_string());
    match kind {
        "literal" => Ok(Filter::Is("path".to_owned(), value)),
        "subpath" => Ok(Filter::Subpath(value)),
        "regex" => Ok(Filter::Matches("path".to_owned(), regex(&value)?)),
        "ipc-posix-name-regex" => Ok(Filter::Matches("ipc-posix-name".to_owned(), regex(&value)?)),
        "extension" | "global-name" | "socket-domain" | "sysctl-name" | "target" => {
            Ok(Filter::Is(kind.to_owned(), value))
        }
        other => Err(format!("unknown filter `{other}`")),
    }
}

fn head(form: &Form) -> Result<(&str, &[Form]), String> {
    if let Form::List(parts) = form
        && let Some((Form::Symbol(name), rest)) = parts.split_first()
    {
        return Ok((name, rest));
    }
    Err(format!("no head in {form:?}"))
}

impl Rule {
    fn matches(&self, request: Request<'_>) -> bool {
        let covers = |operation: &String| match operation.strip_suffix('*') {
            Some(prefix) => request.operation.starts_with(prefix),
            None => operation == "default" || operation == request.operation,
        };
        self.operations.iter().any(covers)
            && (self.filters.is_empty() || self.filters.iter().any(|it| it.matches(request.facts)))
    }
}

impl Filter {
    fn matches(&self, facts: &[(&str, &str)]) -> bool {
        let fact = |name: &str| {
            let found = facts.iter().find(|(fact, _)| *fact == name);
            found.map(|(_, value)| *value)
        };
        match self {
            Self::All(parts) => parts.iter().all(|it| it.matches(facts)),
            Self::Any(parts) => parts.iter().any(|it| it.matches(facts)),
            Self::Not(part) => !part.matches(facts),
            Self::Is(name, value) => fact(name) == Some(value),
            Self::Matches(name, regex) => {
                fact(name).is_some_and(|value| regex.is_match(value.as_bytes()))
            }
            Self::Subpath(folder) => {
                fact("path").is_some_and(|path| Path::new(path).starts_with(folder))
            }
            Self::Has(name) => fact(name).is_some(),
            Self::Socket(name, path) => {
                fact(name).is_some_and(|address| path.matches(&[("path", address)]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(rules: &str) -> Result<Program, String> {
        Program::load(&SeatbeltProfile {
            text: format!("(version 1)(deny default){rules}"),
            parameters: Vec::new(),
        })
    }

    #[test]
    fn the_evaluator_gives_the_documented_meaning() {
        let cases = [
            (r#"(allow file-read*)"#, "/a", true),
            (r#"(allow file-read* (literal "/a"))"#, "/a/b", false),
            (r#"(allow file-read* (subpath "/a"))"#, "/a/b", true),
            (r#"(allow file-read* (subpath "/a"))"#, "/ab", false),
            (r#"(allow file-read* (regex "^/a\\.b$"))"#, "/a.b", true),
            (r#"(allow file-read* (regex "^/a\\.b$"))"#, "/axb", false),
            (r#"(allow file-read*) ; (deny file-read*)"#, "/a", true),
            (
                r#"(allow file-read*)(deny file* (subpath "/a"))"#,
                "/a",
                false,
            ),
            (
                r#"(deny file* (subpath "/a"))(allow file-read*)"#,
                "/a",
                true,
            ),
            (
                r#"(allow file-read* (require-all (subpath "/a")
                     (require-not (require-any (literal "/a/b") (literal "/a/c")))))"#,
                "/a/c",
                false,
            ),
            (
                r#"(allow file-read* (require-all (subpath "/a")
                     (require-not (require-any (literal "/a/b") (literal "/a/c")))))"#,
                "/a/d",
                true,
            ),
        ];
        for (rules, path, expected) in cases {
            let request = Request {
                operation: "file-read-data",
                facts: &[("path", path)],
            };
            assert_eq!(load(rules).unwrap().allows(request), expected, "{rules}");
        }
    }

    #[test]
    fn what_the_evaluator_does_not_know_is_an_error() {
        let cases = [
            "(allow file-read* (subpath \"/a\")",
            "(allow file-read*))",
            "(allow file-read* (subpath \"/a))",
            "(allow file-read* (subpath \"\\n\"))",
            "(allow file-read* (prefix \"/a\"))",
            "(allow file-read* (subpath (param \"A\")))",
            "(allow file-fly)",
            "(permit file-read*)",
            "(allow process-exec* (with no-sandbox))",
        ];
        for rules in cases {
            assert!(load(rules).is_err(), "{rules}");
        }
    }
}
