//! Journal records as volumes see them.
//!
//! Volumes, `state` and `replay` use this.
//! Invariant: a record that breaks the limits of the format gets no header, so it is never
//! appended.

use chunk_store::{Result, StoreError, StoreErrorKind};
use format::journal::{RECORD_DATA_BYTES_MAX, RecordHeader, RecordKind};
use units::{Fingerprint, VolumeId};

/// A change of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// New bytes.
    Write {
        /// The volume.
        volume: VolumeId,
        /// First byte in the volume.
        offset_bytes: u64,
        /// 1 byte to 64 KiB.
        data: &'a [u8],
    },
    /// Bytes that become zero: discard and write-zeroes.
    Zero {
        /// The volume.
        volume: VolumeId,
        /// First byte in the volume.
        offset_bytes: u64,
        /// At least 1.
        len_bytes: u64,
    },
    /// Chunks that were stored in containers directly.
    Chunks {
        /// The volume.
        volume: VolumeId,
        /// Number of the first chunk in the volume.
        chunk_first: u64,
        /// 1 to 2048 fingerprints, in order.
        fingerprints: &'a [Fingerprint],
    },
}

impl Record<'_> {
    /// Maximum size of one write, bytes.
    pub const DATA_BYTES_MAX: usize = RECORD_DATA_BYTES_MAX;

    /// Returns its header. Fails with `Invalid` if the record breaks the limits.
    pub(super) fn header(&self) -> Result<RecordHeader> {
        let (kind, volume, start, len, data_bytes) = match *self {
            Self::Write {
                volume,
                offset_bytes,
                data,
            } => {
                let len = data.len() as u64;
                (RecordKind::Write, volume, offset_bytes, len, len)
            }
            Self::Zero {
                volume,
                offset_bytes,
                len_bytes,
            } => (RecordKind::Zero, volume, offset_bytes, len_bytes, 0),
            Self::Chunks {
                volume,
                chunk_first,
                fingerprints,
            } => {
                let count = fingerprints.len() as u64;
                (RecordKind::Chunks, volume, chunk_first, count, 32 * count)
            }
        };
        let header = RecordHeader {
            kind,
            data_bytes: u32::try_from(data_bytes).unwrap_or(u32::MAX),
            volume,
            start,
            len,
            data_checksum: 0,
        };
        match header.fault() {
            None => Ok(header),
            Some(field) => Err(StoreError::new(
                StoreErrorKind::Invalid,
                format!("journal record: {field} ({start}, {len})"),
            )),
        }
    }
}
