//! Fills the memory of a long request as the regions of its chunks are decoded, instead of through
//! the page cache.
//!
//! ```text
//! chunks of the request ─> regions that have some of them ─> one read ─> decode in place ─> copy
//! ```
//!
//! `long` makes one for each long request.
//! Invariant: a chunk is copied to each place where the recipe names it, if it has the length that
//! the recipe says. Bytes count as filled only then.

use chunk_store::recipe::Leaf;
use page_cache::{Frame, Place};
use std::ops::Range;
use store::Result;
use units::Fingerprint;

/// Length from which on a request is long, bytes. Shorter ones are likely to be read again, or to
/// be followed from the page cache.
pub(super) const LONG_BYTES: u64 = 128 << 10;

/// A chunk or hole of the request, its place in the page cache, and its bytes if they are there.
pub(super) type Found = (Leaf, Option<Place>, Option<Frame>);

/// A chunk of the request, and the place under which the page cache may know it.
#[derive(Clone, Copy)]
pub(super) struct Needed {
    pub leaf: Leaf,
    pub place: Option<Place>,
    pub is_filled: bool,
}

/// A request's memory. See the module's head.
pub(super) struct Straight<'a> {
    /// First byte of the request in the object.
    from: u64,
    into: &'a mut [u8],
    /// Chunks and holes, in order, from the first one that was looked up.
    needed: Vec<Needed>,
    /// Numbers of those that were not filled at once, by the beginning of their fingerprints.
    by_name: Vec<(u64, u32)>,
    /// Number of chunks that were taken.
    taken: u64,
}

impl<'a> Straight<'a> {
    /// Makes one for a request that begins at byte `from` of the object.
    pub fn new(from: u64, into: &'a mut [u8]) -> Self {
        Self {
            from,
            into,
            needed: Vec::new(),
            by_name: Vec::new(),
            taken: 0,
        }
    }

    /// Returns the number of chunks that were taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Copies bytes to where they are in the object, as far as the request goes.
    pub fn copy(&mut self, at: u64, bytes: &[u8]) {
        let skip = self.from.saturating_sub(at).min(bytes.len() as u64);
        let (_, bytes) = bytes.split_at(skip as usize);
        let start = (at + skip).saturating_sub(self.from);
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        let (_, target) = self.into.split_at_mut(start.min(self.into.len()));
        let len = bytes.len().min(target.len());
        let pair = (target.get_mut(..len), bytes.get(..len));
        if let (Some(target), Some(bytes)) = pair {
            target.copy_from_slice(bytes);
        }
    }

    /// Fills these bytes of the object with zeroes, as far as the request goes.
    pub fn clear(&mut self, bytes: Range<u64>) {
        let bound = |byte: u64| byte.saturating_sub(self.from).min(self.into.len() as u64) as usize;
        if let Some(target) = self.into.get_mut(bound(bytes.start)..bound(bytes.end)) {
            target.fill(0);
        }
    }

    /// Looks up the chunks of `[at, end)`, unless that has happened. Fills the holes, and chunks
    /// that are in memory.
    pub fn look_up(
        &mut self,
        at: u64,
        end: u64,
        find: &mut dyn FnMut(u64) -> Result<Found>,
    ) -> Result<()> {
        if !self.needed.is_empty() {
            return Ok(());
        }
        let mut at = at;
        while at < end {
            let (leaf, place, frame) = find(at)?;
            let is_hole = leaf.fingerprint.is_hole();
            let frame = frame.filter(|frame| frame.len() as u64 == leaf.len);
            let behind = leaf.offset.saturating_add(leaf.len);
            if is_hole {
                self.clear(leaf.offset..behind);
            } else if let Some(frame) = &frame {
                self.copy(leaf.offset, frame);
            }
            self.needed.push(Needed {
                leaf,
                place,
                is_filled: is_hole || frame.is_some(),
            });
            at = behind.max(at + 1);
        }
        let open = (0..).zip(&self.needed).filter(|(_, n)| !n.is_filled);
        let named = open.map(|(number, n)| (beginning(&n.leaf.fingerprint), number));
        self.by_name = named.collect();
        self.by_name.sort_unstable();
        Ok(())
    }

    /// Returns the chunk that contains a byte, if it was looked up.
    pub fn chunk_at(&self, at: u64) -> Option<&Needed> {
        let behind = self.needed.partition_point(|n| n.leaf.offset <= at);
        let last = self.needed.get(behind.checked_sub(1)?);
        last.filter(|n| at - n.leaf.offset < n.leaf.len)
    }

    /// Returns the end of the chunk that contains a byte, if it is filled.
    pub fn filled_until(&self, at: u64) -> Option<u64> {
        let filled = self.chunk_at(at).filter(|n| n.is_filled)?;
        Some(filled.leaf.offset.saturating_add(filled.leaf.len))
    }

    /// Copies a chunk to where it is needed. Returns the first of these places in the page cache;
    /// `None` if it is not needed, or has another length than its recipe says.
    pub fn take(&mut self, fingerprint: &Fingerprint, bytes: &[u8]) -> Option<Option<Place>> {
        let begins = beginning(fingerprint);
        let mut at = self.by_name.partition_point(|(n, _)| *n < begins);
        let mut first = None;
        while let Some((_, number)) = self.by_name.get(at).filter(|(n, _)| *n == begins) {
            at += 1;
            let needed = self.needed.get_mut(*number as usize);
            let Some(needed) = needed.filter(|n| n.leaf.fingerprint == *fingerprint) else {
                continue;
            };
            if needed.is_filled || needed.leaf.len != bytes.len() as u64 {
                continue;
            }
            needed.is_filled = true;
            let (offset, place) = (needed.leaf.offset, needed.place);
            self.copy(offset, bytes);
            self.taken += 1;
            first.get_or_insert(place);
        }
        first
    }

    /// Passes the chunks that are not filled yet to `visit`.
    pub fn needs(&self, visit: &mut dyn FnMut(&Fingerprint)) {
        let open = self.needed.iter().filter(|n| !n.is_filled);
        open.for_each(|n| visit(&n.leaf.fingerprint));
    }
}

/// Returns the first bytes of a fingerprint as a number.
fn beginning(fingerprint: &Fingerprint) -> u64 {
    let first = fingerprint.0.first_chunk().copied();
    first.map_or(0, u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: u8) -> Fingerprint {
        Fingerprint([n; 32])
    }

    /// Leaves of 4 bytes: chunks 0 and 1, a hole, chunks 3 and 4, and chunk 1 again.
    fn find(at: u64) -> Result<Found> {
        let number = at / 4;
        let fingerprint = match number {
            2 => Fingerprint::HOLE,
            5 => name(11),
            _ => name(number as u8 + 10),
        };
        let leaf = Leaf {
            offset: number * 4,
            len: 4,
            fingerprint,
        };
        let place = Place {
            object: 1,
            chunk: number,
        };
        Ok((leaf, Some(place), None))
    }

    #[test]
    fn a_chunk_goes_to_each_place_that_needs_it() {
        let mut into = [9; 21];
        let mut straight = Straight::new(2, &mut into);
        straight.look_up(2, 23, &mut find).expect("look up");
        let mut needed = Vec::new();
        straight.needs(&mut |name| needed.push(name.0[0]));
        assert_eq!(needed, [10, 11, 13, 14, 11]);
        assert_eq!(straight.filled_until(9), Some(12), "a hole");
        assert_eq!(straight.take(&name(12), &[7; 4]), None, "not needed");
        assert_eq!(straight.take(&name(13), &[7; 3]), None, "another length");
        let mut other = name(13);
        other.0[31] = 0;
        assert_eq!(straight.take(&other, &[7; 4]), None, "begins alike");
        let place = straight.take(&name(11), &[1; 4]).flatten();
        assert_eq!(place.map(|place| place.chunk), Some(1));
        assert_eq!(straight.take(&name(11), &[1; 4]), None, "filled");
        assert!(straight.take(&name(10), &[5, 6, 7, 8]).is_some());
        assert_eq!(straight.filled_until(20), Some(24));
        assert_eq!(straight.filled_until(12), None);
        assert!(straight.chunk_at(24).is_none(), "behind the last one");
        needed.clear();
        straight.needs(&mut |name| needed.push(name.0[0]));
        assert_eq!((needed, straight.taken()), (vec![13, 14], 3));
        straight.clear(22..u64::MAX);
        let expected = [
            7, 8, 1, 1, 1, 1, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9, 1, 1, 0,
        ];
        assert_eq!(into, expected);
    }
}
