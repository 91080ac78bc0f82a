//! Orders chunks by who owns them (GCCDF, EuroSys'25). `segment` calls this.
//!
//! Chunks are split in two by the newest owner: those that it refers to go to the right. Each part
//! is split by the next older owner, and so on, until a part is small. A part is in the order of the
//! newest recipe that has its chunks.
//!
//! Invariant: no I/O; the result has the same units.

use crate::collect::owners::{OWNERS_MAX, Owned};

/// Chunks that are copied together: one, or all of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub owned: Owned,
    /// Number of the container and of its region in the segment.
    pub source: u32,
    pub region: u32,
    /// Number of the first chunk in the region, and how many there are.
    pub first: u32,
    pub count: u32,
    /// Plain bytes.
    pub bytes: u64,
}

impl Unit {
    fn bit(&self, owner: usize) -> bool {
        self.owned.owners & ((1 << 31) >> owner) != 0
    }
}

/// Orders units, which come in the order in which they are stored.
pub(super) fn arrange(units: Vec<Unit>, part_bytes_max: u64) -> Vec<Unit> {
    let mut arranged = Vec::with_capacity(units.len());
    // The last one is the leftmost.
    let mut parts = vec![(units, 0)];
    while let Some((mut part, owner)) = parts.pop() {
        let bytes: u64 = part.iter().map(|unit| unit.bytes).sum();
        if owner == OWNERS_MAX || bytes <= part_bytes_max {
            // Stable: units without a recipe keep the stored order.
            part.sort_by_key(|unit| unit.owned.order);
            arranged.append(&mut part);
            continue;
        }
        let (owned, others): (Vec<_>, Vec<_>) = part.into_iter().partition(|u| u.bit(owner));
        let parts_of = [(owned, owner + 1), (others, owner + 1)];
        parts.extend(parts_of.into_iter().filter(|(part, _)| !part.is_empty()));
    }
    arranged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(number: u32, owners: u32, order: u64) -> Unit {
        Unit {
            owned: Owned { owners, order },
            source: 0,
            region: 0,
            first: number,
            count: 1,
            bytes: 10,
        }
    }

    fn numbers(units: &[Unit]) -> Vec<u32> {
        units.iter().map(|unit| unit.first).collect()
    }

    const NEWEST: u32 = 1 << 31;
    const SECOND: u32 = 1 << 30;

    #[test]
    fn owners_split_and_recipes_order() {
        let units = vec![
            unit(0, NEWEST, 9),
            unit(1, 0, u64::MAX),
            unit(2, NEWEST | SECOND, 4),
            unit(3, SECOND, 5),
            unit(4, NEWEST, 1),
            unit(5, 0, u64::MAX),
            unit(6, NEWEST | SECOND, 3),
        ];
        let arranged = arrange(units.clone(), 0);
        assert_eq!(numbers(&arranged), [1, 5, 3, 4, 0, 6, 2]);
        // The right half is small, so only its recipe counts.
        let arranged = arrange(units.clone(), 40);
        assert_eq!(numbers(&arranged), [3, 1, 5, 4, 6, 2, 0]);
        let arranged = arrange(units, 1000);
        assert_eq!(numbers(&arranged), [4, 6, 2, 3, 0, 1, 5]);
    }

    #[test]
    fn without_owners_the_stored_order_stays() {
        let units: Vec<_> = (0..100).map(|n| unit(n, 0, u64::MAX)).collect();
        assert_eq!(arrange(units.clone(), 0), units);
        assert_eq!(arrange(Vec::new(), 0), []);
    }
}
