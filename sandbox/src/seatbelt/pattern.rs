//! Writes names as SBPL strings and as regular expressions that match the name and nothing else.
//!
//! Patterns use only what POSIX extended expressions and the regex engines known to us read the
//! same way: escaped metacharacters, `[…]`, `[^…]`, `(…|…)`, `?`, `*`, `+`, `^` and `$`.

use super::checked::PlainPath;

/// `text` as an SBPL string.
///
/// The backslash goes first: the other way round, the backslash that guards a quote would be
/// doubled and the quote would end the string.
pub(super) fn quote(text: &str) -> String {
    let escaped = text.replace('\\', r"\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

/// A pattern for exactly `path` and a slash after it, for use as a prefix.
pub(super) fn folder(path: &PlainPath) -> String {
    let mut pattern = String::from("/");
    for component in path.components() {
        for character in component.chars() {
            push_exact(&mut pattern, character);
        }
        pattern.push('/');
    }
    pattern
}

/// A pattern for `components`, joined by slashes, in any case.
///
/// `s` and `k` also stand for the non-ASCII letters that fold to them (U+017F and U+212A).
/// A run of non-ASCII characters, with the letter right before it, is matched by any such run
/// among which letters may stand: the volume may compare composed with decomposed forms, and
/// the engine may see bytes. That matches a little more than was asked for.
pub(super) fn any_case<'a>(components: impl IntoIterator<Item = &'a str>) -> String {
    let mut pattern = String::new();
    for (index, component) in components.into_iter().enumerate() {
        if index > 0 {
            pattern.push('/');
        }
        push_any_case(&mut pattern, component);
    }
    pattern
}

fn push_any_case(pattern: &mut String, component: &str) {
    let mut rest = component.chars().peekable();
    while let Some(character) = rest.next() {
        let before_other = rest.peek().is_some_and(|next| !next.is_ascii());
        let composes = character.is_ascii_alphabetic() && before_other;
        if composes || !character.is_ascii() {
            while rest.next_if(|next| !next.is_ascii()).is_some() {}
            pattern.push_str("[a-zA-Z]?([a-zA-Z]?[^ -~])+");
            continue;
        }
        match (
            character.to_ascii_lowercase(),
            character.to_ascii_uppercase(),
        ) {
            (lower @ ('k' | 's'), upper) => {
                pattern.push_str(&format!("([{lower}{upper}]|[^ -~]+)"));
            }
            (lower, upper) if lower != upper => pattern.push_str(&format!("[{lower}{upper}]")),
            _ => push_exact(pattern, character),
        }
    }
}

fn push_exact(pattern: &mut String, character: char) {
    if r"\.[](){}*+?^$|".contains(character) {
        pattern.push('\\');
    }
    pattern.push(character);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(name: &str, candidate: &str) -> bool {
        let pattern = format!("(?-u)^{}$", any_case([name]));
        regex::bytes::Regex::new(&pattern)
            .unwrap()
            .is_match(candidate.as_bytes())
    }

    #[test]
    fn a_quoted_string_escapes_the_backslash_before_the_quote() {
        let cases = [
            (r"a", r#""a""#),
            (r#"a"b"#, r#""a\"b""#),
            (r"a\", r#""a\\""#),
            (r#"\""#, r#""\\\"""#),
        ];
        for (text, expected) in cases {
            assert_eq!(quote(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_protected_name_holds_in_every_folding_of_its_letters_and_in_no_other_name() {
        let cases = [
            ("hooks", "hooks", true),
            ("hooks", "HoOkS", true),
            ("hooks", "hoo\u{212a}\u{17f}", true),
            ("hooks", "hook", false),
            ("hooks", "hookss", false),
            (".git", "xgit", false),
            (".git", ".GIT", true),
            ("caf\u{e9}", "cafe\u{301}", true),
            ("cafe\u{301}", "caf\u{e9}", true),
            ("cafe\u{301}", "cafe", false),
            ("a+b(c)", "a+b(c)", true),
            ("a+b(c)", "aab(c)", false),
            (r"a\b^$|", r"A\b^$|", true),
        ];
        for (name, candidate, expected) in cases {
            assert_eq!(matches(name, candidate), expected, "{name:?} {candidate:?}");
        }
    }
}
