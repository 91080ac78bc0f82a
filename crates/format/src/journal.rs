//! Defines the byte layout of the journal: slots of fixed size that are used as a ring. The store's
//! journal calls this.
//!
//! ```text
//! slot  = header page 4096 | batch | batch | ... | bytes of earlier uses
//! batch = batch header 64 | record | record | ... | zeroes up to a multiple of 4096
//! record = record header 64 | stored data | zeroes up to a multiple of 16
//! ```
//!
//! A *position* is a byte of the journal, counted through all uses of all slots and never given
//! twice. The byte at offset `o` of a slot whose use begins at `first` has the position
//! `first + o - 4096`. The checksums of batches and records are seeded with their position and with
//! the salt of the slot's use. Bytes of an earlier use, or of another place, therefore never match.
//!
//! Invariant: no I/O and no keys. No input makes a decoder panic. Decoded values were verified
//! against their checksum and lie within the limits below.

mod record;
mod slot;
#[cfg(test)]
mod tests;

pub use record::{BatchHeader, RecordHeader, RecordKind};
pub use slot::{SlotHeader, SlotPage};

use crate::bytes::checksum;
use crate::preamble::BlobKind;
use units::{JournalPosition, PoolId};

/// Version of this layout. 1: 2026-11, first.
pub const JOURNAL_VERSION: u16 = 1;
/// Alignment of batches, and length of a slot's header page.
pub const BLOCK_BYTES: usize = 4096;
/// Alignment of records.
pub const RECORD_ALIGN: usize = 16;
/// Size of a record's header, bytes.
pub const RECORD_HEADER_BYTES: usize = 64;
/// Size of a batch's header, bytes.
pub const BATCH_HEADER_BYTES: usize = 64;
/// Maximum size of one record's data before it is sealed, bytes.
pub const RECORD_DATA_BYTES_MAX: usize = 64 << 10;
/// Bytes that a seal adds to a record's data.
pub const TAG_BYTES: usize = 16;
/// Largest batch with padding, bytes.
pub const BATCH_BYTES_MAX: usize = 4 << 20;
/// Smallest slot, bytes: its header and a batch with the largest record.
pub const SLOT_BYTES_MIN: u64 = 128 << 10;
/// Largest sum of all slots, bytes.
pub const RING_BYTES_MAX: u64 = 1 << 36;
/// Distance from the highest position found to the first new one when a journal is opened.
///
/// It exceeds every position that a process with a ring of [`RING_BYTES_MAX`] can have given after
/// it wrote its last slot header. It also does so after the header before that, in case the last
/// one was lost.
pub const POSITION_GAP: u64 = 1 << 37;

const _: () = assert!(POSITION_GAP >= 2 * RING_BYTES_MAX);
const _: () = assert!(
    (BLOCK_BYTES + BATCH_HEADER_BYTES + RECORD_HEADER_BYTES + RECORD_DATA_BYTES_MAX + TAG_BYTES)
        .next_multiple_of(BLOCK_BYTES) as u64
        <= SLOT_BYTES_MIN
);
const _: () = assert!(BATCH_HEADER_BYTES.is_multiple_of(RECORD_ALIGN));
const _: () = assert!(RECORD_HEADER_BYTES.is_multiple_of(RECORD_ALIGN));

/// Seeds the checksums of one use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u64);

impl Seed {
    /// Makes the seed of the use with this salt.
    pub fn new(pool: &PoolId, salt: &[u8; 32]) -> Self {
        let mut named = [0; 48];
        named[..16].copy_from_slice(&pool.0);
        named[16..].copy_from_slice(salt);
        Self(checksum(BlobKind::Journal.seed(), &named))
    }

    /// Returns the seed of a record's header at this position.
    fn record(self, at: JournalPosition) -> u64 {
        self.0
            .wrapping_add(at.0.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Returns the seed of a batch's header at this position.
    fn batch(self, at: JournalPosition) -> u64 {
        !self.record(at)
    }
}
