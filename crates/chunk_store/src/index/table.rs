//! One index file: reads buckets through the cache, writes buckets, headers and tail. The index and
//! its merges call this.
//!
//! ```text
//! header slot 0 | header slot 1 | bucket 0 | bucket 1 | ... | tail (coverage, numbers, overflow)
//! ```
//!
//! Invariant: every bucket that leaves this module was verified. A header is marked clean only
//! after its buckets and tail were synced.

use super::Coverage;
use super::absence::NEIGHBOURS;
use super::bucket_copy::BucketCopy;
use super::cache::{BucketCache, Missed, Probe, ReuseHint};
use super::meters::Meters;
use format::index::{
    BUCKET_BYTES, Bucket, Geometry, HEADER_BYTES, IndexHeader, IndexPlace, Seed, Tail,
};
use media::{Barrier, DiskFile, MediaError, MediaErrorKind};
use parking_lot::RwLock;
use std::sync::Arc;
use units::{PoolId, WriterId};

/// Number of reads of a bucket before it counts as damaged: another process may be writing it.
const ATTEMPTS: usize = 3;

/// An open index file.
pub(super) struct Table {
    file: Arc<dyn DiskFile>,
    geometry: Geometry,
    seed: Seed,
    pub(super) cache: BucketCache,
    /// Buckets on a faster device.
    copy: RwLock<Option<Arc<BucketCopy>>>,
}

/// State of the file. The thread with the index writer lock owns it.
pub(super) struct Standing {
    /// The last header that was written.
    pub(super) header: IndexHeader,
    /// The coverage in the last tail that was written.
    pub(super) coverage: Coverage,
    /// Current number of entries in the buckets.
    pub(super) entries: u64,
    /// A sync failed, so the contents of the device are unknown. This file is not written any more.
    pub(super) failed: bool,
}

impl Standing {
    /// Returns the number of containers that another coverage has and this one has not.
    pub(super) fn containers_until(&self, coverage: &Coverage) -> u64 {
        let of_writer = |(writer, next): (&WriterId, &u64)| {
            let before = self.coverage.get(writer).copied().unwrap_or(0);
            next.saturating_sub(before)
        };
        coverage.iter().map(of_writer).sum()
    }

    /// Returns the size of the file, bytes.
    pub(super) fn bytes(&self) -> u64 {
        Table::bytes_of(&self.header)
    }
}

impl Table {
    /// Opens a table over a file with this geometry. `cache` is of a table with as many buckets.
    pub(super) fn new(
        file: Arc<dyn DiskFile>,
        pool: &PoolId,
        geometry: Geometry,
        cache: BucketCache,
    ) -> Self {
        Self {
            file,
            geometry,
            seed: Seed::new(pool, geometry),
            cache,
            copy: RwLock::new(None),
        }
    }

    /// Returns the copy of the buckets, if there is one.
    pub(super) fn copy(&self) -> Option<Arc<BucketCopy>> {
        self.copy.read().clone()
    }

    /// Uses this copy from now on.
    pub(super) fn set_copy(&self, copy: Arc<BucketCopy>) {
        *self.copy.write() = Some(copy);
    }

    /// Returns the number and addressing of the buckets.
    pub(super) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the seed of its checksums.
    pub(super) fn seed(&self) -> Seed {
        self.seed
    }

    /// Adds the places of a path that the cache missed. Costs one device read, or more after a
    /// collision with a writer. A bucket that fails verification has no places and counts as lost.
    pub(super) fn read_places(
        &self,
        path: u64,
        visit: ReuseHint,
        found: &mut Vec<IndexPlace>,
        meters: &Meters,
    ) {
        let number = self.geometry.bucket(path);
        let rest = Geometry::rest(path);
        for _ in 0..ATTEMPTS {
            let look = |bucket: &Bucket| bucket.find(rest, |place| found.push(place));
            let missed = match self.cache.probe((number, rest), visit, look) {
                Probe::Hit(()) | Probe::Absent => return,
                Probe::Miss(missed) => missed,
            };
            Meters::count(&meters.device_reads);
            if let Some(bucket) = self.read_missed(number, missed, meters) {
                bucket.find(rest, |place| found.push(place));
                self.cache.admit(number, missed.epoch, visit, bucket);
                return;
            }
        }
        meters.lose_bucket();
    }

    fn read_missed(&self, number: u64, missed: Missed, meters: &Meters) -> Option<Bucket> {
        let with_neighbours = missed
            .lacks_filter
            .then(|| self.read_neighbours(number, meters));
        match with_neighbours.flatten() {
            Some(bucket) => Some(bucket),
            None => self.read_bucket(number, meters),
        }
    }

    /// Reads a bucket together with its neighbours, and makes the filters of those. Returns the
    /// bucket, or `None` if it could not be read like this or is wrong.
    fn read_neighbours(&self, number: u64, meters: &Meters) -> Option<Bucket> {
        let first = number - number % NEIGHBOURS;
        let count = NEIGHBOURS.min(self.geometry.buckets().saturating_sub(first));
        let numbers = first..first + count;
        let epochs: Vec<Option<u64>> = numbers.clone().map(|n| self.cache.epoch(n)).collect();
        let mut pages = vec![0; count as usize * BUCKET_BYTES];
        match self.read_copy(first, &mut pages) {
            true => Meters::count(&meters.copy_reads),
            false => self
                .file
                .read_at(self.geometry.bucket_offset(first), &mut pages)
                .ok()?,
        }
        let mut found = None;
        let pages = pages.chunks_exact(BUCKET_BYTES);
        for ((n, epoch), page) in numbers.zip(epochs).zip(pages) {
            // A neighbour that is wrong is found by a lookup of its own.
            if let Ok(bucket) = Bucket::decode(page, self.seed, n) {
                if let Some(epoch) = epoch {
                    self.cache.learn(n, epoch, &bucket);
                }
                if n == number {
                    found = Some(bucket);
                }
            }
        }
        found
    }

    fn read_bucket(&self, number: u64, meters: &Meters) -> Option<Bucket> {
        let mut page = [0; BUCKET_BYTES];
        if let Some(copy) = self.copy()
            && copy.read(number, &mut page)
        {
            if let Ok(bucket) = Bucket::decode(&page, self.seed, number) {
                Meters::count(&meters.copy_reads);
                return Some(bucket);
            }
            copy.found_damage();
        }
        self.file
            .read_at(self.geometry.bucket_offset(number), &mut page)
            .ok()?;
        Bucket::decode(&page, self.seed, number).ok()
    }

    /// Reads consecutive buckets from the copy, as many as fit into `pages`. Returns false unless
    /// it has them all, right.
    fn read_copy(&self, first: u64, pages: &mut [u8]) -> bool {
        let Some(copy) = self.copy() else {
            return false;
        };
        if !copy.read(first, pages) {
            return false;
        }
        let mut pages = (first..).zip(pages.chunks_exact(BUCKET_BYTES));
        let are_right = pages.all(|(n, page)| Bucket::decode(page, self.seed, n).is_ok());
        if !are_right {
            copy.found_damage();
        }
        are_right
    }

    /// Reads consecutive buckets without verification, as many as fit into `pages`. A bucket that
    /// cannot be read stays zero, and verification refuses that.
    pub(super) fn read_pages(&self, first: u64, pages: &mut [u8]) {
        if !self.read_copy(first, pages) {
            self.read_file(first, pages);
        }
    }

    /// Does the same, and asks the file only.
    pub(super) fn read_file(&self, first: u64, pages: &mut [u8]) {
        if self
            .file
            .read_at(self.geometry.bucket_offset(first), pages)
            .is_ok()
        {
            return;
        }
        for (number, page) in (first..).zip(pages.chunks_mut(BUCKET_BYTES)) {
            if self
                .file
                .read_at(self.geometry.bucket_offset(number), page)
                .is_err()
            {
                page.fill(0);
            }
        }
    }

    /// Writes consecutive buckets of a file that has no name yet.
    pub(super) fn write_new(&self, first: u64, pages: &[u8]) -> Result<(), MediaError> {
        self.file
            .write_at(self.geometry.bucket_offset(first), pages)
    }

    /// Writes consecutive buckets. `changed` are those whose contents changed; lookups see them
    /// from now on.
    pub(super) fn write_pages(
        &self,
        first: u64,
        pages: &[u8],
        changed: Vec<(u64, Bucket)>,
    ) -> Result<(), MediaError> {
        let numbers: Vec<u64> = changed.iter().map(|(number, _)| *number).collect();
        for (number, bucket) in changed {
            self.cache.begin_write(number, bucket);
        }
        let written = self
            .file
            .write_at(self.geometry.bucket_offset(first), pages);
        if let Some(copy) = self.copy() {
            copy.write(first, pages);
        }
        for number in numbers {
            self.cache.end_write(number, written.is_ok());
        }
        written
    }

    /// Marks the file unclean before buckets and tail change, unless it is already.
    pub(super) fn mark_unclean(&self, standing: &mut Standing) -> Result<(), MediaError> {
        if !standing.header.clean {
            return Ok(());
        }
        if let Some(copy) = self.copy() {
            copy.unstamp();
        }
        let mut header = standing.header.clone();
        header.clean = false;
        self.write_header(standing, header)
    }

    /// Writes and syncs the tail, then the clean header that makes buckets and tail valid.
    pub(super) fn mark_clean(&self, standing: &mut Standing, tail: Tail) -> Result<(), MediaError> {
        let mut header = standing.header.clone();
        header.entries = standing.entries;
        header.clean = true;
        let too_large = || MediaError::plain(MediaErrorKind::NoSpace, "write", "index tail");
        let bytes = tail.encode(&mut header, self.seed).ok_or_else(too_large)?;
        self.file.write_at(self.geometry.tail_offset(), &bytes)?;
        self.sync(standing)?;
        self.write_header(standing, header)?;
        standing.coverage = tail.coverage;
        Ok(())
    }

    fn write_header(
        &self,
        standing: &mut Standing,
        mut header: IndexHeader,
    ) -> Result<(), MediaError> {
        header.sequence = standing.header.sequence.wrapping_add(1);
        self.file.write_at(header.slot_offset(), &header.encode())?;
        // The device may have this header now, so the next one must use the other slot.
        standing.header = header;
        self.sync(standing)
    }

    fn sync(&self, standing: &mut Standing) -> Result<(), MediaError> {
        self.file
            .sync(Barrier::IndexBeforeClean)
            .inspect_err(|_| standing.failed = true)
    }

    /// Returns the file size that a header implies, bytes.
    pub(super) fn bytes_of(header: &IndexHeader) -> u64 {
        header.geometry.tail_offset() + Tail::bytes_announced(header)
    }
}

/// Reads both header slots and returns the valid one with the higher sequence number.
pub(super) fn read_header(file: &dyn DiskFile) -> format::bytes::Result<IndexHeader> {
    let mut slots = [[0; HEADER_BYTES]; 2];
    for (slot, offset) in slots.iter_mut().zip([0, format::index::HEADER_SLOT_BYTES]) {
        if file.read_at(offset, slot).is_err() {
            slot.fill(0);
        }
    }
    let [first, second] = &slots;
    IndexHeader::newest([first, second])
}
