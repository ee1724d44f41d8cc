//! The agent loop, its backends, transcript and tools' schemas; it can only ask.
//!
//! # Invariants
//!
//! - **No edge to `sandbox`.** This crate cannot start a process; a tool call is a request
//!   that the supervisor classifies, records and runs.
//! - **No secrets.** Provider keys are added by the supervisor's transport.
//!
//! Absent for now: everything else. The loop is the subject of a later change; the crate
//! stands so that the edges between crates are held by a test from the first day.
#![forbid(unsafe_code)]
