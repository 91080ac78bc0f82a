//! A volume that fails on demand.
//!
//! Invariant: an operation that matches a failure does not reach the volume behind; every other
//! one does. Tests of front ends use this to see each error kind on the wire.

use crate::{
    Changes, Durability, Extent, RequestContext, Volume, VolumeError, VolumeErrorKind, VolumeInfo,
};
use parking_lot::Mutex;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// What can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// [`Volume::read`].
    Read,
    /// [`Volume::write`].
    Write,
    /// [`Volume::flush`]; the range of the failure does not matter.
    Flush,
    /// [`Volume::discard`].
    Discard,
    /// [`Volume::write_zeroes`].
    WriteZeroes,
    /// [`Volume::extents`].
    Extents,
}

/// One prepared failure.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Which operation fails.
    pub operation: Operation,
    /// Which bytes it has to touch.
    pub bytes: Range<u64>,
    /// How many matching operations succeed first.
    pub after: u32,
    /// How many fail then; `u32::MAX` means for ever.
    pub times: u32,
    /// With what.
    pub kind: VolumeErrorKind,
}

impl Failure {
    /// Every `operation` fails, anywhere, for ever.
    pub fn always(operation: Operation, kind: VolumeErrorKind) -> Self {
        Self {
            operation,
            bytes: 0..u64::MAX,
            after: 0,
            times: u32::MAX,
            kind,
        }
    }
}

/// Fails what its list says; the first match counts. Writes never go through
/// [`Volume::write_now`], so each is matched once.
#[derive(Debug)]
pub struct Faulty<V> {
    inner: V,
    failures: Mutex<Vec<Failure>>,
}

impl<V: Volume> Faulty<V> {
    /// Fails operations on `inner` as `failures` says.
    pub fn new(inner: V, failures: Vec<Failure>) -> Self {
        Self {
            inner,
            failures: Mutex::new(failures),
        }
    }

    /// Replaces the list while the volume is in use.
    pub fn set(&self, failures: Vec<Failure>) {
        *self.failures.lock() = failures;
    }

    fn check(&self, operation: Operation, offset: u64, len: u64) -> Result<(), VolumeError> {
        let mut list = self.failures.lock();
        let end = offset.saturating_add(len);
        let found = list.iter_mut().find(|failure| {
            let touches = offset < failure.bytes.end && failure.bytes.start < end;
            failure.operation == operation
                && failure.times > 0
                && (touches || operation == Operation::Flush)
        });
        match found {
            Some(failure) if failure.after > 0 => {
                failure.after -= 1;
                Ok(())
            }
            Some(failure) => {
                if failure.times != u32::MAX {
                    failure.times -= 1;
                }
                Err(VolumeError::new(failure.kind, "failure made by a test"))
            }
            None => Ok(()),
        }
    }
}

impl<V: Volume> Volume for Faulty<V> {
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
        self.check(Operation::Read, offset_bytes, into.len() as u64)?;
        self.inner.read(context, offset_bytes, into)
    }

    fn write(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), VolumeError> {
        self.check(Operation::Write, offset_bytes, data.len() as u64)?;
        self.inner.write(context, offset_bytes, data, durability)
    }

    fn flush(&self, context: RequestContext) -> Result<(), VolumeError> {
        self.check(Operation::Flush, 0, 0)?;
        self.inner.flush(context)
    }

    fn discard(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<(), VolumeError> {
        self.check(Operation::Discard, offset_bytes, len_bytes)?;
        self.inner.discard(context, offset_bytes, len_bytes)
    }

    fn write_zeroes(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        may_free: bool,
        durability: Durability,
    ) -> Result<(), VolumeError> {
        self.check(Operation::WriteZeroes, offset_bytes, len_bytes)?;
        let inner = &self.inner;
        inner.write_zeroes(context, offset_bytes, len_bytes, may_free, durability)
    }

    fn extents(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        visit: &mut dyn FnMut(Extent) -> ControlFlow<()>,
    ) -> Result<(), VolumeError> {
        self.check(Operation::Extents, offset_bytes, len_bytes)?;
        self.inner.extents(context, offset_bytes, len_bytes, visit)
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
        self.inner.prefetch(context, offset_bytes, len_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryVolume;

    #[test]
    fn fails_where_when_and_as_often_as_told() {
        let failure = Failure {
            operation: Operation::Read,
            bytes: 100..200,
            after: 1,
            times: 2,
            kind: VolumeErrorKind::Io,
        };
        let volume = Faulty::new(MemoryVolume::new(1000), vec![failure]);
        let context = RequestContext::default();
        let read = |offset| volume.read(context, offset, &mut [0; 50]).is_ok();
        assert!(read(50));
        assert!(read(51));
        assert!(!read(199));
        assert!(read(200));
        assert!(!read(100));
        assert!(read(100));
        assert!(volume.flush(context).is_ok());
        let flush = Failure::always(Operation::Flush, VolumeErrorKind::Failed);
        volume.set(vec![flush]);
        assert!(volume.flush(context).is_err());
    }
}
