//! Counts the requests to a volume. Tests assert what an operation costs; metrics read the same
//! numbers.
//!
//! Invariant: counting never changes an answer.

use crate::{
    Capabilities, Durability, FastPath, Layer, Operation, Prefetch, RequestContext, Volume,
    VolumeError, VolumeRequest,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of calls of each operation, and bytes that they moved.
#[derive(Debug, Default)]
pub struct CallCounts {
    /// Reads, failed ones included.
    pub reads: AtomicU64,
    /// Bytes asked for by reads.
    pub read_bytes: AtomicU64,
    /// Writes, failed ones included.
    pub writes: AtomicU64,
    /// Bytes given to writes.
    pub write_bytes: AtomicU64,
    /// Writes and write-zeroes that had to be durable.
    pub durable_writes: AtomicU64,
    /// Flushes.
    pub flushes: AtomicU64,
    /// Discards.
    pub discards: AtomicU64,
    /// Write-zeroes.
    pub write_zeroes: AtomicU64,
    /// Requests for extents.
    pub extents: AtomicU64,
    /// Prefetches.
    pub prefetches: AtomicU64,
    /// Reads that were announced and begun. Not operations: the reads come too.
    pub announces: AtomicU64,
    /// Operations of any kind that failed.
    pub errors: AtomicU64,
}

impl CallCounts {
    /// Returns the number of operations of every kind.
    pub fn total(&self) -> u64 {
        [
            &self.reads,
            &self.writes,
            &self.flushes,
            &self.discards,
            &self.write_zeroes,
            &self.extents,
            &self.prefetches,
        ]
        .iter()
        .map(|count| count.load(Relaxed))
        .sum()
    }

    fn begun(&self, request: VolumeRequest) {
        let count = match request.operation {
            Operation::Read => {
                self.read_bytes.fetch_add(request.len_bytes, Relaxed);
                &self.reads
            }
            Operation::Write => {
                self.write_bytes.fetch_add(request.len_bytes, Relaxed);
                &self.writes
            }
            Operation::Flush => &self.flushes,
            Operation::Discard => &self.discards,
            Operation::WriteZeroes => &self.write_zeroes,
            Operation::Extents => &self.extents,
        };
        count.fetch_add(1, Relaxed);
        if request.durability == Durability::Durable {
            self.durable_writes.fetch_add(1, Relaxed);
        }
    }
}

/// Counts every operation on its way to the volume behind.
#[derive(Debug)]
pub struct Counted<V> {
    inner: V,
    counts: Arc<CallCounts>,
}

impl<V: Volume> Counted<V> {
    /// Counts the requests to `inner` in `counts`, which others may share.
    pub fn new(inner: V, counts: Arc<CallCounts>) -> Self {
        Self { inner, counts }
    }
}

impl<V: Volume> Layer for Counted<V> {
    type Inner = V;

    fn below(&self) -> &V {
        &self.inner
    }

    fn around(
        &self,
        request: VolumeRequest,
        go: impl FnOnce(&V) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        self.counts.begun(request);
        let result = go(&self.inner);
        if result.is_err() {
            self.counts.errors.fetch_add(1, Relaxed);
        }
        result
    }

    fn capabilities<'a>(&'a self, below: Capabilities<'a>) -> Capabilities<'a> {
        Capabilities {
            fast_path: below.fast_path.map(|_| self as &dyn FastPath),
            prefetch: below.prefetch.map(|_| self as &dyn Prefetch),
            ..below
        }
    }
}

impl<V: Volume> FastPath for Counted<V> {
    fn is_cached(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
        let below = self.inner.capabilities();
        below.is_cached(context, offset_bytes, len_bytes)
    }

    /// Counts the write only if it was done. If not, the caller writes by the other way.
    fn write_now(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        data: &[u8],
    ) -> Result<bool, VolumeError> {
        let below = self.inner.capabilities();
        let result = below.write_now(context, offset_bytes, data);
        if !matches!(result, Ok(false)) {
            self.counts.writes.fetch_add(1, Relaxed);
            let bytes = data.len() as u64;
            self.counts.write_bytes.fetch_add(bytes, Relaxed);
        }
        if result.is_err() {
            self.counts.errors.fetch_add(1, Relaxed);
        }
        result
    }
}

impl<V: Volume> Prefetch for Counted<V> {
    fn prefetch(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) {
        self.counts.prefetches.fetch_add(1, Relaxed);
        let below = self.inner.capabilities();
        below.prefetch(context, offset_bytes, len_bytes);
    }

    fn announce(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
        let below = self.inner.capabilities();
        let is_begun = below.announce(context, offset_bytes, len_bytes);
        self.counts
            .announces
            .fetch_add(u64::from(is_begun), Relaxed);
        is_begun
    }
}

#[cfg(test)]
mod tests {
    use super::{Arc, CallCounts, Counted, Relaxed};
    use crate::{Durability, MemoryVolume, RequestContext, Volume};
    use std::ops::ControlFlow;

    #[test]
    fn every_operation_is_counted_once() {
        let counts = Arc::new(CallCounts::default());
        let volume = Counted::new(MemoryVolume::new(1 << 20), counts.clone());
        let context = RequestContext::default();
        volume.read(context, 0, &mut [0; 300]).unwrap();
        volume
            .write(context, 0, &[1; 200], Durability::Durable)
            .unwrap();
        volume.flush(context).unwrap();
        volume.discard(context, 0, 1).unwrap();
        volume
            .write_zeroes(context, 0, 1, true, Durability::Volatile)
            .unwrap();
        volume
            .extents(context, 0, 1, &mut |_| ControlFlow::Continue(()))
            .unwrap();
        assert_eq!(counts.total(), 6);
        assert_eq!(counts.read_bytes.load(Relaxed), 300);
        assert_eq!(counts.write_bytes.load(Relaxed), 200);
        assert_eq!(counts.durable_writes.load(Relaxed), 1);
        assert_eq!(counts.errors.load(Relaxed), 0);
    }
}
