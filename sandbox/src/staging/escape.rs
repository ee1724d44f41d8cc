//! Makes hostile bytes safe to print: no control or direction character passes.

use std::fmt::Write as _;

/// Text of `bytes` in which control characters (tab excepted), bytes that are not UTF-8,
/// and invisible or direction-changing characters are spelt `\xNN` or `\u{NNNN}`.
///
/// Not reversible: a backslash stays as it is, so that ordinary text reads as it should.
#[must_use]
pub fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() && character != '\t' {
                let _infallible = write!(out, "\\x{:02x}", u32::from(character));
            } else if is_deceptive(character) {
                let _infallible = write!(out, "\\u{{{:x}}}", u32::from(character));
            } else {
                out.push(character);
            }
        }
        for byte in chunk.invalid() {
            let _infallible = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// [`escape`] for a name in a line of its own: tabs are spelt too.
pub(super) fn escape_name(bytes: &[u8]) -> String {
    escape(bytes).replace('\t', "\\x09")
}

/// Zero-width, direction and tag characters, and separators that terminals may obey.
fn is_deceptive(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_passes() {
        let cases: [(&[u8], &str); 6] = [
            (b"plain \\ text\t", "plain \\ text\t"),
            (b"\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
            (b"a\r\nb", "a\\x0d\\x0ab"),
            ("\u{9b}31m".as_bytes(), "\\x9b31m"),
            (b"\xff\x9b", "\\xff\\x9b"),
            ("a\u{202e}b\u{200b}".as_bytes(), "a\\u{202e}b\\u{200b}"),
        ];
        for (bytes, text) in cases {
            assert_eq!(escape(bytes), text);
        }
        assert_eq!(escape_name(b"a\tb"), "a\\x09b");
    }

    #[test]
    fn every_byte_pair_comes_out_printable() {
        for first in 0..=255u8 {
            for second in 0..=255u8 {
                let text = escape(&[first, second]);
                assert!(
                    text.chars().all(|c| !c.is_control() || c == '\t'),
                    "{first} {second}"
                );
            }
        }
    }
}
