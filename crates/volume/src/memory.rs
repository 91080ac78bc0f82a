//! A volume in memory, for tests and measurements: sparse, its holes known.
//!
//! Invariant: a page that is absent reads as zeroes and is reported as a hole; memory grows with
//! what was written, not with the size. Tests and the examples of the front ends call this.

use crate::{Durability, Extent, RequestContext, Volume, VolumeError, VolumeInfo};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Granularity of holes, bytes.
const PAGE_BYTES: usize = 4096;
/// Pages that are found with one look-up.
const GROUP_PAGES: usize = 64;
const GROUP_BYTES: u64 = (PAGE_BYTES * GROUP_PAGES) as u64;
const SHARDS: usize = 64;

type Page = Option<Box<[u8; PAGE_BYTES]>>;
type Shard = HashMap<u64, Box<[Page; GROUP_PAGES]>>;

/// A sparse volume in memory. Durable as soon as written, as far as memory goes.
pub struct MemoryVolume {
    size_bytes: u64,
    shards: Vec<RwLock<Shard>>,
}

/// A part of a request that lies in one page.
struct Part {
    group: u64,
    page: usize,
    within: usize,
    len: usize,
}

/// The page-sized parts of a range.
fn parts(offset_bytes: u64, len_bytes: u64) -> impl Iterator<Item = Part> {
    let mut at = offset_bytes;
    let end = offset_bytes.saturating_add(len_bytes);
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let within = (at % PAGE_BYTES as u64) as usize;
        let len = (end - at).min((PAGE_BYTES - within) as u64) as usize;
        let part = Part {
            group: at / GROUP_BYTES,
            page: (at % GROUP_BYTES) as usize / PAGE_BYTES,
            within,
            len,
        };
        at += len as u64;
        Some(part)
    })
}

impl MemoryVolume {
    /// An empty volume: one hole of `size_bytes`.
    pub fn new(size_bytes: u64) -> Self {
        Self {
            size_bytes,
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
        }
    }

    /// Memory taken by pages, bytes.
    pub fn allocated_bytes(&self) -> u64 {
        let pages: usize = self
            .shards
            .iter()
            .map(|shard| {
                let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
                shard.values().flat_map(|g| g.iter()).flatten().count()
            })
            .sum();
        (pages * PAGE_BYTES) as u64
    }

    fn shard(&self, group: u64) -> &RwLock<Shard> {
        &self.shards[group as usize % SHARDS]
    }

    fn shard_read(&self, group: u64) -> RwLockReadGuard<'_, Shard> {
        let shard = self.shard(group).read();
        shard.unwrap_or_else(PoisonError::into_inner)
    }

    fn shard_write(&self, group: u64) -> RwLockWriteGuard<'_, Shard> {
        let shard = self.shard(group).write();
        shard.unwrap_or_else(PoisonError::into_inner)
    }

    /// Zeroes a range; whole pages are dropped if `may_free`, else allocated.
    fn zero(&self, offset_bytes: u64, len_bytes: u64, may_free: bool) {
        for part in parts(offset_bytes, len_bytes) {
            let mut shard = self.shard_write(part.group);
            if may_free && !shard.contains_key(&part.group) {
                continue;
            }
            let page = &mut shard.entry(part.group).or_insert_with(empty_group)[part.page];
            if may_free && part.len == PAGE_BYTES {
                *page = None;
            } else if !may_free || page.is_some() {
                let bytes = page.get_or_insert_with(|| Box::new([0; PAGE_BYTES]));
                bytes[part.within..part.within + part.len].fill(0);
            }
        }
    }
}

fn empty_group() -> Box<[Page; GROUP_PAGES]> {
    Box::new([const { None }; GROUP_PAGES])
}

impl Volume for MemoryVolume {
    fn info(&self) -> VolumeInfo {
        VolumeInfo {
            size_bytes: self.size_bytes,
            read_only: false,
            block_bytes_min: 1,
            block_bytes_preferred: PAGE_BYTES as u32,
            description: "memory".to_owned(),
        }
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read(
        &self,
        _context: RequestContext,
        offset_bytes: u64,
        into: &mut [u8],
    ) -> Result<(), VolumeError> {
        let mut rest = into;
        let mut at = offset_bytes;
        while !rest.is_empty() {
            let group = at / GROUP_BYTES;
            let in_group = ((group + 1) * GROUP_BYTES - at).min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(in_group as usize);
            rest = later;
            let shard = self.shard_read(group);
            match shard.get(&group) {
                None => now.fill(0),
                Some(pages) => {
                    let mut done = 0;
                    for part in parts(at, in_group) {
                        let target = &mut now[done..done + part.len];
                        match &pages[part.page] {
                            Some(page) => {
                                target.copy_from_slice(&page[part.within..part.within + part.len])
                            }
                            None => target.fill(0),
                        }
                        done += part.len;
                    }
                }
            }
            at += in_group;
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
        for part in parts(offset_bytes, data.len() as u64) {
            let (now, later) = rest.split_at(part.len);
            rest = later;
            let mut shard = self.shard_write(part.group);
            let group = shard.entry(part.group).or_insert_with(empty_group);
            let page = group[part.page].get_or_insert_with(|| Box::new([0; PAGE_BYTES]));
            page[part.within..part.within + part.len].copy_from_slice(now);
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
        self.zero(offset_bytes, len_bytes, true);
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
        self.zero(offset_bytes, len_bytes, may_free);
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
        let mut at = offset_bytes;
        for part in parts(offset_bytes, len_bytes) {
            let hole = match self.shard_read(part.group).get(&part.group) {
                Some(group) => group[part.page].is_none(),
                None => true,
            };
            let len = part.len as u64;
            match &mut pending {
                Some(extent) if extent.hole == hole => extent.len_bytes += len,
                _ => {
                    let next = Extent {
                        offset_bytes: at,
                        len_bytes: len,
                        hole,
                        zero: hole,
                    };
                    if let Some(extent) = pending.replace(next)
                        && visit(extent).is_break()
                    {
                        return Ok(());
                    }
                }
            }
            at += len;
        }
        if let Some(extent) = pending {
            let _ = visit(extent);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXT: RequestContext = RequestContext {
        origin: units::Origin::Foreground,
        class: units::IoClass(0),
    };

    #[test]
    fn memory_grows_with_what_was_written() {
        let volume = MemoryVolume::new(1 << 50);
        assert_eq!(volume.allocated_bytes(), 0);
        let write = volume.write(CONTEXT, (1 << 49) - 1, &[7, 7], Durability::Volatile);
        write.unwrap();
        assert_eq!(volume.allocated_bytes(), 2 * PAGE_BYTES as u64);
        volume.discard(CONTEXT, (1 << 49) - 4096, 8192).unwrap();
        assert_eq!(volume.allocated_bytes(), 0);
    }

    #[test]
    fn extents_tell_holes_from_data() {
        let volume = MemoryVolume::new(1 << 20);
        let data = [1; 5000];
        let write = volume.write(CONTEXT, 8192, &data, Durability::Volatile);
        write.unwrap();
        let mut seen = Vec::new();
        volume
            .extents(CONTEXT, 100, 30_000, &mut |e| {
                seen.push((e.offset_bytes, e.len_bytes, e.hole));
                ControlFlow::Continue(())
            })
            .unwrap();
        let expected = [(100, 8092, true), (8192, 8192, false), (16384, 13716, true)];
        assert_eq!(seen, expected);
    }
}
