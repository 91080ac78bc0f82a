//! A volume that counts what it is asked.
//!
//! Invariant: counting never changes an answer. Tests assert what an operation costs; metrics
//! read the same numbers.

use crate::{Changes, Durability, Extent, RequestContext, Volume, VolumeError, VolumeInfo};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How often each operation was asked for, and how many bytes it moved.
#[derive(Debug, Default)]
pub struct Counts {
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
    /// Questions for extents.
    pub extents: AtomicU64,
    /// Prefetches.
    pub prefetches: AtomicU64,
    /// Operations of any kind that failed.
    pub errors: AtomicU64,
}

impl Counts {
    /// Operations of every kind.
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

    fn outcome(&self, result: Result<(), VolumeError>) -> Result<(), VolumeError> {
        if result.is_err() {
            self.errors.fetch_add(1, Relaxed);
        }
        result
    }
}

/// Counts every operation on its way to the volume behind.
#[derive(Debug)]
pub struct Counted<V> {
    inner: V,
    counts: Arc<Counts>,
}

impl<V: Volume> Counted<V> {
    /// Adds what `inner` is asked to `counts`, which others may share.
    pub fn new(inner: V, counts: Arc<Counts>) -> Self {
        Self { inner, counts }
    }

    fn note_durability(&self, durability: Durability) {
        if durability == Durability::Durable {
            self.counts.durable_writes.fetch_add(1, Relaxed);
        }
    }
}

impl<V: Volume> Volume for Counted<V> {
    fn info(&self) -> VolumeInfo {
        self.inner.info()
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        into: &mut [u8],
    ) -> Result<(), VolumeError> {
        self.counts.reads.fetch_add(1, Relaxed);
        let bytes = into.len() as u64;
        self.counts.read_bytes.fetch_add(bytes, Relaxed);
        let result = self.inner.read(context, offset_bytes, into);
        self.counts.outcome(result)
    }

    fn write(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), VolumeError> {
        self.counts.writes.fetch_add(1, Relaxed);
        let bytes = data.len() as u64;
        self.counts.write_bytes.fetch_add(bytes, Relaxed);
        self.note_durability(durability);
        let result = self.inner.write(context, offset_bytes, data, durability);
        self.counts.outcome(result)
    }

    /// Counted when it was done; if not, the write follows by the other way.
    fn write_now(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        data: &[u8],
    ) -> Result<bool, VolumeError> {
        let result = self.inner.write_now(context, offset_bytes, data);
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

    fn flush(&self, context: RequestContext) -> Result<(), VolumeError> {
        self.counts.flushes.fetch_add(1, Relaxed);
        self.counts.outcome(self.inner.flush(context))
    }

    fn discard(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<(), VolumeError> {
        self.counts.discards.fetch_add(1, Relaxed);
        let result = self.inner.discard(context, offset_bytes, len_bytes);
        self.counts.outcome(result)
    }

    fn write_zeroes(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        may_free: bool,
        durability: Durability,
    ) -> Result<(), VolumeError> {
        self.counts.write_zeroes.fetch_add(1, Relaxed);
        self.note_durability(durability);
        let inner = &self.inner;
        let result = inner.write_zeroes(context, offset_bytes, len_bytes, may_free, durability);
        self.counts.outcome(result)
    }

    fn extents(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        visit: &mut dyn FnMut(Extent) -> ControlFlow<()>,
    ) -> Result<(), VolumeError> {
        self.counts.extents.fetch_add(1, Relaxed);
        let result = self.inner.extents(context, offset_bytes, len_bytes, visit);
        self.counts.outcome(result)
    }

    fn is_cached(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
        self.inner.is_cached(context, offset_bytes, len_bytes)
    }

    fn baselines(&self, count_max: usize) -> Vec<String> {
        self.inner.baselines(count_max)
    }

    fn changes_since(&self, baseline: &str) -> Option<Arc<dyn Changes>> {
        self.inner.changes_since(baseline)
    }

    fn prefetch(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) {
        self.counts.prefetches.fetch_add(1, Relaxed);
        self.inner.prefetch(context, offset_bytes, len_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryVolume;

    #[test]
    fn every_operation_is_counted_once() {
        let counts = Arc::new(Counts::default());
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
        volume.prefetch(context, 0, 1);
        assert_eq!(counts.total(), 7);
        assert_eq!(counts.read_bytes.load(Relaxed), 300);
        assert_eq!(counts.write_bytes.load(Relaxed), 200);
        assert_eq!(counts.durable_writes.load(Relaxed), 1);
        assert_eq!(counts.errors.load(Relaxed), 0);
    }
}
