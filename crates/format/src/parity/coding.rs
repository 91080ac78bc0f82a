//! The code itself: systematic Reed-Solomon over GF(2^16) with an FFT (Lin, Chung, Han, 2014), as
//! `reed-solomon-simd` 3 computes it; it takes the processor's vector instructions at run time.
//!
//! Invariant: a group is coded as `group_data` sectors, the absent ones zeroes. Memory is that of one
//! group. Called by `parity`.

use super::{PARITY_SECTOR_BYTES, ParityShape, sector_at};
use reed_solomon_simd::{Error, ReedSolomonDecoder, ReedSolomonEncoder};

const ZEROES: [u8; PARITY_SECTOR_BYTES] = [0; PARITY_SECTOR_BYTES];

/// The parity sectors of all groups; sector `i` belongs to group `i % groups`.
pub(super) fn encode(shape: ParityShape, data: &[u8]) -> Vec<u8> {
    let mut parity = vec![0; shape.parity() as usize * PARITY_SECTOR_BYTES];
    let coded = encode_groups(shape, data, &mut parity);
    // Shapes are checked, and sectors are whole: there is nothing to fail. A parity of zeroes would
    // be found wrong by its first use, and harm nothing.
    debug_assert!(coded.is_ok());
    parity
}

fn encode_groups(shape: ParityShape, data: &[u8], parity: &mut [u8]) -> Result<(), Error> {
    let (count, per_group) = (shape.group_data(), shape.per_group as usize);
    let mut encoder = ReedSolomonEncoder::new(count, per_group, PARITY_SECTOR_BYTES)?;
    for group in 0..shape.groups {
        let mut added = 0;
        for member in shape.members(group) {
            encoder.add_original_shard(sector_at(data, member))?;
            added += 1;
        }
        for _ in added..count {
            encoder.add_original_shard(ZEROES)?;
        }
        let coded = encoder.encode()?;
        for (row, sector) in coded.recovery_iter().enumerate() {
            let number = row * shape.groups as usize + group as usize;
            let start = number * PARITY_SECTOR_BYTES;
            if let Some(place) = parity.get_mut(start..start + PARITY_SECTOR_BYTES) {
                place.copy_from_slice(sector);
            }
        }
    }
    Ok(())
}

/// Fills in the data sectors of a group that `is_good` (by number of the checksum) says are not.
/// At least as many parity sectors of the group must be good.
pub(super) fn fill_in(
    shape: ParityShape,
    group: u32,
    blob: &mut [u8],
    is_good: &dyn Fn(u32) -> bool,
) -> Result<(), Error> {
    let (count, per_group) = (shape.group_data(), shape.per_group as usize);
    let mut decoder = ReedSolomonDecoder::new(count, per_group, PARITY_SECTOR_BYTES)?;
    let mut missing = Vec::new();
    let mut added = 0;
    for (at, member) in shape.members(group).enumerate() {
        match is_good(member) {
            true => decoder.add_original_shard(at, sector_at(blob, member))?,
            false => missing.push((at, member)),
        }
        added = at + 1;
    }
    for at in added..count {
        decoder.add_original_shard(at, ZEROES)?;
    }
    let mut wanted = missing.len();
    for row in 0..shape.per_group {
        let number = shape.data + row * shape.groups + group;
        if wanted > 0 && is_good(number) {
            let sector = sector_at(blob, shape.sector_of(number));
            decoder.add_recovery_shard(row as usize, sector)?;
            wanted -= 1;
        }
    }
    let decoded = decoder.decode()?;
    for (at, member) in missing {
        let start = member as usize * PARITY_SECTOR_BYTES;
        let place = blob.get_mut(start..start + PARITY_SECTOR_BYTES);
        if let (Some(place), Some(sector)) = (place, decoded.restored_original(at)) {
            place.copy_from_slice(sector);
        }
    }
    Ok(())
}
