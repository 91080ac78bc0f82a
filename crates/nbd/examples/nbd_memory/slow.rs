//! A device that takes its time.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use volume::{Durability, Extent, RequestContext, Volume, VolumeError, VolumeInfo};

/// The device; 0 means that reads are cached, or that writes need not wait.
pub(crate) struct Slow {
    pub(crate) inner: Arc<dyn Volume>,
    pub(crate) read: Duration,
    pub(crate) write: Duration,
}

impl Volume for Slow {
    fn info(&self) -> VolumeInfo {
        self.inner.info()
    }
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }
    fn read(&self, context: RequestContext, at: u64, into: &mut [u8]) -> Result<(), VolumeError> {
        std::thread::sleep(self.read);
        self.inner.read(context, at, into)
    }
    fn write(
        &self,
        context: RequestContext,
        at: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), VolumeError> {
        std::thread::sleep(self.write);
        self.inner.write(context, at, data, durability)
    }
    fn flush(&self, context: RequestContext) -> Result<(), VolumeError> {
        std::thread::sleep(self.read);
        self.inner.flush(context)
    }
    fn discard(&self, context: RequestContext, at: u64, len: u64) -> Result<(), VolumeError> {
        self.inner.discard(context, at, len)
    }
    fn write_zeroes(
        &self,
        context: RequestContext,
        at: u64,
        len: u64,
        may_free: bool,
        durability: Durability,
    ) -> Result<(), VolumeError> {
        self.inner
            .write_zeroes(context, at, len, may_free, durability)
    }
    fn extents(
        &self,
        context: RequestContext,
        at: u64,
        len: u64,
        visit: &mut dyn FnMut(Extent) -> ControlFlow<()>,
    ) -> Result<(), VolumeError> {
        self.inner.extents(context, at, len, visit)
    }
    fn write_now(
        &self,
        context: RequestContext,
        at: u64,
        data: &[u8],
    ) -> Result<bool, VolumeError> {
        match self.write.is_zero() {
            true => self.inner.write_now(context, at, data),
            false => Ok(false),
        }
    }
    fn is_cached(&self, _: RequestContext, _: u64, _: u64) -> bool {
        self.read.is_zero()
    }
}
