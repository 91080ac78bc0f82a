//! Encodes catalog entries of writable volumes, keyed by name. The store's catalog calls this.
//!
//! Invariant: `root` contains every write of the volume below `applied`, and none from there on.
//! Replay skips the writes that it contains.
//!
//! | field | size |
//! |---|---|
//! | version | 1 |
//! | volume id | 16 |
//! | object root: its length is the size of the volume, its layout is fixed | |
//! | time of creation: nanoseconds | 8 |
//! | journal position below which writes are applied to the root | 8 |
//! | snapshot it was cloned from (zeroes: none) | 16 |
//! | number of snapshots and clones made of it, and of rollbacks and resizes | varint |

use crate::bytes::{Fault, Reader, Result, Writer};
use crate::recipe::{Layout, ObjectRoot};
use units::{JournalPosition, SnapshotId, UnixNanos, VolumeId};

const WHAT: &str = "volume";
/// Version of this layout. 1: 2026-11, first.
pub const VOLUME_VERSION: u8 = 1;
/// First byte of a volume's catalog key.
pub const VOLUME_KEY_TAG: u8 = b'v';
/// Longest name, bytes.
pub const VOLUME_NAME_BYTES_MAX: usize = 255;
/// Smallest and largest chunk of a volume, log2 of bytes: 4 KiB to 64 KiB.
pub const VOLUME_CHUNK_LOG2: std::ops::RangeInclusive<u8> = 12..=16;

/// One writable volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRecord {
    /// Name that users see.
    pub name: String,
    /// Id in the journal. It is never used again, even for the same name.
    pub id: VolumeId,
    /// Its contents as of the last checkpoint.
    pub root: ObjectRoot,
    /// Time when it was made.
    pub made: UnixNanos,
    /// Journal position below which writes are in `root`.
    pub applied: JournalPosition,
    /// The snapshot it was cloned from; all zero for none.
    pub origin: SnapshotId,
    /// Number of administrative changes. It distinguishes two states of one volume.
    pub changes: u64,
}

impl VolumeRecord {
    /// Returns true for valid names of volumes: letters, digits, `.`, `_`, `-`, `:`, `/` within; no
    /// `@`, which names snapshots.
    pub fn name_is_valid(name: &str) -> bool {
        let allowed = |c: char| c.is_alphanumeric() || "._-:+ /".contains(c);
        let parts_are_names = name
            .split('/')
            .all(|part| !part.is_empty() && part != "." && part != "..");
        name.len() <= VOLUME_NAME_BYTES_MAX && name.chars().all(allowed) && parts_are_names
    }

    /// Returns the catalog key of a name.
    pub fn key_of(name: &str) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(VOLUME_KEY_TAG).bytes(name.as_bytes());
        w.0
    }

    /// Returns the catalog key.
    pub fn key(&self) -> Vec<u8> {
        Self::key_of(&self.name)
    }

    /// Encodes the catalog value.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(VOLUME_VERSION).bytes(&self.id.0);
        self.root.encode(&mut w);
        w.i64(self.made.0)
            .u64(self.applied.0)
            .bytes(&self.origin.0)
            .varint(self.changes);
        w.0
    }

    /// Decodes key and value.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<Self> {
        let mut k = Reader::new(WHAT, key);
        if k.u8()? != VOLUME_KEY_TAG {
            return k.invalid("key");
        }
        let name = match std::str::from_utf8(k.rest()) {
            Ok(name) if Self::name_is_valid(name) => name.to_owned(),
            _ => return Reader::new(WHAT, key).invalid("name"),
        };
        let mut r = Reader::new(WHAT, value);
        let version = r.u8()?;
        if version != VOLUME_VERSION {
            return Err(r.error(Fault::Version(version.into())));
        }
        let id = VolumeId(r.array()?);
        let root = ObjectRoot::decode(&mut r)?;
        if !matches!(root.layout, Layout::Fixed(log2) if VOLUME_CHUNK_LOG2.contains(&log2)) {
            return r.invalid("layout");
        }
        let record = Self {
            name,
            id,
            root,
            made: UnixNanos(r.i64()?),
            applied: JournalPosition(r.u64()?),
            origin: SnapshotId(r.array()?),
            changes: r.varint()?,
        };
        r.finish()?;
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Fingerprint;

    fn record() -> VolumeRecord {
        VolumeRecord {
            name: "vm/web-1".to_owned(),
            id: VolumeId([7; 16]),
            root: ObjectRoot {
                fingerprint: Fingerprint([9; 32]),
                len: 1 << 30,
                level: 3,
                layout: Layout::Fixed(12),
            },
            made: UnixNanos(5),
            applied: JournalPosition(77),
            origin: SnapshotId([3; 16]),
            changes: 4,
        }
    }

    #[test]
    fn a_record_comes_back() {
        let record = record();
        let back = VolumeRecord::decode(&record.key(), &record.encode());
        assert_eq!(back, Ok(record));
    }

    #[test]
    fn no_damaged_record_panics_and_no_cut_one_is_read() {
        let record = record();
        let (key, value) = (record.key(), record.encode());
        for cut in 0..value.len() {
            assert!(VolumeRecord::decode(&key, &value[..cut]).is_err());
        }
        for at in 0..value.len() {
            let mut bad = value.clone();
            bad[at] ^= 0xff;
            let _ = VolumeRecord::decode(&key, &bad);
        }
    }

    #[test]
    fn names_are_paths_without_tricks() {
        for good in ["a", "vm/web-1", "übung 2", "a.b"] {
            assert!(VolumeRecord::name_is_valid(good), "{good}");
        }
        for bad in ["", "/", "a/", "a//b", "..", "a/../b", "a@b", "a\0b", "a\nb"] {
            assert!(!VolumeRecord::name_is_valid(bad), "{bad:?}");
        }
        assert!(!VolumeRecord::name_is_valid(&"x".repeat(256)));
    }
}
