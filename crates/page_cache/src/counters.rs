//! What the cache has done and what it holds.

/// Counts since the start, and sizes now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Reads that found their chunk under its place.
    pub hits_by_place: u64,
    /// Reads that found their chunk under its content only: without the content side, misses.
    pub hits_by_content: u64,
    /// Reads by content that found nothing.
    pub misses: u64,
    /// Reads of unwritten pages that were in memory.
    pub hits_unwritten: u64,
    /// Reads of unwritten pages that were not: the journal has them.
    pub misses_unwritten: u64,
    /// Clean chunks that made room for others.
    pub evictions: u64,
    /// Unwritten pages that left memory before they were destaged.
    pub spills: u64,
    /// Clean chunks in memory.
    pub frames: u64,
    /// Places of clean chunks in memory.
    pub places: u64,
    /// Bytes that clean chunks would take more if each place had its own copy.
    pub bytes_shared: u64,
    /// Bytes of unwritten pages in memory.
    pub bytes_unwritten: u64,
    /// All memory in use: bytes, tables, allocations; and what waits to be used again.
    pub bytes_resident: u64,
}
