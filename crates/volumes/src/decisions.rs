//! What volumes decide by how they are accessed (DDFS, ATC'18): each decision can be switched off,
//! and is counted, so that its gain can be measured.
//!
//! Invariant: no switch changes what is read or what survives, only what it costs. Called by who
//! reads through volumes and views, and by checkpoints.

use std::sync::atomic::{AtomicU64, Ordering};

/// What may be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// Sequential and monotonic readers find the next bytes in the page cache.
    pub prefetch: bool,
    /// Random reads go where the fingerprint index says, without a container's directory, and keep
    /// what was asked for, not its neighbours.
    pub direct_regions: bool,
    /// Who needs a region that is being read waits for it instead of reading it again.
    pub shared_reads: bool,
    /// Small random writes are not looked up in the fingerprint index.
    pub unprobed_writes: bool,
    /// Random reads pass the system's page cache by. Off unless asked for: what the system has
    /// memory for is a second tier that costs nothing (docs/evaluation/access-patterns.md).
    pub past_system_cache: bool,
    /// What is read is remembered, for defragmentation.
    pub trace: bool,
}

impl Default for Switches {
    fn default() -> Self {
        Self {
            prefetch: true,
            direct_regions: true,
            shared_reads: true,
            unprobed_writes: true,
            past_system_cache: false,
            trace: true,
        }
    }
}

/// How reads and destaging follow access patterns.
#[derive(Clone, Copy, Debug)]
pub struct AccessOptions {
    /// What may be decided.
    pub switches: Switches,
    /// Threads that fetch ahead. 0: nobody does unless [`super::Volumes::fetch_step`] is called.
    pub fetch_threads: usize,
    /// Bytes that may wait to be fetched ahead, and are being fetched, over all volumes.
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

/// What was decided. Requests that the page cache answers are judged only where a stream is due to
/// be looked at again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecisionCounters {
    /// Requests judged sequential (or with too little before them to say).
    pub judged_sequential: u64,
    /// Requests judged monotonic.
    pub judged_monotonic: u64,
    /// Requests judged random.
    pub judged_random: u64,
    /// Bytes that were planned to be fetched ahead.
    pub fetch_planned_bytes: u64,
    /// ... of them, those that found the queue full.
    pub fetch_dropped_bytes: u64,
    /// Regions that were fetched ahead: read by nobody else.
    pub fetched_regions: u64,
    /// Chunks destaged without asking the fingerprint index.
    pub chunks_unprobed: u64,
    /// Regions read and decoded.
    pub region_reads: u64,
    /// ... of them, without a container's directory.
    pub direct_reads: u64,
    /// Times that the index led to a region that does not hold the chunk, or to none.
    pub hints_denied: u64,
    /// Regions that another request was reading already.
    pub shared_reads: u64,
}

#[derive(Default)]
pub(super) struct Meters {
    pub judged: [AtomicU64; 3],
    pub fetch_planned_bytes: AtomicU64,
    pub fetch_dropped_bytes: AtomicU64,
    pub fetched_regions: AtomicU64,
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
            fetch_planned_bytes: read(&self.fetch_planned_bytes),
            fetch_dropped_bytes: read(&self.fetch_dropped_bytes),
            fetched_regions: read(&self.fetched_regions),
            chunks_unprobed: read(&self.chunks_unprobed),
            region_reads: reads.region_reads,
            direct_reads: reads.direct_reads,
            hints_denied: reads.hints_denied,
            shared_reads: reads.shared_reads,
        }
    }
}
