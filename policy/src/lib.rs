//! Profiles, their composition and what they mean; pure and total.
#![forbid(unsafe_code)]
