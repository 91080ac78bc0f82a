//! Copies one chunk: it is found in the receiving pool, taken from memory here, or read. The copies
//! call this. Memory is the page cache of volumes and the cache of decoded regions. Regions that a
//! copy has read itself do not count: what is taken from them was read.
//!
//! Invariant: wherever bytes come from, they are compared with the fingerprint of their own pool
//! right before they are sent. The receiving pool computes its own.

use super::CopyError;
use super::receiver::Receiver;
use duet::Access;
use format::recipe::{Layout, ObjectRoot};
use maintenance::counts;
use std::sync::Arc;
use store::{CachedChunks, ChunkRef, Pool, Reader, RegionKind, StoreError};
use units::{Fingerprint, Origin};

counts! {
    /// Cost of copying, in plain bytes of chunks. The names are those of the JSON that users see.
    pub struct CopyCounts {
        /// Read from the pool.
        pub read_bytes: u64,
        /// Taken from memory, where others have brought it.
        pub cached_bytes: u64,
        /// Not read, because the receiving pool has them.
        pub known_bytes: u64,
    }
}

type Memory = Arc<dyn CachedChunks + Send + Sync>;

/// See the module's head.
pub(super) struct Carrier {
    pub from: Arc<Pool>,
    /// The page cache of the server that runs the copy.
    pub memory: Option<Memory>,
    /// Bytes of the last chunk that was in the page cache.
    pub bytes: Vec<u8>,
    pub to: Receiver,
    pub is_one_domain: bool,
    pub counts: CopyCounts,
}

impl Carrier {
    pub fn source(&self) -> &Arc<Reader> {
        self.from.reader()
    }

    /// Ensures that the receiving pool has a chunk that stands for `len` bytes. Returns its
    /// fingerprint there; `None` if it is not in memory and may not be read.
    pub fn carry(
        &mut self,
        (layout, kind, access): (Layout, RegionKind, Access),
        fingerprint: &Fingerprint,
        len: u64,
    ) -> Result<Option<Fingerprint>, CopyError> {
        if fingerprint.is_hole() {
            return Ok(Some(Fingerprint::HOLE));
        }
        if access == Access::Memory && !self.is_resident(fingerprint) {
            return Ok(None);
        }
        if self.is_one_domain && self.to.holds(fingerprint)? {
            self.counts.known_bytes += len;
            return Ok(Some(*fingerprint));
        }
        if let Some(sent) = self.carry_resident((layout, kind), fingerprint, len) {
            self.counts.cached_bytes += len;
            return sent.map(Some);
        }
        if access == Access::Memory {
            return Ok(None);
        }
        let object = ObjectRoot {
            layout,
            ..ObjectRoot::EMPTY
        };
        let chunk = self.source().piece(&object, fingerprint, len);
        let chunk = chunk.map_err(CopyError::Source)?;
        // The chunk was verified when it came into memory; a repeated read may be served from
        // there.
        if !self.from.is_called(fingerprint, &chunk) {
            let found = "it changed in memory after it was read";
            let damage = StoreError::corruption("chunk", fingerprint, found);
            return Err(CopyError::Source(damage));
        }
        self.counts.read_bytes += len;
        self.to.store_chunk(kind, &chunk).map(Some)
    }

    /// Returns true if others have brought the chunk into memory.
    pub fn is_resident(&self, fingerprint: &Fingerprint) -> bool {
        let is_in_page_cache = |memory: &Memory| memory.holds(fingerprint);
        self.memory.as_ref().is_some_and(is_in_page_cache) || self.decoded(fingerprint).is_some()
    }

    /// Returns the chunk of a decoded region that was not read for a copy.
    fn decoded(&self, fingerprint: &Fingerprint) -> Option<ChunkRef> {
        let chunk = self.source().cached_chunk(fingerprint)?;
        (chunk.read_for() != Origin::Replication).then_some(chunk)
    }

    /// Copies a chunk from memory, if others have brought it there.
    fn carry_resident(
        &mut self,
        (layout, kind): (Layout, RegionKind),
        fingerprint: &Fingerprint,
        len: u64,
    ) -> Option<Result<Fingerprint, CopyError>> {
        let is_it = |bytes: &[u8]| {
            let expected = match layout {
                Layout::Fixed(log2) => 1 << log2,
                Layout::Variable => len,
            };
            bytes.len() as u64 == expected && self.from.is_called(fingerprint, bytes)
        };
        if let Some(memory) = &self.memory
            && memory.copy(fingerprint, &mut self.bytes)
            && is_it(&self.bytes)
        {
            return Some(self.to.store_chunk(kind, &self.bytes));
        }
        let chunk = self.decoded(fingerprint).filter(|chunk| is_it(chunk))?;
        Some(self.to.store_chunk(kind, &chunk))
    }
}

#[cfg(test)]
mod tests;
