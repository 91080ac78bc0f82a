//! Makes space within the budget: by eviction, by moving, by removing extents. `cache` calls this.
//!
//! Invariant: nothing leaves for something less important. Only the budget itself, when tables have
//! grown, may take from all, the least important first. Each loop ends: a turn takes something out
//! of memory, or is one of a fixed number.

use super::PageCache;
use crate::CHUNK_BYTES_MAX;
use crate::arena::Owner;
use crate::dirty::DirtyPages;
use crate::extent::{GRANULE_BYTES, Run, granules};
use crate::memory::Lacking;
use classes::{ClassSet, Need};
use std::sync::Arc;
use units::IoClass;

/// Number of chunks that leave at most so that a more important one can move.
const MOVES_MAX: u32 = 64;

impl PageCache {
    pub(super) fn evict(&self, need: Need) -> bool {
        self.evict_by(need, |classes| {
            self.clean.evict(classes) || self.dirty.evict(classes)
        })
    }

    /// Evicts a dirty page, because there are too many of them.
    pub(super) fn spill_one(&self) -> bool {
        self.evict_by(Need::Budget, |classes| self.dirty.evict(classes))
    }

    /// Asks classes to evict, the least important first, until one does.
    fn evict_by(&self, need: Need, evict: impl Fn(ClassSet) -> bool) -> bool {
        if !self.classes.are_distinct() {
            return evict(ClassSet::ALL);
        }
        let mut tried = ClassSet::NONE;
        while let Some(classes) = self.classes.next_to_evict(need, tried) {
            if evict(classes) {
                return true;
            }
            tried = tried.with(classes);
        }
        false
    }

    /// Makes the class evict its own, so that `len` more bytes stay within its share. Returns false
    /// if it cannot.
    pub(super) fn make_share(&self, class: IoClass, len: usize) -> bool {
        let bytes = u64::from(granules(len)) * GRANULE_BYTES as u64;
        while self.classes.fills_share(class, bytes) {
            let own = ClassSet::one(class);
            if !self.clean.evict(own) && !self.dirty.evict(own) {
                return false;
            }
        }
        true
    }

    /// Copies `bytes` within the budget; `None` when callers hold all memory, or everything in it
    /// is more important.
    pub(super) fn obtain(&self, bytes: &[u8], need: Need) -> Option<Arc<Run>> {
        if bytes.len() > CHUNK_BYTES_MAX {
            return None;
        }
        loop {
            let cleared = match self.memory.obtain(bytes) {
                Ok(run) => return Some(run),
                Err(Lacking::Window) => self.clear_window(bytes, need),
                Err(Lacking::Room) => None,
            };
            if cleared.is_some() || !self.evict(need) {
                return cleared.or_else(|| self.clear_window(bytes, need));
            }
        }
    }

    /// Moves the contents of a window of that size to free memory elsewhere.
    fn clear_window(&self, bytes: &[u8], need: Need) -> Option<Arc<Run>> {
        let window = self.memory.close_window(bytes.len())?;
        for owner in &window.owners {
            self.vacate(*owner, need);
        }
        self.memory.open_window(&window, bytes)
    }

    fn vacate(&self, owner: Owner, need: Need) -> Option<IoClass> {
        if DirtyPages::owns(owner) {
            self.dirty.vacate(owner, need)
        } else {
            self.clean.vacate(owner, need)
        }
    }

    /// Moves a chunk or page out of an extent that is to be removed. Less important ones leave if
    /// that helps; in the end it leaves itself.
    fn move_away(&self, owner: Owner) {
        let tries = match self.classes.are_distinct() {
            true => MOVES_MAX,
            false => 0,
        };
        for _ in 0..tries {
            match self.vacate(owner, Need::Nothing) {
                None => return,
                Some(class) if self.evict(Need::Above(class)) => {}
                Some(_) => break,
            }
        }
        self.vacate(owner, Need::Budget);
    }

    /// Removes an extent to make space for tables that have grown.
    pub(super) fn settle(&self) {
        let mut failed = 0;
        while self.memory.is_over() {
            while !self.memory.can_spare_an_extent() && self.evict(Need::Budget) {}
            let Some((extent, owners)) = self.memory.close_extent(failed) else {
                // Callers hold some of each extent; the next call tries again.
                return;
            };
            owners.into_iter().for_each(|owner| self.move_away(owner));
            failed += usize::from(!self.memory.remove_extent(extent));
        }
    }
}
