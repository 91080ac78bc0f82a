//! Orders chunks by who owns them (GCCDF, EuroSys'25). `segment` calls this.
//!
//! Chunks are split in two by the newest owner: those that it refers to go to the right. Chunks
//! without an owner so far are split by the next older owner, and so on: so chunks that die
//! together lie together. A part that has an owner is split by older ones only where both halves
//! are large, because a small half would scatter the newest owner's chunks. A part is in the order
//! of the newest recipe that has its chunks.
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

/// Chunks that no owner so far, or one owner, tells apart from others.
struct Part {
    units: Vec<Unit>,
    /// The next owner to split by.
    owner: usize,
    has_owner: bool,
}

impl Part {
    fn bytes(&self) -> u64 {
        self.units.iter().map(|unit| unit.bytes).sum()
    }

    /// Splits by the next owner: chunks without it, and chunks with it.
    fn split(self) -> [Self; 2] {
        let Self {
            units,
            owner,
            has_owner,
        } = self;
        let (with, without) = units.into_iter().partition(|unit| unit.bit(owner));
        let part = |units, has_owner| Self {
            units,
            owner: owner + 1,
            has_owner,
        };
        [part(without, has_owner), part(with, true)]
    }

    /// Puts two halves together again.
    fn joined(without: Self, with: Self) -> Self {
        let mut units = without.units;
        units.extend(with.units);
        Self { units, ..with }
    }
}

/// Orders units, which come in the order in which they are stored. Parts with an owner are at least
/// `part_bytes_min` long where they were split.
pub(super) fn arrange(units: Vec<Unit>, part_bytes_min: u64) -> Vec<Unit> {
    let mut arranged = Vec::with_capacity(units.len());
    // The last one is the leftmost.
    let mut parts = vec![Part {
        units,
        owner: 0,
        has_owner: false,
    }];
    while let Some(mut part) = parts.pop() {
        if part.owner == OWNERS_MAX {
            // Stable: units without a recipe keep the stored order.
            part.units.sort_by_key(|unit| unit.owned.order);
            arranged.append(&mut part.units);
            continue;
        }
        let has_owner = part.has_owner;
        let [without, with] = part.split();
        let smaller = without.bytes().min(with.bytes());
        match has_owner && smaller < part_bytes_min {
            true => parts.push(Part::joined(without, with)),
            false => {
                let halves = [with, without].into_iter();
                parts.extend(halves.filter(|half| !half.units.is_empty()));
            }
        }
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
        let arranged = arrange(units.clone(), 1);
        assert_eq!(numbers(&arranged), [1, 5, 3, 4, 0, 6, 2]);
        // The newest owner's chunks stay in its order if a half of them would be small.
        let arranged = arrange(units.clone(), 21);
        assert_eq!(numbers(&arranged), [1, 5, 3, 4, 6, 2, 0]);
    }

    #[test]
    fn without_owners_the_stored_order_stays() {
        let units: Vec<_> = (0..100).map(|n| unit(n, 0, u64::MAX)).collect();
        assert_eq!(arrange(units.clone(), 1), units);
        assert_eq!(arrange(Vec::new(), 1), []);
    }
}
