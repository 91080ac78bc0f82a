//! What of a snapshot may be in memory because volumes like it are used: for maintenance that goes
//! where the bytes are.
//!
//! Invariant: bytes told here equal what is stored under their fingerprint; unwritten pages have none
//! and are never told. Which volumes are like a snapshot is a hint. Called by replication
//! and the collector.

use super::Volumes;
use format::recipe::Layout;
use format::snapshot::{Snapshot, SnapshotKind};
use page_cache::Use;
use store::CachedChunks;
use units::Fingerprint;

impl Volumes {
    /// Numbers, in events of [`duet::Space::Chunks`], of the volumes of which the snapshot is a state
    /// or that began as it: their chunks have its numbers, and mostly its contents.
    pub fn objects_like(&self, snapshot: &Snapshot) -> Vec<u64> {
        let Layout::Fixed(log2) = snapshot.root.layout else {
            return Vec::new();
        };
        let of = match snapshot.kind {
            SnapshotKind::Volume => snapshot.name.rsplit_once('@').map(|(name, _)| name),
            _ => None,
        };
        let registry = self.engine.registry.lock();
        let like = registry.values().filter(|r| {
            let record = &r.record;
            r.volume.log2 == log2
                && (of == Some(record.name.as_str()) || record.origin == snapshot.id)
        });
        like.map(|r| r.volume.object).collect()
    }

    /// Whether the page cache has the chunk.
    pub fn is_chunk_resident(&self, fingerprint: &Fingerprint) -> bool {
        self.engine.backing.cache.is_content_resident(fingerprint)
    }

    /// Hands the chunk's bytes to `use_bytes` if the page cache has them; false when it does not.
    /// Makes nothing hot.
    pub fn with_resident_chunk(
        &self,
        fingerprint: &Fingerprint,
        use_bytes: &mut dyn FnMut(&[u8]),
    ) -> bool {
        let frame = self
            .engine
            .backing
            .cache
            .by_content(fingerprint, None, Use::Scan);
        if let Some(frame) = &frame {
            use_bytes(frame);
        }
        frame.is_some()
    }
}

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
