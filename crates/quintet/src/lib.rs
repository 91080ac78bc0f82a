//! The program's own rooms: command line, settings, progress, and the door to the file system.
//!
//! Invariant: only this crate knows the command line; the store never sees a flag, a terminal or
//! a source file. `main.rs` calls [`filesystem`] and its neighbours through the commands.
#![forbid(unsafe_code)]

pub mod backup;
pub mod calendar;
pub mod caller;
pub mod cli;
pub mod commands;
pub mod console;
pub mod control;
pub mod exit;
pub mod filesystem;
pub mod findings;
pub mod held;
pub mod image;
pub mod ingest;
pub mod interrupt;
pub mod json;
pub mod latest;
pub mod memory_plan;
pub mod meters;
pub mod metrics;
pub mod mount;
pub mod progress;
pub mod restore;
pub mod retention;
pub mod secrecy;
pub mod selection;
pub mod settings;
pub mod sizes;
pub mod systemd;
pub mod tar;
