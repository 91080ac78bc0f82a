//! The program: command line, settings, server, mounts, progress.
//!
//! Invariant: only this crate knows the command line, the terminal and the signals; the rooms below
//! never see a flag. `main.rs` calls [`commands::run`].
#![forbid(unsafe_code)]

pub mod cli;
pub mod commands;
pub mod console;
pub mod exit;
pub mod findings;
pub mod held;
pub mod json;
pub mod meters;
pub mod metrics;
pub mod mount;
pub mod progress;
pub mod retention;
pub mod secrecy;
pub mod settings;
