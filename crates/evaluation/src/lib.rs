//! The papers' tables, beside ours: experiments in virtual time over models of devices, driving the real rooms.
//!
//! Invariant: the same seed gives the same pages, byte for byte; no clock is asked and no figure is typed in.
//! What is calibrated is said on the page that uses it. Called by `cargo run --release -p evaluation`, and by
//! tests at a small scale.
#![forbid(unsafe_code)]

pub mod ageing;
pub mod disk;
pub mod figures;
pub mod flash;
pub mod fragments;
pub mod maintenance;
pub mod slow_disk;
