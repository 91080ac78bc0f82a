//! Selects the runs of an object that give its reader few bytes, for objects that are read from
//! begin to end.
//!
//! A restore with some memory reads a segment of an object in the order of places, so the order in
//! the object costs nothing. Its cost is one seek for each place. Long runs are worth their seek
//! and stay. Short runs of a segment are put together, as long as the seeks saved are worth the
//! bytes written. Sources: capping and forward assembly (Lillibridge, Eshghi, Bhagwat, "Improving
//! Restore Speed for Backup Systems that Use Inline Chunk-Based Deduplication", FAST'13); sparse
//! containers (Fu and others, ATC'14). Whole segments are not rewritten for a few holes in them,
//! and no window separates neighbours.
//!
//! The defragmentation of the store calls this.
//! Invariant: pure. Parts are ascending, disjoint, and consist of whole chunks.

use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of an object that such a reader takes at once.
pub const SEGMENT_BYTES: u64 = 8 << 20;
/// Bytes that a disk could transfer in the time of one seek.
const SEEK_BYTES: u64 = 512 << 10;
/// Largest gap that is cheaper to read through than to seek over, bytes.
const GAP_BYTES: u64 = SEEK_BYTES / 2;
/// Price of a byte that is written now, in percent of a byte that is read later.
const PRICE_PERCENT: u64 = 15;
/// Minimum gain that justifies any write.
const GAIN_BYTES: u64 = SEEK_BYTES / 2;

/// Limit above which a run stays, bytes: no seek is worth writing more.
///
/// It is also the distance to look beyond a segment in order to measure the runs that cross its
/// borders.
pub const SPARSE_BYTES: u64 = SEEK_BYTES * 100 / PRICE_PERCENT;

/// Place of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spot {
    /// First byte in the object.
    pub offset: u64,
    /// Length, bytes.
    pub len: u64,
    /// The container.
    pub container: u64,
    /// First byte in the container that must be read for the chunk.
    pub from: u64,
    /// First byte after it.
    pub to: u64,
}

/// Parts of a segment to put together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sparse {
    /// Ranges of the object, in bytes.
    pub parts: Vec<Range<u64>>,
    /// Number of runs that contain them; at least two, or the result is empty.
    pub runs: u64,
}

#[derive(Clone, Copy, Default)]
struct Run {
    /// Bytes of all spots.
    bytes: u64,
    /// Bytes of the spots that begin in the segment.
    inside: u64,
}

/// Returns the chunks that should move together, among those that begin in `segment`.
///
/// `spots` must also contain the chunks around the segment.
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

/// Returns the size of the longest run that is worth moving together with all shorter ones, bytes.
fn longest_moved<'a>(runs: impl Iterator<Item = &'a Run>) -> Option<u64> {
    let mut runs: Vec<&Run> = runs.collect();
    runs.sort_by_key(|run| run.bytes);
    let mut best = (GAIN_BYTES, None);
    let mut written = 0u64;
    for (saved, run) in runs.iter().enumerate() {
        // Count all of the run, with the part outside: as long as that part stays, no seek is
        // saved.
        written = written.saturating_add(run.bytes);
        // Runs of equal size move or stay together.
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
