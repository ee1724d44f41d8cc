//! What this machine offers, found by trying it in a throw-away process.

/// What to do where user namespaces are refused.
#[must_use]
pub fn user_namespace_remedy() -> String {
    String::new()
}

/// What to do where Landlock is missing.
#[must_use]
pub fn landlock_remedy() -> String {
    String::new()
}
