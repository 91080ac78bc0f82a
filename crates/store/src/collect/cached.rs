//! Tells which chunks are in memory, so that copying them needs no read. Garbage collection and
//! defragmentation call this; volumes implement it.
//!
//! Invariant: the answers affect only the cost. Bytes that the page cache of volumes returns by
//! content were verified when they were cached, and copying compares them again.

use units::Fingerprint;

/// Access to chunks in memory: copying a live chunk that is in memory needs no read (Duet,
/// SOSP'15).
pub trait CachedChunks {
    /// Returns true if the chunk's bytes are in memory.
    fn holds(&self, fingerprint: &Fingerprint) -> bool;

    /// Replaces `bytes` by the chunk's bytes. Returns false if they are not in memory any more.
    fn copy(&self, fingerprint: &Fingerprint, bytes: &mut Vec<u8>) -> bool;

    /// Returns true if no chunk is in memory.
    fn is_empty(&self) -> bool {
        false
    }
}

/// An implementation without any chunk in memory.
pub struct NothingCached;

impl CachedChunks for NothingCached {
    fn holds(&self, _: &Fingerprint) -> bool {
        false
    }

    fn copy(&self, _: &Fingerprint, _: &mut Vec<u8>) -> bool {
        false
    }

    fn is_empty(&self) -> bool {
        true
    }
}
