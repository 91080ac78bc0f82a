//! The work of the tier, in bounded steps: opens the file, reads the directories of blocks, writes
//! staged chunks. A thread of the caller's choice calls this, again and again.
//!
//! Invariant: a slot's places are stale before its bytes change, and new places are entered after
//! the write returned. So a reader sees a block whole, or its checks fail and it misses.
//!
//! Nothing is synced. After a power loss any part of any block may be missing, and headers may be
//! there without their chunks. Header, directory and each chunk have checks of their own that name
//! the block, so what is missing is not found, or fails when it is read. Only warmth is lost.

use crate::block::{Facts, Staged, frames_bytes_of, pack};
use crate::class::CacheClass;
use crate::index::Place;
use crate::slots::Block;
use crate::status::add;
use crate::tier::Tier;
use crate::writer::{Phase, Writer};
use media::{DiskFile, MediaErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use units::UnixNanos;

/// How long the file is not grown after it could not be, nanoseconds.
const FULL_NS: i64 = 30 * 60 * 1_000_000_000;

/// Result of a step.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TierStep {
    /// Bytes read and written.
    pub bytes: u64,
    /// Another step would find work at once.
    pub has_more: bool,
    /// A line for the log. Rare, whatever happens.
    pub notice: Option<String>,
}

impl Tier {
    /// Does some work: about `budget_bytes` of I/O, but a whole block if one can be written. While
    /// another thread steps, it does nothing.
    pub fn step(&self, now: UnixNanos, budget_bytes: u64) -> TierStep {
        self.run(now, budget_bytes, false)
    }

    /// Writes what is staged, in blocks that are not full, as far as the write budget allows. For
    /// the end of a server: what is staged would be lost otherwise.
    pub fn finish(&self, now: UnixNanos) -> TierStep {
        self.run(now, self.options.staging_bytes(), true)
    }

    fn run(&self, now: UnixNanos, budget_bytes: u64, is_last: bool) -> TierStep {
        let Some(mut writer) = self.writer.lock().take() else {
            return TierStep::default();
        };
        self.now.store(now.0, Ordering::Relaxed);
        self.ghosts.step(now);
        let mut stepped = self.advance(&mut writer, now, budget_bytes, is_last);
        let may_write = writer.phase == Phase::Ready
            && !self.options.is_reading
            && self.health.reason().is_none()
            && writer.budget.allows(self.options.block_bytes.into());
        self.may_write.store(may_write, Ordering::Relaxed);
        let has_free_slot =
            writer.phase == Phase::Ready && writer.occupancy.has_free(writer.slots_limit(now));
        self.has_free_slot.store(has_free_slot, Ordering::Relaxed);
        *self.writer.lock() = Some(writer);
        stepped.notice = self.health.take_notice(now);
        stepped
    }

    fn advance(
        &self,
        writer: &mut Writer,
        now: UnixNanos,
        budget_bytes: u64,
        is_last: bool,
    ) -> TierStep {
        writer.budget.refill(now);
        if !self.health.is_up() {
            if writer.phase != Phase::Closed {
                self.close(writer);
            }
            if is_last || !self.health.may_open(now) {
                return TierStep::default();
            }
            self.open(writer, now);
            if !self.health.is_up() {
                return TierStep::default();
            }
        }
        let given_up = std::mem::take(&mut *self.given_up.lock());
        for (slot, class) in given_up {
            writer.occupancy.release(slot, class);
        }
        let hardly_needed = std::mem::take(&mut *self.hardly_needed.lock());
        writer
            .occupancy
            .add_hardly_needed(hardly_needed, &self.slots);
        // Even if there is nothing to write: status should not say that it is not possible.
        let may_write = self.health.may_write(now) && !self.options.is_reading;
        let mut bytes = 0;
        if let Phase::Scanning(_) = writer.phase {
            bytes += self.scan(writer, now, budget_bytes);
        }
        let mut has_more = writer.phase != Phase::Ready && self.health.is_up();
        while writer.phase == Phase::Ready && may_write && self.health.is_up() {
            if bytes > 0 && bytes >= budget_bytes {
                has_more = self.staging.next(&self.settings(), is_last).is_some();
                break;
            }
            match self.write_next(writer, now, is_last) {
                Some(written) => bytes += written,
                None => break,
            }
        }
        TierStep {
            bytes,
            has_more,
            notice: None,
        }
    }

    /// Writes a block. Returns its length, or 0 if its chunks were dropped; `None` if there is
    /// nothing to write now.
    fn write_next(&self, writer: &mut Writer, now: UnixNanos, is_last: bool) -> Option<u64> {
        let settings = self.settings();
        let class = self.staging.next(&settings, is_last)?;
        if !writer.budget.allows(self.options.block_bytes.into()) {
            return None;
        }
        let by = Arc::clone(writer.by.as_ref()?);
        let file = self.file.read().clone()?;
        let mut chunks = self.staging.take(class);
        // Others were forgotten meanwhile.
        chunks.retain(|(fingerprint, _)| self.index.is_staged(fingerprint));
        if chunks.is_empty() {
            return Some(0);
        }
        let limit = writer.slots_limit(now);
        let (slot, evicted) = writer.occupancy.take(class, &settings, &self.slots, limit);
        add(&self.counters.evictions, evicted);
        let Some(slot) = slot else {
            add(&self.counters.refused, chunks.len() as u64);
            self.drop_staged(&chunks);
            return Some(0);
        };
        let facts = Facts {
            slot,
            block_bytes: self.options.block_bytes,
            sequence: writer.sequence,
            class,
            written: now,
        };
        writer.sequence += 1;
        let (bytes, entries) = pack(&*self.keys, &by, &facts, &chunks);
        writer.budget.take(bytes.len() as u64);
        if !self.put(writer, &*file, slot, &bytes, now) {
            writer.occupancy.add_free(slot);
            self.drop_staged(&chunks);
            return None;
        }
        self.counters.wrote(class, bytes.len() as u64);
        let block = Block {
            by,
            sequence: facts.sequence,
            class,
            used: now,
        };
        let generation = self.slots.fill(slot, block, frames_bytes_of(&entries))?;
        writer.occupancy.add_block(slot, class, now);
        for entry in entries {
            let (offset, len) = (entry.offset, entry.payload_bytes);
            let place = Place::of_payload(slot, generation, offset, len);
            self.index.settle(&entry.fingerprint, place, &self.slots);
        }
        self.sweep();
        Some(bytes.len() as u64)
    }

    /// Writes the bytes of a block. Returns false, and notes why, if that fails.
    fn put(
        &self,
        writer: &mut Writer,
        file: &dyn DiskFile,
        slot: u32,
        bytes: &[u8],
        now: UnixNanos,
    ) -> bool {
        let at = u64::from(slot) * u64::from(self.options.block_bytes);
        let Err(why) = file.write_at_past_cache(at, bytes) else {
            self.health.wrote();
            return true;
        };
        add(&self.counters.failed_writes, 1);
        if why.kind == MediaErrorKind::NoSpace {
            // Slots that the file has already can be written again.
            writer.limit = Some((slot, UnixNanos(now.0.saturating_add(FULL_NS))));
        }
        self.health.write_failed(&why.to_string());
        false
    }

    fn drop_staged(&self, chunks: &[Staged]) {
        for (fingerprint, _) in chunks {
            self.index.unstage(fingerprint);
        }
    }

    /// Removes stale places, twice as fast as blocks can make them.
    fn sweep(&self) {
        let slots = u64::from(self.slots.count()).max(1);
        let buckets = self.index.buckets().saturating_mul(2).div_ceil(slots);
        self.index.sweep(buckets, &self.slots);
    }

    /// Returns the number of blocks of a class, for tests.
    #[doc(hidden)]
    pub fn blocks_of(&self, class: CacheClass) -> Option<u64> {
        let writer = self.writer.lock();
        writer.as_ref().map(|writer| writer.occupancy.count(class))
    }
}
