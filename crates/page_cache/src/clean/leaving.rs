//! Forgets places, and evicts or moves frames. The clean side calls this.
//!
//! Invariant: no search by content finds a frame that is being evicted. The frame keeps its slot
//! until its places have been removed one by one, each under its own lock.

use super::{CleanPages, Places, local};
use crate::Place;
use crate::content::ContentShard;
use crate::policy::{FrameHeat, FrameId, Heat};
use classes::{ClassSet, Need};
use std::sync::atomic::Ordering;
use units::IoClass;

impl CleanPages {
    /// Removes an alias from the table after it was removed from its frame.
    pub(super) fn removed(&self, places: &mut Places, (hash, place): (u64, Place), id: u32) {
        let found = places.remove(hash, id);
        debug_assert!(found, "an alias is in the table");
        self.aliases.fetch_sub(1, Ordering::Relaxed);
        self.events.removed(place);
    }

    pub fn forget_place(&self, place: Place) {
        self.forget_if(place, |_| true);
    }

    pub(super) fn forget_if(&self, place: Place, wanted: impl Fn(u32) -> bool) {
        let hash = self.hash(place);
        let mut places = self.places(hash);
        let unlink = |content: &mut ContentShard, alias, frame| {
            let leaves = wanted(frame);
            if leaves {
                content.remove_alias(alias);
            }
            leaves
        };
        if let Some((id, true)) = self.with_alias(&places, (hash, place), unlink) {
            self.removed(&mut places, (hash, place), id);
        }
    }

    pub fn forget_object(&self, object: u64) {
        for shard in 0..self.contents.len() {
            let places = self.content(shard).places_of(object);
            for place in places {
                self.forget_place(place);
            }
        }
    }

    /// Evicts one chunk of these classes. Returns false when there is none.
    pub fn evict(&self, classes: ClassSet) -> bool {
        let mut policy = self.policy.lock();
        let before = policy.memory_bytes();
        let victim = policy.victim(classes, &mut Heating(self));
        let now = policy.memory_bytes();
        drop(policy);
        self.memory.adjust(before, now);
        if let Some(FrameId(id)) = victim {
            self.drop_frame(id, true);
        }
        victim.is_some()
    }

    fn drop_frame(&self, id: u32, is_forgotten_by_policy: bool) {
        let (shard, frame) = local(id);
        let mut content = self.content(shard);
        if !content.begin_eviction(frame, is_forgotten_by_policy) {
            return;
        }
        while let Some(place) = content.oldest_place(frame) {
            drop(content);
            self.forget_if(place, |found| found == id);
            content = self.content(shard);
        }
        let run = content.end_eviction(frame, &self.classes);
        // Free the bytes only after the lock is released.
        drop(content);
        drop(run);
    }

    /// Vacates the frame's memory: moves the frame, or else evicts it if the need allows that,
    /// unless a caller reads it now. Returns its class if neither is possible.
    pub fn vacate(&self, id: u32, need: Need) -> Option<IoClass> {
        let (shard, frame) = local(id);
        let mut content = self.content(shard);
        let class = content.class_of(frame);
        let run = content.movable(frame)?;
        match self.memory.relocate(run.bytes()) {
            Some(moved) => {
                self.memory.set_owner(&moved, id);
                let left = std::mem::replace(run, moved);
                drop(content);
                drop(left);
                None
            }
            None => {
                drop(content);
                let stays = class.filter(|class| !self.classes.may_evict(*class, need));
                if stays.is_none() {
                    self.drop_frame(id, false);
                }
                stays
            }
        }
    }
}

/// Asks the content shards for heat while the policy is locked.
struct Heating<'a>(&'a CleanPages);

impl FrameHeat for Heating<'_> {
    fn cool(&mut self, FrameId(id): FrameId) -> Heat {
        let (shard, frame) = local(id);
        self.0.content(shard).cool(frame)
    }

    fn moved(&mut self, FrameId(id): FrameId) {
        let (shard, frame) = local(id);
        self.0.content(shard).moved(frame, &self.0.classes);
    }
}
