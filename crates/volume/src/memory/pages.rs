//! Stores the pages of a volume in memory. [`super::MemoryVolume`] calls this.
//!
//! Invariant: an absent page reads as zeroes. A writer stamps a page under the same lock under
//! which it changes it.

use super::marks::Marks;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicU64;

/// Granularity of holes, bytes.
pub(super) const PAGE_BYTES: usize = 4096;
/// Number of pages that one look-up finds.
pub(super) const GROUP_PAGES: usize = 64;
const GROUP_BYTES: u64 = (PAGE_BYTES * GROUP_PAGES) as u64;
const SHARDS: usize = 64;

pub(super) type Page = Option<Box<[u8; PAGE_BYTES]>>;

/// Neighbouring pages.
pub(super) struct Group {
    pub(super) pages: [Page; GROUP_PAGES],
    /// The epoch of each page's last change; see [`Marks`].
    pub(super) changed: [u64; GROUP_PAGES],
}

/// A page in its group.
pub(super) type Slot<'a> = (&'a Group, usize);
/// Visitor of a range and the page there; `None` if its group is absent.
pub(super) type PageVisitor<'a> = dyn FnMut(u64, u64, Option<Slot<'_>>) -> ControlFlow<()> + 'a;
pub(super) type Shard = HashMap<u64, Box<Group>>;

/// All pages of a volume.
pub(super) struct Store {
    pub(super) size_bytes: AtomicU64,
    pub(super) shards: Vec<RwLock<Shard>>,
    pub(super) marks: Marks,
}

/// A part of a request that lies in one page.
pub(super) struct Part {
    pub(super) page: usize,
    pub(super) within: usize,
    pub(super) len: usize,
}

/// Yields the page-sized parts of a range.
pub(super) fn parts(offset_bytes: u64, len_bytes: u64) -> impl Iterator<Item = Part> {
    let mut at = offset_bytes;
    let end = offset_bytes.saturating_add(len_bytes);
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let within = (at % PAGE_BYTES as u64) as usize;
        let len = (end - at).min((PAGE_BYTES - within) as u64) as usize;
        let part = Part {
            page: (at % GROUP_BYTES) as usize / PAGE_BYTES,
            within,
            len,
        };
        at += len as u64;
        Some(part)
    })
}

/// Yields the parts of a range that lie in one group each: group, first byte, length in bytes.
pub(super) fn groups(offset_bytes: u64, len_bytes: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    let mut at = offset_bytes;
    let end = offset_bytes.saturating_add(len_bytes);
    std::iter::from_fn(move || {
        let left = end.checked_sub(at).filter(|left| *left > 0)?;
        let len = left.min(GROUP_BYTES - at % GROUP_BYTES);
        let found = (at / GROUP_BYTES, at, len);
        at += len;
        Some(found)
    })
}

impl Group {
    pub(super) fn empty() -> Box<Self> {
        Box::new(Self {
            pages: [const { None }; GROUP_PAGES],
            changed: [0; GROUP_PAGES],
        })
    }

    /// Returns a page in order to change it.
    pub(super) fn change(&mut self, page: usize, epoch: u64) -> &mut Page {
        self.changed[page] = epoch;
        &mut self.pages[page]
    }
}

impl Store {
    pub(super) fn new(size_bytes: u64) -> Self {
        Self {
            size_bytes: AtomicU64::new(size_bytes),
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            marks: Marks::default(),
        }
    }

    fn shard(&self, group: u64) -> &RwLock<Shard> {
        &self.shards[group as usize % SHARDS]
    }

    pub(super) fn read(&self, group: u64) -> RwLockReadGuard<'_, Shard> {
        self.shard(group).read()
    }

    pub(super) fn write(&self, group: u64) -> RwLockWriteGuard<'_, Shard> {
        self.shard(group).write()
    }

    /// Visits the pages of a range: first byte, length in bytes, and the slot of the page unless
    /// its whole group is absent. An absent group is visited in one piece.
    pub(super) fn pages(&self, offset_bytes: u64, len_bytes: u64, visit: &mut PageVisitor<'_>) {
        for (group, at, len) in groups(offset_bytes, len_bytes) {
            // The lock is held for the pieces of one group at most.
            let shard = self.read(group);
            let Some(pages) = shard.get(&group) else {
                if visit(at, len, None).is_break() {
                    return;
                }
                continue;
            };
            let mut at = at;
            for part in parts(at, len) {
                let len = part.len as u64;
                if visit(at, len, Some((pages, part.page))).is_break() {
                    return;
                }
                at += len;
            }
        }
    }

    /// Zeroes a range. Whole pages are dropped if `may_free`, else allocated.
    pub(super) fn zero(&self, offset_bytes: u64, len_bytes: u64, may_free: bool) {
        for (group, at, len) in groups(offset_bytes, len_bytes) {
            let mut shard = self.write(group);
            if may_free && !shard.contains_key(&group) {
                continue;
            }
            let pages = shard.entry(group).or_insert_with(Group::empty);
            let epoch = self.marks.epoch();
            for part in parts(at, len) {
                if may_free && pages.pages[part.page].is_none() {
                    continue;
                }
                let page = pages.change(part.page, epoch);
                if may_free && part.len == PAGE_BYTES {
                    *page = None;
                } else {
                    let bytes = page.get_or_insert_with(|| Box::new([0; PAGE_BYTES]));
                    bytes[part.within..part.within + part.len].fill(0);
                }
            }
        }
    }
}
