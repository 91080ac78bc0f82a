//! Ring of slots: which slot holds which positions, and which are free.
//!
//! `state` calls this.
//! Invariant: uses are ordered by position. A slot is in at most one use. The last use receives
//! appended records, once it belongs to this process. No I/O.

use super::slot_use::SlotUse;
use format::journal::BLOCK_BYTES;
use std::collections::VecDeque;
use std::sync::Arc;
use units::JournalPosition;

/// Maximum number of slots: their names have at least two digits and few more.
pub(super) const SLOTS_MAX: u64 = 4096;

/// A slot whose records are needed.
pub(super) struct Live {
    pub(super) slot_use: Arc<SlotUse>,
    /// Position after its last batch.
    pub(super) end: u64,
}

/// The ring. See the module's head.
pub(super) struct Ring {
    slots: u32,
    slot_bytes: u64,
    live: VecDeque<Live>,
    /// The last use belongs to this process and receives appended records.
    appending: bool,
    /// Slot of the last use; the search for the next one starts after it.
    last_slot: u32,
    /// Position at which the first use of this process begins.
    base: u64,
    /// Where the journal ended at opening: first position of that use, and its end.
    ended: (JournalPosition, JournalPosition),
}

impl Ring {
    /// Creates a ring of the uses that were found. The next use begins at `base`.
    pub(super) fn new(
        slots: u32,
        slot_bytes: u64,
        live: VecDeque<Live>,
        last_slot: u32,
        base: u64,
        ended: (JournalPosition, JournalPosition),
    ) -> Self {
        Self {
            slots,
            slot_bytes,
            live,
            appending: false,
            last_slot,
            base,
            ended,
        }
    }

    /// Returns the use that receives appended records.
    pub(super) fn current(&self) -> Option<&Arc<SlotUse>> {
        let last = self.live.back().filter(|_| self.appending)?;
        Some(&last.slot_use)
    }

    /// Returns the slot that would be used next.
    pub(super) fn next_free(&self) -> Option<u32> {
        let after = |n: u32| self.last_slot.checked_add(n)?.checked_rem(self.slots);
        (1..=self.slots)
            .filter_map(after)
            .find(|slot| self.live.iter().all(|l| l.slot_use.header.slot != *slot))
    }

    /// Returns the first free slot among `count` extra ones.
    pub(super) fn next_extra(&self, count: u32) -> Option<u32> {
        (self.slots..self.slots.saturating_add(count))
            .find(|slot| self.live.iter().all(|l| l.slot_use.header.slot != *slot))
    }

    /// Returns where the next use begins, and what its header says about the use before it.
    pub(super) fn next(&self) -> (u64, JournalPosition, JournalPosition) {
        match self.live.back().filter(|_| self.appending) {
            Some(last) => {
                let slot_use = &last.slot_use;
                let end = JournalPosition(last.end);
                (slot_use.limit(), slot_use.header.first, end)
            }
            None => (self.base, self.ended.0, self.ended.1),
        }
    }

    /// Begins a use.
    pub(super) fn begin(&mut self, slot_use: Arc<SlotUse>) {
        let end = slot_use.first();
        self.last_slot = slot_use.header.slot;
        self.appending = true;
        self.live.push_back(Live { slot_use, end });
    }

    /// Makes the next use begin at `above` or higher. No effect once this process has begun a use.
    pub(super) fn raise(&mut self, above: u64) -> u64 {
        if !self.appending {
            self.base = self.base.max(above.next_multiple_of(BLOCK_BYTES as u64));
        }
        self.base
    }

    /// Moves the end of the current use.
    pub(super) fn extend(&mut self, end: u64) {
        if let Some(last) = self.live.back_mut() {
            last.end = last.end.max(end);
        }
    }

    /// Returns the use that holds a position.
    pub(super) fn find(&self, at: JournalPosition) -> Option<&Arc<SlotUse>> {
        let above = self.live.partition_point(|l| l.slot_use.first() <= at.0);
        let live = self.live.get(above.checked_sub(1)?)?;
        (at.0 < live.end).then_some(&live.slot_use)
    }

    /// Frees uses that end at or below `before`, but never the one that receives records.
    pub(super) fn free(&mut self, before: u64) {
        let kept = usize::from(self.appending);
        while self.live.len() > kept && self.live.front().is_some_and(|l| l.end <= before) {
            self.live.pop_front();
        }
    }

    /// Returns the bytes of slots that cannot be reused yet, and of the current one so far.
    pub(super) fn used_bytes(&self) -> u64 {
        let block = BLOCK_BYTES as u64;
        let whole = self.live.len().saturating_sub(usize::from(self.appending)) as u64;
        let current = self.live.back().filter(|_| self.appending);
        let current = current.map_or(0, |l| l.end.saturating_sub(l.slot_use.first()) + block);
        whole
            .saturating_mul(self.slot_bytes)
            .saturating_add(current)
    }

    /// Returns the size of all slots, bytes.
    pub(super) fn bytes_max(&self) -> u64 {
        u64::from(self.slots).saturating_mul(self.slot_bytes)
    }
}
