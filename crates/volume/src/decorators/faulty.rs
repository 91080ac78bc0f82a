//! Makes a volume fail on demand. Tests of front ends use this to see each error kind on the wire.
//!
//! Invariant: an operation that matches a failure does not reach the volume behind; every other one
//! does.

use crate::{
    Capabilities, FastPath, Layer, Operation, RequestContext, Volume, VolumeError, VolumeErrorKind,
    VolumeRequest,
};
use parking_lot::Mutex;
use std::ops::Range;

/// One prepared failure.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Operation that fails. Flushes match at any range.
    pub operation: Operation,
    /// Bytes that the operation must touch.
    pub bytes: Range<u64>,
    /// Number of matching operations that succeed first.
    pub after: u32,
    /// Number of operations that fail after that; `u32::MAX` means for ever.
    pub times: u32,
    /// Kind of the error.
    pub kind: VolumeErrorKind,
}

impl Failure {
    /// Makes every `operation` fail, anywhere, for ever.
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

/// Fails operations by a list; the first match counts. Writes never go through
/// [`FastPath::write_now`], so each is matched once.
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

impl<V: Volume> Layer for Faulty<V> {
    type Inner = V;

    fn below(&self) -> &V {
        &self.inner
    }

    fn around(
        &self,
        request: VolumeRequest,
        go: impl FnOnce(&V) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        self.check(request.operation, request.offset_bytes, request.len_bytes)?;
        go(&self.inner)
    }

    fn capabilities<'a>(&'a self, below: Capabilities<'a>) -> Capabilities<'a> {
        Capabilities {
            fast_path: below.fast_path.map(|_| self as &dyn FastPath),
            ..below
        }
    }
}

impl<V: Volume> FastPath for Faulty<V> {
    fn is_cached(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
        let below = self.inner.capabilities();
        below.is_cached(context, offset_bytes, len_bytes)
    }

    /// Never writes: the write comes as [`Volume::write`], and is matched once.
    fn write_now(&self, _: RequestContext, _: u64, _: &[u8]) -> Result<bool, VolumeError> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::{Failure, Faulty};
    use crate::{MemoryVolume, Operation, RequestContext, Volume, VolumeErrorKind};

    #[test]
    fn fails_where_when_and_as_often_as_set() {
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
