//! Implements the dirty side: 4 KiB pages by place and version, as the journal has them. `cache`
//! calls this.
//!
//! Invariant: a page is served only for its own place and its own version; it has no content
//! identity. Of two versions of a page the higher one stays. All changes of one page happen under
//! the lock of its shard. Eviction is CLOCK over slots: no page takes more than its slot, however
//! often it is written.

mod counting;
mod lists;
mod page;
mod shard;
mod visiting;

use crate::arena::Owner;
use crate::events::PageEvents;
use crate::extent::Run;
use crate::memory::Memory;
use crate::{PAGE_BYTES, Shard, hash_pair};
use classes::{ClassOccupancy, ClassSet, Need};
use page::{Links, Page, SLOT_BITS};
use parking_lot::MutexGuard;
use shard::Pages;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use units::IoClass;

/// Memory for each shard; there are 64 at most.
const SHARD_BYTES: u64 = 4 << 20;
const SHARDS_MAX: usize = 64;
/// Bit that marks owner numbers of this side.
const OWNER: Owner = 1 << 31;

/// Pages that are not in containers yet.
pub(crate) struct DirtyPages {
    seed: u64,
    shards: Vec<Shard<Pages>>,
    /// Shard at which the next eviction starts.
    turn: AtomicUsize,
    count: AtomicU64,
    classes: Arc<ClassOccupancy>,
    memory: Arc<Memory>,
    events: Arc<dyn PageEvents>,
}

fn owner(shard: usize, id: u32) -> Owner {
    OWNER | (shard as u32) << SLOT_BITS | id
}

impl DirtyPages {
    pub fn new(
        (seed, bytes_max): (u64, u64),
        classes: Arc<ClassOccupancy>,
        memory: Arc<Memory>,
        events: Arc<dyn PageEvents>,
    ) -> Self {
        // Reserve address space, with a quarter more because shards are not equal.
        let shards = (bytes_max / SHARD_BYTES).next_power_of_two() as usize;
        let shards = shards.clamp(1, SHARDS_MAX);
        let room = (bytes_max as usize / PAGE_BYTES / shards) * 5 / 4 + 64;
        let shards: Vec<_> = (0..shards).map(|_| Shard::new(Pages::new(room))).collect();
        memory.adjust(0, size_of_val(shards.as_slice()));
        Self {
            // Use another secret than that of clean places.
            seed: crate::mix(seed),
            shards,
            turn: AtomicUsize::new(0),
            count: AtomicU64::new(0),
            classes,
            memory,
            events,
        }
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Pages> {
        self.shards[hash as usize % self.shards.len()].lock()
    }

    pub fn bytes(&self) -> u64 {
        self.count.load(Ordering::Relaxed) * PAGE_BYTES as u64
    }

    /// Overwrites a cached page if no caller reads it now. Returns true when nothing is left to do.
    pub fn overwrite(
        &self,
        (object, page): (u64, u64),
        (version, class): (u64, IoClass),
        bytes: &[u8; PAGE_BYTES],
    ) -> bool {
        let hash = hash_pair(self.seed, object, page);
        let mut shard = self.shard(hash);
        let found = shard.find(hash, object, page);
        let held = found.and_then(|id| Some((id, shard.pages.get_mut(id as usize)?)));
        let Some((id, held)) = held else {
            return false;
        };
        if held.version >= version {
            return true;
        }
        let Some(run) = held.run.as_mut().and_then(Arc::get_mut) else {
            return false;
        };
        run.fill(bytes);
        held.version = version;
        held.used = true;
        self.reclass(&mut shard, id, class);
        true
    }

    fn reclass(&self, shard: &mut Pages, id: u32, class: IoClass) {
        let before = shard.pages.get(id as usize).map(|p| p.class);
        if let Some(before) = before.filter(|before| *before != class) {
            self.classes.take_dirty(before, PAGE_BYTES as u64);
            self.classes.add_dirty(class, PAGE_BYTES as u64);
            shard.set_class(id, class);
        }
    }

    /// Counts a page that leaves.
    fn count_removed(&self, class: IoClass) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.classes.take_dirty(class, PAGE_BYTES as u64);
    }

    /// Keeps a page. `None` means that there was no space for it; then the cached page is older and
    /// is dropped.
    pub fn put(
        &self,
        (object, page): (u64, u64),
        (version, class): (u64, IoClass),
        run: Option<Arc<Run>>,
    ) {
        let hash = hash_pair(self.seed, object, page);
        let number = hash as usize % self.shards.len();
        let mut shard = self.shard(hash);
        let found = shard.find(hash, object, page);
        let held = found.and_then(|id| Some((id, shard.pages.get_mut(id as usize)?)));
        match (held, run) {
            (Some((_, held)), _) if held.version >= version => {}
            (Some((id, held)), Some(run)) => {
                self.memory.set_owner(&run, owner(number, id));
                held.version = version;
                held.used = true;
                let old = held.run.replace(run);
                self.reclass(&mut shard, id, class);
                drop(shard);
                drop(old);
            }
            (Some((id, _)), None) => self.spill(shard, id),
            (None, Some(run)) => {
                let before = shard.memory_bytes();
                let added = shard.add(
                    hash,
                    Page {
                        object,
                        page,
                        version,
                        run: Some(Arc::clone(&run)),
                        used: false,
                        class,
                        links: Links::NONE,
                    },
                );
                self.memory.adjust(before, shard.memory_bytes());
                if let Some(id) = added {
                    self.memory.set_owner(&run, owner(number, id));
                    self.count.fetch_add(1, Ordering::Relaxed);
                    self.classes.add_dirty(class, PAGE_BYTES as u64);
                    self.events.dirtied(object, page);
                }
            }
            (None, None) => {}
        }
    }

    pub fn get(&self, (object, page): (u64, u64), version: u64) -> Option<Arc<Run>> {
        let hash = hash_pair(self.seed, object, page);
        let mut shard = self.shard(hash);
        let found = shard.find(hash, object, page);
        let held = found.and_then(|id| shard.pages.get_mut(id as usize));
        let held = held.filter(|p| p.version == version);
        let Some(held) = held else {
            shard.misses += 1;
            return None;
        };
        held.used = true;
        let (run, class) = (held.run.clone(), held.class);
        shard.hits += 1;
        if let Some(tally) = shard.tally(class) {
            tally.hits += 1;
        }
        run
    }

    pub fn class_of(&self, (object, page): (u64, u64), version: u64) -> Option<IoClass> {
        let hash = hash_pair(self.seed, object, page);
        let shard = self.shard(hash);
        let found = shard.find(hash, object, page);
        let held = found.and_then(|id| shard.pages.get(id as usize));
        held.filter(|p| p.version == version).map(|p| p.class)
    }

    pub fn renumber(&self, (object, page): (u64, u64), version: u64, to: u64) {
        let hash = hash_pair(self.seed, object, page);
        let mut shard = self.shard(hash);
        let found = shard.find(hash, object, page);
        let held = found.and_then(|id| shard.pages.get_mut(id as usize));
        // Versions of one page ascend.
        if let Some(held) = held.filter(|p| p.version == version && version < to) {
            held.version = to;
        }
    }

    pub fn destaged(&self, (object, page): (u64, u64), version: u64) {
        let hash = hash_pair(self.seed, object, page);
        let mut shard = self.shard(hash);
        let Some(id) = shard.find(hash, object, page) else {
            return;
        };
        let held = shard.pages.get(id as usize);
        let Some(held) = held.filter(|p| p.version == version) else {
            return;
        };
        let class = held.class;
        let run = shard.remove(hash, id);
        self.count_removed(class);
        self.events.flushed(object, page);
        drop(shard);
        drop(run);
    }

    pub fn forget_object(&self, object: u64) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            let of = |(id, p): (usize, &Page)| {
                let is_of = p.run.is_some() && p.object == object;
                is_of.then_some((id as u32, p.page, p.class))
            };
            let pages: Vec<_> = shard.pages.iter().enumerate().filter_map(of).collect();
            for (id, page, class) in pages {
                shard.remove(hash_pair(self.seed, object, page), id);
                shard.count_spill(class);
                self.count_removed(class);
                self.events.spilled(object, page);
            }
        }
    }

    /// Evicts one page of these classes. Returns false when there is none.
    pub fn evict(&self, classes: ClassSet) -> bool {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        for n in 0..self.shards.len() {
            let mut shard = self.shards[turn.wrapping_add(n) % self.shards.len()].lock();
            if let Some(id) = shard.victim(classes) {
                self.spill(shard, id);
                return true;
            }
        }
        false
    }

    fn spill(&self, mut shard: MutexGuard<'_, Pages>, id: u32) {
        let victim = shard.pages.get(id as usize);
        let Some((object, page, class)) = victim.map(|p| (p.object, p.page, p.class)) else {
            return;
        };
        let run = shard.remove(hash_pair(self.seed, object, page), id);
        shard.count_spill(class);
        self.count_removed(class);
        self.events.spilled(object, page);
        // Free the bytes only after the lock is released.
        drop(shard);
        drop(run);
    }

    /// Returns true if an owner is a page of this side.
    pub fn owns(owner: Owner) -> bool {
        owner & OWNER != 0
    }

    /// Vacates the page's memory: moves the page, or else spills it if the need allows that, unless
    /// a caller reads it now. Returns its class if neither is possible.
    pub fn vacate(&self, owner: Owner, need: Need) -> Option<IoClass> {
        let id = owner & ((1 << SLOT_BITS) - 1);
        let mut shard = self.shards[(owner >> SLOT_BITS) as usize % self.shards.len()].lock();
        let held = shard.pages.get_mut(id as usize);
        let held = held.and_then(|p| Some((p.class, p.run.as_mut()?)));
        let (class, run) = held.filter(|(_, run)| Arc::strong_count(run) == 1)?;
        match self.memory.relocate(run.bytes()) {
            Some(moved) => {
                self.memory.set_owner(&moved, owner);
                let left = std::mem::replace(run, moved);
                drop(shard);
                drop(left);
                None
            }
            None if self.classes.may_evict(class, need) => {
                self.spill(shard, id);
                None
            }
            None => Some(class),
        }
    }
}
