//! Who gets how much of the memory that volumes are opened with.
//!
//! Invariant: pure arithmetic; the shares never sum to more than the whole. Volumes take their numbers from
//! here; the program's plan shows the same.

/// Memory of open volumes besides the journal's, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumesMemory {
    /// The page cache: everything that the others leave.
    pub pages: u64,
    /// Pieces of overlays: what is written and not folded.
    pub pieces: u64,
    /// Events that maintenance was not told yet.
    pub events: u64,
    /// What was read of late, for defragmentation.
    pub trace: u64,
}

impl VolumesMemory {
    /// Divides a budget. Pieces get an eighth, unless a journal of that many bytes is too small to
    /// fill it.
    pub fn of(bytes: u64, journal_bytes: u64) -> Self {
        let pieces = (bytes / 8).min(journal_bytes / 8);
        let (events, trace) = (bytes / 256, bytes / 128);
        Self {
            pages: bytes - pieces - events - trace,
            pieces,
            events,
            trace,
        }
    }
}
