//! The limits of a layout: how much a step may do, how much a part may cost until it is given up,
//! and how many bytes collections take. `volume` and `part` charge everything here; each kind of
//! file system only says what it did.
//!
//! Invariant: no clock. A unit of work takes about a microsecond at most: moving a few runs,
//! decoding a KiB. Reads and work are counted where they happen: in [`super::source::Meter`] and in
//! [`super::runs::Runs`].

const MIB: u64 = 1 << 20;

/// How much a step may still do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Reads of the volume.
    pub reads: u64,
    /// Units of work.
    pub work: u64,
}

impl Budget {
    /// Work that goes with one read, as a rule far more than it takes.
    pub const WORK_A_READ: u64 = 2048;

    /// A budget of `reads`, and of work in proportion.
    pub fn of_reads(reads: u64) -> Self {
        Self {
            reads: reads.max(1),
            work: reads.max(1).saturating_mul(Self::WORK_A_READ),
        }
    }

    /// Nothing is left.
    pub fn is_spent(&self) -> bool {
        self.reads == 0 || self.work == 0
    }

    /// Subtracts a cost; what is missing is forgiven.
    pub fn charge(&mut self, cost: Cost) {
        self.reads = self.reads.saturating_sub(cost.reads);
        self.work = self.work.saturating_sub(cost.work);
    }
}

/// The cost of something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// Reads of the volume.
    pub reads: u64,
    /// Units of work.
    pub work: u64,
}

impl Cost {
    /// Adds another cost.
    pub fn add(&mut self, other: Self) {
        self.reads = self.reads.saturating_add(other.reads);
        self.work = self.work.saturating_add(other.work);
    }

    /// The most that a part of `len_bytes` may cost until everything in it is known: enough for the
    /// inode tables of ext4 as `mkfs` makes them, all in use.
    pub fn allowed(len_bytes: u64, memory_bytes: u64) -> Self {
        let mib = len_bytes / MIB;
        Self {
            // A map entry takes tens of bytes: more reads than entries find nothing new.
            reads: (8192 + memory_bytes / 64).saturating_add(mib / 4),
            work: memory_bytes
                .saturating_add(4 * MIB)
                .saturating_add(mib.saturating_mul(64)),
        }
    }

    /// Either is above the other's.
    pub fn exceeds(&self, allowed: &Self) -> bool {
        self.reads > allowed.reads || self.work > allowed.work
    }
}

/// Why a part is not read any further, until it changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GaveUp {
    /// It takes more memory, reads or work than there is for it, perhaps because it contradicts
    /// itself.
    TooLarge,
    /// A place that everything else depends on cannot be read.
    Unreadable,
}

/// Counts of everything that was left out or forgotten for lack of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shed {
    /// How often.
    pub times: u64,
    /// Memory that it would take, bytes; an estimate.
    pub bytes: u64,
}

impl Shed {
    /// Notes that something of about `bytes` bytes was left out.
    pub fn note(&mut self, bytes: usize) {
        self.times = self.times.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }
}

/// Bytes that a B-tree of `len` entries of `entry` bytes takes at most: nodes hold 5 to 11 entries,
/// and ascending ones fill them to the half.
pub const fn tree_bytes(len: usize, entry: usize) -> usize {
    if len == 0 {
        return 0;
    }
    let leaf = 11 * entry + 24;
    let inner = leaf + 12 * 8;
    // At least 5 entries a leaf, and 6 children an inner node.
    leaf * (1 + len / 5) + inner * (1 + len / 30)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_ends_with_its_reads_or_its_work() {
        let mut budget = Budget::of_reads(0);
        assert!(!budget.is_spent(), "a step does something");
        budget.charge(Cost { reads: 1, work: 0 });
        assert!(budget.is_spent());
        let mut budget = Budget::of_reads(2);
        budget.charge(Cost {
            reads: 0,
            work: u64::MAX,
        });
        assert!(budget.is_spent());
    }

    #[test]
    fn allowances_never_overflow() {
        let most = Cost::allowed(u64::MAX, u64::MAX);
        assert!(!most.exceeds(&most) && most.exceeds(&Cost::allowed(0, 0)));
    }
}
