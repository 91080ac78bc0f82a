//! Encodes the envelope of small important blobs (config, key slots, roots): two equal copies in
//! one blob.
//! Their modules call this.
//!
//! Invariant: one damaged copy is tolerated and reported. A copy contains its kind, version, pool
//! and place (`slot`: a generation, or 0), and its checksum covers all of that.
//!
//! | offset in a copy | size | field |
//! |---|---|---|
//! | 0 | 32 | preamble |
//! | 32 | 8 | slot |
//! | 40 | 4 | payload length L |
//! | 44 | 4 | reserved, 0 |
//! | 48 | L | payload |
//! | 48 + L | 8 | XXH3-64 of everything before, seeded by kind |
//! | | | zeroes up to a multiple of 512 |

use crate::bytes::{Fault, FormatError, Reader, Result, Writer, checksum, verify};
use crate::preamble::{BlobKind, PREAMBLE_BYTES, Preamble};
use units::PoolId;

/// Alignment of copies.
const COPY_UNIT: usize = 512;
/// Largest blob of this shape, bytes. It bounds the allocation of a reader.
pub const MIRRORED_BYTES_MAX: u64 = 4 << 20;
const HEAD_BYTES: usize = PREAMBLE_BYTES + 16;

/// A verified copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrored {
    /// The pool it belongs to.
    pub pool: PoolId,
    /// Its place.
    pub slot: u64,
    /// Contents.
    pub payload: Vec<u8>,
    /// True if the other copy is damaged.
    pub damaged: bool,
}

/// Encodes the blob: two copies.
pub fn encode(kind: BlobKind, version: u16, pool: PoolId, slot: u64, payload: &[u8]) -> Vec<u8> {
    let mut w = Writer::new();
    Preamble::encode(kind, version, pool, &mut w);
    w.u64(slot).u32(payload.len() as u32).u32(0).bytes(payload);
    let sum = checksum(kind.seed(), &w.0);
    w.u64(sum).pad_to(COPY_UNIT);
    w.0.extend_from_within(..);
    w.0
}

/// Decodes the first good copy, or returns the fault of the first one.
pub fn decode(what: &'static str, kind: BlobKind, version: u16, bytes: &[u8]) -> Result<Mirrored> {
    let first = decode_copy(what, kind, version, bytes);
    if let Ok((copy, len)) = first {
        // Equal bytes need no second verification: the second copy is as good as the first.
        let equal = bytes.len() == 2 * len && bytes.get(..len) == bytes.get(len..);
        return Ok(Mirrored {
            damaged: !equal,
            ..copy
        });
    }
    // The length in the first copy is unreliable: try every possible start of a second one.
    let second = bytes
        .len()
        .div_ceil(COPY_UNIT)
        .min(MIRRORED_BYTES_MAX as usize / COPY_UNIT);
    for start in (1..second).map(|n| n * COPY_UNIT) {
        let rest = bytes.get(start..).unwrap_or_default();
        if let Ok((copy, _)) = decode_copy(what, kind, version, rest) {
            return Ok(Mirrored {
                damaged: true,
                ..copy
            });
        }
    }
    first.map(|(copy, _)| copy)
}

fn decode_copy(
    what: &'static str,
    kind: BlobKind,
    version: u16,
    bytes: &[u8],
) -> Result<(Mirrored, usize)> {
    let preamble = Preamble::decode(bytes)?;
    // Every version has this envelope. A version counts only if the checksum confirms it: a flipped
    // bit in it is damage, not a newer program.
    let is_ours = preamble.expect(what, kind, version);
    if let Err(e) = is_ours
        && !matches!(e.fault, Fault::Version(_))
    {
        return Err(e);
    }
    let mut r = Reader::new(what, bytes);
    r.take(PREAMBLE_BYTES)?;
    let (slot, len, reserved) = (r.u64()?, r.u32()? as usize, r.u32()?);
    let payload = r.take(len)?;
    let sum = r.u64()?;
    let covered = bytes.get(..HEAD_BYTES + len).unwrap_or_default();
    verify(what, kind.seed(), covered, sum)?;
    is_ours?;
    if reserved != 0 {
        return Err(FormatError::new(what, Fault::Invalid("reserved")));
    }
    let copy = Mirrored {
        pool: preamble.pool,
        slot,
        payload: payload.to_vec(),
        damaged: false,
    };
    Ok((copy, (HEAD_BYTES + len + 8).next_multiple_of(COPY_UNIT)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_copy_is_enough_and_damage_is_reported() {
        let good = encode(BlobKind::Root, 1, PoolId([7; 16]), 9, b"payload");
        assert_eq!(good.len(), 1024);
        assert!(!decode("root", BlobKind::Root, 1, &good).unwrap().damaged);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x40;
            let copy = decode("root", BlobKind::Root, 1, &bad).unwrap();
            assert!(copy.damaged, "flip at {at} went unseen");
            assert_eq!((copy.slot, copy.payload.as_slice()), (9, &b"payload"[..]));
        }
        for len in 0..good.len() {
            match decode("root", BlobKind::Root, 1, &good[..len]) {
                Ok(copy) => assert!(copy.damaged),
                Err(_) => assert!(len < 512),
            }
        }
        assert!(decode("config", BlobKind::Config, 1, &good).is_err());
        let mut flipped = good.clone();
        (flipped[8 + 2], flipped[512 + 10]) = (3, 3);
        let fault = decode("root", BlobKind::Root, 1, &flipped)
            .unwrap_err()
            .fault;
        assert!(matches!(fault, Fault::BadChecksum { .. }), "{fault:?}");
        assert_eq!(
            decode("root", BlobKind::Root, 2, &good).unwrap_err().fault,
            Fault::Version(1)
        );
    }
}
