//! What lookups see at one moment: everything but the buckets themselves.
//!
//! Invariant: changed under the index's lock, which is never held across device I/O; an entry is in
//! `active`, `frozen`, the overflow table or the table's file, with no gap on its way.

use super::delta::Delta;
use super::numbers::Numbers;
use super::overflow::Overflow;
use super::shares::Shares;
use super::table::Table;
use super::{Coverage, Location};
use crate::{Result, StoreError, StoreErrorKind};
use format::index::{Key, Place, Record, Tail};
use std::sync::Arc;
use units::Fingerprint;

/// Behind the index's lock.
pub(super) struct State {
    /// The file; `None` when a reader found none.
    pub(super) table: Option<Arc<Table>>,
    /// Container numbers of this file.
    pub(super) numbers: Numbers,
    /// Takes what is inserted.
    pub(super) active: Delta,
    /// Is being merged into the file.
    pub(super) frozen: Option<Arc<Delta>>,
    /// Found no place in the buckets.
    pub(super) overflow: Overflow,
    /// The overflow table is not as in the file.
    pub(super) tail_changed: bool,
}

impl State {
    /// Nothing at all.
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

    /// Over this file.
    pub(super) fn with(self, table: Table) -> Self {
        Self {
            table: Some(Arc::new(table)),
            ..self
        }
    }

    /// Entries that wait for a merge.
    pub(super) fn pending(&self) -> usize {
        self.active.len() + self.frozen.as_ref().map_or(0, |frozen| frozen.len())
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.active.bytes()
            + self.frozen.as_ref().map_or(0, |frozen| frozen.bytes())
            + self.overflow.bytes()
            + self.numbers.bytes()
            + self.table.as_ref().map_or(0, |table| table.cache.bytes())
    }

    /// The tail of a file with this coverage.
    pub(super) fn tail(&self, coverage: Coverage) -> Tail {
        Tail {
            coverage,
            runs: self.numbers.runs(),
            overflow: self.overflow.to_vec(),
        }
    }

    /// What an insertion adds.
    pub(super) fn record(
        &mut self,
        fingerprint: &Fingerprint,
        location: Location,
    ) -> Result<Record> {
        let impossible = |what: &str| {
            StoreError::new(
                StoreErrorKind::Invalid,
                format!("index: {what} of {location:?}"),
            )
        };
        // The region first: a location that is refused must not use up numbers.
        Place::new(0, location.sector, location.sectors).ok_or_else(|| impossible("region"))?;
        let number = self.numbers.assign(location.container);
        let number = number.ok_or_else(|| impossible("container number"))?;
        let place = Place::new(number, location.sector, location.sectors);
        let place = place.ok_or_else(|| impossible("region"))?;
        Ok(Record {
            key: Key::of(fingerprint),
            place,
        })
    }

    /// Adds the location of a place, once. A number without a container is an entry of a stale or
    /// foreign bucket.
    pub(super) fn add_location(&self, place: Place, candidates: &mut Vec<Location>) {
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
