//! Which class evicts: classes in the order of their importance, and which of them have blocks.
//! `eviction` calls this.
//!
//! Invariant: a choice looks at each class once at most.

use super::lists::Lists;
use crate::CLASSES;
use crate::settings::Priority;

/// Smallest number of blocks that the smallest class gives in one distribution (OCF:
/// `MIN_EVICT_QUOTA`).
const QUOTA_MIN: u64 = 256;

const _: () = assert!(CLASSES <= u64::BITS as usize);

#[derive(Clone, Debug)]
pub(super) struct Ranks {
    /// Lists from the least important to the most important.
    order: [u8; CLASSES],
    /// Position of each list in `order`.
    position: [u8; CLASSES],
    priority: [Priority; CLASSES],
    /// Positions whose list has blocks, a bit each.
    filled: u64,
    /// Positions whose list is above its share.
    over: u64,
    /// Positions that others may evict from.
    evictable: u64,
    /// Blocks that each list still gives before the next distribution.
    credits: [u64; CLASSES],
}

impl Default for Ranks {
    fn default() -> Self {
        Self::new(&[Priority::Evictable(0); CLASSES])
    }
}

impl Ranks {
    /// The caller notes all lists afterwards.
    pub(super) fn new(priority: &[Priority; CLASSES]) -> Self {
        let mut order = [0; CLASSES];
        for (slot, list) in order.iter_mut().zip(0..) {
            *slot = list;
        }
        let of = |list: &u8| priority.get(usize::from(*list)).copied();
        // Stable: of equal ones the smaller number is asked first.
        order.sort_by_key(|list| std::cmp::Reverse(of(list)));
        let mut position = [0; CLASSES];
        let mut evictable = 0;
        for (at, list) in (0..).zip(&order) {
            if let Some(slot) = position.get_mut(usize::from(*list)) {
                *slot = at;
            }
            if of(list) != Some(Priority::Pinned) {
                evictable |= 1 << at;
            }
        }
        Self {
            order,
            position,
            priority: *priority,
            filled: 0,
            over: 0,
            evictable,
            credits: [0; CLASSES],
        }
    }

    /// Notes whether a list has blocks, and whether it is above its share.
    pub(super) fn note(&mut self, list: usize, is_filled: bool, is_over: bool) {
        let bit = 1 << self.position.get(list).copied().unwrap_or(0);
        for (mask, is) in [(&mut self.filled, is_filled), (&mut self.over, is_over)] {
            *mask = if is { *mask | bit } else { *mask & !bit };
        }
    }

    fn list_at(&self, position: u32) -> Option<usize> {
        let list = self.order.get(position as usize)?;
        Some(usize::from(*list))
    }

    fn priority_of(&self, list: usize) -> Priority {
        let priority = self.priority.get(list);
        priority.copied().unwrap_or(Priority::Evictable(255))
    }

    pub(super) fn least_important_over(&self) -> Option<usize> {
        match self.over {
            0 => None,
            over => self.list_at(over.trailing_zeros()),
        }
    }

    /// Returns the filled lists that may evict for `list`, from the least important.
    fn below(&self, list: usize) -> impl Iterator<Item = usize> {
        let priority = self.priority_of(list);
        let mut left = self.filled & self.evictable;
        std::iter::from_fn(move || {
            let found = self.list_at(left.trailing_zeros())?;
            left &= left.wrapping_sub(1);
            (self.priority_of(found) >= priority).then_some(found)
        })
    }

    /// Returns the least important list that is not more important than `list`; of equal ones that
    /// with the oldest block.
    pub(super) fn least_important(&self, list: usize, lists: &Lists) -> Option<usize> {
        let mut below = self.below(list);
        let first = below.next()?;
        let priority = self.priority_of(first);
        let equal = below.take_while(|other| self.priority_of(*other) == priority);
        std::iter::once(first)
            .chain(equal)
            .min_by_key(|equal| lists.oldest_stamp(*equal))
    }

    /// Returns a list that is not more important than `list`, each in proportion to its size.
    pub(super) fn in_proportion(&mut self, list: usize, lists: &Lists) -> Option<usize> {
        if let Some(victim) = self.with_credit(list) {
            return Some(victim);
        }
        let sizes = || {
            self.below(list)
                .map(|list| (list, u64::from(lists.len(list))))
        };
        let least = sizes().map(|(_, len)| len).min()?.max(QUOTA_MIN);
        let mut credits = self.credits;
        for (list, len) in sizes() {
            if let Some(credit) = credits.get_mut(list) {
                *credit = (len * QUOTA_MIN / least).max(1);
            }
        }
        self.credits = credits;
        self.with_credit(list)
    }

    fn with_credit(&mut self, list: usize) -> Option<usize> {
        let credit = |list: &usize| self.credits.get(*list).is_some_and(|credit| *credit > 0);
        let victim = self.below(list).find(credit)?;
        if let Some(credit) = self.credits.get_mut(victim) {
            *credit -= 1;
        }
        Some(victim)
    }
}
