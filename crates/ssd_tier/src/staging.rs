//! Chunks that wait to be written, by class. `tier` adds them, `step` takes them.
//!
//! Invariant: together they stay within a limit. When it is reached, a chunk of a more important
//! class displaces the oldest of the least important one; any other chunk is refused. The index has
//! the bytes too and says which chunks still count.

use crate::block::{Staged, packed_bytes, room_of};
use crate::class::{CacheClass, TierSettings};
use classes::Priority;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use units::Fingerprint;

/// Memory of a staged chunk besides its bytes, bytes: tables, headers, allocations.
const OVERHEAD_BYTES: u64 = 200;

#[derive(Default)]
struct Queue {
    chunks: VecDeque<Staged>,
    /// Bytes that they take in a block.
    packed: u64,
}

#[derive(Default)]
struct Queues {
    by_class: BTreeMap<CacheClass, Queue>,
    memory: u64,
}

/// Result of adding a chunk.
pub(crate) enum Added {
    Yes,
    /// There is no room.
    No,
    /// Yes, and these chunks were dropped.
    Displacing(Vec<Fingerprint>),
}

/// See the module's head.
pub(crate) struct Staging {
    queues: Mutex<Queues>,
    bytes_max: u64,
    block_bytes: u32,
}

fn memory_of(chunk: &Staged) -> u64 {
    chunk.1.len() as u64 + OVERHEAD_BYTES
}

impl Queues {
    fn pop(&mut self, class: CacheClass) -> Option<Staged> {
        let queue = self.by_class.get_mut(&class)?;
        let chunk = queue.chunks.pop_front()?;
        queue.packed -= packed_bytes(chunk.1.len());
        self.memory -= memory_of(&chunk);
        if queue.chunks.is_empty() {
            self.by_class.remove(&class);
        }
        Some(chunk)
    }

    /// Returns the least important class, if it is less important than `than`.
    fn least_important(&self, settings: &TierSettings, than: Priority) -> Option<CacheClass> {
        let classes = self.by_class.keys();
        let classes = classes.map(|class| (settings.of(*class).priority, *class));
        let least = classes.max_by_key(|(priority, _)| *priority);
        least.filter(|(p, _)| *p > than).map(|(_, class)| class)
    }
}

impl Staging {
    pub fn new(bytes_max: u64, block_bytes: u32) -> Self {
        Self {
            queues: Mutex::default(),
            bytes_max,
            block_bytes,
        }
    }

    /// Returns the memory of the staged chunks, bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.queues.lock().memory
    }

    /// Adds a chunk, which fits into a block.
    pub fn add(&self, class: CacheClass, chunk: Staged, settings: &TierSettings) -> Added {
        let priority = settings.of(class).priority;
        let mut queues = self.queues.lock();
        let mut displaced = Vec::new();
        while queues.memory + memory_of(&chunk) > self.bytes_max {
            let least = queues.least_important(settings, priority);
            let Some(dropped) = least.and_then(|class| queues.pop(class)) else {
                // Displaced chunks must be reported, so this one comes in above the limit. That
                // happens only to a chunk larger than all that is less important.
                if displaced.is_empty() {
                    return Added::No;
                }
                break;
            };
            displaced.push(dropped.0);
        }
        queues.memory += memory_of(&chunk);
        let queue = queues.by_class.entry(class).or_default();
        queue.packed += packed_bytes(chunk.1.len());
        queue.chunks.push_back(chunk);
        match displaced.is_empty() {
            true => Added::Yes,
            false => Added::Displacing(displaced),
        }
    }

    /// Returns the most important class with a full block. If there is none and memory runs short,
    /// or `is_last`, the class with most chunks.
    pub fn next(&self, settings: &TierSettings, is_last: bool) -> Option<CacheClass> {
        let queues = self.queues.lock();
        let room = room_of(self.block_bytes);
        let full = queues.by_class.iter().filter(|(_, q)| q.packed > room);
        let full = full.min_by_key(|(class, _)| settings.of(**class).priority);
        let is_short = queues.memory.saturating_mul(4) > self.bytes_max.saturating_mul(3);
        let largest = || {
            let classes = queues.by_class.iter();
            let largest = classes.max_by_key(|(_, queue)| queue.packed);
            largest.filter(|_| is_short || is_last)
        };
        full.or_else(largest).map(|(class, _)| *class)
    }

    /// Takes the oldest chunks of a class, as many as fit into a block.
    pub fn take(&self, class: CacheClass) -> Vec<Staged> {
        let mut queues = self.queues.lock();
        let mut room = room_of(self.block_bytes);
        let mut taken = Vec::new();
        while let Some(queue) = queues.by_class.get(&class)
            && let Some((_, bytes)) = queue.chunks.front()
            && let Some(rest) = room.checked_sub(packed_bytes(bytes.len()))
        {
            room = rest;
            taken.extend(queues.pop(class));
        }
        taken
    }

    /// Drops everything.
    pub fn clear(&self) {
        *self.queues.lock() = Queues::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::class::KindShares;
    use classes::{ClassSettings, Share};
    use std::sync::Arc;
    use units::IoClass;

    fn class(n: u8) -> CacheClass {
        CacheClass::new(Kind::Data, IoClass(n))
    }

    fn chunk(n: u8) -> Staged {
        (Fingerprint([n; 32]), Arc::from(vec![n; 10_000]))
    }

    #[test]
    fn the_more_important_displaces_and_others_are_refused() {
        let mut settings = TierSettings::new(KindShares::ALONE);
        for n in 1..=3 {
            let priority = Priority::Evictable(n);
            let share = Share::ALL;
            settings.set(IoClass(n), ClassSettings { priority, share });
        }
        let staging = Staging::new(4 * 10_200, 64 << 10);
        for n in 0..4 {
            assert!(matches!(
                staging.add(class(2), chunk(n), &settings),
                Added::Yes
            ));
        }
        assert!(matches!(
            staging.add(class(2), chunk(4), &settings),
            Added::No
        ));
        assert!(matches!(
            staging.add(class(3), chunk(4), &settings),
            Added::No
        ));
        let displaced = staging.add(class(1), chunk(5), &settings);
        assert!(matches!(displaced, Added::Displacing(d) if d == [Fingerprint([0; 32])]));
        assert_eq!(staging.memory_bytes(), 4 * 10_200);
        assert_eq!(staging.next(&settings, true), Some(class(2)));
        let taken: Vec<u8> = staging.take(class(2)).iter().map(|(f, _)| f.0[0]).collect();
        assert_eq!(taken, [1, 2, 3]);
        assert_eq!(staging.next(&settings, false), None);
        staging.clear();
        assert_eq!(staging.memory_bytes(), 0);
    }

    #[test]
    fn a_block_takes_what_fits() {
        let settings = TierSettings::new(KindShares::ALONE);
        let staging = Staging::new(1 << 20, 64 << 10);
        for n in 0..7 {
            assert_eq!(staging.next(&settings, false), None, "{n}");
            staging.add(class(0), chunk(n), &settings);
        }
        assert_eq!(staging.next(&settings, false), Some(class(0)));
        assert_eq!(staging.take(class(0)).len(), 6);
        assert_eq!(staging.take(class(0)).len(), 1);
    }
}
