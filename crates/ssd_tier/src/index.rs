//! The index: from a fingerprint to a staged chunk, or to a place on the device. `tier`, `step` and
//! `scan` call this.
//!
//! A bucket holds 16 places of 12 bytes. It never overflows: a new place replaces a stale one, or
//! the one whose block was unused for longest. So memory is fixed, and a miss costs one cache line.
//! The places of evicted blocks are stale; [`Index::sweep`] removes them.
//!
//! Invariant: no I/O under a lock; the lock of a slot may be taken under that of a shard, not the
//! other way round. A found place is a hint: 32 bits of the fingerprint and the bucket agree.

mod bucket;
mod staged;

pub(crate) use bucket::Place;
use bucket::{BUCKET_BYTES, Bucket, tag_of};
use staged::StagedMap;

use crate::Kind;
use crate::slots::{Block, Slots};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use units::{Fingerprint, UnixNanos};

const SHARDS: usize = 64;

/// Result of a search for a chunk.
pub(crate) enum Found {
    Nothing,
    /// It waits to be written.
    Staged(Arc<[u8]>),
    /// It may be at this place, in this block.
    At(Place, Block),
}

/// A part under its own lock and in its own cache lines.
#[repr(align(128))]
struct Shard(Mutex<Part>);

struct Part {
    buckets: Vec<Bucket>,
    staged: StagedMap,
    misses: [u64; 3],
    places: u64,
    /// The next bucket to sweep.
    swept: usize,
}

/// See the module's head.
pub(crate) struct Index {
    shards: Vec<Shard>,
    buckets: usize,
}

impl Index {
    /// Makes an empty index in at most that much memory, but at least a bucket for each shard.
    pub fn new(bytes_max: u64) -> Self {
        let bytes = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        let bytes = bytes.saturating_sub(SHARDS * size_of::<Shard>());
        let buckets = (bytes / BUCKET_BYTES / SHARDS).max(1);
        let shard = |_| {
            Shard(Mutex::new(Part {
                buckets: vec![Bucket::EMPTY; buckets],
                staged: StagedMap::default(),
                misses: [0; 3],
                places: 0,
                swept: 0,
            }))
        };
        Self {
            shards: (0..SHARDS).map(shard).collect(),
            buckets,
        }
    }

    /// Returns the memory of the buckets, bytes.
    pub fn memory_bytes(&self) -> u64 {
        (SHARDS * (self.buckets * BUCKET_BYTES + size_of::<Shard>())) as u64
    }

    /// Returns the number of buckets.
    pub fn buckets(&self) -> u64 {
        (SHARDS * self.buckets) as u64
    }

    /// Returns the number of places, some of which may be stale.
    pub fn places(&self) -> u64 {
        self.shards.iter().map(|shard| shard.0.lock().places).sum()
    }

    /// Returns the number of misses of each kind.
    pub fn misses(&self) -> [u64; 3] {
        self.shards.iter().fold([0; 3], |mut sums, shard| {
            let misses = shard.0.lock().misses;
            sums.iter_mut().zip(misses).for_each(|(sum, n)| *sum += n);
            sums
        })
    }

    /// Returns the shard of a fingerprint and its bucket there.
    fn part(&self, fingerprint: &Fingerprint) -> Option<(MutexGuard<'_, Part>, usize)> {
        let bits = fingerprint.bucket_bits();
        let shard = self.shards.get(bits as usize % SHARDS)?;
        let bucket = (u128::from(bits) * self.buckets as u128) >> 64;
        Some((shard.0.lock(), bucket as usize))
    }

    /// Looks a chunk up and notes the use of its block. A stale place is removed.
    pub fn find(
        &self,
        fingerprint: &Fingerprint,
        kind: Kind,
        slots: &Slots,
        now: UnixNanos,
    ) -> Found {
        let Some((mut part, bucket)) = self.part(fingerprint) else {
            return Found::Nothing;
        };
        if let Some(bytes) = part.staged.get(fingerprint) {
            return Found::Staged(Arc::clone(bytes));
        }
        let bucket = part.buckets.get_mut(bucket);
        let found = bucket.and_then(|bucket| {
            let (at, place) = bucket.find(tag_of(fingerprint))?;
            let block = slots.touch(place.slot, place.generation, now);
            if block.is_none() {
                bucket.clear(at);
            }
            Some((place, block))
        });
        match found {
            Some((place, Some(block))) => return Found::At(place, block),
            Some((_, None)) => part.places -= 1,
            None => {}
        }
        if let Some(misses) = part.misses.get_mut(kind as usize) {
            *misses += 1;
        }
        Found::Nothing
    }

    /// Counts a miss of a chunk that [`Self::find`] had found.
    pub fn count_miss(&self, fingerprint: &Fingerprint, kind: Kind) {
        if let Some((mut part, _)) = self.part(fingerprint)
            && let Some(misses) = part.misses.get_mut(kind as usize)
        {
            *misses += 1;
        }
    }

    /// Stages a chunk. Returns false if it is here already.
    pub fn stage(&self, fingerprint: &Fingerprint, bytes: Arc<[u8]>, slots: &Slots) -> bool {
        let Some((mut part, bucket)) = self.part(fingerprint) else {
            return false;
        };
        let found = part.buckets.get(bucket);
        let found = found.and_then(|bucket| bucket.find(tag_of(fingerprint)));
        let is_here = found.is_some_and(|(_, p)| slots.is_current(p.slot, p.generation));
        !is_here && part.staged.insert(fingerprint, bytes)
    }

    /// Returns true if the chunk is staged or has a valid place. Not a use.
    pub fn contains(&self, fingerprint: &Fingerprint, slots: &Slots) -> bool {
        let Some((part, bucket)) = self.part(fingerprint) else {
            return false;
        };
        let found = part.buckets.get(bucket);
        let found = found.and_then(|bucket| bucket.find(tag_of(fingerprint)));
        part.staged.get(fingerprint).is_some()
            || found.is_some_and(|(_, p)| slots.is_current(p.slot, p.generation))
    }

    /// Removes a staged chunk.
    pub fn unstage(&self, fingerprint: &Fingerprint) -> bool {
        let part = self.part(fingerprint);
        part.is_some_and(|(mut part, _)| part.staged.remove(fingerprint))
    }

    /// Returns true if the chunk is staged.
    pub fn is_staged(&self, fingerprint: &Fingerprint) -> bool {
        let part = self.part(fingerprint);
        part.is_some_and(|(part, _)| part.staged.get(fingerprint).is_some())
    }

    /// Replaces a staged chunk by its place, unless it was forgotten meanwhile.
    pub fn settle(&self, fingerprint: &Fingerprint, place: Place, slots: &Slots) {
        if let Some((mut part, bucket)) = self.part(fingerprint)
            && part.staged.remove(fingerprint)
        {
            part.insert(bucket, tag_of(fingerprint), place, slots);
        }
    }

    /// Adds a place that was found on the device. Returns false if the chunk is here already.
    pub fn add(&self, fingerprint: &Fingerprint, place: Place, slots: &Slots) -> bool {
        if self.contains(fingerprint, slots) {
            return false;
        }
        if let Some((mut part, bucket)) = self.part(fingerprint) {
            part.insert(bucket, tag_of(fingerprint), place, slots);
        }
        true
    }

    /// Removes a chunk, staged or in a block. Returns its place if it had one.
    pub fn remove(&self, fingerprint: &Fingerprint) -> Option<Place> {
        let (mut part, bucket) = self.part(fingerprint)?;
        part.staged.remove(fingerprint);
        let bucket = part.buckets.get_mut(bucket)?;
        let (at, place) = bucket.find(tag_of(fingerprint))?;
        bucket.clear(at);
        part.places -= 1;
        Some(place)
    }

    /// Removes the stale places of the next `count` buckets of one shard after another.
    pub fn sweep(&self, count: u64, slots: &Slots) {
        let each = (count as usize).div_ceil(SHARDS);
        for shard in &self.shards {
            let mut part = shard.0.lock();
            let Part {
                buckets,
                places,
                swept,
                ..
            } = &mut *part;
            for _ in 0..each {
                *swept = (*swept + 1) % buckets.len().max(1);
                if let Some(bucket) = buckets.get_mut(*swept) {
                    *places -= bucket.drop_stale(slots);
                }
            }
        }
    }

    /// Removes all staged chunks.
    pub fn unstage_all(&self) {
        for shard in &self.shards {
            shard.0.lock().staged.clear();
        }
    }
}

impl Part {
    fn insert(&mut self, bucket: usize, tag: u32, place: Place, slots: &Slots) {
        if let Some(bucket) = self.buckets.get_mut(bucket) {
            self.places -= bucket.len();
            bucket.insert(tag, place, slots);
            self.places += bucket.len();
        }
    }
}

#[cfg(test)]
mod tests;
