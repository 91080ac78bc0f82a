//! Growing: the whole file is streamed into one with more buckets, and what waits goes along.
//!
//! Old bucket `b` becomes the `2^d` buckets from `b * 2^d` on, so both files are read and written
//! from front to back, with one window of each in memory.
//!
//! Invariant: the old file serves lookups until the new one is whole, durable and named; the file
//! has `LOAD_MAX` percent of its entries at most when it is made, and is made no larger than that
//! needs: at least half as many. Called by merge, seated.

use super::build::Builder;
use super::merge::{Placed, place, without};
use super::table::{Standing, Table};
use super::{Coverage, FingerprintIndex};
use format::index::{BUCKET_BYTES, Bucket, Geometry, Place, Record};
use media::MediaError;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What goes into the new file besides the old one's entries; each list sorted by path.
struct Incoming<'a> {
    waiting: &'a [Record],
    overflow: &'a [Record],
    refused: Vec<Record>,
    entries: u64,
}

impl FingerprintIndex {
    /// Makes the larger file, with the sorted `waiting` records and whatever of the overflow table
    /// finds a place now, and puts it in the old one's stead.
    pub(super) fn grow(
        &self,
        standing: &mut Standing,
        old: &Table,
        (waiting, gone): (&[Record], &BTreeSet<u32>),
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
                    &without(&bucket, gone),
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
                state.table = Some(Arc::new(table));
                state.frozen = None;
                let bytes = new_standing.bytes();
                self.meters.stands(new_standing.entries, bytes);
                *standing = new_standing;
                Ok(())
            }
            Err(e) => {
                // The old file stays, and what the new one had taken from the overflow table.
                overflow
                    .into_iter()
                    .for_each(|record| self.overflow(&mut state, record));
                state.tail_changed = true;
                Err(e)
            }
        }
    }
}

/// Pushes the buckets that one old bucket becomes.
fn split(
    old: Geometry,
    number: u64,
    bucket: &Bucket,
    new: Geometry,
    incoming: &mut Incoming<'_>,
    builder: &mut Builder<'_>,
) -> Result<(), MediaError> {
    let mut paths: Vec<(u64, Place)> = bucket
        .iter()
        .map(|(rest, place)| (old.path_of(number, rest), place))
        .collect();
    // Stable: entries that look alike stay in the order of their insertion.
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
    /// Adds what belongs into this bucket.
    fn join(&mut self, geometry: Geometry, number: u64, bucket: &mut Bucket) {
        // An overflow record goes in only where it looks like no other entry: those that do are
        // known collisions, or would have to leave again.
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
