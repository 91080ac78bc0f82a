//! Server state and everything that clients see of it: control socket, mounts, metrics, findings.
//! The program `quintet` calls this crate.
//!
//! Invariant: nothing here knows a command, a flag, JSON or an exit code. The program passes in the
//! code that runs commands for clients ([`control::Commands`]). Errors have kinds.
//!
//! ```text
//! client ---- control socket --> control --> Commands (implemented by the program)
//! NBD, FUSE -- exports, mount --> volumes and snapshots of the pool
//! threads --- checkpoints, scrub, defragmentation, gc --> state::ServerState
//! status, top, metrics <-- state::Live, findings
//! ```
#![forbid(unsafe_code)]

pub mod advice_words;
pub mod class_words;
pub mod control;
pub mod directories;
pub mod exports;
pub mod failures;
pub mod fast_device;
pub mod findings;
pub mod memory_plan;
pub mod meters;
pub mod metrics;
pub mod mount;
pub mod program;
pub mod scrub_notes;
pub mod settings;
pub mod sockets;
pub mod state;
pub mod systemd;
pub mod targets;
pub mod threads;
