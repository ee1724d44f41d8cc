//! Hostile probes, one action each.
fn main() {}
