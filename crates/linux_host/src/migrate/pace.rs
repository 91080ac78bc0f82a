//! Leaves the disk to others between the pieces of a move. `migrate` and its methods call this.
//!
//! Invariant: nothing waits between an exchange of extents and its commit.

use machine::{PAGE_BYTES, cached};
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

/// Largest read of a paced move, bytes. On a disk with arms it takes little more than a millisecond
/// when the arm is there; a request of another process waits for that.
pub const PIECE_BYTES: u64 = 128 << 10;

/// Largest part of a paced move that is written at once, bytes. Each costs a commit on ext4, which
/// takes longer than writing it.
pub(super) const PART_BYTES: u64 = 1 << 20;

/// Delays the I/O of a move so that others have the device first. `host defrag run --background`
/// implements it.
pub trait Pacer: Send + Sync {
    /// Returns when the device is idle, or after a bounded time.
    fn wait(&self);

    /// A piece of so many bytes was read or written.
    fn passed(&self, bytes: u64);
}

/// How a move does its I/O: at once, or in pieces as its device is idle.
#[derive(Clone, Default)]
pub(super) struct Pace(Option<Arc<dyn Pacer>>);

impl Pace {
    pub fn new(pacer: Option<Arc<dyn Pacer>>) -> Self {
        Self(pacer)
    }

    pub fn is_paced(&self) -> bool {
        self.0.is_some()
    }

    /// Runs a piece of I/O when the device is idle.
    pub fn run<T>(&self, bytes: u64, piece: impl FnOnce() -> T) -> T {
        let Some(pacer) = &self.0 else {
            return piece();
        };
        pacer.wait();
        let outcome = piece();
        pacer.passed(bytes);
        outcome
    }

    /// Runs a read of a range of a file. A range in memory does not wait.
    pub fn read<T>(&self, file: &File, range: &Range<u64>, read: impl FnOnce() -> T) -> T {
        let bytes = range.end.saturating_sub(range.start);
        let pages = |pages: u64| pages * PAGE_BYTES >= bytes;
        let is_cached = || cached(file, range.start, bytes).is_ok_and(|found| pages(found.cached));
        match self.is_paced() && is_cached() {
            true => read(),
            false => self.run(bytes, read),
        }
    }

    /// Returns the bytes of the next read.
    pub fn read_bytes(&self, range: &Range<u64>, at_most: u64) -> u64 {
        let left = range.end.saturating_sub(range.start).min(at_most);
        match self.is_paced() {
            // Pieces end at multiples, as the kernel's reads do.
            true => left.min(PIECE_BYTES - range.start % PIECE_BYTES),
            false => left,
        }
    }
}
