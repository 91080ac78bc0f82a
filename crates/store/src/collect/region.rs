//! Copying what is live out of one region.
//!
//! Invariant: a region of which all is live goes as it is stored, proven by checksum and seal; a chunk that is
//! packed anew is fingerprinted first. What was found damaged goes only by the second way: its
//! stored bytes may be what somebody stored and its chunks not what they are called. Called by the collector.

use super::CachedChunks;
use super::lanes::FINE_REGION_BYTES;
use crate::container::{OpenedRegion, RegionPlace};
use crate::error::{Result, StoreError};
use crate::pool::Pool;
use crate::write_path::Lane;
use format::container::{ContainerClass, DirectoryRegion, region_sectors};
use units::Fingerprint;

/// A region, and what its container says of it.
pub(super) struct SourceRegion<'a> {
    pub place: RegionPlace,
    pub class: ContainerClass,
    pub region: &'a DirectoryRegion,
}

/// Plain bytes that were copied.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CopiedBytes {
    /// In all.
    pub bytes: u64,
    /// ... that were in memory.
    pub cached_bytes: u64,
    /// ... that are packed as they were.
    pub as_stored_bytes: u64,
}

impl SourceRegion<'_> {
    /// Copies chunks, given by their numbers in the region.
    pub fn copy(
        &self,
        pool: &Pool,
        cached: &dyn CachedChunks,
        lane: &mut Lane,
        wanted: &[usize],
    ) -> Result<CopiedBytes> {
        let chunks: Vec<_> = wanted
            .iter()
            .filter_map(|number| self.region.chunks.get(*number).copied())
            .collect();
        let mut copied = CopiedBytes {
            bytes: chunks.iter().map(|(_, len)| u64::from(*len)).sum(),
            ..CopiedBytes::default()
        };
        if chunks.iter().all(|(name, _)| cached.holds(name)) {
            copied.cached_bytes = self.copy_cached(pool, cached, lane, &chunks)?;
            return Ok(copied);
        }
        let sectors = region_sectors(self.region.stored_bytes);
        let unpacked = match pool.containers().opened(self.place, sectors) {
            Ok(opened) if self.may_stay_packed(pool, lane, &opened, &chunks)? => {
                lane.store_region(self.class, &opened, &chunks)?;
                pool.containers().reuse_opened(opened);
                copied.as_stored_bytes = copied.bytes;
                return Ok(copied);
            }
            Ok(opened) => pool.containers().unpacked(opened, &self.region.chunks),
            Err(e) => Err(e),
        };
        match unpacked {
            Ok(raw) => {
                self.copy_unpacked(lane, &raw, wanted)?;
                pool.containers().reuse_bytes(raw);
            }
            // Another copy may do, though it was not the one to be kept.
            Err(e) if e.is_corruption() => {
                pool.chunks().quarantine.add(self.place);
                for (name, _) in &chunks {
                    self.store(lane, &[(*name, &pool.reader().chunk(name)?)])?;
                }
            }
            Err(e) => return Err(e),
        }
        Ok(copied)
    }

    /// True when all in it is to be copied, it is worth its header, and nobody has any of it elsewhere.
    fn may_stay_packed(
        &self,
        pool: &Pool,
        lane: &mut Lane,
        opened: &OpenedRegion,
        chunks: &[(Fingerprint, u32)],
    ) -> Result<bool> {
        if chunks.len() < self.region.chunks.len()
            || !opened.is_of(chunks)
            || (opened.raw_bytes() as usize) < lane.region_bytes(self.class).min(FINE_REGION_BYTES)
            || pool.chunks().quarantine.is_damaged(self.place)
        {
            return Ok(false);
        }
        for (name, _) in chunks {
            if lane.holds(name)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn copy_unpacked(&self, lane: &mut Lane, raw: &[u8], wanted: &[usize]) -> Result<()> {
        let mut start = 0;
        let mut spans = Vec::with_capacity(self.region.chunks.len());
        for (name, len) in &self.region.chunks {
            let end = start + *len as usize;
            spans.push((*name, raw.get(start..end).unwrap_or_default()));
            start = end;
        }
        let wanted = wanted.iter().filter_map(|number| spans.get(*number));
        self.store(lane, &wanted.copied().collect::<Vec<_>>())
    }

    /// Plain bytes that were still in memory.
    fn copy_cached(
        &self,
        pool: &Pool,
        cached: &dyn CachedChunks,
        lane: &mut Lane,
        chunks: &[(Fingerprint, u32)],
    ) -> Result<u64> {
        let (mut bytes, mut in_memory) = (Vec::new(), 0);
        for (name, len) in chunks {
            if cached.copy(name, &mut bytes) {
                in_memory += u64::from(*len);
                self.store(lane, &[(*name, &bytes)])?;
            } else {
                self.store(lane, &[(*name, &pool.reader().chunk(name)?)])?;
            }
        }
        Ok(in_memory)
    }

    fn store(&self, lane: &mut Lane, chunks: &[(Fingerprint, &[u8])]) -> Result<()> {
        match lane.store_read(self.class, chunks)? {
            true => Ok(()),
            false => {
                let (at, found) = (self.place.to_string(), "not what its directory says");
                Err(StoreError::corruption("chunk", at, found))
            }
        }
    }
}
