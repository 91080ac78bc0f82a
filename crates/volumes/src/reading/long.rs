//! Fills the memory of a long request: looks up all its chunks at the first miss, then reads the
//! regions that have them.
//!
//! [`Reading::fill`] calls this.
//! Invariant: as for shorter requests. Chunks stay in the page cache only if that costs nothing, or
//! if a policy says how important they are: a stream would evict what is hot.

use super::straight::{Needed, Straight};
use super::{Alias, Reading, RecipeReader, chunk_bytes, known, offer_demanded};
use super::{place_of, wrong_len};
use crate::backing::Backing;
use page_cache::{Place, Purpose};
use std::cell::RefCell;
use store::{Admit, Result, StoreError};
use units::Fingerprint;

/// A long request, for the chunks of the regions that are read for it.
pub(super) trait Rest {
    /// Takes a chunk. Returns false if the request does not need it.
    fn take(&self, fingerprint: &Fingerprint, bytes: &[u8]) -> bool;

    /// Passes the chunks that it still needs to `visit`.
    fn needs(&self, visit: &mut dyn FnMut(&Fingerprint));
}

struct RestOf<'a, B> {
    backing: &'a Backing,
    below: &'a B,
    why: Purpose,
    /// Set if the class is important: other streams do not fill the fast tier.
    admit: Option<Admit>,
    straight: RefCell<Straight<'a>>,
}

impl<B: RecipeReader> Rest for RestOf<'_, B> {
    fn take(&self, fingerprint: &Fingerprint, bytes: &[u8]) -> bool {
        let taken = self.straight.borrow_mut().take(fingerprint, bytes);
        let cache = &self.backing.cache;
        if let Some(admit) = self.admit.filter(|_| taken.is_some()) {
            let reader = self.backing.pool.reader();
            reader.give_to_fast_tier(fingerprint, admit, bytes);
        }
        if let Some(place) = taken.filter(|_| cache.keeps_streams()) {
            cache.insert(fingerprint, bytes, None, self.why);
            self.below.with_place(place, &mut |place| {
                place.inspect(|place| cache.learn_place(fingerprint, *place));
            });
        }
        taken.is_some()
    }

    fn needs(&self, visit: &mut dyn FnMut(&Fingerprint)) {
        self.straight.borrow().needs(visit);
    }
}

impl Reading<'_> {
    /// Fills `into` from byte `offset` of `below`.
    pub(super) fn fill_long<B: RecipeReader>(
        &mut self,
        below: &B,
        offset: u64,
        into: &mut [u8],
    ) -> Result<()> {
        let end = offset.saturating_add(into.len() as u64).min(below.len());
        let rest = RestOf {
            backing: self.backing,
            below,
            why: self.why,
            admit: self.backing.admits(self.why.class, false),
            straight: RefCell::new(Straight::new(offset, into)),
        };
        let misses_before = self.tally.misses;
        let mut at = offset;
        while at < end {
            let filled = rest.straight.borrow().filled_until(at);
            at = match filled {
                Some(end_of_chunk) => end_of_chunk,
                None => self.fill_chunk(below, &rest, at, end)?,
            };
        }
        let mut straight = rest.straight.into_inner();
        straight.clear(end.max(offset)..u64::MAX);
        // Each chunk that was taken is a miss, the first of a run as well.
        let misses = self.tally.misses - misses_before;
        self.tally.misses = misses_before + misses.max(straight.taken());
        Ok(())
    }

    /// Fills the chunk that contains `at`, and those that are read with it. Returns a byte up to
    /// which everything is filled.
    fn fill_chunk<B: RecipeReader>(
        &mut self,
        below: &B,
        rest: &RestOf<'_, B>,
        at: u64,
        end: u64,
    ) -> Result<u64> {
        let place = place_of(below, at);
        if let (Some(place), Some(log2)) = (place, below.log2())
            && let Some(frame) = self.backing.cache.by_place(place, self.why)
        {
            self.tally.hits_by_place += 1;
            if frame.is_first_of_class() {
                offer_demanded(self.backing, &frame, None, self.why);
            }
            let (start, end) = (place.chunk << log2, (place.chunk + 1) << log2);
            // Fewer bytes would leave those of another reply in this one.
            if frame.len() as u64 != end - start {
                let found = format!("it has {} bytes, expected {}", frame.len(), end - start);
                return Err(StoreError::corruption("chunk", "", found));
            }
            rest.straight.borrow_mut().copy(start, &frame);
            return Ok(end);
        }
        self.look_up(below, rest, at, end)?;
        let needed = rest.straight.borrow().chunk_at(at).copied();
        let (leaf, place) = match needed {
            None => {
                let found = format!("it names no chunk for byte {at}");
                return Err(StoreError::corruption("recipe", "", found));
            }
            Some(needed) if needed.is_filled => return Ok(at),
            Some(Needed { leaf, place, .. }) => (leaf, place),
        };
        let alias = |enter: &mut dyn FnMut(Option<Place>)| below.with_place(place, enter);
        self.expect(&leaf, end);
        let mut found = 0;
        self.load_chunk(
            &leaf.fingerprint,
            &alias,
            Some(rest),
            &mut |bytes: &[u8]| {
                found = bytes.len();
                rest.straight.borrow_mut().copy(leaf.offset, bytes);
            },
        )?;
        match found as u64 == chunk_bytes(below, &leaf) {
            true => Ok(leaf.offset.saturating_add(leaf.len)),
            false => Err(wrong_len(&leaf, found)),
        }
    }

    /// Looks up the chunks from `at` to `end`, once.
    fn look_up<B: RecipeReader>(
        &mut self,
        below: &B,
        rest: &RestOf<'_, B>,
        at: u64,
        end: u64,
    ) -> Result<()> {
        let approach = self.approach();
        let (backing, why, tally) = (self.backing, self.why, &mut self.tally);
        let leaves = &mut self.leaves;
        let mut straight = rest.straight.borrow_mut();
        straight.look_up(at, end, &mut |at| {
            let leaf = below.leaf(at, leaves, approach)?;
            let place = place_of(below, at);
            let alias: &Alias<'_> = &|enter| below.with_place(place, enter);
            let frame = match leaf.fingerprint.is_hole() {
                true => None,
                false => known(backing, &leaf.fingerprint, alias, why),
            };
            tally.hits_by_content += u64::from(frame.is_some());
            Ok((leaf, place, frame))
        })
    }
}
