//! The binary `stockade`.
#![forbid(unsafe_code)]

#[cfg_attr(
    not(test),
    expect(dead_code, reason = "wired by exec in the next change")
)]
mod relay;

fn main() {}
