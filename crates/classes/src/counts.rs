//! Counts the requests of each class. [`super::Classifiers`] keeps them.
//!
//! Invariant: no lock; counts never decrease.

use crate::CLASSES;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use units::IoClass;

/// Requests of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClassCounts {
    /// Reads.
    pub reads: u64,
    /// Bytes of reads.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of writes.
    pub written_bytes: u64,
}

#[derive(Default)]
struct OfClass {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
}

/// Counts of all classes.
pub(crate) struct Counts([OfClass; CLASSES]);

impl Default for Counts {
    fn default() -> Self {
        Self(std::array::from_fn(|_| OfClass::default()))
    }
}

impl Counts {
    pub fn add(&self, class: IoClass, is_write: bool, bytes: u64) {
        let Some(of) = self.0.get(usize::from(class.0)) else {
            return;
        };
        let (count, sum) = match is_write {
            true => (&of.writes, &of.written_bytes),
            false => (&of.reads, &of.read_bytes),
        };
        count.fetch_add(1, Relaxed);
        sum.fetch_add(bytes, Relaxed);
    }

    pub fn read(&self) -> [ClassCounts; CLASSES] {
        self.0.each_ref().map(|of| ClassCounts {
            reads: of.reads.load(Relaxed),
            read_bytes: of.read_bytes.load(Relaxed),
            writes: of.writes.load(Relaxed),
            written_bytes: of.written_bytes.load(Relaxed),
        })
    }
}
