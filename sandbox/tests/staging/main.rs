//! The suites of `sandbox::staging`: staged work by hand and by the kernel, shown and confined.
#![cfg(test)]

mod apply;
mod confine;
mod diff;
mod overlay;
mod support;
