//! Encodes the known reach of the journal, and its known losses: two files, each a whole record.
//! The store's journal calls this.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 32 | preamble, kind 12 |
//! | 32 | 8 | sequence number of this record |
//! | 40 | 8 | first position of the current slot use; 0: none |
//! | 48 | 8 | position below which everything was durable |
//! | 56 | 4 | number of the slot |
//! | 60 | 1 | seal: 0 none, 1 AES-256-GCM |
//! | 61 | 1 | 1: there were more volumes than are listed |
//! | 62 | 1 | number of volumes, 24 at most |
//! | 63 | 1 | number of losses, 32 at most |
//! | 64 | 4 | number of losses that did not fit |
//! | 68 | 4 | zero |
//! | 72 | 32 | salt, random |
//! | 104 | | volumes, then losses, 40 bytes each |
//! | | 16 | tag of a seal over nothing that binds everything before; zero without encryption |
//! | | 8 | XXH3-64 of everything before, seeded by kind |
//!
//! A listed volume was written in that use. A loss is a range whose acknowledged writes are lost;
//! it is listed until a user acknowledges it. Fields: volume 16 (zero: unknown), first byte 8,
//! bytes 8, unit 1 (0 bytes, 1 chunks), zero 7.
//!
//! Invariant: no input makes the decoder panic. The record is no longer than [`REACH_BYTES_MAX`].

use crate::bytes::Result;
use crate::config::Seal;
use crate::preamble::BlobKind;
use crate::record::Frame;
use units::{JournalPosition, PoolId, VolumeId};

/// Version that this program reads and writes.
pub const REACH_VERSION: u16 = 1;
/// Maximum number of volumes in a record.
pub const REACH_VOLUMES_MAX: usize = 24;
/// Maximum number of losses in a record.
pub const REACH_LOSSES_MAX: usize = 32;
/// Longest record, bytes.
pub const REACH_BYTES_MAX: u64 = 4096;

const RANGE_BYTES: usize = 40;
const FIXED_BYTES: usize = 104;
const _: () = assert!(
    FIXED_BYTES + (REACH_VOLUMES_MAX + REACH_LOSSES_MAX) * RANGE_BYTES + 24
        <= REACH_BYTES_MAX as usize
);

const FRAME: Frame = Frame {
    what: "record of the journal's reach",
    kind: BlobKind::JournalReach,
    version: REACH_VERSION,
};

/// A range of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReachRange {
    /// Volume of the range; zero if it is unknown.
    pub volume: VolumeId,
    /// First byte or chunk.
    pub start: u64,
    /// Number of bytes or chunks.
    pub len: u64,
    /// True if the range is counted in chunks.
    pub is_chunks: bool,
}

/// The record of the journal's reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReachRecord {
    /// Grows by one with each record.
    pub sequence: u64,
    /// First position of the current slot use; 0: none.
    pub first: JournalPosition,
    /// Position below which everything was durable.
    pub reached: JournalPosition,
    /// Number of the slot.
    pub slot: u32,
    /// Encryption of the pool's records.
    pub seal: Seal,
    /// There were more volumes than are listed.
    pub more_volumes: bool,
    /// Volumes and ranges that were written in that use.
    pub volumes: Vec<ReachRange>,
    /// Acknowledged writes that are lost.
    pub losses: Vec<ReachRange>,
    /// Number of losses that did not fit.
    pub more_losses: u32,
    /// Random. The key of the tag is derived from it.
    pub salt: [u8; 32],
    /// Tag of a seal over nothing.
    pub tag: [u8; 16],
}

impl ReachRecord {
    /// Returns the bytes that the tag binds: everything before it, without the preamble.
    pub fn associated_data(&self) -> Vec<u8> {
        let mut w = crate::bytes::Writer::new();
        self.fields(&mut w);
        w.0
    }

    fn fields(&self, w: &mut crate::bytes::Writer) {
        w.u64(self.sequence)
            .u64(self.first.0)
            .u64(self.reached.0)
            .u32(self.slot)
            .u8(self.seal as u8)
            .u8(u8::from(self.more_volumes))
            .u8(self.volumes.len().min(REACH_VOLUMES_MAX) as u8)
            .u8(self.losses.len().min(REACH_LOSSES_MAX) as u8)
            .u32(self.more_losses)
            .u32(0)
            .bytes(&self.salt);
        let volumes = self.volumes.iter().take(REACH_VOLUMES_MAX);
        for range in volumes.chain(self.losses.iter().take(REACH_LOSSES_MAX)) {
            w.bytes(&range.volume.0)
                .u64(range.start)
                .u64(range.len)
                .u8(u8::from(range.is_chunks))
                .bytes(&[0; 7]);
        }
    }

    /// Encodes the record.
    pub fn encode(&self, pool: PoolId) -> Vec<u8> {
        FRAME.seal(pool, |w| {
            self.fields(w);
            w.bytes(&self.tag);
        })
    }

    /// Verifies and decodes a record of this pool. The caller verifies the tag. Bytes behind the
    /// record are ignored: they remain of a longer one before it.
    pub fn decode(bytes: &[u8], pool: PoolId) -> Result<Self> {
        let count = |at: usize| usize::from(bytes.get(at).copied().unwrap_or_default());
        let len = FIXED_BYTES + (count(62) + count(63)) * RANGE_BYTES + 24;
        let mut r = FRAME.open(bytes.get(..len).unwrap_or(bytes), pool)?;
        let (sequence, first, reached, slot) = (r.u64()?, r.u64()?, r.u64()?, r.u32()?);
        let seal = Seal::decode(&mut r)?;
        let (more_volumes, volumes, losses) = (r.u8()?, r.u8()?, r.u8()?);
        let (volumes, losses) = (usize::from(volumes), usize::from(losses));
        let (more_losses, zero, salt) = (r.u32()?, r.u32()?, r.array()?);
        let fits = volumes <= REACH_VOLUMES_MAX && losses <= REACH_LOSSES_MAX;
        if more_volumes > 1 || !fits || zero != 0 || first > reached {
            return r.invalid("field");
        }
        let mut ranges = Vec::with_capacity(volumes + losses);
        for _ in 0..volumes + losses {
            let (volume, start, len) = (VolumeId(r.array()?), r.u64()?, r.u64()?);
            let (unit, zero) = (r.u8()?, r.array::<7>()?);
            if unit > 1 || zero != [0; 7] {
                return r.invalid("unit");
            }
            ranges.push(ReachRange {
                volume,
                start,
                len,
                is_chunks: unit == 1,
            });
        }
        let losses = ranges.split_off(volumes);
        let tag = r.array()?;
        r.finish()?;
        Ok(Self {
            sequence,
            first: JournalPosition(first),
            reached: JournalPosition(reached),
            slot,
            seal,
            more_volumes: more_volumes == 1,
            volumes: ranges,
            losses,
            more_losses,
            salt,
            tag,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::is_read_whole_only;

    fn sample(volumes: usize, losses: usize) -> ReachRecord {
        let range = |n: usize| ReachRange {
            volume: VolumeId([n as u8; 16]),
            start: n as u64 * 4096,
            len: 4096,
            is_chunks: n % 2 == 1,
        };
        ReachRecord {
            sequence: 7,
            first: JournalPosition(4096),
            reached: JournalPosition(81920),
            slot: 3,
            seal: Seal::Aes256Gcm,
            more_volumes: true,
            volumes: (0..volumes).map(range).collect(),
            losses: (0..losses).map(range).collect(),
            more_losses: 2,
            salt: [5; 32],
            tag: [6; 16],
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let pool = PoolId([3; 16]);
        for (volumes, losses) in [(0, 0), (2, 1), (REACH_VOLUMES_MAX, REACH_LOSSES_MAX)] {
            let record = sample(volumes, losses);
            let mut bytes = record.encode(pool);
            assert!(bytes.len() as u64 <= REACH_BYTES_MAX);
            bytes.extend([9; 100]);
            assert_eq!(ReachRecord::decode(&bytes, pool), Ok(record));
        }
        let record = sample(2, 2);
        is_read_whole_only(&record.encode(pool), ReachRecord::decode);
    }
}
