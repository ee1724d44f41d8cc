//! Profiles, their composition and what they mean; pure and total.
//!
//! # Invariants
//!
//! - **Pure.** No function here performs I/O or reads the clock, the environment or a global.
//!   Texts come in through a [`Catalog`]; what a path is on disk is the caller's to know.
//! - **Fail at load.** Everything that can be wrong with a profile is found by
//!   [`Profile::load`], with file, line and column. Nothing is silently dropped.
//! - **A child only adds denies.** [`Profile`]s compose by `extends`; what a parent denies or
//!   protects stays denied and protected.
//!
//! Absent for now: rules, modes and layers, which decide calls of tools.
#![forbid(unsafe_code)]

mod builtin;
mod compose;
mod document;
mod environment;
mod error;
mod git_config;
mod glob;
mod pattern;
mod print;
mod profile;
mod source;
mod units;

pub use builtin::{BUILTIN_NAMES, builtin};
pub use environment::NamePattern;
pub use error::ProfileError;
pub use git_config::{GitConfig, commondir, pointer};
pub use pattern::{Anchor, PathRule, PathRuleError, Resolved, Variables};
pub use profile::{LIMIT_NAMES, Limit, Mode, Network, Profile, Require};
pub use source::{Catalog, Origin, Source, Valued};
pub use units::{count, duration, size};
