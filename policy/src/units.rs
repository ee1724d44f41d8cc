//! Amounts as people write them: `4GiB`, `10min`, `512`.

/// Bytes: a number with `B`, `KiB`, `MiB`, `GiB` or `TiB` (or `K`, `M`, `G`, `T`, the same).
#[must_use]
pub fn size(text: &str) -> Option<u64> {
    let units = [
        ("", 1),
        ("B", 1),
        ("K", 1 << 10),
        ("KiB", 1 << 10),
        ("M", 1 << 20),
        ("MiB", 1 << 20),
        ("G", 1 << 30),
        ("GiB", 1 << 30),
        ("T", 1 << 40),
        ("TiB", 1 << 40),
    ];
    amount(text, &units)
}

/// Seconds: a number with `s`, `min`, `h` or `d`.
#[must_use]
pub fn duration(text: &str) -> Option<u64> {
    let units = [("", 1), ("s", 1), ("min", 60), ("h", 3600), ("d", 86400)];
    amount(text, &units)
}

/// A plain number.
#[must_use]
pub fn count(text: &str) -> Option<u64> {
    amount(text, &[("", 1)])
}

fn amount(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let unit = unit.trim();
    let factor = units.iter().find(|it| it.0 == unit)?.1;
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_with_their_units_and_nothing_else() {
        let cases = [
            ("4GiB", Some(4 << 30)),
            ("4 GiB", Some(4 << 30)),
            ("512", Some(512)),
            ("1T", Some(1 << 40)),
            ("GiB", None),
            ("4GB", None),
            ("-1", None),
            ("4.5G", None),
            ("99999999999T", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(size(text), expected, "{text:?}");
        }
        assert_eq!(duration("10min"), Some(600));
        assert_eq!(duration("10 m"), None);
        assert_eq!(count("7"), Some(7));
        assert_eq!(count("7s"), None);
    }
}
