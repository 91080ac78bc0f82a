//! The fingerprint index: maps a fingerprint to the place of its chunk, in 12 bytes an entry (DDFS,
//! ATC'18, section 4.1; layout in `format::index`). The write path, the read path and recovery call
//! it.
//!
//! It is a hint. A candidate counts only after its full fingerprint was found in a container's
//! directory or data. No candidate means "not indexed", which proves absence only for containers
//! below the coverage, and only while [`FingerprintIndex::is_damaged`] is false. The file may be
//! missing, torn, old or another pool's. Then the index is empty, and the caller inserts the
//! containers' directories again.
//!
//! ```text
//! insert -> active (delta) -> frozen -> merge -> file, bucket by bucket
//!                                         +----> overflow table, if the bucket is full
//! lookup: overflow, active, frozen, then one bucket (cache, filter or file)
//! ```
//!
//! The entries before a merge (`delta`), hot buckets (`cache`), a filter of each other bucket that
//! knows most new chunks (`absence`), the overflow table and the container numbers are in memory,
//! within the given budget. The device has one file, see `table`.
//!
//! An unwritable file fails no caller: entries stay in memory, entries beyond the budget are
//! dropped and counted, and the next open reads directories instead.
//!
//! Invariant: an inserted place is a candidate of its fingerprint until the process ends unless it
//! was counted as dropped, and after the next merge until the file is lost. If a fingerprint has
//! many places, only the latest are kept ([`FingerprintIndex::knows_all`] tells whether any was
//! dropped). No lock is held across device I/O.

mod absence;
mod bucket_copy;
mod build;
mod cache;
mod copying;
mod deleted;
mod delta;
mod grow;
mod merge;
mod meters;
mod numbers;
mod open;
mod overflow;
mod shares;
mod size;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod writer_lock;

pub use copying::{IndexCopyState, IndexCopyStatus};
pub use meters::IndexCounters;
pub use open::{IndexFound, Opened};

use crate::container::RegionPlace;
use crate::{Result, StoreError, StoreErrorKind};
use build::{Builder, Site};
use cache::{Probe, ReuseHint};
use copying::Copying;
use deleted::Deleted;
use format::index::{Geometry, IndexPlace, IndexRecord, Key, Tail};
use media::IoOrigin;
use meters::Meters;
use parking_lot::RwLock;
use shares::Shares;
use state::IndexState;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use units::{ContainerId, Fingerprint, Part, WriterId};
use writer_lock::WriterLock;

/// For each writer: all containers below this sequence number are completely in the index.
pub type Coverage = BTreeMap<WriterId, u64>;

/// Possible place of a chunk's region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Location {
    /// The container.
    pub container: ContainerId,
    /// First 512-byte sector of the region within it.
    pub sector: u32,
    /// Length of the region, sectors.
    pub sectors: u32,
}

impl Location {
    /// Returns the region's place.
    pub fn region(&self) -> RegionPlace {
        RegionPlace {
            container: self.container,
            sector: self.sector,
        }
    }
}

/// The index of one pool. All threads of a process share it. One process at a time writes it.
pub struct FingerprintIndex {
    site: Site,
    shares: Shares,
    state: RwLock<IndexState>,
    writer_lock: WriterLock,
    writes: bool,
    deleted: Deleted,
    meters: Meters,
    copying: OnceLock<Copying>,
}

impl FingerprintIndex {
    /// Replaces `candidates` by the possible places of a fingerprint's chunk, the likeliest first:
    /// usually none or one. Costs at most one device read. An unreadable bucket has no candidates
    /// and makes the index damaged; it is not an error.
    pub fn lookup(&self, fingerprint: &Fingerprint, candidates: &mut Vec<Location>) -> Result<()> {
        Meters::count(&self.meters.probes);
        let visit = match IoOrigin::current().origin.is_maintenance() {
            true => ReuseHint::Passes,
            false => ReuseHint::Returns,
        };
        let (in_memory, missed) = self.look(fingerprint, visit, candidates);
        if let Some(table) = missed {
            let mut places: Vec<IndexPlace> = Vec::new();
            let path = table.geometry().path(Key::of(fingerprint));
            table.read_places(path, visit, &mut places, &self.meters);
            if !places.is_empty() {
                let state = self.state.read();
                places
                    .into_iter()
                    .for_each(|place| state.add_location(place, candidates));
            }
        }
        // A bucket's entries are in the order of insertion, and garbage collection keeps the latest
        // copy of a chunk.
        candidates.part_mut(in_memory..)?.reverse();
        Ok(())
    }

    /// Like [`Self::lookup`], but knows only what is in memory.
    pub fn lookup_in_memory(
        &self,
        fingerprint: &Fingerprint,
        candidates: &mut Vec<Location>,
    ) -> Result<()> {
        let (in_memory, _) = self.look(fingerprint, ReuseHint::Passes, candidates);
        candidates.part_mut(in_memory..)?.reverse();
        Ok(())
    }

    /// Replaces `candidates` by those in memory. Returns how many of them are not in the table, and
    /// the table if the bucket must be read.
    fn look(
        &self,
        fingerprint: &Fingerprint,
        visit: ReuseHint,
        candidates: &mut Vec<Location>,
    ) -> (usize, Option<Arc<table::Table>>) {
        candidates.clear();
        let key = Key::of(fingerprint);
        let state = self.state.read();
        let mut add = |place| state.add_location(place, candidates);
        state.overflow.find(key, &mut add);
        state.active.find(key, &mut add);
        if let Some(frozen) = &state.frozen {
            frozen.find(key, &mut add);
        }
        let in_memory = candidates.len();
        let Some(table) = &state.table else {
            return (in_memory, None);
        };
        let path = table.geometry().path(key);
        let number = table.geometry().bucket(path);
        let rest = Geometry::rest(path);
        let probe = table.cache.probe((number, rest), visit, |bucket| {
            bucket.find(rest, |place| state.add_location(place, candidates));
        });
        let missed = matches!(probe, Probe::Miss(_)).then(|| Arc::clone(table));
        if matches!(probe, Probe::Absent) {
            Meters::count(&self.meters.denials);
        }
        (in_memory, missed)
    }

    /// Returns false if the chunk may have places that the index does not know: the lookup returned
    /// `delta::PLACES_MAX` candidates, or the index is incomplete.
    pub fn knows_all(&self, candidates: &[Location]) -> bool {
        candidates.len() < delta::PLACES_MAX && self.is_complete()
    }

    /// Adds the place of a chunk. Merges into the file first if the memory for pending entries is
    /// full. Fails for an impossible location, never because of the file.
    pub fn insert(&self, fingerprint: &Fingerprint, location: Location) -> Result<()> {
        loop {
            {
                let mut state = self.state.write();
                let record = state.record(fingerprint, location)?;
                if state.active.has_room() {
                    state.active.insert(record);
                    return Ok(());
                }
                if !self.writes || self.meters.rests.load(Relaxed) {
                    Meters::count(&self.meters.dropped);
                    return Ok(());
                }
            }
            self.merge_if_full();
        }
    }

    /// Like [`Self::insert`], for a fingerprint with a candidate that was another chunk. The entry
    /// goes to the overflow table, which distinguishes all twelve bytes of the key.
    pub fn insert_colliding(&self, fingerprint: &Fingerprint, location: Location) -> Result<()> {
        let mut state = self.state.write();
        let record = state.record(fingerprint, location)?;
        self.overflow(&mut state, record);
        Ok(())
    }

    /// Records that containers are deleted and that no reader needs their entries. Writing a bucket
    /// for another reason, or growing the file, drops these entries.
    pub fn forget(&self, containers: impl IntoIterator<Item = ContainerId>) {
        self.deleted.add(containers);
    }

    /// Makes the inserted entries durable and sets the coverage to `coverage`. Returns true if the
    /// file now has this coverage. Returns false if it keeps its old one: because this index never
    /// writes, because it is damaged or incomplete, or because a merge would cost more than it
    /// saves (see `Shares::may_wait`). The next open then reads a few directories instead.
    pub fn commit(&self, coverage: &Coverage) -> Result<bool> {
        let mut locked_writer = self.writer_lock.take();
        let Some(standing) = &mut locked_writer.standing else {
            return Ok(false);
        };
        let may_wait = {
            let state = self.state.read();
            let buckets = state
                .table
                .as_ref()
                .map_or(0, |table| table.geometry().buckets());
            let containers = standing.containers_until(coverage);
            self.shares.may_wait(state.pending(), containers, buckets)
        };
        if may_wait && self.is_complete() {
            return Ok(false);
        }
        self.merge(standing, Some(coverage))
            .inspect_err(|e| self.meters.rest(e))?;
        self.meters.rests.store(false, Relaxed);
        Ok(self.is_complete())
    }

    /// Replaces the index by an empty file with space for `entries` entries. Callers use it after
    /// damage or imprecision and then insert everything again. Entries that other threads insert
    /// meanwhile may be lost. If the file cannot be created, the index lives in memory.
    pub fn reset(&self, entries: u64) {
        let mut locked_writer = self.writer_lock.take();
        let made = self.writes.then(|| {
            let geometry = shares::first_size(entries);
            Builder::new(&self.site, geometry)?.finish(0, Tail::default())
        });
        let mut state = IndexState::empty(&self.shares);
        locked_writer.standing = None;
        self.meters.rests.store(false, Relaxed);
        match made {
            Some(Ok((table, standing))) => {
                state = state.with(table);
                self.meters.stands(standing.entries, standing.bytes());
                locked_writer.standing = Some(standing);
            }
            Some(Err(e)) => self.meters.rest(&e),
            None => {}
        }
        *self.state.write() = state;
        self.meters.dropped.store(0, Relaxed);
        self.meters.damaged.store(false, Relaxed);
    }

    /// Returns true if every inserted entry can be found.
    fn is_complete(&self) -> bool {
        !self.is_damaged() && self.meters.dropped.load(Relaxed) == 0
    }

    /// Returns the cause of the first failed write of the file, if any.
    pub fn write_failure(&self) -> Option<&str> {
        self.meters.first_failure.get().map(String::as_str)
    }

    /// Returns true if indexed entries may be lost. Coverage is then void until
    /// [`reset`](Self::reset) and inserting everything again.
    pub fn is_damaged(&self) -> bool {
        self.meters.damaged.load(Relaxed)
    }

    /// Returns false once the file has grown 16384-fold, so that more than 0.01 % of the lookups
    /// may see a wrong candidate. [`reset`](Self::reset) and inserting everything again restores
    /// precision.
    pub fn is_precise(&self) -> bool {
        self.state
            .read()
            .table
            .as_ref()
            .is_none_or(|table| table.geometry().is_precise())
    }

    /// Counts a candidate that was another chunk.
    pub fn note_false_positive(&self) {
        Meters::count(&self.meters.false_positives);
    }

    /// Returns the counters and sizes.
    pub fn counters(&self) -> IndexCounters {
        let state = self.state.read();
        self.meters.with(IndexCounters {
            overflow_entries: state.overflow.len() as u64,
            pending_entries: state.pending() as u64,
            memory_bytes: state.bytes() as u64,
            ..IndexCounters::default()
        })
    }

    fn merge_if_full(&self) {
        let mut locked_writer = self.writer_lock.take();
        // Another thread may have merged while this one waited for the index writer lock.
        if self.state.read().active.has_room() {
            return;
        }
        let merged = match &mut locked_writer.standing {
            Some(standing) => self.merge(standing, None),
            None => Err(StoreError::new(
                StoreErrorKind::Invalid,
                "the pool has no index file",
            )),
        };
        if let Err(e) = merged {
            self.meters.rest(&e);
        }
    }

    fn overflow(&self, state: &mut IndexState, record: IndexRecord) {
        state.tail_changed = true;
        if !state.overflow.insert(record) {
            Meters::count(&self.meters.dropped);
        }
    }
}
