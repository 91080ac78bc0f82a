//! Where the files of a disk lie: units of 256 KiB, the lowest free one first.
//!
//! The recorder calls this.
//! Invariant: no two files have one unit. Freed units are used again.

use std::collections::{BTreeMap, BTreeSet};

/// Size of a unit, bytes.
pub const UNIT_BYTES: u64 = 256 << 10;

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Units of each file, by number of the file and of the unit in it.
    units: BTreeMap<(u64, u64), u64>,
    freed: BTreeSet<u64>,
    next: u64,
}

impl Places {
    /// Returns the units behind all files.
    pub fn end_bytes(&self) -> u64 {
        self.next * UNIT_BYTES
    }

    fn unit(&mut self, file: u64, nth: u64) -> u64 {
        if let Some(unit) = self.units.get(&(file, nth)) {
            return *unit;
        }
        let unit = self.freed.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        self.units.insert((file, nth), unit);
        unit
    }

    /// Returns the pieces of a range of a file: address and size, bytes. Neighbours are one piece.
    pub fn pieces(&mut self, file: u64, offset: u64, bytes: u64) -> Vec<(u64, u64)> {
        let mut pieces: Vec<(u64, u64)> = Vec::new();
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            let within = at % UNIT_BYTES;
            let len = (UNIT_BYTES - within).min(end - at);
            let address = self.unit(file, at / UNIT_BYTES) * UNIT_BYTES + within;
            match pieces.last_mut() {
                Some((from, so_far)) if *from + *so_far == address => *so_far += len,
                _ => pieces.push((address, len)),
            }
            at += len;
        }
        pieces
    }

    /// Frees the units of a file.
    pub fn free(&mut self, file: u64) {
        let of: Vec<(u64, u64)> = self
            .units
            .range((file, 0)..(file + 1, 0))
            .map(|u| *u.0)
            .collect();
        let units = of.iter().filter_map(|key| self.units.remove(key));
        self.freed.extend(units);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_share_no_unit_and_freed_ones_come_back() {
        let mut places = Places::default();
        assert_eq!(
            places.pieces(1, 100, 2 * UNIT_BYTES),
            [(100, 2 * UNIT_BYTES)]
        );
        assert_eq!(places.pieces(2, 0, 10), [(3 * UNIT_BYTES, 10)]);
        places.free(1);
        let pieces = places.pieces(3, 0, 4 * UNIT_BYTES);
        assert_eq!(pieces, [(0, 3 * UNIT_BYTES), (4 * UNIT_BYTES, UNIT_BYTES)]);
        assert_eq!(places.end_bytes(), 5 * UNIT_BYTES);
    }
}
