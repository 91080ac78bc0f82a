//! Divides the memory budget of volumes.
//!
//! [`crate::Volumes`] uses the numbers; the program's plan shows the same ones.
//! Invariant: pure arithmetic. The shares never exceed the budget.

/// Memory of open volumes without the journal's, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumesMemory {
    /// Page cache: the rest of the budget.
    pub pages: u64,
    /// Pieces of overlays: writes that are not yet applied.
    pub pieces: u64,
    /// Events that maintenance has not received yet.
    pub events: u64,
    /// Recent reads, recorded for defragmentation.
    pub trace: u64,
}

impl VolumesMemory {
    /// Divides `bytes`. Pieces get an eighth, or less if a journal of `journal_bytes` cannot fill
    /// it.
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
