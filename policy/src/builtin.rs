//! The profiles that are part of the program.

/// The names of the profiles that a person may choose.
pub const BUILTIN_NAMES: [&str; 5] = ["strict", "standard", "ci", "read-only", "networked"];

/// The text of a shipped profile, or of `base` and `build`, which they extend.
#[must_use]
pub fn builtin(name: &str) -> Option<&'static str> {
    match name {
        "base" => Some(include_str!("../../profiles/base.toml")),
        "build" => Some(include_str!("../../profiles/build.toml")),
        "ci" => Some(include_str!("../../profiles/ci.toml")),
        "networked" => Some(include_str!("../../profiles/networked.toml")),
        "read-only" => Some(include_str!("../../profiles/read-only.toml")),
        "standard" => Some(include_str!("../../profiles/standard.toml")),
        "strict" => Some(include_str!("../../profiles/strict.toml")),
        _ => None,
    }
}

#[cfg(test)]
#[path = "builtin_tests.rs"]
mod tests;
