//! Splits Rust source into code and comments, so that a rule is not fooled by either.
//!
//! # Invariants
//!
//! - Both views have the lines of the source, so a line number means the same in each.
//! - What stands in a string or a character literal is in neither view.

use std::iter::Peekable;
use std::str::Chars;

/// One source, seen twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Views {
    /// The code alone; string contents are gone, their quotes stay.
    pub code: String,
    /// The comments alone, documentation among them.
    pub comments: String,
}

/// An identifier, a number, or one character of punctuation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// The line it stands on, counted from 1.
    pub line: usize,
    /// What it says.
    pub text: &'a str,
}

/// Separates code from comments. Source that does not parse gives some answer, never an error.
#[must_use]
pub fn split(source: &str) -> Views {
    let mut views = Views::default();
    let mut rest = source.chars().peekable();
    // The identifier read so far: `r"` starts a raw string, `for"` does not.
    let mut word = String::new();
    while let Some(it) = rest.next() {
        match it {
            '/' if rest.peek() == Some(&'/') => line_comment(&mut rest, &mut views),
            '/' if rest.peek() == Some(&'*') => block_comment(&mut rest, &mut views),
            '"' if matches!(word.as_str(), "r" | "br" | "cr") => {
                raw_string(&mut rest, 0, &mut views)
            }
            '#' if matches!(word.as_str(), "r" | "br" | "cr") => {
                let mut hashes = 1;
                while rest.next_if_eq(&'#').is_some() {
                    hashes += 1;
                }
                // Otherwise a raw identifier, `r#type`: one hash and no quote.
                if rest.next_if_eq(&'"').is_some() {
                    raw_string(&mut rest, hashes, &mut views);
                } else {
                    views.code.push('#');
                }
            }
            '"' => string(&mut rest, &mut views),
            '\'' => quote(&mut rest, &mut views),
            '\n' => new_line(&mut views),
            other => views.code.push(other),
        }
        if it.is_alphanumeric() || it == '_' {
            word.push(it);
        } else {
            word.clear();
        }
    }
    views
}

fn new_line(views: &mut Views) {
    views.code.push('\n');
    views.comments.push('\n');
}

fn line_comment(rest: &mut Peekable<Chars<'_>>, views: &mut Views) {
    views.comments.push('/');
    while let Some(it) = rest.next_if(|it| *it != '\n') {
        views.comments.push(it);
    }
}

fn block_comment(rest: &mut Peekable<Chars<'_>>, views: &mut Views) {
    let mut depth = 1;
    let mut before = ' ';
    rest.next();
    for it in rest.by_ref() {
        match (before, it) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            (_, '\n') => new_line(views),
            _ => views.comments.push(it),
        }
        if depth == 0 {
            break;
        }
        // A character that closed or opened a pair belongs to no second one: `*/*` is one end.
        before = if matches!((before, it), ('/', '*') | ('*', '/')) {
            ' '
        } else {
            it
        };
    }
    views.code.push(' ');
}

fn string(rest: &mut Peekable<Chars<'_>>, views: &mut Views) {
    views.code.push('"');
    while let Some(it) = rest.next() {
        match it {
            '"' => break,
            '\n' => new_line(views),
            // The guard steps over what is escaped, a quote above all.
            '\\' if rest.next() == Some('\n') => new_line(views),
            _ => (),
        }
    }
    views.code.push('"');
}

fn raw_string(rest: &mut Peekable<Chars<'_>>, hashes: usize, views: &mut Views) {
    views.code.push('"');
    while let Some(it) = rest.next() {
        match it {
            '\n' => new_line(views),
            '"' => {
                let mut seen = 0;
                while seen < hashes && rest.next_if_eq(&'#').is_some() {
                    seen += 1;
                }
                if seen == hashes {
                    break;
                }
            }
            _ => (),
        }
    }
    views.code.push('"');
}

/// After a single quote: a character literal, or the name of a lifetime.
fn quote(rest: &mut Peekable<Chars<'_>>, views: &mut Views) {
    views.code.push('\'');
    if rest.next_if_eq(&'\\').is_some() {
        rest.next();
        // `'\u{1F512}'` and `'\x7f'` have more to come.
        while rest.next_if(|it| *it != '\'' && *it != '\n').is_some() {}
        rest.next_if_eq(&'\'');
        views.code.push('\'');
        return;
    }
    let mut ahead = rest.clone();
    ahead.next();
    if ahead.next() == Some('\'') {
        rest.next();
        rest.next();
        views.code.push('\'');
    }
}

/// The tokens of a code view, in order.
#[must_use]
pub fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            let length = match rest.find(|it: char| !is_word(it)) {
                Some(0) => first.len_utf8(),
                Some(end) => end,
                None => rest.len(),
            };
            let (text, tail) = rest.split_at(length);
            if !first.is_whitespace() {
                found.push(Token {
                    line: index + 1,
                    text,
                });
            }
            rest = tail;
        }
    }
    found
}

fn is_word(it: char) -> bool {
    it.is_alphanumeric() || it == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_comments_are_not_code() {
        let cases = [
            (r#"let a = "unsafe // no"; b"#, r#"let a = ""; b"#, ""),
            ("a // unsafe\nb", "a \nb", "// unsafe\n"),
            ("a /* x /* y */ z */ b", "a   b", " x / y * z *"),
            (r##"r#"un"safe"# c"##, r#"r"" c"#, ""),
            (r#"br"un\" c"#, r#"br"" c"#, ""),
            (r#""a\"b" c"#, r#""" c"#, ""),
            ("'\"' a '\\'' b", "'' a '' b", ""),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}", ""),
            ("r#type c", "r#type c", ""),
            ("\"one\\\ntwo\" c", "\"\n\" c", "\n"),
        ];
        for (source, code, comments) in cases {
            let views = split(source);
            assert_eq!(views.code, code, "{source}");
            assert_eq!(views.comments, comments, "{source}");
        }
    }

    #[test]
    fn lines_keep_their_numbers() {
        let source = "/* a\nb */ \"c\nd\" r#\"e\nf\"# // g\nunsafe";
        let views = split(source);
        let expected = Token {
            line: 5,
            text: "unsafe",
        };
        assert_eq!(tokens(&views.code).last(), Some(&expected));
        assert_eq!(views.comments.lines().last(), Some("// g"));
    }

    #[test]
    fn a_longer_word_is_another_token() {
        let words: Vec<_> = tokens("unsafe_code::un").iter().map(|it| it.text).collect();
        assert_eq!(words, ["unsafe_code", ":", ":", "un"]);
    }
}
