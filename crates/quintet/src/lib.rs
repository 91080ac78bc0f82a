//! The program: command line, settings, commands, progress. `main.rs` calls [`commands::run`].
//!
//! Invariant: only this crate knows the command line, JSON and the exit codes. The crates below
//! never see a flag.
//!
//! ```text
//! arguments --> cli (typed) --> settings (checked) --> commands --> exit code
//!                                                         |
//!                 console (text, JSON lines) <-- progress, results, warnings
//! ```
#![forbid(unsafe_code)]

pub mod cli;
pub mod commands;
pub mod console;
pub mod exit;
pub mod json;
pub mod progress;
pub mod secrecy;
pub mod settings;
