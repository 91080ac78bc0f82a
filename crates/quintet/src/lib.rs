//! The program: command line, settings, commands, progress. `main.rs` calls [`commands::run`].
//!
//! Invariant: only this crate and `host_tools` know the command line. The crates below them never
//! see a flag. What a command says goes through the crate `terminal`.
//!
//! ```text
//! arguments --> cli (typed) --> settings (checked) --> commands --> exit code
//!                                                         |
//!       terminal: console (text, JSON lines) <-- progress, results, warnings
//! ```
#![forbid(unsafe_code)]

pub mod cli;
pub mod commands;
pub mod limits;
pub mod progress;
pub mod secrecy;
pub mod settings;
