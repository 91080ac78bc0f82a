//! Helpers of tests: [`conformance`], the suites that any implementation of a waist must pass, and
//! [`specimen`], pools of known contents.
//!
//! Invariant: nothing of the program depends on this crate.
#![forbid(unsafe_code)]

pub mod conformance;
pub mod specimen;
