//! The state of a server, and what its clients see of it: control socket, mounts, metrics, findings.
//!
//! Invariant: nothing here knows a command, a flag, JSON or an exit code; the program hands over what
//! runs commands for clients ([`control::Commands`]). Errors have kinds. Times, sizes and groups of
//! snapshots are here too, as people write them: findings and mounts use the words of the command line.
//! The program `quintet` calls this.
#![forbid(unsafe_code)]

pub mod calendar;
pub mod caller;
pub mod control;
mod error;
pub mod exports;
pub mod findings;
pub mod groups;
pub mod held;
pub mod interrupt;
pub mod latest;
pub mod memory_plan;
pub mod meters;
pub mod metrics;
pub mod mount;
pub mod names;
pub mod program;
pub mod scrub_notes;
pub mod settings;
pub mod sizes;
pub mod sockets;
pub mod systemd;
pub mod threads;
