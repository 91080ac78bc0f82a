//! Encodes the header page of a slot: two copies of the description of its use, one at byte 0 and
//! one at byte 2048. The store's journal calls this.
//!
//! | offset in a copy | size | field |
//! |---|---|---|
//! | 0 | 32 | preamble, kind 6 |
//! | 32 | 4 | number of the slot |
//! | 36 | 1 | seal of the records |
//! | 37 | 3 | zero |
//! | 40 | 8 | position of the first batch, a multiple of 4096 |
//! | 48 | 8 | bytes of the slot |
//! | 56 | 8 | first position of the use that the journal was in before; 0 for none |
//! | 64 | 8 | the position at which the journal ended there |
//! | 72 | 32 | salt, random: key and checksums of the use are derived from it |
//! | 104 | 384 | zero |
//! | 488 | 16 | tag of a seal over nothing that binds bytes 0 to 488; zero without encryption |
//! | 504 | 8 | XXH3-64 of bytes 0 to 504, seeded by kind |
//!
//! Invariant: each copy lies within one sector. A torn page therefore contains whole copies, of
//! this use or of the one before. The higher first position is the newer.

use super::{BLOCK_BYTES, JOURNAL_VERSION, RING_BYTES_MAX, SLOT_BYTES_MIN};
use crate::bytes::{Fault, Reader, Result, Writer, checksum, verify};
use crate::config::Seal;
use crate::preamble::{BlobKind, PREAMBLE_BYTES, Preamble};
use units::{JournalPosition, PoolId};

const WHAT: &str = "journal slot header";
const COPY_BYTES: usize = 512;
const SECOND_COPY: usize = 2048;
const BOUND_BYTES: usize = 488;
const COVERED_BYTES: usize = 504;

/// One use of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotHeader {
    /// The pool it belongs to.
    pub pool: PoolId,
    /// Number of the slot, as in its name.
    pub slot: u32,
    /// Encryption of records.
    pub seal: Seal,
    /// Position of the first batch. It is higher in each use of any slot.
    pub first: JournalPosition,
    /// Size of the slot with this page, bytes.
    pub slot_bytes: u64,
    /// First position of the preceding use; 0 when there was none.
    pub previous: JournalPosition,
    /// Position at which the journal ended there. Everything behind it is invalid for ever.
    pub continues_from: JournalPosition,
    /// Random. Key and checksums of this use are derived from it.
    pub salt: [u8; 32],
    /// Tag of a seal over nothing that binds everything before.
    pub tag: [u8; 16],
}

/// Contents of a header page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotPage {
    /// Zeroes: the slot was never used.
    Unused,
    /// A use, and whether one copy of its header is damaged.
    Used(SlotHeader, bool),
}

impl SlotHeader {
    /// Returns the position after the slot's last byte.
    pub fn limit(&self) -> JournalPosition {
        let room = self.slot_bytes.saturating_sub(BLOCK_BYTES as u64);
        JournalPosition(self.first.0.saturating_add(room))
    }

    /// Returns the bytes that the tag binds.
    pub fn associated_data(&self) -> Vec<u8> {
        let mut w = Writer::new();
        Preamble::encode(BlobKind::Journal, JOURNAL_VERSION, self.pool, &mut w);
        w.u32(self.slot)
            .u8(self.seal as u8)
            .bytes(&[0; 3])
            .u64(self.first.0)
            .u64(self.slot_bytes)
            .u64(self.previous.0)
            .u64(self.continues_from.0)
            .bytes(&self.salt);
        w.0.resize(BOUND_BYTES, 0);
        w.0
    }

    /// Encodes the page with both copies.
    pub fn encode_page(&self) -> Vec<u8> {
        let mut w = Writer(self.associated_data());
        w.bytes(&self.tag);
        let sum = checksum(BlobKind::Journal.seed(), &w.0);
        w.u64(sum);
        let copy = w.0.clone();
        w.pad_to(SECOND_COPY).bytes(&copy).pad_to(BLOCK_BYTES);
        w.0
    }

    /// Decodes the page of slot number `slot`: the newer of two good copies, or the fault of the
    /// first.
    pub fn decode_page(page: &[u8], slot: u32) -> Result<SlotPage> {
        let copy = |at: usize| page.get(at..).unwrap_or_default();
        let (first, second) = (copy(0), copy(SECOND_COPY));
        match (
            Self::decode_copy(first, slot),
            Self::decode_copy(second, slot),
        ) {
            (Ok(a), Ok(b)) if a.first >= b.first => Ok(SlotPage::Used(a, false)),
            (Ok(_), Ok(b)) => Ok(SlotPage::Used(b, false)),
            (Ok(one), Err(_)) => Ok(SlotPage::Used(one, !is_unused(second))),
            (Err(_), Ok(one)) => Ok(SlotPage::Used(one, !is_unused(first))),
            (Err(_), Err(_)) if is_unused(first) && is_unused(second) => Ok(SlotPage::Unused),
            (Err(a), Err(b)) => match b.fault {
                // Prefer to report another version, not damage.
                Fault::Version(_) => Err(b),
                _ => Err(a),
            },
        }
    }

    fn decode_copy(bytes: &[u8], slot: u32) -> Result<Self> {
        let preamble = Preamble::decode(bytes)?.expect(WHAT, BlobKind::Journal, JOURNAL_VERSION)?;
        let mut whole = Reader::new(WHAT, bytes);
        let covered = whole.take(COVERED_BYTES)?;
        verify(WHAT, BlobKind::Journal.seed(), covered, whole.u64()?)?;
        let mut r = Reader::new(WHAT, covered);
        r.take(PREAMBLE_BYTES)?;
        if r.u32()? != slot {
            return Err(r.error(Fault::Misplaced));
        }
        let seal = Seal::decode(&mut r)?;
        let mut reserved = r.array::<3>()? != [0; 3];
        let mut header = Self {
            pool: preamble.pool,
            slot,
            seal,
            first: JournalPosition(r.u64()?),
            slot_bytes: r.u64()?,
            previous: JournalPosition(r.u64()?),
            continues_from: JournalPosition(r.u64()?),
            salt: r.array()?,
            tag: [0; 16],
        };
        reserved |= r.take(BOUND_BYTES - 104)?.iter().any(|b| *b != 0);
        header.tag = r.array()?;
        let block = BLOCK_BYTES as u64;
        if reserved {
            return r.invalid("reserved");
        }
        if !(SLOT_BYTES_MIN..=RING_BYTES_MAX).contains(&header.slot_bytes)
            || !header.slot_bytes.is_multiple_of(block)
        {
            return r.invalid("slot length");
        }
        let end = header.first.0.checked_add(header.slot_bytes);
        if header.first.0 == 0 || !header.first.0.is_multiple_of(block) || end.is_none() {
            return r.invalid("first position");
        }
        if header.previous > header.continues_from || header.continues_from > header.first {
            return r.invalid("position before");
        }
        Ok(header)
    }
}

/// Returns true for a copy that was never written. Reserved bytes of the preamble do not matter.
fn is_unused(copy: &[u8]) -> bool {
    copy.iter().take(COPY_BYTES).all(|b| *b == 0)
}
