//! One index file: its buckets through the cache, its headers and tail.
//!
//! Invariant: every bucket that leaves this module was verified; a header says clean only after
//! the buckets and the tail it speaks of were synced. Called by the index and its merges.

use super::Coverage;
use super::cache::{BucketCache, Probe, Visit};
use super::meters::Meters;
use format::index::{BUCKET_BYTES, Bucket, Geometry, HEADER_BYTES, Header, Place, Seed, Tail};
use media::{Barrier, DiskFile, MediaError, MediaErrorKind};
use std::sync::Arc;
use units::PoolId;

/// Reads of a bucket before it counts as damaged: another process may be writing it.
const ATTEMPTS: usize = 3;

/// An open index file.
pub(super) struct Table {
    file: Arc<dyn DiskFile>,
    geometry: Geometry,
    seed: Seed,
    pub(super) cache: BucketCache,
}

/// How the file stands; owned by whoever has the writer's seat.
pub(super) struct Standing {
    /// The header written last.
    pub(super) header: Header,
    /// The coverage in the tail written last.
    pub(super) coverage: Coverage,
    /// Entries in the buckets by now.
    pub(super) entries: u64,
    /// A sync failed: what reached the device is unknown, so this file is not written any more.
    pub(super) failed: bool,
}

impl Standing {
    /// Bytes of the file.
    pub(super) fn bytes(&self) -> u64 {
        Table::bytes_of(&self.header)
    }
}

impl Table {
    /// Over a file of this geometry.
    pub(super) fn new(
        file: Arc<dyn DiskFile>,
        pool: &PoolId,
        geometry: Geometry,
        cache_bytes: usize,
    ) -> Self {
        let cache = BucketCache::new(cache_bytes, geometry.buckets());
        Self {
            file,
            geometry,
            seed: Seed::new(pool, geometry),
            cache,
        }
    }

    /// Number and addressing of the buckets.
    pub(super) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// What its checksums are seeded with.
    pub(super) fn seed(&self) -> Seed {
        self.seed
    }

    /// Adds the places of a path that the cache missed, with one device read (a further one only
    /// after a collision with a writer). A bucket that cannot be verified has none.
    pub(super) fn read_places(
        &self,
        path: u64,
        visit: Visit,
        found: &mut Vec<Place>,
        meters: &Meters,
    ) {
        let number = self.geometry.bucket(path);
        let rest = Geometry::rest(path);
        for _ in 0..ATTEMPTS {
            let look = |bucket: &Bucket| bucket.find(rest, |place| found.push(place));
            let epoch = match self.cache.probe(number, visit, look) {
                Probe::Hit(()) => return,
                Probe::Miss(epoch) => epoch,
            };
            Meters::count(&meters.device_reads);
            if let Some(bucket) = self.read_bucket(number) {
                bucket.find(rest, |place| found.push(place));
                self.cache.admit(number, epoch, visit, bucket);
                return;
            }
        }
        meters.lose_bucket();
    }

    fn read_bucket(&self, number: u64) -> Option<Bucket> {
        let mut page = [0; BUCKET_BYTES];
        self.file
            .read_at(self.geometry.bucket_offset(number), &mut page)
            .ok()?;
        Bucket::decode(&page, self.seed, number).ok()
    }

    /// Reads consecutive buckets as they are, as many as `pages` takes. A part that cannot be read
    /// is left zero, which no verification accepts.
    pub(super) fn read_pages(&self, first: u64, pages: &mut [u8]) {
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

    /// Writes consecutive buckets; `changed` are those of them that lookups must see anew.
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
        for number in numbers {
            self.cache.end_write(number, written.is_ok());
        }
        written
    }

    /// Says on the device that buckets and tail are about to change. Nothing to do when the header
    /// says so already.
    pub(super) fn mark_unclean(&self, standing: &mut Standing) -> Result<(), MediaError> {
        if !standing.header.clean {
            return Ok(());
        }
        let mut header = standing.header.clone();
        header.clean = false;
        self.write_header(standing, header)
    }

    /// Writes the tail, then the header that makes buckets and tail count.
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

    fn write_header(&self, standing: &mut Standing, mut header: Header) -> Result<(), MediaError> {
        header.sequence = standing.header.sequence.wrapping_add(1);
        self.file.write_at(header.slot_offset(), &header.encode())?;
        // From here on the device may have it: the next header must go to the other slot.
        standing.header = header;
        self.sync(standing)
    }

    fn sync(&self, standing: &mut Standing) -> Result<(), MediaError> {
        self.file
            .sync(Barrier::IndexBeforeClean)
            .inspect_err(|_| standing.failed = true)
    }

    /// Length of the file that a header asks for.
    pub(super) fn bytes_of(header: &Header) -> u64 {
        header.geometry.tail_offset() + Tail::bytes_announced(header)
    }
}

/// Reads the header that counts and the tail behind it.
pub(super) fn read_header(file: &dyn DiskFile) -> format::bytes::Result<Header> {
    let mut slots = [[0; HEADER_BYTES]; 2];
    for (slot, offset) in slots.iter_mut().zip([0, format::index::HEADER_SLOT_BYTES]) {
        if file.read_at(offset, slot).is_err() {
            slot.fill(0);
        }
    }
    let [first, second] = &slots;
    Header::newest([first, second])
}
