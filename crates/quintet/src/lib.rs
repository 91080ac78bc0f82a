//! The program: command line, settings, commands, progress. `main.rs` calls [`commands::run`].
//!
//! Invariant: only this crate knows the command line. The crates below never see a flag. What a
//! command says goes through the crate `terminal`.
//!
//! ```text
//! arguments --> cli (typed) --> settings (checked) --> commands --> exit code
//!                                                         |
//!       terminal: console (text, JSON lines) <-- progress, results, warnings
//! ```
#![forbid(unsafe_code)]

pub mod cli;
pub mod commands;
pub mod progress;
pub mod secrecy;
pub mod settings;
