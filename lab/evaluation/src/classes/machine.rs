//! A host with little memory, an SSD as write-back cache, and a disk, in virtual time.
//!
//! `files` issues requests here. One request at a time; destaging uses the disk while it is idle.
//! Invariant: a dirty block is in the cache; a block leaves the cache only after it was written.

use super::block_cache::{Admission, BlockCache};
use crate::disk::{Disk, DiskModel, DiskRequest, Ns};
use crate::flash::{Flash, Loss};
use classes::{Contents, Facts, Policy};
use std::collections::{BTreeMap, BTreeSet};
use units::IoClass;

/// Size of a block, bytes.
pub const BLOCK: u64 = 4096;
/// Largest write of destaged neighbours, blocks.
const NEIGHBOURS: u64 = 128;
/// Destaging begins and ends at these shares of dirty blocks in the cache, hundredths (published).
const DIRTY_HIGH: u64 = 75;
const DIRTY_LOW: u64 = 25;

/// Cache between the host and the disk.
#[derive(Clone, Debug)]
pub enum Cache {
    /// Nothing.
    None,
    /// LRU over everything.
    LruAll,
    /// By the classes of a policy.
    Classes(Box<Policy>),
}

/// Blocks that were asked of the storage, and how many the cache had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Blocks read.
    pub read: u64,
    /// Of them from the cache.
    pub hits: u64,
    /// Blocks written.
    pub written: u64,
}

/// See the module's head.
pub struct Machine {
    now: Ns,
    disk: Disk,
    flash: Flash,
    host: BlockCache,
    cache: Option<BlockCache>,
    policy: Policy,
    cache_blocks: u64,
    /// Writes in the host's memory, by block.
    pending: BTreeMap<u64, Contents>,
    pending_max: usize,
    dirty: BTreeSet<u64>,
    is_destaging: bool,
    destaged_to: u64,
    /// Counts since the start.
    pub counts: Counts,
}

/// A device that serves a run of blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Host,
    Cache(IoClass),
    Disk(IoClass),
}

/// Returns the contents of a later block.
fn shifted(contents: Contents, blocks: u64) -> Contents {
    match contents {
        Contents::File {
            size_bytes,
            offset_bytes,
        } => Contents::File {
            size_bytes,
            offset_bytes: offset_bytes + blocks * BLOCK,
        },
        other => other,
    }
}

impl Machine {
    /// Makes an idle machine with these sizes of memory and cache.
    pub fn new(cache: Cache, host_blocks: u64, cache_blocks: u64) -> Self {
        // Without a policy all classes are equal.
        let equal = Policy::default();
        let (policy, has_cache) = match cache {
            Cache::None => (Policy::default(), false),
            Cache::LruAll => (Policy::default(), true),
            Cache::Classes(policy) => (*policy, true),
        };
        Self {
            now: 0,
            disk: Disk::new(DiskModel::SERVER),
            flash: Flash::published(Loss::PlacedPieces),
            host: BlockCache::new(host_blocks, equal.all_settings()),
            cache: has_cache.then(|| BlockCache::new(cache_blocks, policy.all_settings())),
            policy,
            cache_blocks,
            pending: BTreeMap::new(),
            pending_max: (host_blocks / 4).max(1) as usize,
            dirty: BTreeSet::new(),
            is_destaging: false,
            destaged_to: 0,
            counts: Counts::default(),
        }
    }

    /// Returns the time.
    pub fn now(&self) -> Ns {
        self.now
    }

    fn class(&self, contents: Contents, block: u64, is_write: bool) -> IoClass {
        self.policy.classify(&Facts {
            contents,
            offset_bytes: block * BLOCK,
            len_bytes: BLOCK,
            is_write,
            ..Facts::default()
        })
    }

    /// Reads blocks; `contents` is that of the first.
    pub fn read(&mut self, first: u64, count: u64, contents: Contents) {
        let mut run: Option<(From, u64, u64)> = None;
        for nth in 0..count {
            let block = first + nth;
            let class = self.class(shifted(contents, nth), block, false);
            let from = if self.host.hit(block, IoClass(0)) {
                From::Host
            } else if self.cache.as_mut().is_some_and(|c| c.hit(block, class)) {
                From::Cache(class)
            } else {
                From::Disk(class)
            };
            match &mut run {
                Some((of, _, blocks)) if *of == from => *blocks += 1,
                _ => {
                    self.finish_read(run.replace((from, block, 1)));
                }
            }
        }
        self.finish_read(run);
    }

    fn finish_read(&mut self, run: Option<(From, u64, u64)>) {
        let Some((from, first, count)) = run else {
            return;
        };
        match from {
            From::Host => return,
            From::Cache(_) => {
                self.counts.hits += count;
                self.now += self.flash.read(&[(first * BLOCK, count * BLOCK)]);
            }
            From::Disk(class) => {
                self.on_disk(first, count, false);
                for block in first..first + count {
                    self.admit(block, class);
                }
            }
        }
        self.counts.read += count;
        for block in first..first + count {
            self.host.admit(block, IoClass(0));
        }
        self.destage();
    }

    /// Writes blocks into the memory of the host; `contents` is that of the first. A quarter of the
    /// memory may be dirty, then all of it is written.
    pub fn write(&mut self, first: u64, count: u64, contents: Contents) {
        for nth in 0..count {
            self.host.admit(first + nth, IoClass(0));
            self.pending.insert(first + nth, shifted(contents, nth));
        }
        if self.pending.len() >= self.pending_max {
            self.sync();
        }
    }

    /// Writes what is dirty in the host, in the order of addresses.
    pub fn sync(&mut self) {
        let mut run: Option<(bool, u64, u64)> = None;
        for (block, contents) in std::mem::take(&mut self.pending) {
            self.counts.written += 1;
            let class = self.class(contents, block, true);
            let is_cached = self.admit(block, class);
            if is_cached {
                self.dirty.insert(block);
            }
            match &mut run {
                Some((of, first, blocks)) if *of == is_cached && *first + *blocks == block => {
                    *blocks += 1;
                }
                _ => self.finish_write(run.replace((is_cached, block, 1))),
            }
        }
        self.finish_write(run);
        self.destage();
    }

    /// Writes everything that is dirty to the disk, in the order of addresses.
    pub fn drain(&mut self) {
        self.sync();
        while let Some(block) = self.dirty.first() {
            let (first, count) = self.clean_around(*block);
            self.on_disk(first, count, true);
        }
    }

    fn finish_write(&mut self, run: Option<(bool, u64, u64)>) {
        match run {
            Some((true, _, count)) => self.now += self.flash.write(count * BLOCK),
            Some((false, first, count)) => self.on_disk(first, count, true),
            None => {}
        }
    }

    /// Offers a block to the cache; returns true if the cache has it now.
    fn admit(&mut self, block: u64, class: IoClass) -> bool {
        let Some(cache) = &mut self.cache else {
            return false;
        };
        match cache.admit(block, class) {
            Admission::Entered => true,
            Admission::Evicted(victim) => {
                if self.dirty.contains(&victim) {
                    let (first, count) = self.clean_around(victim);
                    self.on_disk(first, count, true);
                }
                true
            }
            Admission::Refused => false,
        }
    }

    /// Makes the run of dirty blocks around one clean, and returns it.
    fn clean_around(&mut self, block: u64) -> (u64, u64) {
        let mut first = block;
        while first > 0 && block - first < NEIGHBOURS && self.dirty.contains(&(first - 1)) {
            first -= 1;
        }
        let mut count = 0;
        while count < NEIGHBOURS && self.dirty.remove(&(first + count)) {
            count += 1;
        }
        (first, count)
    }

    /// Serves a request of the client from the disk.
    fn on_disk(&mut self, first: u64, count: u64, is_write: bool) {
        let request = DiskRequest {
            address: first * BLOCK,
            bytes: count * BLOCK,
            is_write,
        };
        self.now = self
            .disk
            .serve(self.now.max(self.disk.idle_since()), request);
    }

    /// Writes dirty data upwards in the time in which the disk has been idle. Classes do not change
    /// the order: they do not in what ships.
    fn destage(&mut self) {
        while self.disk.idle_since() < self.now {
            let dirty = self.dirty.len() as u64 * 100;
            self.is_destaging &= dirty > DIRTY_LOW * self.cache_blocks;
            self.is_destaging |= dirty >= DIRTY_HIGH * self.cache_blocks;
            if !self.is_destaging {
                return;
            }
            let upwards = self.dirty.range(self.destaged_to..).next();
            let Some(block) = upwards.or(self.dirty.first()).copied() else {
                return;
            };
            let (first, count) = self.clean_around(block);
            self.destaged_to = first + count;
            let request = DiskRequest {
                address: first * BLOCK,
                bytes: count * BLOCK,
                is_write: true,
            };
            self.disk.serve(self.disk.idle_since(), request);
        }
    }
}
