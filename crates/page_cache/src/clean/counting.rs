//! Counts of the clean side, of all chunks and by class. `cache` calls this.
//!
//! Invariant: class 0 has what no other class has, so that classes cost nothing while none differs.

use super::CleanPages;
use crate::counters::{ClassCounters, Counters};
use units::IoClass;

impl CleanPages {
    /// Counts requests by class from now on.
    pub fn tell_classes_apart(&self) {
        for shard in 0..self.contents.len() {
            let mut content = self.content(shard);
            let before = content.memory_bytes();
            content.tell_classes_apart();
            self.memory.adjust(before, content.memory_bytes());
        }
    }

    pub fn count_classes(&self, counters: &mut [ClassCounters]) {
        let mut all = ClassCounters::default();
        for shard in 0..self.contents.len() {
            let content = self.content(shard);
            all.hits += content.counters.hits_by_place + content.counters.hits_by_content;
            all.misses += content.counters.misses;
            all.evictions += content.counters.evictions;
            for (counters, tally) in counters.iter_mut().zip(&content.by_class).skip(1) {
                counters.hits += tally.hits;
                counters.misses += tally.misses;
                counters.evictions += tally.evictions;
            }
        }
        for (class, counters) in (1..).zip(counters.iter_mut().skip(1)) {
            counters.bytes_clean = self.classes.clean(IoClass(class));
            all.hits -= counters.hits;
            all.misses -= counters.misses;
            all.evictions -= counters.evictions;
        }
        // Everything that no other class has is class 0's.
        if let Some(first) = counters.first_mut() {
            all.bytes_clean = self.classes.clean(IoClass(0));
            *first = all;
        }
    }

    pub fn count(&self, counters: &mut Counters) {
        for shard in 0..self.contents.len() {
            let of = self.content(shard).counters;
            counters.hits_by_place += of.hits_by_place;
            counters.hits_by_content += of.hits_by_content;
            counters.misses += of.misses;
            counters.evictions += of.evictions;
            counters.frames += of.frames;
            counters.places += of.places;
            counters.bytes_shared += of.bytes_shared;
        }
    }
}
