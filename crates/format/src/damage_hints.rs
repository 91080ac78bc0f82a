//! Encodes hints of damage: places that a process without the right to commit found damaged. It is
//! a cache, kept in two slots. The store calls this.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 32 | preamble |
//! | 32 | 8 | sequence number of this record |
//! | 40 | 4 | number of places, at most 1024 |
//! | 44 | 4 | zero |
//! | 48 | 12 each | places, ascending: container 8, sector 4 |
//! | | 8 | checksum of everything before |
//!
//! Sector 0 stands for the whole container, sector 2^32 - 1 for damage that its parity restores.
//!
//! Invariant: these are only hints. The next writer reads the named places and relies on its own
//! result.

use crate::bytes::Result;
use crate::preamble::BlobKind;
use crate::record::Frame;
use units::{ContainerId, PoolId};

/// Version that this program reads and writes.
pub const VERSION: u16 = 1;
/// Maximum number of places in a record.
pub const PLACES_MAX: usize = 1024;
/// Size of the largest record, bytes.
pub const DAMAGE_HINTS_BYTES_MAX: u64 = 48 + 12 * PLACES_MAX as u64 + 8;

/// Stands for a container whose damage its parity restores.
pub const RESTORABLE_SECTOR: u32 = u32::MAX;

const FRAME: Frame = Frame {
    what: "hints of damage",
    kind: BlobKind::DamageHints,
    version: VERSION,
};

/// The record of damage hints.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DamageHintsRecord {
    /// Grows by one with each record.
    pub sequence: u64,
    /// Container and sector, ascending, at most [`PLACES_MAX`]. Sector 0 stands for the whole
    /// container.
    pub places: Vec<(ContainerId, u32)>,
}

impl DamageHintsRecord {
    /// Encodes this record. Places beyond the limit are left out.
    pub fn encode(&self, pool: PoolId) -> Vec<u8> {
        let places = self.places.get(..PLACES_MAX).unwrap_or(&self.places);
        FRAME.seal(pool, |w| {
            w.u64(self.sequence).u32(places.len() as u32).u32(0);
            for (container, sector) in places {
                w.u64(container.0).u32(*sector);
            }
        })
    }

    /// Verifies and decodes a record of this pool.
    pub fn decode(bytes: &[u8], pool: PoolId) -> Result<Self> {
        let mut r = FRAME.open(bytes, pool)?;
        let (sequence, count, zero) = (r.u64()?, r.u32()?, r.u32()?);
        if count as usize > PLACES_MAX || zero != 0 {
            return r.invalid("field");
        }
        let mut places = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let place = (ContainerId(r.u64()?), r.u32()?);
            if places.last().is_some_and(|last| *last >= place) {
                return r.invalid("order");
            }
            places.push(place);
        }
        r.finish()?;
        Ok(Self { sequence, places })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::is_read_whole_only;

    #[test]
    fn a_record_comes_back_and_no_other_pool_believes_it() {
        let pool = PoolId([3; 16]);
        let record = DamageHintsRecord {
            sequence: 7,
            places: vec![
                (ContainerId(1), 0),
                (ContainerId(1), 9),
                (ContainerId(u64::MAX), 1),
            ],
        };
        let bytes = record.encode(pool);
        assert_eq!(DamageHintsRecord::decode(&bytes, pool), Ok(record.clone()));
        is_read_whole_only(&bytes, DamageHintsRecord::decode);
        let many = |count: u64| DamageHintsRecord {
            sequence: 1,
            places: (0..count).map(|n| (ContainerId(n), 1)).collect(),
        };
        let largest = many(2000).encode(pool);
        assert_eq!(largest.len() as u64, DAMAGE_HINTS_BYTES_MAX);
        assert_eq!(DamageHintsRecord::decode(&largest, pool), Ok(many(1024)));
        let twice = DamageHintsRecord {
            places: vec![(ContainerId(1), 9), (ContainerId(1), 9)],
            ..record
        };
        assert!(DamageHintsRecord::decode(&twice.encode(pool), pool).is_err());
    }
}
