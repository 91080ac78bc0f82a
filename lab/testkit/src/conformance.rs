//! Contains suites that any implementation of the `Volume` or media interface must pass.
//!
//! Tests of the implementing crates call these.
//! Invariant: a suite knows the interface and nothing of the implementation. Each suite has
//! canaries that must fail it.

pub mod media;
pub mod volume;
