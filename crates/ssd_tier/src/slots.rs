//! The table of slots: which block each one holds. `index` asks it whether a place still counts,
//! `step` and `scan` fill it.
//!
//! Invariant: a slot's generation changes before its bytes do. A place with another generation is
//! stale. Generations repeat after 64 uses of a slot, so a place may seem valid again: its chunk
//! then fails the checks and is a miss. A slot's lock is taken last and held for no I/O. A block of
//! which less than half is still needed is reported once.

use crate::class::CacheClass;
use crate::keys::Use;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::UnixNanos;

/// Generations count modulo this.
pub(crate) const GENERATIONS: u8 = 64;

/// A block in a slot.
#[derive(Clone)]
pub(crate) struct Block {
    /// The use of the tier that wrote it.
    pub by: Arc<Use>,
    pub sequence: u64,
    pub class: CacheClass,
    /// Time of last use.
    pub used: UnixNanos,
}

#[derive(Default)]
struct Slot {
    generation: u8,
    block: Option<Block>,
    /// Bytes of the block's frames, and of those that are still needed.
    held_bytes: u32,
    needed_bytes: u32,
}

/// All slots.
pub(crate) struct Slots {
    slots: Vec<Mutex<Slot>>,
    full: AtomicU64,
    /// Blocks of each class, by its number.
    by_class: Vec<AtomicU64>,
}

impl Slots {
    pub fn new(count: u32) -> Self {
        Self {
            slots: (0..count).map(|_| Mutex::default()).collect(),
            full: AtomicU64::new(0),
            by_class: (0..CacheClass::COUNT)
                .map(|_| AtomicU64::default())
                .collect(),
        }
    }

    pub fn count(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Returns the number of slots with a block.
    pub fn full(&self) -> u64 {
        self.full.load(Ordering::Relaxed)
    }

    /// Returns the number of slots with a block of the class.
    pub fn count_of(&self, class: CacheClass) -> u64 {
        let count = self.by_class.get(class.number());
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Returns true if the slot still has the block of that generation.
    pub fn is_current(&self, number: u32, generation: u8) -> bool {
        let slot = self.slots.get(number as usize).map(|slot| slot.lock());
        slot.is_some_and(|slot| slot.generation == generation && slot.block.is_some())
    }

    /// Returns the block of that generation and notes its use.
    pub fn touch(&self, number: u32, generation: u8, now: UnixNanos) -> Option<Block> {
        let mut slot = self.slots.get(number as usize)?.lock();
        if slot.generation != generation {
            return None;
        }
        let block = slot.block.as_mut()?;
        block.used = block.used.max(now);
        Some(block.clone())
    }

    /// Returns class and last use of a slot's block.
    pub fn use_of(&self, number: u32) -> Option<(CacheClass, UnixNanos)> {
        let slot = self.slots.get(number as usize)?.lock();
        let block = slot.block.as_ref()?;
        Some((block.class, block.used))
    }

    /// Empties a slot and returns the class of its block. Its places are stale from now on.
    pub fn vacate(&self, number: u32) -> Option<CacheClass> {
        let mut slot = self.slots.get(number as usize)?.lock();
        self.vacated(&mut slot)
    }

    /// Does the same if the slot still has the block of that generation.
    pub fn vacate_generation(&self, number: u32, generation: u8) -> Option<CacheClass> {
        let mut slot = self.slots.get(number as usize)?.lock();
        match slot.generation == generation {
            true => self.vacated(&mut slot),
            false => None,
        }
    }

    /// A frame of so many bytes in the block of that generation is no longer needed. Returns true
    /// if the block was at least half needed until now.
    pub fn lose(&self, number: u32, generation: u8, frame_bytes: u32) -> bool {
        let Some(mut slot) = self.slots.get(number as usize).map(|slot| slot.lock()) else {
            return false;
        };
        if slot.generation != generation {
            return false;
        }
        let half = slot.held_bytes / 2;
        let before = slot.needed_bytes;
        slot.needed_bytes = before.saturating_sub(frame_bytes);
        before >= half && slot.needed_bytes < half
    }

    fn vacated(&self, slot: &mut Slot) -> Option<CacheClass> {
        let block = slot.block.take()?;
        slot.generation = (slot.generation + 1) % GENERATIONS;
        self.full.fetch_sub(1, Ordering::Relaxed);
        if let Some(count) = self.by_class.get(block.class.number()) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
        Some(block.class)
    }

    /// Puts a block with frames of so many bytes into an empty slot. Returns its generation.
    pub fn fill(&self, number: u32, block: Block, frames_bytes: u32) -> Option<u8> {
        let mut slot = self.slots.get(number as usize)?.lock();
        if let Some(count) = self.by_class.get(block.class.number()) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let before = slot.block.replace(block);
        debug_assert!(before.is_none(), "vacated before it was written");
        (slot.held_bytes, slot.needed_bytes) = (frames_bytes, frames_bytes);
        self.full.fetch_add(1, Ordering::Relaxed);
        Some(slot.generation)
    }
}
