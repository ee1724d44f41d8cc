//! Names of environment variables, exact or by prefix.

use std::fmt;

/// A name, or every name with a prefix (`LC_*`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamePattern {
    text: String,
    is_prefix: bool,
}

impl NamePattern {
    /// Reads `NAME` or `PREFIX*`; a lone `*` is refused, since it would pass every secret.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (name, is_prefix) = match text.strip_suffix('*') {
            Some(prefix) => (prefix, true),
            None => (text, false),
        };
        let valid = !name.is_empty() && !name.contains(['=', '*', '\0']);
        valid.then(|| Self {
            text: name.to_owned(),
            is_prefix,
        })
    }

    /// Whether `name` is meant.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        let text = self.text.as_bytes();
        if self.is_prefix {
            name.starts_with(text)
        } else {
            name == text
        }
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.text, if self.is_prefix { "*" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_a_name_or_a_prefix_and_never_everything() {
        let lc = NamePattern::parse("LC_*").unwrap();
        assert!(lc.matches(b"LC_ALL") && !lc.matches(b"XLC_ALL"));
        let path = NamePattern::parse("PATH").unwrap();
        assert!(path.matches(b"PATH") && !path.matches(b"PATHEXT"));
        for text in ["*", "", "A=B", "A*B"] {
            assert_eq!(NamePattern::parse(text), None, "{text:?}");
        }
    }
}
