//! Suites over the whole product; see the files in `tests/`.
#![forbid(unsafe_code)]
