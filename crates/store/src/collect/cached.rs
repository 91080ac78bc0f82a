//! What volumes' page cache spares the collector.
//!
//! Invariant: what is in the page cache by content was verified when it came in, and never changes.
//! Called by the collector.

use super::CachedChunks;
use crate::volumes::Volumes;
use units::Fingerprint;

impl CachedChunks for Volumes {
    fn holds(&self, fingerprint: &Fingerprint) -> bool {
        self.is_chunk_resident(fingerprint)
    }

    fn copy(&self, fingerprint: &Fingerprint, bytes: &mut Vec<u8>) -> bool {
        self.with_resident_chunk(fingerprint, &mut |resident| {
            bytes.clear();
            bytes.extend_from_slice(resident);
        })
    }
}
