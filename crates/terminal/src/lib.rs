//! The user's side of a command: outputs, words, JSON lines, progress, stop requests and exit
//! codes. Commands, the server and `unlocking` call this.
//!
//! Invariant: nothing here knows a pool, a command or a flag, so this crate compiles beside the
//! engine. What users read and write (sizes, times, names of snapshots) has one spelling, this one.
//!
//! ```text
//! shell: all of it that one command gets
//!   +-- command_context --> environment, interrupt (signals)
//!   +-- console (text), json (lines) <-- table, progress
//! outside_program: programs that a command runs, and what they say
//! words: sizes, amounts, calendar, paths, names, latest, error (causes)       exit: codes
//! ```
#![forbid(unsafe_code)]

pub mod amounts;
pub mod calendar;
pub mod command_context;
pub mod console;
pub mod environment;
pub mod error;
pub mod exit;
pub mod interrupt;
pub mod json;
pub mod kept_text;
pub mod latest;
pub mod names;
pub mod outside_program;
pub mod paths;
pub mod progress;
pub mod shell;
pub mod sizes;
pub mod table;
pub mod words;
