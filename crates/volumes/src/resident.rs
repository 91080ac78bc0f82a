//! Finds chunks of a snapshot in memory, where similar volumes may have them. Maintenance can use
//! these instead of the device.
//!
//! Replication and garbage collection call this.
//! Invariant: returned bytes equal what is stored under their fingerprint. Dirty pages have no
//! fingerprint and are never returned. The similarity of volumes is a hint.

use super::Volumes;
use format::recipe::Layout;
use format::snapshot::{Snapshot, SnapshotKind};
use page_cache::Use;
use store::CachedChunks;
use units::Fingerprint;

impl Volumes {
    /// Returns the object numbers, in events of [`duet::Space::Chunks`], of volumes that have this
    /// snapshot or were created from it. Their chunks have the same numbers and mostly the same
    /// contents.
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

    /// Returns true if the page cache has the chunk.
    pub fn is_chunk_resident(&self, fingerprint: &Fingerprint) -> bool {
        self.engine.backing.cache.is_content_resident(fingerprint)
    }

    /// Passes the chunk's bytes to `use_bytes` if the page cache has them; otherwise returns false.
    /// Does not make the chunk hot.
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
