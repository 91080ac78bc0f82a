//! What volumes' page cache spares the collector.
//!
//! Invariant: what is in the page cache by content was verified when it came in, and never changes.
//! Called by the collector.

use super::Volumes;
use crate::collect::CachedChunks;
use page_cache::Use;
use units::Fingerprint;

impl CachedChunks for Volumes {
    fn holds(&self, fingerprint: &Fingerprint) -> bool {
        self.engine.cache.is_content_resident(fingerprint)
    }

    fn copy(&self, fingerprint: &Fingerprint, bytes: &mut Vec<u8>) -> bool {
        let frame = self.engine.cache.by_content(fingerprint, None, Use::Scan);
        if let Some(frame) = &frame {
            bytes.clear();
            bytes.extend_from_slice(frame);
        }
        frame.is_some()
    }
}
