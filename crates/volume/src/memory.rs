//! Implements a sparse volume in memory, for tests and measurements. It tracks its holes and
//! changes.
//!
//! Tests and the examples of the front ends call this.
//! Invariant: an absent page reads as zeroes and is reported as a hole. Memory grows with the bytes
//! written, not with the size. Every page records the mark after which it was last changed.

mod marks;
mod pages;
mod since;
#[cfg(test)]
mod tests;

use crate::{
    Capabilities, Changes, Durability, Extent, FastPath, RequestContext, TrackChanges, Volume,
    VolumeError, VolumeInfo,
};
use pages::{Group, PAGE_BYTES, Store, groups, parts};
use since::Since;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A sparse volume in memory. A write counts as durable at once. Clones are the same volume.
#[derive(Clone)]
pub struct MemoryVolume(Arc<Store>);

impl MemoryVolume {
    /// Makes an empty volume: one hole of `size_bytes`.
    pub fn new(size_bytes: u64) -> Self {
        Self(Arc::new(Store::new(size_bytes)))
    }

    /// Returns the memory that pages take, bytes.
    pub fn allocated_bytes(&self) -> u64 {
        let pages: usize = self
            .0
            .shards
            .iter()
            .map(|shard| {
                let shard = shard.read();
                shard.values().flat_map(|g| &g.pages).flatten().count()
            })
            .sum();
        (pages * PAGE_BYTES) as u64
    }

    /// Extends the volume by a hole, or shortens it. Requests in flight that are now past the end
    /// may still be served.
    pub fn resize(&self, size_bytes: u64) {
        let old = self.0.size_bytes.swap(size_bytes, Relaxed);
        if let Some(cut) = old.checked_sub(size_bytes) {
            self.0.zero(size_bytes, cut, true);
        }
    }

    /// Marks the current state as `name`, for [`TrackChanges::changes_since`].
    ///
    /// An older mark of that name is forgotten. The mark does not keep the contents, it only tracks
    /// later changes.
    pub fn mark(&self, name: &str) {
        // No writer is inside: each change is wholly before the mark or wholly after.
        let shards = self.0.shards.iter();
        let held: Vec<_> = shards.map(|shard| shard.write()).collect();
        self.0.marks.add(name, self.0.size_bytes.load(Relaxed));
        drop(held);
    }
}

impl Volume for MemoryVolume {
    fn info(&self) -> VolumeInfo {
        VolumeInfo {
            size_bytes: self.size_bytes(),
            read_only: false,
            block_bytes_min: 1,
            block_bytes_preferred: PAGE_BYTES as u32,
            description: "memory".to_owned(),
        }
    }

    fn size_bytes(&self) -> u64 {
        self.0.size_bytes.load(Relaxed)
    }

    fn read(
        &self,
        _context: RequestContext,
        offset_bytes: u64,
        into: &mut [u8],
    ) -> Result<(), VolumeError> {
        let mut rest = into;
        for (group, at, len) in groups(offset_bytes, rest.len() as u64) {
            let (now, later) = rest.split_at_mut(len as usize);
            rest = later;
            let shard = self.0.read(group);
            let Some(pages) = shard.get(&group) else {
                now.fill(0);
                continue;
            };
            let mut done = 0;
            for part in parts(at, len) {
                let target = &mut now[done..done + part.len];
                match &pages.pages[part.page] {
                    Some(page) => {
                        target.copy_from_slice(&page[part.within..part.within + part.len])
                    }
                    None => target.fill(0),
                }
                done += part.len;
            }
        }
        Ok(())
    }

    fn write(
        &self,
        _context: RequestContext,
        offset_bytes: u64,
        data: &[u8],
        _durability: Durability,
    ) -> Result<(), VolumeError> {
        let mut rest = data;
        for (group, at, len) in groups(offset_bytes, data.len() as u64) {
            let mut shard = self.0.write(group);
            let pages = shard.entry(group).or_insert_with(Group::empty);
            let epoch = self.0.marks.epoch();
            for part in parts(at, len) {
                let (now, later) = rest.split_at(part.len);
                rest = later;
                let page = pages.change(part.page, epoch);
                let page = page.get_or_insert_with(|| Box::new([0; PAGE_BYTES]));
                page[part.within..part.within + part.len].copy_from_slice(now);
            }
        }
        Ok(())
    }

    fn flush(&self, _context: RequestContext) -> Result<(), VolumeError> {
        Ok(())
    }

    fn discard(
        &self,
        _context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<(), VolumeError> {
        self.0.zero(offset_bytes, len_bytes, true);
        Ok(())
    }

    fn write_zeroes(
        &self,
        _context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        may_free: bool,
        _durability: Durability,
    ) -> Result<(), VolumeError> {
        self.0.zero(offset_bytes, len_bytes, may_free);
        Ok(())
    }

    fn extents(
        &self,
        _context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        visit: &mut dyn FnMut(Extent) -> ControlFlow<()>,
    ) -> Result<(), VolumeError> {
        let mut pending: Option<Extent> = None;
        self.0.pages(offset_bytes, len_bytes, &mut |at, len, page| {
            let hole = page.is_none_or(|(group, page)| group.pages[page].is_none());
            match &mut pending {
                Some(extent) if extent.hole == hole => extent.len_bytes += len,
                _ => {
                    let next = Extent {
                        offset_bytes: at,
                        len_bytes: len,
                        hole,
                        zero: hole,
                    };
                    if let Some(extent) = pending.replace(next) {
                        return visit(extent);
                    }
                }
            }
            ControlFlow::Continue(())
        });
        if let Some(extent) = pending {
            let _ = visit(extent);
        }
        Ok(())
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            fast_path: Some(self),
            changes: Some(self),
            prefetch: None,
        }
    }
}

/// Memory is always ready.
impl FastPath for MemoryVolume {
    fn is_cached(&self, _context: RequestContext, _offset_bytes: u64, _len_bytes: u64) -> bool {
        true
    }

    fn write_now(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        data: &[u8],
    ) -> Result<bool, VolumeError> {
        self.write(context, offset_bytes, data, Durability::Volatile)?;
        Ok(true)
    }
}

impl TrackChanges for MemoryVolume {
    fn baselines(&self, count_max: usize) -> Vec<String> {
        self.0.marks.names(count_max)
    }

    fn changes_since(&self, baseline: &str) -> Option<Arc<dyn Changes>> {
        let since = self.0.marks.since(baseline)?;
        Some(Arc::new(Since::new(self.0.clone(), since)))
    }
}
