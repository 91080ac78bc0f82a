//! Blobs with places on a disk, so that reading them takes time.
//!
//! The store calls this through [`Blobs`].
//! Invariant: blobs lie one after another in the order in which they were put. A deleted blob
//! leaves a hole.

use crate::disk::{BLOCK_BYTES, Disk, DiskModel, DiskRequest, Ns};
use media::{Barrier, Blobs, MediaError, Put};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Costs of reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Toll {
    /// Number of reads.
    pub reads: u64,
    /// Their size, bytes.
    pub bytes: u64,
    /// Number of reads that did not begin where the previous one ended.
    pub jumps: u64,
    /// Time of the disk.
    pub time: Ns,
}

struct Places {
    addresses: BTreeMap<String, u64>,
    free: u64,
    disk: Disk,
    last_end: u64,
    toll: Toll,
}

/// The blobs. See the module's head.
pub struct PlacedBlobs<B> {
    inner: B,
    places: Mutex<Places>,
}

impl<B: Blobs> PlacedBlobs<B> {
    /// Places the blobs of `inner`, which must be empty.
    pub fn new(inner: B, model: DiskModel) -> Self {
        Self {
            inner,
            places: Mutex::new(Places {
                addresses: BTreeMap::new(),
                free: 0,
                disk: Disk::new(model),
                last_end: 0,
                toll: Toll::default(),
            }),
        }
    }

    /// Returns the costs of all reads since the last call.
    pub fn take_toll(&self) -> Toll {
        std::mem::take(&mut self.places.lock().toll)
    }

    fn read_at(&self, name: &str, offset: u64, bytes: u64) {
        let mut places = self.places.lock();
        let Some(address) = places.addresses.get(name).copied() else {
            return;
        };
        let request = DiskRequest {
            address: address + offset,
            bytes,
            is_write: false,
        };
        let places = &mut *places;
        // Neighbouring regions share a sector.
        let again = places.last_end.checked_sub(request.address);
        let goes_on = again.is_some_and(|again| again < BLOCK_BYTES);
        // A restore does nothing else: each read begins when the previous one has ended.
        let now = places.disk.idle_since();
        let end = places.disk.serve(now, request);
        places.toll.reads += 1;
        places.toll.bytes += bytes;
        places.toll.jumps += u64::from(!goes_on);
        places.toll.time += end - now;
        places.last_end = request.address + bytes;
    }
}

impl<B: Blobs> Blobs for PlacedBlobs<B> {
    fn buffer(&self) -> Vec<u8> {
        self.inner.buffer()
    }

    fn put(&self, name: &str, bytes: Vec<u8>, how: Put) -> Result<(), MediaError> {
        let len = (bytes.len() as u64).next_multiple_of(4096);
        self.inner.put(name, bytes, how)?;
        let mut places = self.places.lock();
        let address = places.free;
        places.free += len;
        places.addresses.insert(name.to_owned(), address);
        Ok(())
    }

    fn read_range(&self, name: &str, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        self.read_at(name, offset, into.len() as u64);
        self.inner.read_range(name, offset, into)
    }

    fn len(&self, name: &str) -> Result<u64, MediaError> {
        self.inner.len(name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, MediaError> {
        self.inner.list(prefix)
    }

    fn delete(&self, name: &str) -> Result<(), MediaError> {
        self.places.lock().addresses.remove(name);
        self.inner.delete(name)
    }

    fn sweep(&self) -> Result<(), MediaError> {
        self.inner.sweep()
    }

    fn adopt(&self, name: &str) {
        self.inner.adopt(name);
    }

    fn barrier(&self, point: Barrier) -> Result<(), MediaError> {
        self.inner.barrier(point)
    }
}
