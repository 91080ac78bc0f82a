//! Grows the index: streams the file into one with more buckets, together with pending entries.
//! `merge` calls this with the index writer lock.
//!
//! Old bucket `b` becomes the `2^d` buckets starting at `b * 2^d`. So both files are read and
//! written sequentially, with one window of each in memory.
//!
//! ```text
//! old file  | b0        | b1        | ...
//! new file  | b0  | b1  | b2  | b3  | ...   + pending records + overflow records
//! ```
//!
//! Invariant: the old file serves lookups until the new one is complete, durable and named.
//! `size::size_for` chooses the new size.

use super::build::Builder;
use super::merge::{Placed, place, without};
use super::table::{Standing, Table};
use super::{Coverage, FingerprintIndex};
use format::index::{BUCKET_BYTES, Bucket, Geometry, IndexPlace, IndexRecord};
use media::MediaError;
use std::collections::BTreeSet;

/// Entries for the new file besides those of the old one. Each list is sorted by path.
struct Incoming<'a> {
    waiting: &'a [IndexRecord],
    overflow: &'a [IndexRecord],
    refused: Vec<IndexRecord>,
    entries: u64,
}

impl FingerprintIndex {
    /// Writes the larger file with the sorted `waiting` records, and with those of the overflow
    /// table that now find space, and replaces the old file. Drops entries of the deleted
    /// containers `deleted`.
    pub(super) fn grow(
        &self,
        standing: &mut Standing,
        old: &Table,
        (waiting, deleted): (&[IndexRecord], &BTreeSet<u32>),
        geometry: Geometry,
        coverage: &Coverage,
    ) -> Result<(), MediaError> {
        let mut overflow = self.state.read().overflow.to_vec();
        overflow.sort_unstable_by_key(|record| geometry.path(record.key));
        let mut incoming = Incoming {
            waiting,
            overflow: &overflow,
            refused: Vec::new(),
            entries: 0,
        };
        let mut builder = Builder::new(&self.site, geometry)?;
        let mut pages = Vec::new();
        let buckets = old.geometry().buckets();
        let mut first = 0;
        while first < buckets {
            let window = self.site.window_buckets.min(buckets - first);
            pages.resize(window as usize * BUCKET_BYTES, 0);
            old.read_pages(first, &mut pages);
            for (number, page) in (first..).zip(pages.chunks_exact(BUCKET_BYTES)) {
                let bucket = Bucket::decode(page, old.seed(), number).unwrap_or_else(|_| {
                    self.meters.lose_bucket();
                    Bucket::empty()
                });
                split(
                    old.geometry(),
                    number,
                    &without(&bucket, deleted),
                    geometry,
                    &mut incoming,
                    &mut builder,
                )?;
            }
            first += window;
        }

        let Incoming {
            refused, entries, ..
        } = incoming;
        let tail = {
            let mut state = self.state.write();
            overflow
                .iter()
                .for_each(|record| state.overflow.remove(record));
            refused
                .into_iter()
                .for_each(|record| self.overflow(&mut state, record));
            state.tail_changed = false;
            state.tail(self.believable(coverage))
        };
        let built = builder.finish(entries, tail);
        let mut state = self.state.write();
        match built {
            Ok((table, new_standing)) => {
                state.table = Some(table);
                state.frozen = None;
                let bytes = new_standing.bytes();
                self.meters.stands(new_standing.entries, bytes);
                *standing = new_standing;
                Ok(())
            }
            Err(e) => {
                // The old file stays. Return the records that the new one had taken from the
                // overflow table.
                overflow
                    .into_iter()
                    .for_each(|record| self.overflow(&mut state, record));
                state.tail_changed = true;
                Err(e)
            }
        }
    }
}

/// Pushes the new buckets of one old bucket.
fn split(
    old: Geometry,
    number: u64,
    bucket: &Bucket,
    new: Geometry,
    incoming: &mut Incoming<'_>,
    builder: &mut Builder<'_>,
) -> Result<(), MediaError> {
    let mut paths: Vec<(u64, IndexPlace)> = bucket
        .iter()
        .map(|(rest, place)| (old.path_of(number, rest), place))
        .collect();
    // The sort is stable: entries with equal keys stay in the order of insertion.
    paths.sort_by_key(|(path, _)| new.bucket(*path));
    let mut entries = paths.as_slice();
    for _ in 0..new.buckets() / old.buckets() {
        let child = builder.next();
        let mut bucket = Bucket::empty();
        while let Some(((path, place), later)) = entries.split_first()
            && new.bucket(*path) == child
        {
            bucket.push(Geometry::rest(*path), *place);
            entries = later;
        }
        incoming.join(new, child, &mut bucket);
        incoming.entries += bucket.len() as u64;
        builder.push(&bucket)?;
    }
    Ok(())
}

impl Incoming<'_> {
    /// Adds the records that belong in this bucket.
    fn join(&mut self, geometry: Geometry, number: u64, bucket: &mut Bucket) {
        // An overflow record goes in only if no other entry has the same key bits: otherwise it is
        // a known collision, or would have to leave the bucket again.
        for (list, is_overflow) in [(&mut self.waiting, false), (&mut self.overflow, true)] {
            while let Some((record, later)) = list.split_first()
                && geometry.bucket(geometry.path(record.key)) == number
            {
                let rest = Geometry::rest(geometry.path(record.key));
                let mut is_like_another = false;
                bucket.find(rest, |other| is_like_another |= other != record.place);
                if is_overflow && is_like_another {
                    self.refused.push(*record);
                } else if let Placed::Refused = place(bucket, rest, record.place) {
                    self.refused.push(*record);
                }
                *list = later;
            }
        }
    }
}
