//! The part of the metrics about classes of I/O. [`super::render`] calls this.
//!
//! Invariant: absent without a policy. Only classes of the policy are reported.

use super::text::Text;
use super::{
    CLASS_BYTES, CLASS_CACHE_BYTES, CLASS_CACHE_EVICTIONS, CLASS_CACHE_HITS, CLASS_CACHE_MISSES,
    CLASS_REQUESTS, LAYOUT_COMPLETE, LAYOUT_KNOWN, LAYOUT_MEMORY, LAYOUT_NEEDED, LAYOUT_READS,
};
use crate::state::ClassesReading;

pub(super) fn tell(text: &mut Text, reading: &ClassesReading) {
    for of in &reading.classes {
        let class = of.class.0.to_string();
        let class = ("class", class.as_str());
        let (asked, cache) = (&of.requests, &of.cache);
        let by_operation = [
            ("read", asked.reads, asked.read_bytes),
            ("write", asked.writes, asked.written_bytes),
        ];
        for (operation, count, bytes) in by_operation {
            let labels = [class, ("operation", operation)];
            text.sample(CLASS_REQUESTS, &labels, count);
            text.sample(CLASS_BYTES, &labels, bytes);
        }
        let sizes = [
            ("clean", cache.bytes_clean),
            ("unwritten", cache.bytes_dirty),
        ];
        for (kind, bytes) in sizes {
            text.sample(CLASS_CACHE_BYTES, &[class, ("kind", kind)], bytes);
        }
        text.sample(CLASS_CACHE_HITS, &[class], cache.hits);
        text.sample(CLASS_CACHE_MISSES, &[class], cache.misses);
        let evictions = cache.evictions + cache.spills;
        text.sample(CLASS_CACHE_EVICTIONS, &[class], evictions);
    }
    for layout in &reading.layouts {
        let volume = [("volume", layout.name.as_str())];
        text.sample(LAYOUT_COMPLETE, &volume, u64::from(layout.is_complete));
        if let Some(cost) = &layout.cost {
            text.sample(LAYOUT_READS, &volume, cost.reads);
            text.sample(LAYOUT_MEMORY, &volume, cost.memory_bytes);
            text.sample(LAYOUT_NEEDED, &volume, cost.needed_bytes);
            text.sample(LAYOUT_KNOWN, &volume, cost.known_bytes);
        }
    }
}
