//! Defines the `Blobs` interface: whole objects under a name. Now a local directory, later object
//! storage. The store calls this.
//!
//! Invariant: a name never leads to part of a blob; see [`Blobs`].

use crate::{Barrier, MediaError, Need, ReadFrom, Reserve, Reserved};

/// Treatment of a name that already exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// An old blob of this name is replaced.
    Replace,
    /// The name is new by construction: its only writer numbers its blobs. An existing one belongs
    /// to another writer and stays. Fails with `Exists`, perhaps only at a later call.
    New,
    /// Fails with `Exists` when the name is taken, even by a concurrent writer.
    IfAbsent,
    /// Replaces a damaged blob by its own content. Concurrent readers find one or the other. The
    /// blob is visible on return. A failure leaves the old blob in place and poisons nothing.
    Restore,
}

/// A flat name space of immutable blobs. Names are relative, `/`-separated, ASCII.
///
/// Contract: a name never leads to part of a blob, even after a crash: a blob exists whole or not
/// at all. A blob is *durable* only after a [`Blobs::barrier`] that began after its put returned,
/// or that began after [`Blobs::adopt`] named it. Many threads may call all methods.
pub trait Blobs: Send + Sync {
    /// Returns an empty buffer to fill for a put. A buffer of an earlier put is already mapped; the
    /// kernel maps fresh memory page by page.
    fn buffer(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Stores `bytes` under `name`.
    ///
    /// With [`Put::Replace`] and [`Put::New`] an error may surface at the next call, barriers
    /// included; the blob becomes visible some time before the next barrier returns. With
    /// [`Put::IfAbsent`] and [`Put::Restore`] the blob is visible on return.
    fn put(&self, name: &str, bytes: Vec<u8>, how: Put) -> Result<(), MediaError>;

    /// Fills `into` from `offset` of the blob. Fails with `Io` and an unexpected-end source when
    /// the blob is shorter.
    fn read_range(&self, name: &str, offset: u64, into: &mut [u8]) -> Result<(), MediaError>;

    /// Makes the device begin with a read that follows soon. Does not wait for the device. Returns
    /// false if nothing was begun.
    fn announce_read(&self, _name: &str, _offset: u64, _len: u64) -> bool {
        false
    }

    /// Does the same without leaving a copy in the system's page cache, where possible. For callers
    /// that have their own cache.
    fn read_range_past_cache(
        &self,
        name: &str,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), MediaError> {
        self.read_range(name, offset, into)
    }

    /// Reads like one (`past_cache`) or the other, and reports whether the device gave all bytes.
    fn read_range_reported(
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

    /// Returns the length in bytes.
    fn len(&self, name: &str) -> Result<u64, MediaError>;

    /// Reads the whole blob. `limit` bounds the memory that a damaged pool can make us allocate.
    fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>, MediaError> {
        let len = self.len(name)?.min(limit);
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        self.read_range(name, 0, &mut bytes)?;
        Ok(bytes)
    }

    /// Lists the names in one directory, sorted, without the prefix. `prefix` has no trailing
    /// slash.
    ///
    /// A directory that does not exist is empty. Not cheap in object storage.
    fn list(&self, prefix: &str) -> Result<Vec<String>, MediaError>;

    /// Removes a blob; a missing one is not an error. The removal is durable after the next
    /// barrier. Until then a crash may apply it before or without earlier puts.
    fn delete(&self, name: &str) -> Result<(), MediaError>;

    /// Removes half-written blobs of crashed writers. Only the holder of the pool's lock may call
    /// this.
    fn sweep(&self) -> Result<(), MediaError>;

    /// Adds a blob that another process put to those that the next barrier makes durable.
    fn adopt(&self, name: &str);

    /// Removes the blob of an abandoned put, even after a failure. Nothing durable names it, now or
    /// later. A missing one is not an error.
    fn discard(&self, name: &str) -> Result<(), MediaError> {
        self.delete(name)
    }

    /// Puts a blob, taking only as much of the reserve as `need` may.
    ///
    /// Fails with `NoSpace` when that is too little, which poisons nothing. [`put`](Self::put) may
    /// take all of the reserve.
    fn put_for(&self, name: &str, bytes: Vec<u8>, how: Put, _need: Need) -> Result<(), MediaError> {
        self.put(name, bytes, how)
    }

    /// Returns free and reserved space; `None` if it is unknown.
    fn reserved(&self) -> Option<Reserved> {
        None
    }

    /// Returns the reserve, if there is one.
    fn reserve(&self) -> Option<&Reserve> {
        None
    }

    /// Returns when all earlier puts and adopted blobs are visible and survive power loss, and all
    /// earlier deletes are durable.
    ///
    /// After a failed sync, or a put that failed after it had returned, every later put, delete and
    /// barrier fails with `Poisoned`. A put that returns its own failure (no space, `Exists`)
    /// poisons nothing.
    fn barrier(&self, point: Barrier) -> Result<(), MediaError>;
}
