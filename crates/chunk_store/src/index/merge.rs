//! Merges pending entries into the file, bucket by bucket in ascending order. Insert (if the delta
//! is full) and commit call this with the index writer lock.
//!
//! ```text
//! active -> frozen -> sorted by path -> windows of buckets -> read, change, write
//!                                    -> grow, if the file would be too full
//! ```
//!
//! Invariant: outside of a merge the file is marked clean. A merge marks it unclean before its
//! first write to a bucket, and clean after its last write was synced. `frozen` stays visible to
//! lookups until the file has its entries. After an error it stays and is merged again: merging
//! twice changes nothing.

use super::delta::{Delta, PLACES_MAX};
use super::size::size_for;
use super::table::{Standing, Table};
use super::{Coverage, FingerprintIndex};
use crate::Result;
use format::index::{BUCKET_BYTES, Bucket, Geometry, IndexPlace, IndexRecord};
use media::{MediaError, MediaErrorKind};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Largest gap between touched buckets that are read and written at once.
pub(super) const GAP_BUCKETS: u64 = 4;

/// Number of records that are sampled before a growth, to estimate how many are new.
const SAMPLE_RECORDS: u64 = 1000;

/// Result of adding a record to a bucket.
pub(super) enum Placed {
    /// The entry was added.
    Added,
    /// The entry replaced the oldest one with the same key bits.
    Replaced,
    /// The entry existed already.
    Known,
    /// The bucket is full.
    Refused,
}

/// Adds an entry to its bucket. If [`PLACES_MAX`] entries have the same key bits, it replaces the
/// oldest: they are probably the same chunk, stored again, and the newest copy lives longest.
pub(super) fn place(bucket: &mut Bucket, rest: u64, place: IndexPlace) -> Placed {
    let (mut same, mut known) = (0, false);
    bucket.find(rest, |other| {
        same += 1;
        known |= other == place;
    });
    match () {
        () if known => Placed::Known,
        () if same >= PLACES_MAX && bucket.push_for_oldest(rest, place) => Placed::Replaced,
        () if same < PLACES_MAX && bucket.push(rest, place) => Placed::Added,
        () => Placed::Refused,
    }
}

impl FingerprintIndex {
    /// Merges all pending entries. Afterwards the file is clean and has this coverage: the previous
    /// one if `None`, an empty one if the index is damaged or incomplete.
    pub(super) fn merge(&self, standing: &mut Standing, coverage: Option<&Coverage>) -> Result<()> {
        let merged = self.merge_rounds(standing, coverage);
        if standing.failed {
            self.meters.damaged.store(true, Relaxed);
        }
        Ok(merged?)
    }

    fn merge_rounds(
        &self,
        standing: &mut Standing,
        coverage: Option<&Coverage>,
    ) -> std::result::Result<(), MediaError> {
        if standing.failed {
            return Err(MediaError::plain(
                MediaErrorKind::Poisoned,
                "write",
                &self.site.path,
            ));
        }
        let kept = standing.coverage.clone();
        // A merge that an error interrupted comes first, with the coverage of its time.
        if self.state.read().frozen.is_some() {
            self.merge_round(standing, &kept)?;
        }
        let wanted = coverage.unwrap_or(&kept);
        self.freeze();
        self.merge_round(standing, wanted)?;
        self.settle(standing, wanted)
    }

    fn freeze(&self) {
        let mut state = self.state.write();
        if state.active.len() > 0 {
            let empty = Delta::new(self.shares.delta_slots);
            state.frozen = Some(Arc::new(std::mem::replace(&mut state.active, empty)));
        }
    }

    fn merge_round(
        &self,
        standing: &mut Standing,
        coverage: &Coverage,
    ) -> std::result::Result<(), MediaError> {
        let (table, frozen, overflow, deleted) = {
            let state = self.state.read();
            let (Some(table), Some(frozen)) = (&state.table, &state.frozen) else {
                return Ok(());
            };
            (
                Arc::clone(table),
                Arc::clone(frozen),
                state.overflow.len() as u64,
                self.deleted.numbers(&state.numbers),
            )
        };
        let geometry = table.geometry();
        let mut records: Vec<IndexRecord> = frozen.iter().collect();
        drop(frozen);
        // The older copy of a chunk comes first, because container numbers ascend.
        records.sort_unstable_by_key(|record| (geometry.path(record.key), record.place));
        let mut wanted = size_for(geometry, standing.entries + records.len() as u64, overflow);
        if wanted != geometry {
            // Directories that were read again insert entries that the file already has.
            let new = self.estimate_new(&table, &records);
            wanted = size_for(geometry, standing.entries + new, overflow);
        }
        if wanted == geometry {
            let refused = self.merge_buckets(standing, &table, &records, &deleted)?;
            let mut state = self.state.write();
            refused
                .into_iter()
                .for_each(|record| self.overflow(&mut state, record));
            state.frozen = None;
        } else {
            self.grow(standing, &table, (&records, &deleted), wanted, coverage)?;
        }
        Ok(())
    }

    /// Updates header and tail.
    fn settle(
        &self,
        standing: &mut Standing,
        wanted: &Coverage,
    ) -> std::result::Result<(), MediaError> {
        let wanted = self.believable(wanted);
        let (table, tail) = {
            let mut state = self.state.write();
            let changed = std::mem::take(&mut state.tail_changed);
            let current = standing.header.clean && !changed && standing.coverage == wanted;
            match &state.table {
                Some(table) if !current => (Arc::clone(table), state.tail(wanted)),
                _ => return Ok(()),
            }
        };
        let written = table
            .mark_unclean(standing)
            .and_then(|()| table.mark_clean(standing, tail))
            .inspect_err(|_| self.state.write().tail_changed = true);
        self.meters.stands(standing.entries, standing.bytes());
        written
    }

    /// Returns the coverage, or an empty one if the index is damaged or incomplete.
    pub(super) fn believable(&self, coverage: &Coverage) -> Coverage {
        match self.is_complete() {
            true => coverage.clone(),
            false => Coverage::new(),
        }
    }

    /// Merges sorted records in place. Returns the records whose buckets are full.
    fn merge_buckets(
        &self,
        standing: &mut Standing,
        table: &Table,
        records: &[IndexRecord],
        deleted: &BTreeSet<u32>,
    ) -> std::result::Result<Vec<IndexRecord>, MediaError> {
        let mut refused = Vec::new();
        let mut pages = Vec::new();
        let mut rest = records;
        while let Some(window) = Window::at_front(rest, table.geometry(), self.site.window_buckets)
        {
            rest = rest.split_at(window.records.len()).1;
            pages.resize(window.buckets as usize * BUCKET_BYTES, 0);
            table.read_pages(window.first, &mut pages);
            let (changed, gain) =
                self.merge_window(table, &window, &mut pages, deleted, &mut refused);
            if !changed.is_empty() {
                table.mark_unclean(standing)?;
                table.write_pages(window.first, &pages, changed)?;
                standing.entries = standing.entries.saturating_add_signed(gain);
            }
        }
        Ok(refused)
    }

    /// Estimates how many of these sorted records are not in the file yet, from a sample. Paths are
    /// uniformly distributed, so the first buckets represent all.
    fn estimate_new(&self, table: &Table, records: &[IndexRecord]) -> u64 {
        let geometry = table.geometry();
        let (mut seen, mut new) = (0u64, 0u64);
        let mut pages = Vec::new();
        let mut rest = records;
        while seen < SAMPLE_RECORDS
            && let Some(window) = Window::at_front(rest, geometry, self.site.window_buckets)
        {
            rest = rest.split_at(window.records.len()).1;
            pages.resize(window.buckets as usize * BUCKET_BYTES, 0);
            table.read_pages(window.first, &mut pages);
            for record in window.records {
                let path = geometry.path(record.key);
                let number = geometry.bucket(path);
                let page = pages
                    .chunks_exact(BUCKET_BYTES)
                    .nth((number - window.first) as usize);
                let bucket = page.and_then(|p| Bucket::decode(p, table.seed(), number).ok());
                let mut known = false;
                if let Some(bucket) = bucket {
                    bucket.find(Geometry::rest(path), |place| known |= place == record.place);
                }
                seen += 1;
                new += u64::from(!known);
            }
        }
        let all = records.len() as u128;
        (all * u128::from(new)).div_ceil(u128::from(seen.max(1))) as u64
    }

    /// Adds a window's records to its pages. Drops entries of the deleted containers `deleted` from
    /// the buckets that change. Returns the changed buckets and by how many entries they grew.
    fn merge_window(
        &self,
        table: &Table,
        window: &Window<'_>,
        pages: &mut [u8],
        deleted: &BTreeSet<u32>,
        refused: &mut Vec<IndexRecord>,
    ) -> (Vec<(u64, Bucket)>, i64) {
        let geometry = table.geometry();
        let bucket_of = |record: &IndexRecord| geometry.bucket(geometry.path(record.key));
        let (mut changed, mut gain) = (Vec::new(), 0);
        let mut groups = window
            .records
            .chunk_by(|a, b| bucket_of(a) == bucket_of(b))
            .peekable();
        for (number, page) in (window.first..).zip(pages.chunks_exact_mut(BUCKET_BYTES)) {
            let of_this = |group: &&[IndexRecord]| group.first().map(bucket_of) == Some(number);
            let Some(group) = groups.next_if(of_this) else {
                continue;
            };
            let decoded = Bucket::decode(page, table.seed(), number);
            let mut touched = decoded.is_err();
            let mut bucket = decoded.unwrap_or_else(|_| {
                self.meters.lose_bucket();
                Bucket::empty()
            });
            // Drop the old entries first: a full bucket may then have space. The bucket is written
            // only if a record changes it.
            let left = match deleted.is_empty() {
                true => None,
                false => Some(without(&bucket, deleted)),
            };
            let unchanged = left.map(|left| {
                let all = std::mem::replace(&mut bucket, left);
                gain -= (all.len() - bucket.len()) as i64;
                all
            });
            for record in group {
                let rest = Geometry::rest(geometry.path(record.key));
                match place(&mut bucket, rest, record.place) {
                    Placed::Added => {
                        touched = true;
                        gain += 1;
                    }
                    Placed::Replaced => touched = true,
                    Placed::Known => {}
                    Placed::Refused => refused.push(*record),
                }
            }
            if touched {
                page.copy_from_slice(&bucket.encode(table.seed(), number));
                changed.push((number, bucket));
            } else if let Some(all) = unchanged {
                gain += (all.len() - bucket.len()) as i64;
            }
        }
        (changed, gain)
    }
}

/// Returns the bucket without the entries of deleted containers, in the same order. A key with
/// [`PLACES_MAX`] places keeps them all: their number shows that a place may have been dropped.
pub(super) fn without(bucket: &Bucket, deleted: &BTreeSet<u32>) -> Bucket {
    let mut left = Bucket::empty();
    for (rest, place) in bucket.iter() {
        let mut same = 0;
        if deleted.contains(&place.container) {
            bucket.find(rest, |_| same += 1);
        }
        // At 0 the entry's container is not deleted.
        if same == 0 || same >= PLACES_MAX {
            left.push(rest, place);
        }
    }
    left
}

/// Records of neighbouring buckets that are read and written at once.
struct Window<'a> {
    first: u64,
    buckets: u64,
    records: &'a [IndexRecord],
}

impl<'a> Window<'a> {
    /// Returns the window that begins with the first of these sorted records.
    fn at_front(records: &'a [IndexRecord], geometry: Geometry, buckets_max: u64) -> Option<Self> {
        let bucket_of = |record: &IndexRecord| geometry.bucket(geometry.path(record.key));
        let first = records.first().map(bucket_of)?;
        let mut last = first;
        let mut count = 0;
        for bucket in records.iter().map(bucket_of) {
            if bucket - first >= buckets_max || bucket - last > GAP_BUCKETS {
                break;
            }
            last = bucket;
            count += 1;
        }
        let records = records.get(..count)?;
        Some(Self {
            first,
            buckets: last - first + 1,
            records,
        })
    }
}
