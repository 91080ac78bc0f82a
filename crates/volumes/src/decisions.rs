//! Decisions that follow access patterns (DDFS, ATC'18). Each has a switch and a counter, so that
//! its gain can be measured.
//!
//! Reads of volumes and views, and checkpoints, use this.
//! Invariant: a switch changes costs, and never what is read or what survives.

use std::sync::atomic::{AtomicU64, Ordering};

/// Switches for decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// Sequential and monotonic readers find the next bytes in the page cache.
    pub prefetch: bool,
    /// Random reads go to the place that the fingerprint index names, without a container's
    /// directory, and cache only the requested chunks.
    pub direct_regions: bool,
    /// Readers of a region that another thread is reading wait for it (single-flight).
    pub shared_reads: bool,
    /// Destaging does not look small random writes up in the fingerprint index.
    pub unprobed_writes: bool,
    /// The surroundings of random reads are fetched into the fast tier, if there is one.
    pub fast_tier_prefetch: bool,
    /// Chunks that a checkpoint read to change a part of them go to the fast tier.
    pub fast_tier_modified: bool,
    /// Chunks of classes that a policy calls important go to the fast tier whatever the access
    /// pattern, and when a checkpoint stores them. Without, the pattern alone decides (DDFS).
    pub fast_tier_by_class: bool,
}

impl Default for Switches {
    fn default() -> Self {
        Self {
            prefetch: true,
            direct_regions: true,
            shared_reads: true,
            unprobed_writes: true,
            fast_tier_prefetch: true,
            fast_tier_modified: true,
            fast_tier_by_class: true,
        }
    }
}

/// A decision as users name it, and its switch.
type Named = (&'static str, fn(&mut Switches) -> &mut bool);

/// All decisions.
const NAMED: [Named; 7] = [
    ("prefetch", |s| &mut s.prefetch),
    ("direct-regions", |s| &mut s.direct_regions),
    ("shared-reads", |s| &mut s.shared_reads),
    ("unprobed-writes", |s| &mut s.unprobed_writes),
    ("fast-surroundings", |s| &mut s.fast_tier_prefetch),
    ("fast-modified", |s| &mut s.fast_tier_modified),
    ("fast-by-class", |s| &mut s.fast_tier_by_class),
];

impl Switches {
    /// Returns the names of all decisions, as users write them.
    pub fn names() -> [&'static str; NAMED.len()] {
        NAMED.map(|(name, _)| name)
    }

    /// Switches the decision of that name off. Returns false if there is none.
    pub fn turn_off(&mut self, name: &str) -> bool {
        let found = NAMED.iter().find(|(known, _)| *known == name);
        if let Some((_, switch)) = found {
            *switch(self) = false;
        }
        found.is_some()
    }

    /// Returns the names of the decisions that are off.
    pub fn off(mut self) -> impl Iterator<Item = &'static str> {
        let is_off = move |(name, switch): &Named| (!*switch(&mut self)).then_some(*name);
        NAMED.iter().filter_map(is_off)
    }
}

/// How reads and destaging follow access patterns.
#[derive(Clone, Copy, Debug)]
pub struct AccessOptions {
    /// Switches for decisions.
    pub switches: Switches,
    /// Number of threads that fetch ahead. 0: only [`super::Volumes::fetch_step`] fetches.
    pub fetch_threads: usize,
    /// Maximum number of bytes in queued and running fetches of all volumes.
    pub fetch_bytes_max: u64,
}

impl Default for AccessOptions {
    fn default() -> Self {
        Self {
            switches: Switches::default(),
            fetch_threads: 2,
            fetch_bytes_max: 16 << 20,
        }
    }
}

/// Counters of decisions. Requests that hit the page cache are judged only where a stream is due
/// for another look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecisionCounters {
    /// Requests judged sequential, or with too short a history.
    pub judged_sequential: u64,
    /// Requests judged monotonic.
    pub judged_monotonic: u64,
    /// Requests judged random.
    pub judged_random: u64,
    /// Bytes that random requests needed of chunks that were not in memory.
    pub random_asked_bytes: u64,
    /// Bytes of the regions that were read for them.
    pub random_fetched_bytes: u64,
    /// Bytes that were planned to be fetched ahead.
    pub fetch_planned_bytes: u64,
    /// Bytes of them that found the queue full.
    pub fetch_dropped_bytes: u64,
    /// Regions that were fetched ahead and read by no other thread.
    pub fetched_regions: u64,
    /// Bytes around random requests that were planned to be fetched into the fast tier.
    pub around_planned_bytes: u64,
    /// Bytes of them that found the queue full.
    pub around_dropped_bytes: u64,
    /// Regions that were read for them.
    pub around_regions: u64,
    /// Chunks of them that were offered to the fast tier.
    pub around_chunks: u64,
    /// Chunks that a checkpoint changed in part and offered to the fast tier.
    pub modified_chunks: u64,
    /// Chunks of important classes that a checkpoint offered to the fast tier.
    pub important_chunks: u64,
    /// Chunks that were destaged without a lookup in the fingerprint index.
    pub chunks_unprobed: u64,
    /// Regions that were read and decoded.
    pub region_reads: u64,
    /// Regions of them that were read without a container's directory.
    pub direct_reads: u64,
    /// How often the index named no region, or one without the chunk.
    pub hints_denied: u64,
    /// Regions that another request was already reading.
    pub shared_reads: u64,
    /// How often a request waited for another one's read, with the waits that go on.
    pub shared_waits: u64,
}

#[derive(Default)]
pub(super) struct Meters {
    pub judged: [AtomicU64; 3],
    pub random_asked_bytes: AtomicU64,
    pub random_fetched_bytes: AtomicU64,
    pub fetch_planned_bytes: AtomicU64,
    pub fetch_dropped_bytes: AtomicU64,
    pub fetched_regions: AtomicU64,
    pub around_planned_bytes: AtomicU64,
    pub around_dropped_bytes: AtomicU64,
    pub around_regions: AtomicU64,
    pub around_chunks: AtomicU64,
    pub modified_chunks: AtomicU64,
    pub important_chunks: AtomicU64,
    pub chunks_unprobed: AtomicU64,
}

impl Meters {
    pub fn add(meter: &AtomicU64, count: u64) {
        meter.fetch_add(count, Ordering::Relaxed);
    }

    pub fn counters(&self, reads: store::ReadCounts) -> DecisionCounters {
        let read = |meter: &AtomicU64| meter.load(Ordering::Relaxed);
        let [sequential, monotonic, random] = &self.judged;
        DecisionCounters {
            judged_sequential: read(sequential),
            judged_monotonic: read(monotonic),
            judged_random: read(random),
            random_asked_bytes: read(&self.random_asked_bytes),
            random_fetched_bytes: read(&self.random_fetched_bytes),
            fetch_planned_bytes: read(&self.fetch_planned_bytes),
            fetch_dropped_bytes: read(&self.fetch_dropped_bytes),
            fetched_regions: read(&self.fetched_regions),
            around_planned_bytes: read(&self.around_planned_bytes),
            around_dropped_bytes: read(&self.around_dropped_bytes),
            around_regions: read(&self.around_regions),
            around_chunks: read(&self.around_chunks),
            modified_chunks: read(&self.modified_chunks),
            important_chunks: read(&self.important_chunks),
            chunks_unprobed: read(&self.chunks_unprobed),
            region_reads: reads.region_reads,
            direct_reads: reads.direct_reads,
            hints_denied: reads.hints_denied,
            shared_reads: reads.shared_reads,
            shared_waits: reads.shared_waits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_decision_has_its_own_switch() {
        let mut all = Switches::default();
        assert_eq!(all.off().count(), 0);
        for (number, name) in (1..).zip(Switches::names()) {
            let mut one = Switches::default();
            assert!(one.turn_off(name) && all.turn_off(name), "{name}");
            assert!(one.off().eq([name]), "{name}");
            assert_eq!(all.off().count(), number);
        }
        assert!(!all.turn_off("nothing") && !all.turn_off(""));
    }
}
