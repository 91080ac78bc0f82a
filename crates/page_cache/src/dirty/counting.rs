//! Counts of the dirty side, of all pages and by class. `cache` calls this.
//!
//! Invariant: class 0 has what no other class has, so that classes cost nothing while none differs.

use super::DirtyPages;
use crate::counters::{ClassCounters, Counters};
use units::IoClass;

impl DirtyPages {
    /// Tells the classes of pages apart from now on, or no longer.
    pub fn tell_classes_apart(&self, are_distinct: bool) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            let before = shard.memory_bytes();
            shard.tell_classes_apart(are_distinct);
            self.memory.adjust(before, shard.memory_bytes());
        }
    }

    pub fn count_classes(&self, counters: &mut [ClassCounters]) {
        let mut all = ClassCounters::default();
        for shard in &self.shards {
            let shard = shard.lock();
            all.hits += shard.hits;
            all.spills += shard.spills;
            for (counters, tally) in counters.iter_mut().zip(&shard.by_class).skip(1) {
                counters.hits += tally.hits;
                counters.spills += tally.spills;
                all.hits -= tally.hits;
                all.spills -= tally.spills;
            }
        }
        for (class, counters) in (0..).zip(counters.iter_mut()) {
            counters.bytes_dirty = self.classes.dirty(IoClass(class));
        }
        // Everything that no other class has is class 0's.
        if let Some(first) = counters.first_mut() {
            first.hits += all.hits;
            first.spills += all.spills;
        }
    }

    pub fn count(&self, counters: &mut Counters) {
        for shard in &self.shards {
            let shard = shard.lock();
            counters.hits_dirty += shard.hits;
            counters.misses_dirty += shard.misses;
            counters.spills += shard.spills;
        }
        counters.bytes_dirty = self.bytes();
    }
}
