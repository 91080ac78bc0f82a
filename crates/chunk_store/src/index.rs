//! The fingerprint index (FPI): where a chunk lies, in 12 bytes an entry (DDFS, ATC'18, section
//! 4.1; layout in `format::index`).
//!
//! It is a hint. A candidate counts once the full fingerprint was seen in a container's directory
//! or in its data; no candidate means "not indexed", which proves absence only for containers below
//! the coverage, and only while [`FingerprintIndex::is_damaged`] is false. The file may vanish, be
//! torn, old or another pool's: then it is empty and the caller inserts again what the containers'
//! directories say.
//!
//! In memory: entries that wait for a merge (`delta`), hot buckets (`cache`), the overflow table and
//! container numbers, all within the budget given. On the device: one file, see `table`.
//!
//! A file that cannot be written fails nobody: what waits stays in memory, what finds no room there
//! is dropped and counted, and the next open reads directories instead.
//!
//! Invariant: an inserted place is a candidate of its fingerprint until the process ends unless it
//! was counted as dropped, and after the next merge until the file is lost; of many places of the same
//! fingerprint the latest are ([`FingerprintIndex::knows_all`] says whether any was let go). No lock is held across device I/O. Called by write path, read path and recovery.

mod build;
mod cache;
mod delta;
mod gone;
mod grow;
mod merge;
mod meters;
mod numbers;
mod open;
mod overflow;
mod seat;
mod shares;
mod size;
mod state;
mod table;
#[cfg(test)]
mod tests;

pub use meters::IndexCounters;
pub use open::{Found, Opened};

use crate::{Result, StoreError, StoreErrorKind};
use build::{Builder, Site};
use cache::{Probe, Visit};
use format::index::{Geometry, Key, Place, Record, Tail};
use gone::Gone;
use media::Asker;
use meters::Meters;
use parking_lot::RwLock;
use seat::Seat;
use shares::Shares;
use state::State;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use units::{ContainerId, Fingerprint, WriterId};

/// For each writer: every container below this sequence number is completely in the index.
pub type Coverage = BTreeMap<WriterId, u64>;

/// Where a chunk's region may lie.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Location {
    /// The container.
    pub container: ContainerId,
    /// First 512-byte sector of the region within it.
    pub sector: u32,
    /// Sectors of the region.
    pub sectors: u32,
}

/// The index of one pool. Shared by all threads of a process; one process at a time writes.
pub struct FingerprintIndex {
    site: Site,
    shares: Shares,
    state: RwLock<State>,
    seat: Seat,
    writes: bool,
    gone: Gone,
    meters: Meters,
}

impl FingerprintIndex {
    /// Replaces `candidates` by the places at which a fingerprint's chunk may lie, the likeliest
    /// first. Usually none or one; at most one device read. A bucket that cannot be read has no
    /// candidates and makes the index damaged; it is no error.
    pub fn lookup(&self, fingerprint: &Fingerprint, candidates: &mut Vec<Location>) -> Result<()> {
        candidates.clear();
        Meters::count(&self.meters.probes);
        let key = Key::of(fingerprint);
        let state = self.state.read();
        let mut add = |place| state.add_location(place, candidates);
        state.overflow.find(key, &mut add);
        state.active.find(key, &mut add);
        if let Some(frozen) = &state.frozen {
            frozen.find(key, &mut add);
        }
        let Some(table) = &state.table else {
            return Ok(());
        };
        let path = table.geometry().path(key);
        let in_memory = candidates.len();
        let visit = match Asker::current().origin.is_maintenance() {
            true => Visit::Passes,
            false => Visit::Returns,
        };
        let number = table.geometry().bucket(path);
        let probe = table.cache.probe(number, visit, |bucket| {
            bucket.find(Geometry::rest(path), |place| {
                state.add_location(place, candidates)
            });
        });
        if let Probe::Miss(_) = probe {
            let table = Arc::clone(table);
            drop(state);
            let mut places: Vec<Place> = Vec::new();
            table.read_places(path, visit, &mut places, &self.meters);
            if !places.is_empty() {
                let state = self.state.read();
                places
                    .into_iter()
                    .for_each(|place| state.add_location(place, candidates));
            }
        }
        // A bucket's entries are in the order of insertion, and the latest copy is the one that
        // garbage collection keeps.
        candidates
            .get_mut(in_memory..)
            .unwrap_or_default()
            .reverse();
        Ok(())
    }

    /// False when a look-up gave so many candidates, or so much was lost, that the chunk may lie where
    /// the index does not say.
    pub fn knows_all(&self, candidates: &[Location]) -> bool {
        candidates.len() < delta::PLACES_MAX && self.is_complete()
    }

    /// Remembers where a chunk lies. May merge what waits into the file when the memory for that is
    /// used up. Fails for a location that no container has, never for the file.
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

    /// The same for a fingerprint that had a candidate which was another chunk: it goes to the
    /// overflow table, where all twelve bytes of the key tell them apart.
    pub fn insert_colliding(&self, fingerprint: &Fingerprint, location: Location) -> Result<()> {
        let mut state = self.state.write();
        let record = state.record(fingerprint, location)?;
        self.overflow(&mut state, record);
        Ok(())
    }

    /// These containers do not exist any more, and nobody will ask for what was only there: their entries go when
    /// their buckets are written for something else, or the file grows.
    pub fn forget(&self, containers: impl IntoIterator<Item = ContainerId>) {
        self.gone.add(containers);
    }

    /// Makes the index remember what was inserted, and that it is complete up to `coverage`. True
    /// when the file says so now; false when it keeps its old coverage: because it never writes,
    /// because it is damaged, or because little waits for a large file (see `Shares::may_wait`),
    /// and the next open reads a few directories instead.
    pub fn commit(&self, coverage: &Coverage) -> Result<bool> {
        let mut seated = self.seat.take();
        let Some(standing) = &mut seated.standing else {
            return Ok(false);
        };
        let may_wait = {
            let state = self.state.read();
            let buckets = state
                .table
                .as_ref()
                .map_or(0, |table| table.geometry().buckets());
            self.shares.may_wait(state.pending(), buckets)
        };
        if may_wait && self.is_complete() {
            return Ok(false);
        }
        self.merge(standing, Some(coverage))
            .inspect_err(|e| self.meters.rest(e))?;
        self.meters.rests.store(false, Relaxed);
        Ok(self.is_complete())
    }

    /// Starts anew with an empty file that holds `entries` before it must grow: the way out of
    /// damage and imprecision, before inserting everything again. What other threads insert
    /// meanwhile may be lost. When the new file cannot be made there is none: memory serves.
    pub fn reset(&self, entries: u64) {
        let mut seated = self.seat.take();
        let made = self.writes.then(|| {
            let geometry = shares::first_size(entries);
            Builder::new(&self.site, geometry)?.finish(0, Tail::default())
        });
        let mut state = State::empty(&self.shares);
        seated.standing = None;
        self.meters.rests.store(false, Relaxed);
        match made {
            Some(Ok((table, standing))) => {
                state = state.with(table);
                self.meters.stands(standing.entries, standing.bytes());
                seated.standing = Some(standing);
            }
            Some(Err(e)) => self.meters.rest(&e),
            None => {}
        }
        *self.state.write() = state;
        self.meters.dropped.store(0, Relaxed);
        self.meters.damaged.store(false, Relaxed);
    }

    /// Everything that was inserted can be found.
    fn is_complete(&self) -> bool {
        !self.is_damaged() && self.meters.dropped.load(Relaxed) == 0
    }

    /// Why the file could not be written, when that happened.
    pub fn write_failure(&self) -> Option<&str> {
        self.meters.first_failure.get().map(String::as_str)
    }

    /// Something that was indexed is not answered any more: coverage is void until
    /// [`reset`](Self::reset) and inserting everything again.
    pub fn is_damaged(&self) -> bool {
        self.meters.damaged.load(Relaxed)
    }

    /// False once the file has grown so often (16384-fold) that more than 0.01 % of the lookups may
    /// see a wrong candidate; [`reset`](Self::reset) and inserting everything again restores it.
    pub fn is_precise(&self) -> bool {
        self.state
            .read()
            .table
            .as_ref()
            .is_none_or(|table| table.geometry().is_precise())
    }

    /// A candidate was another chunk.
    pub fn note_false_positive(&self) {
        Meters::count(&self.meters.false_positives);
    }

    /// What it did and what it is.
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
        let mut seated = self.seat.take();
        // Another thread may have merged while this one waited for the seat.
        if self.state.read().active.has_room() {
            return;
        }
        let merged = match &mut seated.standing {
            Some(standing) => self.merge(standing, None),
            None => Err(StoreError::new(StoreErrorKind::Invalid, "no index file")),
        };
        if let Err(e) = merged {
            self.meters.rest(&e);
        }
    }

    fn overflow(&self, state: &mut State, record: Record) {
        state.tail_changed = true;
        if !state.overflow.insert(record) {
            Meters::count(&self.meters.dropped);
        }
    }
}
