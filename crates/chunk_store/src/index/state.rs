//! State of the index at one moment, without the buckets. Lookups, insertions and merges use it.
//!
//! Invariant: it changes only under the index's lock, which is never held across device I/O. At
//! every moment an entry is in at least one of `active`, `frozen`, the overflow table and the file.

use super::delta::Delta;
use super::numbers::Numbers;
use super::overflow::Overflow;
use super::shares::Shares;
use super::table::Table;
use super::{Coverage, Location};
use crate::{Result, StoreError, StoreErrorKind};
use format::index::{IndexPlace, IndexRecord, Key, Tail};
use std::sync::Arc;
use units::Fingerprint;

/// The state behind the index's lock.
pub(super) struct IndexState {
    /// The file. `None` if a reader found none, or if none could be created.
    pub(super) table: Option<Arc<Table>>,
    /// Container numbers of this file.
    pub(super) numbers: Numbers,
    /// Receives insertions.
    pub(super) active: Delta,
    /// Is being merged into the file.
    pub(super) frozen: Option<Arc<Delta>>,
    /// Entries whose bucket was full, or whose key collides.
    pub(super) overflow: Overflow,
    /// The overflow table differs from the file's.
    pub(super) tail_changed: bool,
}

impl IndexState {
    /// Creates an empty state without a file.
    pub(super) fn empty(shares: &Shares) -> Self {
        Self {
            table: None,
            numbers: Numbers::default(),
            active: Delta::new(shares.delta_slots),
            frozen: None,
            overflow: Overflow::new(shares.overflow_records),
            tail_changed: false,
        }
    }

    /// Returns the state with this file.
    pub(super) fn with(self, table: Arc<Table>) -> Self {
        Self {
            table: Some(table),
            ..self
        }
    }

    /// Returns the number of entries that wait for a merge.
    pub(super) fn pending(&self) -> usize {
        self.active.len() + self.frozen.as_ref().map_or(0, |frozen| frozen.len())
    }

    /// Returns the memory used, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.active.bytes()
            + self.frozen.as_ref().map_or(0, |frozen| frozen.bytes())
            + self.overflow.bytes()
            + self.numbers.bytes()
            + self.table.as_ref().map_or(0, |table| table.cache.bytes())
    }

    /// Returns the tail of a file with this coverage.
    pub(super) fn tail(&self, coverage: Coverage) -> Tail {
        Tail {
            coverage,
            runs: self.numbers.runs(),
            overflow: self.overflow.to_vec(),
        }
    }

    /// Converts an insertion to a record. Fails with `Invalid` for an impossible location.
    pub(super) fn record(
        &mut self,
        fingerprint: &Fingerprint,
        location: Location,
    ) -> Result<IndexRecord> {
        let impossible = |what: &str| {
            StoreError::new(
                StoreErrorKind::Invalid,
                format!("index: {what} of {location:?}"),
            )
        };
        // Check the region first: a refused location must not use up numbers.
        IndexPlace::new(0, location.sector, location.sectors)
            .ok_or_else(|| impossible("region"))?;
        let number = self.numbers.assign(location.container);
        let number = number.ok_or_else(|| impossible("container number"))?;
        let place = IndexPlace::new(number, location.sector, location.sectors);
        let place = place.ok_or_else(|| impossible("region"))?;
        Ok(IndexRecord {
            key: Key::of(fingerprint),
            place,
        })
    }

    /// Adds the location of a place unless it is already a candidate. A number without a container
    /// belongs to a stale or foreign bucket and is ignored.
    pub(super) fn add_location(&self, place: IndexPlace, candidates: &mut Vec<Location>) {
        let Some(container) = self.numbers.id(place.container) else {
            return;
        };
        let location = Location {
            container,
            sector: place.sector(),
            sectors: place.sectors(),
        };
        if !candidates.contains(&location) {
            candidates.push(location);
        }
    }
}
