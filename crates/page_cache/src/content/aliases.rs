//! Manages the places of a shard's frames. `content` calls this.
//!
//! Invariant: the aliases of a frame form a ring. The frame names the newest, whose `newer` is the
//! oldest.

use super::{ContentShard, NONE, push_slot};
use crate::Place;

/// Maximum number of places remembered for one chunk. It bounds the work of an eviction.
pub(super) const ALIASES_MAX: u16 = 1024;

/// A place of a frame; 32 bytes.
pub(super) struct Alias {
    place: Place,
    /// `NONE` in a free slot.
    frame: u32,
    /// Next older alias in the ring of the frame. In a free slot: the next free one.
    older: u32,
    newer: u32,
}

const _: () = assert!(size_of::<Alias>() == 32);

impl ContentShard {
    /// Returns the frame if that slot is an alias of `place`.
    pub fn frame_of(&self, alias: u32, place: Place) -> Option<u32> {
        let alias = self.aliases.get(alias as usize)?;
        (alias.frame != NONE && alias.place == place).then_some(alias.frame)
    }

    /// Returns the place of an alias.
    pub fn place_of(&self, alias: u32) -> Option<Place> {
        let alias = self.aliases.get(alias as usize)?;
        (alias.frame != NONE).then_some(alias.place)
    }

    /// Returns the place that has named the frame for the longest time.
    pub fn oldest_place(&self, frame: u32) -> Option<Place> {
        let newest = self.aliases.get(self.entry(frame)?.newest as usize)?;
        Some(self.aliases.get(newest.newer as usize)?.place)
    }

    /// Returns true if the frame has more aliases than allowed.
    pub fn has_too_many_aliases(&self, frame: u32) -> bool {
        self.entry(frame).is_some_and(|e| e.aliases > ALIASES_MAX)
    }

    /// Returns the number of the frame's aliases.
    pub fn aliases(&self, frame: u32) -> u16 {
        self.entry(frame).map_or(0, |e| e.aliases)
    }

    /// Adds a place that is not an alias yet; `None` when the shard is full.
    pub fn add_alias(&mut self, frame: u32, place: Place) -> Option<u32> {
        let alias = Alias {
            place,
            frame,
            older: NONE,
            newer: NONE,
        };
        let free = self.alias_free;
        let id = match self.aliases.get_mut(free as usize) {
            Some(slot) => {
                self.alias_free = slot.older;
                *slot = alias;
                free
            }
            None => push_slot(&mut self.aliases, alias)?,
        };
        let entry = self.frames.get_mut(frame as usize)?;
        let bytes = entry.run.as_ref().map_or(0, |r| r.bytes().len()) as u64;
        let newest = std::mem::replace(&mut entry.newest, id);
        entry.aliases += 1;
        self.counters.places += 1;
        if newest == NONE {
            self.link(id, id);
        } else {
            self.counters.bytes_shared += bytes;
            let oldest = self.aliases.get(newest as usize).map_or(id, |a| a.newer);
            self.link(id, newest);
            self.link(oldest, id);
        }
        Some(id)
    }

    /// Removes an alias from its frame.
    pub fn remove_alias(&mut self, id: u32) {
        let Some(alias) = self.aliases.get_mut(id as usize) else {
            return;
        };
        let frame = std::mem::replace(&mut alias.frame, NONE);
        let (older, newer) = (alias.older, alias.newer);
        alias.older = self.alias_free;
        self.alias_free = id;
        self.counters.places -= 1;
        let Some(entry) = self.frames.get_mut(frame as usize) else {
            return;
        };
        entry.aliases -= 1;
        if entry.aliases == 0 {
            entry.newest = NONE;
            return;
        }
        self.counters.bytes_shared -= entry.run.as_ref().map_or(0, |r| r.bytes().len()) as u64;
        if entry.newest == id {
            entry.newest = older;
        }
        self.link(newer, older);
    }

    fn link(&mut self, newer: u32, older: u32) {
        if let Some(alias) = self.aliases.get_mut(newer as usize) {
            alias.older = older;
        }
        if let Some(alias) = self.aliases.get_mut(older as usize) {
            alias.newer = newer;
        }
    }

    /// Returns all places of one object.
    pub fn places_of(&self, object: u64) -> Vec<Place> {
        let of = |a: &&Alias| a.frame != NONE && a.place.object == object;
        self.aliases.iter().filter(of).map(|a| a.place).collect()
    }
}
