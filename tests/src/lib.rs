//! The rules of the house as functions over the project's own files; the suites are in `tests/`.
//!
//! # Invariants
//!
//! - **Every rule can fail.** Each `violations_of_…` function takes the files as data, and is
//!   tested on a small counter-example beside the real tree.
//! - **Reads only the checkout.** Nothing here starts a process or writes a file.
#![forbid(unsafe_code)]

pub mod claims;
pub mod edges;
pub mod rules;
pub mod scan;
pub mod tree;
