//! Protects a volume from changes. Exports of snapshots use this.
//!
//! Invariant: no writing operation reaches the volume behind.

use crate::{
    Capabilities, FastPath, Layer, Operation, RequestContext, Volume, VolumeError, VolumeErrorKind,
    VolumeInfo, VolumeRequest,
};

/// Refuses everything that would change the volume behind.
#[derive(Debug)]
pub struct ReadOnly<V>(V);

impl<V: Volume> ReadOnly<V> {
    /// Makes `inner` read-only.
    pub fn new(inner: V) -> Self {
        Self(inner)
    }
}

impl<V: Volume> Layer for ReadOnly<V> {
    type Inner = V;

    fn below(&self) -> &V {
        &self.0
    }

    fn info(&self) -> VolumeInfo {
        VolumeInfo {
            read_only: true,
            ..self.0.info()
        }
    }

    fn around(
        &self,
        request: VolumeRequest,
        go: impl FnOnce(&V) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        match request.operation {
            Operation::Read | Operation::Extents => go(&self.0),
            // Nothing was written through this volume, so there is nothing to wait for.
            Operation::Flush => Ok(()),
            Operation::Write | Operation::Discard | Operation::WriteZeroes => {
                Err(VolumeErrorKind::ReadOnly.into())
            }
        }
    }

    /// Names every ability, because a new one may write.
    fn capabilities<'a>(&'a self, below: Capabilities<'a>) -> Capabilities<'a> {
        Capabilities {
            fast_path: Some(self),
            changes: below.changes,
            prefetch: below.prefetch,
        }
    }
}

impl<V: Volume> FastPath for ReadOnly<V> {
    fn is_cached(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
        let below = self.0.capabilities();
        below.is_cached(context, offset_bytes, len_bytes)
    }

    fn write_now(&self, _: RequestContext, _: u64, _: &[u8]) -> Result<bool, VolumeError> {
        Err(VolumeErrorKind::ReadOnly.into())
    }
}
