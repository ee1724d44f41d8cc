//! The binary `stockade`.
#![forbid(unsafe_code)]

#[expect(dead_code, reason = "wired by exec in the next change")]
mod exit;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "wired by exec in the next change")
)]
mod relay;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "wired by exec in the next change")
)]
mod style;

fn main() {}
