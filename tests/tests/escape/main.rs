//! The attack suite over the built programs.
//!
//! A program of its own, and one attack at a time: a probe that runs free may type into any
//! terminal of its user, those of other tests among them.
#![forbid(unsafe_code)]

#[cfg(test)]
mod attack;
#[cfg(test)]
#[expect(dead_code, reason = "the other suites need more of it")]
#[path = "../exec/harness.rs"]
mod harness;
