//! The program: settings, commands, progress. `main.rs` calls [`commands::run`].
//!
//! Invariant: only this crate, `command_line`, `host_tools` and `setup` know the command line. The
//! crates below them never see a flag. Output of a command goes through the crate `terminal`.
//!
//! ```text
//! arguments --> command_line (typed) --> settings (checked) --> commands --> exit code
//!                                                                  |
//!                terminal: console (text, JSON lines) <-- progress, results, warnings
//! ```
#![forbid(unsafe_code)]

pub mod commands;
pub mod progress;
mod rate_limit;
pub mod settings;
