//! Encodes one bucket: a page of up to 340 entries in three columns, so that a search reads 4 bytes
//! an entry.
//! The store's index calls this.
//!
//! ```text
//! 0   8  checksum of bytes 8..4096, seeded with pool, geometry and bucket number
//! 8   2  entries
//! 10  6  zero
//! 16     340 short fingerprints, 340 container numbers, 340 region words
//! ```
//!
//! Invariant: a `Bucket` made from bytes was verified. Entries are in the order of insertion.

use super::{IndexPlace, REGION_BITS, REST_BITS, Seed};
use crate::bytes::{Fault, Reader, Result, checksum, verify};

/// Bytes of a bucket.
pub const BUCKET_BYTES: usize = 4096;
/// Bytes before the first column.
pub const BUCKET_HEADER_BYTES: usize = 16;
/// Maximum number of entries in a bucket.
pub const BUCKET_ENTRIES: usize = 340;

const WHAT: &str = "index bucket";
const COLUMN_BYTES: usize = BUCKET_ENTRIES * 4;
const REGION_MASK: u32 = (1 << REGION_BITS) - 1;
/// Number of short fingerprints compared at once; the compiler turns it into vector code.
const LANES: usize = 20;
const _: () = assert!(BUCKET_ENTRIES.is_multiple_of(LANES));

#[derive(Clone)]
struct Columns {
    count: u16,
    shorts: [u32; BUCKET_ENTRIES],
    containers: [u32; BUCKET_ENTRIES],
    regions: [u32; BUCKET_ENTRIES],
}

/// A verified (or new) bucket.
#[derive(Clone)]
pub struct Bucket(Box<Columns>);

impl Default for Bucket {
    fn default() -> Self {
        Self::empty()
    }
}

impl Bucket {
    /// Makes a bucket without entries.
    pub fn empty() -> Self {
        Self(Box::new(Columns {
            count: 0,
            shorts: [0; BUCKET_ENTRIES],
            containers: [0; BUCKET_ENTRIES],
            regions: [0; BUCKET_ENTRIES],
        }))
    }

    /// Verifies and decodes the bytes of bucket `number`.
    pub fn decode(bytes: &[u8], seed: Seed, number: u64) -> Result<Self> {
        let mut r = Reader::new(WHAT, bytes);
        let expected = r.u64()?;
        verify(WHAT, seed.bucket(number), r.rest(), expected)?;
        let (count, zero) = (r.u16()?, r.array::<6>()?);
        if bytes.len() != BUCKET_BYTES || usize::from(count) > BUCKET_ENTRIES || zero != [0; 6] {
            return Err(r.error(Fault::Invalid("header")));
        }
        let mut bucket = Self::empty();
        bucket.0.count = count;
        let columns = r.rest().chunks_exact(COLUMN_BYTES);
        for (into, from) in bucket.columns_mut().into_iter().zip(columns) {
            for (word, bytes) in into.iter_mut().zip(from.as_chunks::<4>().0) {
                *word = u32::from_le_bytes(*bytes);
            }
        }
        Ok(bucket)
    }

    /// Encodes this bucket as bucket `number`.
    pub fn encode(&self, seed: Seed, number: u64) -> [u8; BUCKET_BYTES] {
        let mut page = [0; BUCKET_BYTES];
        if let Some((sum, body)) = page.split_first_chunk_mut::<8>() {
            if let Some((count, rest)) = body.split_first_chunk_mut::<2>() {
                *count = self.0.count.to_le_bytes();
                let (_zero, columns) = rest.split_at_mut(BUCKET_HEADER_BYTES - 10);
                let from = [&self.0.shorts, &self.0.containers, &self.0.regions];
                for (into, from) in columns.chunks_exact_mut(COLUMN_BYTES).zip(from) {
                    for (bytes, word) in into.as_chunks_mut::<4>().0.iter_mut().zip(from) {
                        *bytes = word.to_le_bytes();
                    }
                }
            }
            *sum = checksum(seed.bucket(number), body).to_le_bytes();
        }
        page
    }

    fn columns_mut(&mut self) -> [&mut [u32; BUCKET_ENTRIES]; 3] {
        let columns = &mut *self.0;
        [
            &mut columns.shorts,
            &mut columns.containers,
            &mut columns.regions,
        ]
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        usize::from(self.0.count)
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.count == 0
    }

    /// Adds an entry with these 36 bits of its path. Returns false when the bucket is full.
    pub fn push(&mut self, rest: u64, place: IndexPlace) -> bool {
        let at = self.len();
        let [short, container, region] = self.columns_mut().map(|column| column.get_mut(at));
        let (Some(short), Some(container), Some(region)) = (short, container, region) else {
            return false;
        };
        *short = rest as u32;
        *container = place.container;
        *region = (place.region & REGION_MASK) | (((rest >> 32) as u32 & 15) << REGION_BITS);
        self.0.count += 1;
        true
    }

    /// Replaces the oldest entry with these 36 bits by a new one. Returns false when there is none.
    pub fn push_for_oldest(&mut self, rest: u64, place: IndexPlace) -> bool {
        let Some(oldest) = self.iter().position(|(other, _)| other == rest) else {
            return false;
        };
        let len = self.len();
        for column in self.columns_mut() {
            column.copy_within(oldest + 1..len, oldest);
        }
        self.0.count -= 1;
        self.push(rest, place)
    }

    /// Calls `each` with the places of all entries that hold these 36 bits, oldest first.
    pub fn find(&self, rest: u64, mut each: impl FnMut(IndexPlace)) {
        debug_assert!(rest >> REST_BITS == 0, "a rest has {REST_BITS} bits");
        let short = rest as u32;
        let extra = (rest >> 32) as u32;
        // Entries past `count` are zero: the last block may read them, and `take` cuts them off.
        for (block, shorts) in self.0.shorts.as_chunks::<LANES>().0.iter().enumerate() {
            let first = block * LANES;
            if first >= self.len() {
                break;
            }
            if !shorts.iter().fold(false, |hit, s| hit | (*s == short)) {
                continue;
            }
            for (found, place) in self.iter_from(first).take(LANES) {
                if found as u32 == short && (found >> 32) as u32 == extra {
                    each(place);
                }
            }
        }
    }

    /// Yields all entries, oldest first: the 36 bits of the path and the place.
    pub fn iter(&self) -> impl Iterator<Item = (u64, IndexPlace)> + '_ {
        self.iter_from(0)
    }

    fn iter_from(&self, first: usize) -> impl Iterator<Item = (u64, IndexPlace)> + '_ {
        let Columns {
            shorts,
            containers,
            regions,
            ..
        } = &*self.0;
        let words = shorts.iter().zip(containers).zip(regions);
        words
            .take(self.len())
            .skip(first)
            .map(|((short, container), region)| {
                let rest = (u64::from(region >> REGION_BITS) << 32) | u64::from(*short);
                (
                    rest,
                    IndexPlace {
                        container: *container,
                        region: region & REGION_MASK,
                    },
                )
            })
    }
}
