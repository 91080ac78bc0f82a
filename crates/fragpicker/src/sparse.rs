//! What of an object that is read from its begin to its end is worth moving: runs that give it few bytes.
//!
//! Who restores with some memory reads a segment of an object in the order of places, so the order in the object costs
//! nothing; what costs is each place that the device has to go to. Long runs are worth their seek and stay. The
//! short ones of a segment are put together, as long as the seeks that this saves are worth the bytes that it writes (capping
//! and forward assembly: Lillibridge, Eshghi, Bhagwat, "Improving Restore Speed for Backup Systems that Use Inline
//! Chunk-Based Deduplication", FAST'13; sparse containers: Fu and others, ATC'14). Whole segments are not rewritten for some
//! holes in them, and no window tears its neighbours apart.
//!
//! Invariant: pure; parts are ascending, apart, and of whole chunks. Called by the defragmentation of the store.

use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of an object that such a reader takes up at once.
pub const SEGMENT_BYTES: u64 = 8 << 20;
/// What a disk transfers while it goes elsewhere, bytes.
const SEEK_BYTES: u64 = 512 << 10;
/// A gap that is sooner passed over than jumped, bytes.
const GAP_BYTES: u64 = SEEK_BYTES / 2;
/// A byte that is written now may cost so many that are not read later, out of a hundred.
const PRICE_PERCENT: u64 = 15;
/// Nothing is written for less than this.
const GAIN_BYTES: u64 = SEEK_BYTES / 2;

/// A run with more bytes than this stays: no seek is worth writing it. How far one has to look beyond a segment to
/// see how long the runs are that cross its borders.
pub const SPARSE_BYTES: u64 = SEEK_BYTES * 100 / PRICE_PERCENT;

/// A chunk, and where it lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spot {
    /// First byte in the object.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// The container.
    pub container: u64,
    /// First byte in it of what has to be read for the chunk.
    pub from: u64,
    /// First byte after it.
    pub to: u64,
}

/// What of a segment is to be put together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sparse {
    /// Bytes of the object.
    pub parts: Vec<Range<u64>>,
    /// In how many runs they lie; two at least, or nothing.
    pub runs: u64,
}

#[derive(Clone, Copy, Default)]
struct Run {
    /// Of all spots.
    bytes: u64,
    /// Of those that begin in the segment.
    inside: u64,
}

/// Of the chunks that begin in `segment`, those that should be moved together; `spots` has the chunks around it too.
pub fn sparse(spots: &[Spot], segment: &Range<u64>) -> Sparse {
    let place = |spot: &Spot| (spot.container, spot.from, spot.to);
    let mut runs: Vec<Run> = Vec::new();
    let mut run_of = BTreeMap::new();
    let mut places: Vec<_> = spots.iter().map(place).collect();
    places.sort_unstable();
    let mut last = None;
    for (container, from, to) in places {
        let is_near = |(before, end): (u64, u64)| {
            before == container && from <= end.saturating_add(GAP_BYTES)
        };
        if !last.is_some_and(is_near) {
            runs.push(Run::default());
        }
        last = Some((container, to));
        run_of.insert((container, from, to), runs.len().saturating_sub(1));
    }
    let run_of = |spot: &Spot| run_of.get(&place(spot)).copied().unwrap_or(0);
    for spot in spots {
        if let Some(run) = runs.get_mut(run_of(spot)) {
            run.bytes += spot.len;
            run.inside += if segment.contains(&spot.offset) {
                spot.len
            } else {
                0
            };
        }
    }
    let limit = longest_moved(runs.iter().filter(|run| run.inside > 0));
    let moves = |run: &Run| run.inside > 0 && limit.is_some_and(|limit| run.bytes <= limit);
    let mut found = Sparse {
        parts: Vec::new(),
        runs: runs.iter().filter(|run| moves(run)).count() as u64,
    };
    let is_moved =
        |spot: &&Spot| segment.contains(&spot.offset) && runs.get(run_of(spot)).is_some_and(moves);
    for spot in spots.iter().filter(is_moved) {
        let end = spot.offset.saturating_add(spot.len);
        match found.parts.last_mut() {
            Some(part) if part.end == spot.offset => part.end = end,
            _ => found.parts.push(spot.offset..end),
        }
    }
    found
}

/// Bytes of the longest run that is worth moving with all that are shorter.
fn longest_moved<'a>(runs: impl Iterator<Item = &'a Run>) -> Option<u64> {
    let mut runs: Vec<&Run> = runs.collect();
    runs.sort_by_key(|run| run.bytes);
    let mut best = (GAIN_BYTES, None);
    let mut written = 0u64;
    for (saved, run) in runs.iter().enumerate() {
        // All of it, also what is outside: as long as that stays, no seek is saved.
        written = written.saturating_add(run.bytes);
        // Equals go or stay together.
        if runs
            .get(saved + 1)
            .is_some_and(|next| next.bytes == run.bytes)
        {
            continue;
        }
        let gain = (saved as u64).saturating_mul(SEEK_BYTES);
        let gain = gain.saturating_sub(written / 100 * PRICE_PERCENT);
        if gain > best.0 {
            best = (gain, Some(run.bytes));
        }
    }
    best.1
}

#[cfg(test)]
mod tests;
