//! Suites that any implementation of a waist must pass.
//!
//! Invariant: a suite knows the waist and nothing of who implements it, and each has canaries
//! that must fail it. Tests of the implementing crates call these.
#![forbid(unsafe_code)]

pub mod media;
pub mod volume;
