//! Whole objects under a name: a local directory now, object storage later.

use crate::{Barrier, MediaError, Need, ReadFrom, Reserve, Reserved};

/// How a put treats a name that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// An old blob of this name is replaced.
    Replace,
    /// The name is new by construction (numbered by its only writer): one that exists is another
    /// writer's, and stays. Fails with `Exists`, perhaps only at a later call.
    New,
    /// Fails with `Exists` when the name is taken, also by a concurrent writer.
    IfAbsent,
    /// A blob that is damaged is replaced by its own content: whoever reads it meanwhile finds the one
    /// or the other. The blob is visible on return. A failure leaves what was there, and poisons nothing.
    Restore,
}

/// A flat name space of immutable blobs. Names are relative, `/`-separated, ASCII.
///
/// Contract: a name never leads to part of a blob, after a crash either: a blob exists whole or
/// not at all. A blob is *durable* only after a [`Blobs::barrier`] that began after its put
/// returned, or that began after [`Blobs::adopt`] named it. All methods may be called from many
/// threads.
pub trait Blobs: Send + Sync {
    /// An empty buffer to fill for a put. One that an earlier put gave back is mapped already;
    /// fresh memory the kernel hands out page by page.
    fn buffer(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Stores `bytes` under `name`. With [`Put::Replace`] and [`Put::New`] an error may also surface
    /// at the next call, barriers included; the blob becomes visible some time before the next
    /// barrier returns. With [`Put::IfAbsent`] and [`Put::Restore`] the blob is visible on return.
    fn put(&self, name: &str, bytes: Vec<u8>, how: Put) -> Result<(), MediaError>;

    /// Fills `into` from `offset` of the blob. `Io` with an unexpected-end source when the blob
    /// is shorter.
    fn read_range(&self, name: &str, offset: u64, into: &mut [u8]) -> Result<(), MediaError>;

    /// The same without leaving a copy in the system's page cache, where that is possible: for who
    /// has a cache of his own.
    fn read_range_past_cache(
        &self,
        name: &str,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), MediaError> {
        self.read_range(name, offset, into)
    }

    /// Reads like the one (`past_cache`) or the other, and says whether the device gave all of it.
    fn read_range_told(
        &self,
        name: &str,
        offset: u64,
        into: &mut [u8],
        past_cache: bool,
    ) -> Result<ReadFrom, MediaError> {
        match past_cache {
            true => self.read_range_past_cache(name, offset, into)?,
            false => self.read_range(name, offset, into)?,
        }
        Ok(ReadFrom::Cache)
    }

    /// Length in bytes.
    fn len(&self, name: &str) -> Result<u64, MediaError>;

    /// The whole blob; `limit` bounds what a damaged pool can make us allocate.
    fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>, MediaError> {
        let len = self.len(name)?.min(limit);
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        self.read_range(name, 0, &mut bytes)?;
        Ok(bytes)
    }

    /// Names in one directory (`prefix` without trailing slash), sorted, without the prefix.
    /// A directory that does not exist is empty. Not cheap in object storage.
    fn list(&self, prefix: &str) -> Result<Vec<String>, MediaError>;

    /// Removes a blob; a missing one is not an error. Durable after the next barrier; until then
    /// a crash may do it before or without the puts that came earlier.
    fn delete(&self, name: &str) -> Result<(), MediaError>;

    /// Removes what crashed writers left half-written. Only the holder of the pool's lock may.
    fn sweep(&self) -> Result<(), MediaError>;

    /// Counts a blob that another process put among those the next barrier makes durable.
    fn adopt(&self, name: &str);

    /// Removes a blob that nothing durable names and nothing will, also after a failure: what a put
    /// left that is given up. A missing one is not an error.
    fn discard(&self, name: &str) -> Result<(), MediaError> {
        self.delete(name)
    }

    /// A put that may take of the reserve what `need` may: `NoSpace`, which poisons nothing, when
    /// that is too little. [`put`](Self::put) may take all.
    fn put_for(&self, name: &str, bytes: Vec<u8>, how: Put, _need: Need) -> Result<(), MediaError> {
        self.put(name, bytes, how)
    }

    /// How much room there is and is kept; `None`: nobody knows.
    fn reserved(&self) -> Option<Reserved> {
        None
    }

    /// What holds that room, where there is one.
    fn reserve(&self) -> Option<&Reserve> {
        None
    }

    /// Returns when all earlier puts and adopted blobs are visible and survive power loss, and
    /// all earlier deletes are durable.
    ///
    /// After a failed sync, or a put that failed after it had returned, every later put, delete
    /// and barrier fails with `Poisoned`. A put that tells of its own failure (no space, `Exists`)
    /// poisons nothing.
    fn barrier(&self, point: Barrier) -> Result<(), MediaError>;
}
