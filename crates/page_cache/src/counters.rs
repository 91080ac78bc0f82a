//! Defines the cache's counters. The store reports them as metrics.
//!
//! Invariant: counting never changes what the cache serves.

/// Counts since the start, and sizes now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Reads that found their chunk by its place.
    pub hits_by_place: u64,
    /// Reads that found their chunk only by its content. Without the content side these are misses.
    pub hits_by_content: u64,
    /// Reads by content that found nothing.
    pub misses: u64,
    /// Reads of dirty pages that were in memory.
    pub hits_dirty: u64,
    /// Reads of dirty pages that were not: the journal has them.
    pub misses_dirty: u64,
    /// Clean chunks that were evicted.
    pub evictions: u64,
    /// Dirty pages that left memory before they were destaged.
    pub spills: u64,
    /// Clean chunks in memory.
    pub frames: u64,
    /// Places of clean chunks in memory.
    pub places: u64,
    /// Additional bytes that clean chunks would take if each place had its own copy.
    pub bytes_shared: u64,
    /// Bytes of dirty pages in memory.
    pub bytes_dirty: u64,
    /// All memory in use: bytes, tables, allocations, and memory that is kept for reuse.
    pub bytes_resident: u64,
}

/// Counts and sizes of one class. Requests are counted by class since a policy was set; before, all
/// count as class 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClassCounters {
    /// Bytes of clean chunks in memory, in steps of 2 KiB for each.
    pub bytes_clean: u64,
    /// Bytes of dirty pages in memory.
    pub bytes_dirty: u64,
    /// Reads of this class that found a clean chunk, and reads of its dirty pages.
    pub hits: u64,
    /// Reads by content that found nothing.
    pub misses: u64,
    /// Clean chunks of the class that were evicted.
    pub evictions: u64,
    /// Dirty pages of the class that left memory before they were destaged.
    pub spills: u64,
}
