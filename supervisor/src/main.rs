//! The binary `stockade`.
#![forbid(unsafe_code)]
fn main() {}
