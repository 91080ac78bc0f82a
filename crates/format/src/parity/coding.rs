//! Implements the code: systematic Reed-Solomon over GF(2^16) with an FFT (Lin, Chung, Han, 2014),
//! as `reed-solomon-simd` 3 computes it. Crate `erasure` does the same faster where it can.
//! `parity` calls this.
//!
//! Invariant: a group is coded as `group_data` sectors; absent ones are zeroes. Memory is bounded
//! by one group.

use super::{PARITY_SECTOR_BYTES, ParityShape, sector_at};
use erasure::Encoder;
use reed_solomon_simd::{Error, ReedSolomonDecoder, ReedSolomonEncoder};

const ZEROES: [u8; PARITY_SECTOR_BYTES] = [0; PARITY_SECTOR_BYTES];

/// Returns the parity sectors of all groups. Sector `i` belongs to group `i % groups`.
///
/// Calls `saw` once for every data sector, with its number, while the processor's caches have it.
/// The order is unspecified.
///
/// Sectors of one row, one of each group, are adjacent. All groups are therefore coded together as
/// one of longer shards, and memory is read from its beginning to its end.
pub(super) fn encode(shape: ParityShape, data: &[u8], saw: &mut dyn FnMut(u32, &[u8])) -> Vec<u8> {
    let (count, per_group) = (shape.group_data(), shape.per_group as usize);
    let row_bytes = shape.groups as usize * PARITY_SECTOR_BYTES;
    let mut row = |number: usize| {
        let end = data.len().min((number + 1) * row_bytes);
        let bytes = data.get(number * row_bytes..end).unwrap_or_default();
        let first = number as u32 * shape.groups;
        for (number, sector) in (first..).zip(bytes.chunks(PARITY_SECTOR_BYTES)) {
            saw(number, sector);
        }
        bytes
    };
    if count == 1 {
        // The polynomial through one point is constant.
        return row(0).repeat(per_group);
    }
    if let Some(encoder) = Encoder::new(count, per_group, row_bytes) {
        return encoder.encode(&mut row);
    }
    for number in 0..count {
        row(number);
    }
    let coded = encode_by_library(shape, data);
    // This cannot fail: shapes are checked, and sectors are whole. Its first use would detect a
    // parity of zeroes, which harms nothing.
    debug_assert!(coded.is_ok());
    coded.unwrap_or_else(|_| vec![0; per_group * row_bytes])
}

fn encode_by_library(shape: ParityShape, data: &[u8]) -> Result<Vec<u8>, Error> {
    let (count, per_group) = (shape.group_data(), shape.per_group as usize);
    let mut parity = vec![0; shape.parity() as usize * PARITY_SECTOR_BYTES];
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
    Ok(parity)
}

/// Fills in the damaged data sectors of a group. `is_good` tells by number of the checksum which
/// are good. At least as many parity sectors of the group must be good.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_to_encode_agree_and_show_every_sector_once() {
        for (data, groups, per_group) in [
            (1, 1, 2),
            (1, 1, 1),
            (2, 1, 2),
            (3, 3, 4),
            (3, 2, 2),
            (7, 1, 2),
            (99, 1, 2),
            (149, 1, 3),
            (151, 1, 4),
            (250, 2, 4),
            (401, 4, 4),
            (40, 2, 9),
            (4, 1, 3),
            (3, 1, 64),
        ] {
            let shape = ParityShape {
                data,
                groups,
                per_group,
            };
            let bytes = data as usize * PARITY_SECTOR_BYTES;
            let blob: Vec<u8> = (0..bytes as u64)
                .map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 51) as u8)
                .collect();
            let mut seen = Vec::new();
            let found = encode(shape, &blob, &mut |number, sector| {
                assert!(sector == sector_at(&blob, number));
                seen.push(number);
            });
            let wanted = encode_by_library(shape, &blob).expect("coded");
            assert!(found == wanted, "{shape:?}");
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..data), "{shape:?}");
        }
    }
}
