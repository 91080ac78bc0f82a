//! Encodes sectors of checksums. Each contains the id of its container, its part of the checksums,
//! and the shape. `parity` calls this.
//!
//! Invariant: a sector leaves its last 512 bytes unused: in the last sector of all they are the
//! footer.

use super::{PARITY_VERSION, ParityShape};
use crate::bytes::{Fault, Reader, Result, Writer, checksum, verify};
use crate::parity_shape::{PARITY_SECTOR_BYTES, SUMS_PER_SECTOR, TABLE_BYTES};
use crate::preamble::{BlobKind, PREAMBLE_BYTES, Preamble};
use crate::stored::Stored;
use units::{ContainerId, PoolId};

const WHAT: &str = "parity";

/// A sector of checksums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub shape: ParityShape,
    pub copy: u8,
    /// Number of the first checksum.
    pub first: u32,
    pub sums: Vec<u64>,
}

impl Table {
    fn encode(&self, pool: PoolId, id: ContainerId) -> Vec<u8> {
        let mut w = Writer::new();
        Preamble::encode(BlobKind::Parity, PARITY_VERSION, pool, &mut w);
        w.u64(id.0);
        self.shape.put(&mut w);
        w.u32(self.first)
            .u32(self.sums.len() as u32)
            .u8(self.copy)
            .bytes(&[0; 3]);
        for sum in &self.sums {
            w.u64(*sum);
        }
        w.0.resize(TABLE_BYTES - 8, 0);
        let sum = checksum(BlobKind::Parity.seed(), &w.0);
        w.u64(sum);
        w.0.resize(PARITY_SECTOR_BYTES, 0);
        w.0
    }

    /// Decodes a sector if it belongs to this container.
    pub fn decode(pool: PoolId, id: ContainerId, sector: &[u8]) -> Result<Self> {
        let preamble = Preamble::decode(sector)?.expect(WHAT, BlobKind::Parity, PARITY_VERSION)?;
        let mut whole = Reader::new(WHAT, sector);
        let covered = whole.take(TABLE_BYTES - 8)?;
        verify(WHAT, BlobKind::Parity.seed(), covered, whole.u64()?)?;
        let mut r = Reader::new(WHAT, covered);
        r.take(PREAMBLE_BYTES)?;
        if preamble.pool != pool || r.u64()? != id.0 {
            return Err(r.error(Fault::Misplaced));
        }
        let Some(shape) = ParityShape::take(&mut r)?.checked() else {
            return r.invalid("shape");
        };
        let (first, count, copy) = (r.u32()?, r.u32()?, r.u8()?);
        r.take(3)?;
        if copy > 1 || count > SUMS_PER_SECTOR {
            return r.invalid("count");
        }
        let mut sums = Vec::with_capacity(count as usize);
        for _ in 0..count {
            sums.push(r.u64()?);
        }
        Ok(Self {
            shape,
            copy,
            first,
            sums,
        })
    }
}

/// Appends one copy of the checksums.
pub(super) fn append(
    pool: PoolId,
    id: ContainerId,
    shape: ParityShape,
    copy: u8,
    sums: &[u64],
    blob: &mut Vec<u8>,
) {
    for (number, part) in sums.chunks(SUMS_PER_SECTOR as usize).enumerate() {
        let table = Table {
            shape,
            copy,
            first: number as u32 * SUMS_PER_SECTOR,
            sums: part.to_vec(),
        };
        blob.extend_from_slice(&table.encode(pool, id));
    }
}
