//! A replica that opened once: where it is, and with which secret.
//!
//! Invariant: the secret is in memory only, as long as a pass or a server that is to use it. Called by `scrub` and
//! `repair`, which fill and use it, and by the scrub of a held pool, which keeps it until the pass ends, or as long as
//! the server lives.

use std::path::PathBuf;
use store::SecretKey;

/// See the module's head.
pub struct Replica {
    /// Its directory.
    pub path: PathBuf,
    /// What opens it; none without encryption.
    pub secret: Option<SecretKey>,
    /// What it may take while it is open.
    pub memory_bytes: usize,
}
