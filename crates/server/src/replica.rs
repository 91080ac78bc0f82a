//! A replica that was opened once: its directory and its secret. `scrub` and `repair` create it.
//! The scrub of a server keeps it until its pass ends, or for the server's lifetime.
//!
//! Invariant: the secret is kept in memory only.

use std::path::PathBuf;
use store::SecretKey;

/// A replica to repair from. See the module's head.
pub struct Replica {
    /// Directory of the replica.
    pub path: PathBuf,
    /// Key that opens the replica. `None` without encryption.
    pub secret: Option<SecretKey>,
    /// Memory budget while the replica is open, bytes.
    pub memory_bytes: usize,
}
