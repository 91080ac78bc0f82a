//! Units of work, and sets of them. Sessions, the driver and progress use them.
//!
//! Invariant: each unit has a bit of its own; a unit without one is never done.

use crate::sparse_set::SparseSet;
use std::ops::Range;

/// The unit in which a task works: a container, a file, a range of a volume. The task chooses the
/// meaning of the numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Work {
    /// Number of the object.
    pub object: u64,
    /// Part of the object; 0 if objects are not divided.
    pub part: u64,
}

/// Maximum number of bits of a part's number.
pub const PART_BITS_MAX: u32 = 62;

/// A set of units of work.
#[derive(Clone, Debug)]
pub struct WorkSet {
    part_bits: u32,
    set: SparseSet,
}

impl WorkSet {
    /// Creates an empty set. An object has at most `2^part_bits` parts, of at most
    /// [`PART_BITS_MAX`] bits. Neighbouring objects share memory, so fewer bits make a smaller set.
    pub fn new(part_bits: u32) -> Self {
        Self {
            part_bits: part_bits.min(PART_BITS_MAX),
            set: SparseSet::default(),
        }
    }

    /// Returns `None` for a part that has no bit.
    fn number(&self, work: Work) -> Option<u128> {
        let part = u128::from(work.part);
        let number = u128::from(work.object) << self.part_bits | part;
        (part >> self.part_bits == 0).then_some(number)
    }

    /// Returns true if the unit is in the set.
    pub fn contains(&self, work: Work) -> bool {
        self.number(work).is_some_and(|n| self.set.contains(n))
    }

    /// Returns false if the unit was in the set, or has no bit because its part needs more than
    /// `part_bits` bits.
    pub fn insert(&mut self, work: Work) -> bool {
        self.number(work).is_some_and(|n| self.set.insert(n))
    }

    /// Returns false if the unit was not in the set.
    pub fn remove(&mut self, work: Work) -> bool {
        self.number(work).is_some_and(|n| self.set.remove(n))
    }

    /// Removes all parts of an object.
    pub fn remove_object(&mut self, object: u64) {
        let first = u128::from(object) << self.part_bits;
        self.set.remove_range(first..first + (1 << self.part_bits));
    }

    /// Returns the lowest unit; `None` if the set is empty.
    pub fn first(&self) -> Option<Work> {
        let number = self.set.first()?;
        let part = number & ((1 << self.part_bits) - 1);
        Some(Work {
            object: (number >> self.part_bits) as u64,
            part: part as u64,
        })
    }

    /// Number of units.
    pub fn len(&self) -> u128 {
        self.set.len()
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Approximate memory, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.set.memory_bytes()
    }

    /// See [`new`](Self::new).
    pub fn part_bits(&self) -> u32 {
        self.part_bits
    }

    /// The set as ranges of numbers: object, then part in the lowest `part_bits` bits.
    pub(crate) fn ranges(&self) -> Vec<Range<u128>> {
        self.set.ranges()
    }

    /// Inserts all numbers of a range; returns false if some are not numbers of this set.
    pub(crate) fn insert_range(&mut self, range: Range<u128>) -> bool {
        let fits = range.end <= 1 << (u64::BITS + self.part_bits);
        if fits {
            self.set.insert_range(range);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published code had one done bit for 4096 inodes.
    #[test]
    fn neighbours_have_bits_of_their_own() {
        for part_bits in [0, 3, 12, PART_BITS_MAX] {
            let mut done = WorkSet::new(part_bits);
            let all: Vec<Work> = (0..9_998).map(|object| Work { object, part: 0 }).collect();
            for (nth, work) in all.iter().enumerate().step_by(3) {
                assert!(done.insert(*work));
                assert!(!done.contains(all[nth + 1]), "{part_bits} bits: {nth}");
            }
            for (nth, work) in all.iter().enumerate() {
                assert_eq!(
                    done.contains(*work),
                    nth % 3 == 0,
                    "{part_bits} bits: {nth}"
                );
            }
        }
    }

    #[test]
    fn a_part_without_a_bit_has_no_other_owner() {
        let mut done = WorkSet::new(4);
        let beyond = Work {
            object: 1,
            part: 16,
        };
        assert!(!done.insert(beyond) && !done.contains(beyond));
        assert!(!done.contains(Work { object: 2, part: 0 }));
        assert!(done.is_empty());
    }

    #[test]
    fn an_object_is_forgotten_alone() {
        for part_bits in [0, 4, PART_BITS_MAX] {
            let mut done = WorkSet::new(part_bits);
            let parts = 1u64 << part_bits.min(4);
            for object in 0..600 {
                (0..parts).for_each(|part| {
                    done.insert(Work { object, part });
                });
            }
            done.remove_object(300);
            assert_eq!(done.len(), u128::from(599 * parts));
            assert!(!done.contains(Work {
                object: 300,
                part: 0
            }));
            assert!(done.contains(Work {
                object: 299,
                part: parts - 1
            }));
            assert!(done.contains(Work {
                object: 301,
                part: 0
            }));
        }
    }
}
