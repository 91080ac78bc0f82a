//! Encodes the persistent reservations of a volume that survive a restart (SPC-4, APTPL), an entry
//! of the catalog. The key has the id of the volume, so a new name changes nothing. `iscsi` makes
//! the records, `volumes` stores them.
//!
//! | field | size |
//! |---|---|
//! | version | 1 |
//! | type of the reservation, as SCSI has it: 1, 3, 5, 6, 7 or 8; 0: none | 1 |
//! | number of the registration that holds it; 0 without one, and for types 7 and 8 | varint |
//! | number of registrations, 1 to 128 | varint |
//! | of each: identifier of the initiator's session (ISID) | 6 |
//! | key, not 0 | 8 |
//! | name of the initiator, 1 to 223 bytes | sized text |
//!
//! Invariant: there is no record without a registration. A port (name and ISID) is in it once.

use crate::bytes::{Fault, Reader, Result, Writer};
use units::VolumeId;

const WHAT: &str = "persistent reservations";
/// Version of this layout. 1: 2026-11, first.
pub const RESERVATIONS_VERSION: u8 = 1;
/// First byte of the catalog key.
pub const RESERVATIONS_KEY_TAG: u8 = b'r';
/// Maximum number of registrations.
pub const REGISTRATIONS_MAX: usize = 128;
/// Maximum length of the name of an initiator, bytes.
const NAME_BYTES_MAX: usize = 223;
/// Types of reservations that one port holds, then those that all registered ports hold.
const KINDS: [u8; 6] = [1, 3, 5, 6, 7, 8];
const KINDS_OF_ALL: [u8; 2] = [7, 8];

/// An initiator port that is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrationRecord {
    /// Name of the initiator.
    pub initiator: String,
    /// Identifier of its session.
    pub isid: [u8; 6],
    /// Its key.
    pub key: u64,
}

/// A reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationRecord {
    /// Type, as SCSI has it.
    pub kind: u8,
    /// Number of the registration that holds it; 0 if all do.
    pub holder: usize,
}

/// The persistent reservations of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationsRecord {
    /// At least one, at most [`REGISTRATIONS_MAX`].
    pub registrations: Vec<RegistrationRecord>,
    /// The reservation, if there is one.
    pub held: Option<ReservationRecord>,
}

impl ReservationsRecord {
    /// Returns the catalog key of a volume's record.
    pub fn key_of(volume: VolumeId) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(RESERVATIONS_KEY_TAG).bytes(&volume.0);
        w.0
    }

    /// Returns the volume of a catalog key; `None` for other keys.
    pub fn volume_of(key: &[u8]) -> Option<VolumeId> {
        let (tag, id) = key.split_first()?;
        let id = id.try_into().ok().map(VolumeId);
        id.filter(|_| *tag == RESERVATIONS_KEY_TAG)
    }

    /// Encodes the value.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        let held = self.held.map_or((0, 0), |held| (held.kind, held.holder));
        w.u8(RESERVATIONS_VERSION)
            .u8(held.0)
            .varint(held.1 as u64)
            .varint(self.registrations.len() as u64);
        for one in &self.registrations {
            w.bytes(&one.isid)
                .u64(one.key)
                .sized(one.initiator.as_bytes());
        }
        w.0
    }

    /// Decodes the value.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(WHAT, bytes);
        let version = r.u8()?;
        if version != RESERVATIONS_VERSION {
            return Err(r.error(Fault::Version(version.into())));
        }
        let (kind, holder, count) = (r.u8()?, r.varint()?, r.varint()?);
        if count == 0 || count > REGISTRATIONS_MAX as u64 {
            return r.invalid("number of registrations");
        }
        let holders = match kind {
            0 => 1,
            kind if KINDS_OF_ALL.contains(&kind) => 1,
            kind if KINDS.contains(&kind) => count,
            _ => return r.invalid("type"),
        };
        if holder >= holders {
            return r.invalid("holder");
        }
        let mut registrations: Vec<RegistrationRecord> = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let (isid, key, initiator) = (r.array()?, r.u64()?, r.text()?);
            if key == 0 {
                return r.invalid("key");
            }
            if initiator.is_empty() || initiator.len() > NAME_BYTES_MAX {
                return r.invalid("initiator");
            }
            let is_same = |o: &RegistrationRecord| o.isid == isid && o.initiator == initiator;
            if registrations.iter().any(is_same) {
                return r.invalid("port");
            }
            registrations.push(RegistrationRecord {
                initiator,
                isid,
                key,
            });
        }
        r.finish()?;
        let held = (kind != 0).then_some(ReservationRecord {
            kind,
            holder: holder as usize,
        });
        Ok(Self {
            registrations,
            held,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, holder: usize) -> ReservationsRecord {
        let registration = |n: u8| RegistrationRecord {
            initiator: format!("iqn.x:{n}"),
            isid: [n; 6],
            key: u64::from(n) + 1,
        };
        ReservationsRecord {
            registrations: (0..3).map(registration).collect(),
            held: (kind != 0).then_some(ReservationRecord { kind, holder }),
        }
    }

    #[test]
    fn a_record_comes_back_and_an_impossible_one_does_not() {
        for (kind, holder) in [(0, 0), (1, 2), (3, 0), (5, 1), (6, 2), (7, 0), (8, 0)] {
            let record = record(kind, holder);
            assert_eq!(ReservationsRecord::decode(&record.encode()), Ok(record));
        }
        let largest = ReservationsRecord {
            registrations: (0..REGISTRATIONS_MAX)
                .map(|n| RegistrationRecord {
                    initiator: "i".repeat(NAME_BYTES_MAX),
                    isid: [n as u8; 6],
                    key: u64::MAX,
                })
                .collect(),
            held: None,
        };
        assert_eq!(
            ReservationsRecord::decode(&largest.encode()),
            Ok(largest.clone())
        );
        let is_refused = |record: ReservationsRecord| {
            assert!(
                ReservationsRecord::decode(&record.encode()).is_err(),
                "{record:?}"
            );
        };
        for (kind, holder) in [(2, 0), (4, 0), (9, 0), (1, 3), (7, 1)] {
            is_refused(record(kind, holder));
        }
        let changed = |change: fn(&mut ReservationsRecord)| {
            let mut record = record(1, 0);
            change(&mut record);
            is_refused(record);
        };
        changed(|r| r.registrations.clear());
        changed(|r| r.registrations[1].key = 0);
        changed(|r| r.registrations[1].initiator = String::new());
        changed(|r| r.registrations[1].initiator = "i".repeat(NAME_BYTES_MAX + 1));
        changed(|r| r.registrations[1] = r.registrations[0].clone());
        let mut more = largest;
        more.registrations
            .push(record(0, 0).registrations.remove(0));
        is_refused(more);
        let bytes = record(1, 0).encode();
        for len in 0..bytes.len() {
            assert!(ReservationsRecord::decode(&bytes[..len]).is_err());
        }
        let other = [&[RESERVATIONS_VERSION + 1], &bytes[1..]].concat();
        assert!(ReservationsRecord::decode(&other).is_err());
        let key = ReservationsRecord::key_of(VolumeId([7; 16]));
        assert_eq!(ReservationsRecord::volume_of(&key), Some(VolumeId([7; 16])));
        assert_eq!(ReservationsRecord::volume_of(b"r"), None);
        assert_eq!(ReservationsRecord::volume_of(b"vxxxxxxxxxxxxxxxx"), None);
    }
}
