//! Where the pool's bytes lie on the disk, and which requests its code makes.
//!
//! The store calls this through [`Blobs`] and as a queue of its files. The world takes the requests
//! and charges their time.
//! Invariant: containers lie one after another in the order in which they were put. Reads of other
//! files are free: they are small and stay in the system's memory.

use crate::disk::{BLOCK_BYTES, DiskRequest};
use device::{RequestGrant, RequestQueue};
use media::{Barrier, Blobs, IoOrigin, MediaError, Put, ReadFrom};
use parking_lot::Mutex;
use qos::Direction;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Size of the ring in which the other files are written, bytes.
const FILES_BYTES: u64 = 64 << 20;

/// Places of the containers.
#[derive(Clone, Debug, Default)]
pub struct Places {
    addresses: BTreeMap<String, u64>,
    free: u64,
}

impl Places {
    /// Returns the address behind all containers.
    pub fn end(&self) -> u64 {
        self.free
    }
}

/// A request of the code that ran last.
#[derive(Clone, Copy, Debug)]
pub struct Charge {
    /// The disk request.
    pub request: DiskRequest,
    /// It passes the scheduler: a write of the journal, or of a small file.
    pub passes: bool,
}

struct MediumState {
    places: Places,
    charges: Vec<Charge>,
    /// Next place for a container, behind the files' ring.
    files_at: u64,
    written: u64,
}

impl Charge {
    /// Reads with at most this between them are one request at the disk: the system reads ahead.
    const READ_AHEAD_GAP_BYTES: u64 = 4096;

    /// Extends a read by the next one, if the system's read-ahead makes one request of both.
    /// Returns false if it does not.
    pub fn extend(&mut self, next: &Self) -> bool {
        let end = self.request.address + self.request.bytes;
        let is_read = !self.request.is_write && !next.request.is_write;
        let again = end.saturating_sub(BLOCK_BYTES).max(self.request.address);
        let follows = (again..=end + Self::READ_AHEAD_GAP_BYTES).contains(&next.request.address);
        if is_read && follows {
            let both_end = end.max(next.request.address + next.request.bytes);
            self.request.bytes = both_end - self.request.address;
        }
        is_read && follows
    }
}

/// Places and requests. See the module's head.
pub struct Medium(Mutex<MediumState>);

impl Medium {
    /// Creates the medium of containers at these places.
    pub fn new(mut places: Places) -> Arc<Self> {
        let files_at = places.free;
        places.free += FILES_BYTES;
        Arc::new(Self(Mutex::new(MediumState {
            places,
            charges: Vec::new(),
            files_at,
            written: 0,
        })))
    }

    /// Returns the requests since the last call.
    pub fn take(&self) -> Vec<Charge> {
        std::mem::take(&mut self.0.lock().charges)
    }

    /// Returns the places.
    pub fn places(&self) -> Places {
        self.0.lock().places.clone()
    }

    fn read(&self, name: &str, offset: u64, bytes: u64) {
        let mut state = self.0.lock();
        let Some(address) = state.places.addresses.get(name).copied() else {
            return;
        };
        state.charges.push(Charge {
            request: DiskRequest {
                address: address + offset,
                bytes,
                is_write: false,
            },
            passes: false,
        });
    }

    fn put(&self, name: &str, bytes: u64) {
        let mut state = self.0.lock();
        let address = state.places.free;
        state.places.free += bytes.next_multiple_of(4096);
        state.places.addresses.insert(name.to_owned(), address);
        state.charges.push(Charge {
            request: DiskRequest {
                address,
                bytes,
                is_write: true,
            },
            passes: false,
        });
    }
}

/// Files other than containers: journal, index, records.
impl RequestQueue for Medium {
    fn enter(
        &self,
        _: IoOrigin,
        _: Direction,
        _: bool,
        _: u64,
    ) -> Option<Box<dyn RequestGrant + '_>> {
        None
    }

    fn note(&self, _: IoOrigin, direction: Direction, bytes: u64) {
        if direction == Direction::Read {
            return;
        }
        let mut state = self.0.lock();
        let at = state.written % FILES_BYTES;
        state.written += bytes;
        let address = state.files_at + at;
        state.charges.push(Charge {
            request: DiskRequest {
                address,
                bytes,
                is_write: true,
            },
            passes: true,
        });
    }
}

/// Blobs with places on the medium.
pub struct ChargedBlobs<B> {
    /// The bytes.
    pub inner: B,
    /// Their places.
    pub medium: Arc<Medium>,
}

impl<B: Blobs> Blobs for ChargedBlobs<B> {
    fn buffer(&self) -> Vec<u8> {
        self.inner.buffer()
    }

    fn put(&self, name: &str, bytes: Vec<u8>, how: Put) -> Result<(), MediaError> {
        let len = bytes.len() as u64;
        self.inner.put(name, bytes, how)?;
        self.medium.put(name, len);
        Ok(())
    }

    fn read_range(&self, name: &str, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        self.medium.read(name, offset, into.len() as u64);
        self.inner.read_range(name, offset, into)
    }

    /// The modelled machine keeps containers in no other cache.
    fn read_range_reported(
        &self,
        name: &str,
        offset: u64,
        into: &mut [u8],
        _: bool,
    ) -> Result<ReadFrom, MediaError> {
        self.read_range(name, offset, into)?;
        Ok(ReadFrom::Device)
    }

    fn len(&self, name: &str) -> Result<u64, MediaError> {
        self.inner.len(name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, MediaError> {
        self.inner.list(prefix)
    }

    fn delete(&self, name: &str) -> Result<(), MediaError> {
        self.medium.0.lock().places.addresses.remove(name);
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
