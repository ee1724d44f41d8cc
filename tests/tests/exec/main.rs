//! `stockade exec` from the outside: what a person, and an attacker, sees of it.
//!
//! One program for all themes, so that it is linked once; a theme is chosen by its name:
//! `cargo test -p stockade-tests --test exec files::`.
//!
//! # Invariants
//!
//! - **Every denial has its control**: the same script runs free, where it has to succeed.
//! - **Nothing waits for ever**: each child has a time limit, and what it wrote is in the report.
//! - **Nothing is skipped in silence**, see [`harness::lacks`].
#![forbid(unsafe_code)]

#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod environment;
#[cfg(test)]
mod files;
#[cfg(test)]
mod git;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod hosts;
#[cfg(test)]
mod layers;
#[cfg(test)]
mod life;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod terminal;
