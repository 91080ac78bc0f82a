//! Who knows which chunks are in memory, so that copying them costs no read.
//!
//! Invariant: nothing but cost depends on the answers. What volumes' page cache holds by content was
//! verified when it came in, and never changes. Called by garbage collection and defragmentation.

use units::Fingerprint;

/// Who knows what is in memory: live chunks that are, cost no read to copy (Duet, SOSP'15).
pub trait CachedChunks {
    /// True when the chunk's bytes are in memory.
    fn holds(&self, fingerprint: &Fingerprint) -> bool;

    /// Replaces `bytes` by the chunk's; false when they are not in memory any more.
    fn copy(&self, fingerprint: &Fingerprint, bytes: &mut Vec<u8>) -> bool;

    /// True when it would say no to everything.
    fn is_empty(&self) -> bool {
        false
    }
}

/// Nothing is in memory.
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
