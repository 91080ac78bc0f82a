//! Copies one chunk: it is found in the receiving pool, taken from memory here, or read. The copies
//! call this.
//!
//! Invariant: wherever bytes come from, they are compared with the fingerprint of their own pool
//! right before they are sent. The receiving pool computes its own.

use super::CopyError;
use super::receiver::Receiver;
use format::recipe::{Layout, ObjectRoot};
use std::sync::Arc;
use store::{CachedChunks, Pool, Reader, StoreError};
use units::Fingerprint;

/// Cost of copying, in plain bytes of chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyCounts {
    /// Read from the pool.
    pub read_bytes: u64,
    /// Taken from the page cache.
    pub cached_bytes: u64,
    /// Not read, because the receiving pool has them.
    pub known_bytes: u64,
}

/// See the module's head.
pub(super) struct Carrier {
    pub from: Arc<Pool>,
    /// The page cache of the server that runs the copy.
    pub memory: Option<Arc<dyn CachedChunks + Send + Sync>>,
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

    /// Ensures that the receiving pool has a chunk of `root` that stands for `len` bytes. Returns
    /// its fingerprint there.
    pub fn carry(
        &mut self,
        root: &ObjectRoot,
        fingerprint: &Fingerprint,
        len: u64,
    ) -> Result<Fingerprint, CopyError> {
        if fingerprint.is_hole() {
            return Ok(Fingerprint::HOLE);
        }
        if self.is_one_domain && self.to.holds(fingerprint)? {
            self.counts.known_bytes += len;
            return Ok(*fingerprint);
        }
        if let Some(sent) = self.carry_resident(root, fingerprint, len) {
            self.counts.cached_bytes += len;
            return sent;
        }
        let chunk = self.source().piece(root, fingerprint, len);
        let chunk = chunk.map_err(CopyError::Source)?;
        // The chunk was verified when it came into memory; a repeated read may be served from
        // there.
        if !self.from.is_called(fingerprint, &chunk) {
            let found = "it changed in memory after it was read";
            let damage = StoreError::corruption("chunk", fingerprint, found);
            return Err(CopyError::Source(damage));
        }
        self.counts.read_bytes += len;
        self.to.store_chunk(&chunk)
    }

    /// Copies a chunk from the server's page cache, if it has the stored bytes.
    fn carry_resident(
        &mut self,
        root: &ObjectRoot,
        fingerprint: &Fingerprint,
        len: u64,
    ) -> Option<Result<Fingerprint, CopyError>> {
        let expected = match root.layout {
            Layout::Fixed(log2) => 1 << log2,
            Layout::Variable => len,
        };
        let memory = self.memory.as_ref()?;
        let is_there = memory.copy(fingerprint, &mut self.bytes)
            && self.bytes.len() as u64 == expected
            && self.from.is_called(fingerprint, &self.bytes);
        is_there.then(|| self.to.store_chunk(&self.bytes))
    }
}

#[cfg(test)]
mod tests;
