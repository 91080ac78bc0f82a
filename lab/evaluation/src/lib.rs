//! Repeats the tables of papers beside our results: experiments in virtual time that run the real
//! crates over models of devices.
//!
//! `cargo run --release -p evaluation` calls this; tests run it at a small scale.
//! Invariant: the same seed gives the same pages, byte for byte. The pages read no clock, and no
//! measured figure is typed in. Each page states what it calibrates.
#![forbid(unsafe_code)]

pub mod ageing;
pub mod classes;
pub mod ddfs;
pub mod disk;
pub mod figures;
pub mod flash;
pub mod fragments;
pub mod maintenance;
pub mod rooms;
pub mod shipped;
pub mod slow_disk;
