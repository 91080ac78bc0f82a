//! The program: command line, settings, commands, progress.
//!
//! Invariant: only this crate knows the command line, JSON and the exit codes; the rooms below never
//! see a flag. `main.rs` calls [`commands::run`].
#![forbid(unsafe_code)]

pub mod cli;
pub mod commands;
pub mod console;
pub mod exit;
pub mod json;
pub mod progress;
pub mod retention;
pub mod secrecy;
pub mod settings;
