//! Counts the requests of each class that reach a volume, for tests of GROUP NUMBER, and changes
//! the size of its physical blocks.
//!
//! Invariant: requests are passed on unchanged.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use volume::{Durability, FastPath, Layer, RequestContext, Volume, VolumeError, VolumeInfo};

/// A volume that counts.
pub(crate) struct Classes {
    below: Arc<dyn Volume>,
    counts: Mutex<BTreeMap<u8, (u64, u64)>>,
}

impl Classes {
    pub(crate) fn new(below: Arc<dyn Volume>) -> Self {
        Self {
            below,
            counts: Mutex::default(),
        }
    }

    /// Returns the reads and writes of each class, in words.
    pub(crate) fn report(&self) -> String {
        let counts = self.counts.lock();
        let one =
            |(class, (reads, writes)): (&u8, &(u64, u64))| format!(" {class}:{reads}r{writes}w");
        format!("classes{}", counts.iter().map(one).collect::<String>())
    }

    fn count(&self, context: RequestContext, reads: u64, writes: u64) {
        let mut counts = self.counts.lock();
        let count = counts.entry(context.class.0).or_default();
        *count = (count.0 + reads, count.1 + writes);
    }
}

impl Layer for Classes {
    type Inner = Arc<dyn Volume>;

    fn below(&self) -> &Self::Inner {
        &self.below
    }

    fn read(&self, context: RequestContext, at: u64, into: &mut [u8]) -> Result<(), VolumeError> {
        self.count(context, 1, 0);
        Volume::read(&self.below, context, at, into)
    }

    fn write(
        &self,
        context: RequestContext,
        at: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), VolumeError> {
        self.count(context, 0, 1);
        Volume::write(&self.below, context, at, data, durability)
    }

    fn capabilities<'a>(&'a self, below: volume::Capabilities<'a>) -> volume::Capabilities<'a> {
        volume::Capabilities {
            fast_path: below.fast_path.map(|_| self as &dyn FastPath),
            ..below
        }
    }
}

impl FastPath for Classes {
    fn is_cached(&self, context: RequestContext, at: u64, len: u64) -> bool {
        Volume::capabilities(&self.below).is_cached(context, at, len)
    }

    fn write_now(
        &self,
        context: RequestContext,
        at: u64,
        data: &[u8],
    ) -> Result<bool, VolumeError> {
        let written = Volume::capabilities(&self.below).write_now(context, at, data)?;
        if written {
            self.count(context, 0, 1);
        }
        Ok(written)
    }
}

/// A volume with larger physical blocks.
pub(crate) struct Physical {
    pub(crate) below: Arc<dyn Volume>,
    pub(crate) block_bytes_min: u32,
}

impl Layer for Physical {
    type Inner = Arc<dyn Volume>;

    fn below(&self) -> &Self::Inner {
        &self.below
    }

    fn info(&self) -> VolumeInfo {
        VolumeInfo {
            block_bytes_min: self.block_bytes_min,
            ..Volume::info(&self.below)
        }
    }
}
