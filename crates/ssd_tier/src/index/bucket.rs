//! One bucket of the index: 16 places with the short fingerprints of their chunks. `index` calls
//! this.
//!
//! Invariant: tag 0 means free. A tag stands at most once in a bucket.

use crate::options::SLOTS_MAX;
use crate::slots::{GENERATIONS, Slots};
use format::tier::{BLOCK_BYTES_MAX, CHUNK_BYTES_MAX, FRAME_ALIGN, frame_bytes};
use units::{Fingerprint, UnixNanos};

const WAYS: usize = 16;
/// Size of a bucket, bytes.
pub(crate) const BUCKET_BYTES: usize = size_of::<Bucket>();
const _: () = assert!(BUCKET_BYTES == 12 * WAYS);

/// Bits of a place: offset and length in units of a frame's alignment, generation, slot.
const OFFSET_BITS: u32 = 20;
const LEN_BITS: u32 = 17;
const GENERATION_BITS: u32 = 6;
const SLOT_BITS: u32 = 21;
const _: () = assert!(OFFSET_BITS + LEN_BITS + GENERATION_BITS + SLOT_BITS == 64);
const _: () = assert!(BLOCK_BYTES_MAX as usize / FRAME_ALIGN == 1 << OFFSET_BITS);
const _: () = assert!(CHUNK_BYTES_MAX / FRAME_ALIGN + 2 < 1 << LEN_BITS);
const _: () = assert!(GENERATIONS as u32 == 1 << GENERATION_BITS);
const _: () = assert!(SLOTS_MAX == 1 << SLOT_BITS);

/// Place of a chunk on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub slot: u32,
    pub generation: u8,
    /// Offset of its frame in the block, bytes.
    pub offset: u32,
    /// Length of its frame, bytes.
    pub len: u32,
}

impl Place {
    /// Returns the place of the frame of a payload.
    pub fn of_payload(slot: u32, generation: u8, offset: u32, payload_bytes: u32) -> Self {
        Self {
            slot,
            generation,
            offset,
            len: frame_bytes(payload_bytes as usize) as u32,
        }
    }

    fn pack(self) -> u64 {
        let align = FRAME_ALIGN as u32;
        let mut word = u64::from(self.slot);
        word = word << GENERATION_BITS | u64::from(self.generation);
        word = word << LEN_BITS | u64::from(self.len / align);
        word << OFFSET_BITS | u64::from(self.offset / align)
    }

    fn unpack(word: u64) -> Self {
        let align = FRAME_ALIGN as u32;
        let field = |shift: u32, bits: u32| ((word >> shift) & ((1 << bits) - 1)) as u32;
        Self {
            slot: field(OFFSET_BITS + LEN_BITS + GENERATION_BITS, SLOT_BITS),
            generation: field(OFFSET_BITS + LEN_BITS, GENERATION_BITS) as u8,
            len: field(OFFSET_BITS, LEN_BITS) * align,
            offset: field(0, OFFSET_BITS) * align,
        }
    }
}

/// Returns the short fingerprint of a chunk, never 0. It is independent of the bucket.
pub(crate) fn tag_of(fingerprint: &Fingerprint) -> u32 {
    fingerprint.short().max(1)
}

/// See the module's head. The tags fill one cache line.
#[repr(align(64))]
#[derive(Clone, Copy)]
pub(crate) struct Bucket {
    tags: [u32; WAYS],
    places: [u64; WAYS],
}

impl Bucket {
    pub const EMPTY: Self = Self {
        tags: [0; WAYS],
        places: [0; WAYS],
    };

    /// Returns the place with this tag, and its position.
    pub fn find(&self, tag: u32) -> Option<(usize, Place)> {
        // Without an early end, so that the compiler compares all of them at once.
        let mut agreeing = 0u32;
        for (at, found) in self.tags.iter().enumerate() {
            agreeing |= u32::from(*found == tag) << at;
        }
        if agreeing == 0 {
            return None;
        }
        let at = agreeing.trailing_zeros() as usize;
        let word = self.places.get(at)?;
        Some((at, Place::unpack(*word)))
    }

    /// Frees a position. Returns true if it was taken.
    pub fn clear(&mut self, at: usize) -> bool {
        match self.tags.get_mut(at) {
            Some(tag) => std::mem::take(tag) != 0,
            None => false,
        }
    }

    /// Frees stale places. Returns their number.
    pub fn drop_stale(&mut self, slots: &Slots) -> u64 {
        let mut dropped = 0;
        for (tag, word) in self.tags.iter_mut().zip(&self.places) {
            let place = Place::unpack(*word);
            if *tag != 0 && !slots.is_current(place.slot, place.generation) {
                *tag = 0;
                dropped += 1;
            }
        }
        dropped
    }

    /// Returns the number of places.
    pub fn len(&self) -> u64 {
        self.tags.iter().filter(|tag| **tag != 0).count() as u64
    }

    /// Adds a place, or replaces the one with this tag.
    pub fn insert(&mut self, tag: u32, place: Place, slots: &Slots) {
        let at = match self.find(tag) {
            Some((at, _)) => at,
            None => self.free_position(slots),
        };
        if let (Some(here), Some(word)) = (self.tags.get_mut(at), self.places.get_mut(at)) {
            *here = tag;
            *word = place.pack();
        }
    }

    fn free_position(&mut self, slots: &Slots) -> usize {
        let is_free = |tag: &u32| *tag == 0;
        if let Some(at) = self.tags.iter().position(is_free) {
            return at;
        }
        self.drop_stale(slots);
        if let Some(at) = self.tags.iter().position(is_free) {
            return at;
        }
        let used = |(_, word): &(usize, &u64)| {
            let slot = Place::unpack(**word).slot;
            slots
                .use_of(slot)
                .map_or(UnixNanos(i64::MIN), |(_, used)| used)
        };
        let oldest = self.places.iter().enumerate().min_by_key(used);
        oldest.map_or(0, |(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_fits_into_eight_bytes() {
        for place in [
            Place {
                slot: 0,
                generation: 0,
                offset: 208,
                len: 48,
            },
            Place {
                slot: SLOTS_MAX as u32 - 1,
                generation: GENERATIONS - 1,
                offset: BLOCK_BYTES_MAX - FRAME_ALIGN as u32,
                len: frame_bytes(CHUNK_BYTES_MAX) as u32,
            },
        ] {
            assert_eq!(Place::unpack(place.pack()), place);
        }
    }
}
