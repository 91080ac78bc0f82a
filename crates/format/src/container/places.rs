//! Finds where regions begin. Container readers and writers call this.
//!
//! A region may begin anywhere at a multiple of [`REGION_ALIGN_BYTES`], but its place is named by
//! the sector in which it begins. Older writers begin every region at a sector boundary.
//!
//! Invariant: at most one region begins in a sector, and the first bytes in a sector that are a
//! header of this container are its header. A writer makes sure of the latter: bytes of the region
//! before it could look like a header by intent. Then it begins at the next sector boundary.

use super::{REGION_HEADER_BYTES, RegionHeader, SECTOR_BYTES};
use units::ContainerId;

/// Unit of region placement, bytes.
pub const REGION_ALIGN_BYTES: usize = 8;

const SECTOR: usize = SECTOR_BYTES as usize;

/// Finds the region that begins in a sector of a container. `bytes` begin with the sector. Returns
/// where it begins in them, and its header; `None` if none begins there, or its header is damaged
/// or reaches beyond `bytes`.
pub fn find_region(bytes: &[u8], container: ContainerId) -> Option<(usize, RegionHeader)> {
    (0..SECTOR)
        .step_by(REGION_ALIGN_BYTES)
        .map_while(|at| Some((at, bytes.get(at..at + REGION_HEADER_BYTES)?)))
        .filter(|(_, head)| head.starts_with(&super::REGION_MAGIC.to_le_bytes()))
        .find_map(|(at, head)| {
            let header = RegionHeader::decode(head).ok()?;
            (header.container == container).then_some((at, header))
        })
}

/// Returns where the region begins that follows one which begins at `start` and ends at `end`: at
/// the next unit if a header is there, otherwise at the next sector boundary. `blob` is a whole
/// container.
pub fn next_region(blob: &[u8], container: ContainerId, start: usize, end: usize) -> usize {
    let near = end.next_multiple_of(REGION_ALIGN_BYTES);
    let sector = near / SECTOR * SECTOR;
    let begins_here = || {
        let found = find_region(blob.get(sector..)?, container)?;
        (sector + found.0 == near).then_some(())
    };
    match sector > start && begins_here().is_some() {
        true => near,
        false => end.next_multiple_of(SECTOR),
    }
}

/// Returns where the region may begin that follows one whose end is `end` bytes behind the start of
/// its first sector: so many sectors on, in that sector only at this byte, or else with the next
/// sector. The byte 0 leaves nothing else.
pub fn following(end: usize) -> (u32, usize) {
    let near = end.next_multiple_of(REGION_ALIGN_BYTES);
    match near < SECTOR {
        // A region that ends in its first sector is followed by one in another sector.
        true => (1, 0),
        false => ((near / SECTOR) as u32, near % SECTOR),
    }
}

/// Returns true if a region that begins in `sector` may follow without a gap after one that begins
/// in `before` and has a payload of `stored_bytes`.
pub fn may_follow(before: u32, stored_bytes: u32, sector: u32) -> bool {
    let least = (REGION_HEADER_BYTES as u32).saturating_add(stored_bytes) / SECTOR_BYTES;
    let first = before.saturating_add(least.max(1));
    let last = before.saturating_add(sectors_max(stored_bytes));
    (first..=last).contains(&sector)
}

/// Returns the largest number of sectors that a region with this payload size touches, wherever in
/// its first sector it begins.
pub fn sectors_max(stored_bytes: u32) -> u32 {
    ((SECTOR - REGION_ALIGN_BYTES + REGION_HEADER_BYTES) as u32)
        .saturating_add(stored_bytes)
        .div_ceil(SECTOR_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Codec;
    use units::WriterId;

    fn id(n: u64) -> ContainerId {
        ContainerId::new(WriterId(1), n)
    }

    fn head(container: ContainerId, stored_bytes: u32) -> Vec<u8> {
        let header = RegionHeader {
            container,
            index: 3,
            codec: Codec::None,
            stored_bytes,
            raw_bytes: 0,
            chunk_count: 0,
            payload_checksum: 0,
        };
        header.encode()
    }

    #[test]
    fn a_region_is_found_wherever_in_its_sector_it_begins() {
        for at in (0..SECTOR).step_by(REGION_ALIGN_BYTES) {
            let mut bytes = vec![0x51; at];
            bytes.extend(head(id(1), 7));
            let found = find_region(&bytes, id(1)).expect("a region");
            assert_eq!((found.0, found.1.stored_bytes), (at, 7));
            assert!(find_region(&bytes, id(2)).is_none(), "another container's");
            bytes.pop();
            assert!(find_region(&bytes, id(1)).is_none(), "cut off");
        }
        let mut later = vec![0; SECTOR];
        later.extend(head(id(1), 7));
        assert!(find_region(&later, id(1)).is_none(), "in the next sector");
    }

    #[test]
    fn the_next_region_is_near_or_at_a_sector_boundary() {
        let mut blob = vec![0; 700];
        blob.resize(704, 0);
        blob.extend(head(id(1), 0));
        assert_eq!(next_region(&blob, id(1), 0, 700), 704);
        // Two regions in one sector: the second one has no place.
        assert_eq!(next_region(&blob, id(1), 520, 700), 1024);
        assert_eq!(next_region(&[0; 2048], id(1), 0, 700), 1024);
        assert_eq!(next_region(&[], id(1), 0, 1024), 1024);
    }

    #[test]
    fn regions_follow_each_other_wherever_the_first_one_begins() {
        for stored in [0, 100, 464, 1000, 16_452] {
            for at in (0..SECTOR).step_by(REGION_ALIGN_BYTES) {
                let end = (at + REGION_HEADER_BYTES + stored).next_multiple_of(REGION_ALIGN_BYTES);
                for start in [end, end.next_multiple_of(SECTOR)] {
                    let sector = (start / SECTOR) as u32;
                    assert!(sector == 0 || may_follow(9, stored as u32, 9 + sector));
                }
            }
            assert!(!may_follow(9, stored as u32, 9), "two in a sector");
            let behind = 9 + sectors_max(stored as u32) + 1;
            assert!(!may_follow(9, stored as u32, behind), "a gap");
        }
    }

    #[test]
    fn the_most_sectors_are_touched_from_the_last_unit_of_a_sector() {
        for stored in [0, 1, 400, 16_452, 1 << 20] {
            let first = SECTOR - REGION_ALIGN_BYTES;
            let end = first + REGION_HEADER_BYTES + stored as usize;
            assert_eq!(sectors_max(stored) as usize, end.div_ceil(SECTOR));
        }
    }
}
