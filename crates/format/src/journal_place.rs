//! Encodes where the journal of a pool's volumes is: in the pool, or on a fast device apart from
//! it. The pool has this record twice; the fast device has one that names it. The journal calls
//! this.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 32 | preamble, kind 17 |
//! | 32 | 8 | sequence number of this record |
//! | 40 | 1 | 0 = in the pool, 1 = on the device, 2 = on the device and in the pool |
//! | 41 | 1 | 0 = in use, 1 = a server ended and the journal holds nothing |
//! | 42 | 6 | zero |
//! | 48 | 16 | name of the device, random; zeroes in the pool |
//! | 64 | 8 | XXH3-64 of everything before, seeded by kind |
//!
//! Invariant: a journal in the pool has no device; any other has one.

use crate::bytes::Result;
use crate::preamble::BlobKind;
use crate::record::Frame;
use crate::stored::stored;
use units::PoolId;

/// Version that this program reads and writes.
pub const JOURNAL_PLACE_VERSION: u16 = 1;
/// Largest record that is read, bytes.
pub const JOURNAL_PLACE_BYTES_MAX: u64 = 4096;

const FRAME: Frame = Frame {
    what: "record of the journal's place",
    kind: BlobKind::JournalPlace,
    version: JOURNAL_PLACE_VERSION,
};

stored! {
    /// Where the slots of the journal are.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum JournalPlace: "place of the journal" {
        /// In the pool's directory.
        #[default]
        Pool = 0 => "pool",
        /// On the fast device only.
        Fast = 1 => "fast",
        /// On both.
        Mirrored = 2 => "fast and pool",
    }
}

stored! {
    /// Whether the journal may hold writes.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum JournalContents: "contents of the journal" {
        /// It may hold acknowledged writes.
        #[default]
        InUse = 0,
        /// It holds nothing that is needed.
        Empty = 1,
    }
}

stored! {
    /// The record. See the module's head.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct JournalPlaceRecord {
        /// Grows by one with each record.
        pub sequence: u64,
        /// Where the slots are.
        pub place: JournalPlace,
        /// Whether they may hold writes.
        pub contents: JournalContents => zero 6,
        /// Name of the device.
        pub device: [u8; 16],
    }
}

impl JournalPlaceRecord {
    /// Returns true if only the device may have writes that are needed.
    pub fn is_elsewhere(&self) -> bool {
        self.place == JournalPlace::Fast && self.contents == JournalContents::InUse
    }

    /// Encodes the record.
    pub fn encode(&self, pool: PoolId) -> Vec<u8> {
        FRAME.encode(pool, self)
    }

    /// Verifies and decodes a record of this pool.
    pub fn decode(bytes: &[u8], pool: PoolId) -> Result<Self> {
        let record: Self = FRAME.decode(bytes, pool)?;
        match (record.place == JournalPlace::Pool) == (record.device == [0; 16]) {
            true => Ok(record),
            false => FRAME.invalid("device"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Fault;
    use crate::record::is_read_whole_only;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let pool = PoolId([3; 16]);
        let device = [7; 16];
        for (place, device) in [
            (JournalPlace::Pool, [0; 16]),
            (JournalPlace::Fast, device),
            (JournalPlace::Mirrored, device),
        ] {
            for contents in [JournalContents::InUse, JournalContents::Empty] {
                let record = JournalPlaceRecord {
                    sequence: 9,
                    place,
                    contents,
                    device,
                };
                let bytes = record.encode(pool);
                assert!(bytes.len() as u64 <= JOURNAL_PLACE_BYTES_MAX);
                assert_eq!(JournalPlaceRecord::decode(&bytes, pool), Ok(record));
                is_read_whole_only(&bytes, JournalPlaceRecord::decode);
            }
        }
    }

    #[test]
    fn a_device_without_a_name_is_refused() {
        let pool = PoolId([3; 16]);
        for (place, device) in [
            (JournalPlace::Fast, [0; 16]),
            (JournalPlace::Mirrored, [0; 16]),
            (JournalPlace::Pool, [1; 16]),
        ] {
            let record = JournalPlaceRecord {
                place,
                device,
                ..JournalPlaceRecord::default()
            };
            let refused = JournalPlaceRecord::decode(&record.encode(pool), pool);
            assert_eq!(refused.map_err(|e| e.fault), Err(Fault::Invalid("device")));
        }
    }
}
