//! What a scrub found, until it is noted in the pool.
//!
//! Invariant: what is set aside was set aside before it gets here; a note that is not made is made
//! by the next commit of this process. Called by `scrub` and by the server's thread.

use maintenance::{ScrubFindings, Unread};
use store::{LaneOptions, Pool, RegionPlace, StoreError};

/// Of one pass.
#[derive(Default)]
pub struct ScrubNotes {
    /// Places found damaged.
    pub damaged: u64,
    /// ... of them, those that the pool did not know of.
    pub news: u64,
    /// Containers that the device did not give.
    pub failures: u64,
    /// Something has to be noted in the pool.
    is_unnoted: bool,
    /// Whole containers of which what can be read is to be stored anew.
    whole: Vec<RegionPlace>,
}

impl ScrubNotes {
    /// Takes up what a step found.
    pub fn add(&mut self, found: &ScrubFindings) {
        for damaged in &found.damaged {
            self.damaged += 1;
            if damaged.is_restored() {
                self.news += 1;
                // The pool's note goes.
                self.is_unnoted |= damaged.is_known;
            } else if !damaged.is_known {
                self.news += 1;
                self.is_unnoted = true;
                self.whole
                    .extend(Some(damaged.place).filter(RegionPlace::is_whole));
            }
        }
        self.is_unnoted |= !found.taken_back.is_empty();
    }

    /// True when something is to be noted in the pool.
    pub fn is_unnoted(&self) -> bool {
        self.is_unnoted
    }

    /// Notes it; it is this process's turn to write.
    pub fn note(&mut self, pool: &Pool, lane: LaneOptions) -> Result<(), StoreError> {
        if self.is_unnoted {
            pool.note_damage(&self.whole, lane)?;
            self.is_unnoted = false;
            self.whole.clear();
        }
        Ok(())
    }
}

/// Says that the device did not give a container.
pub fn unread_words(unread: &Unread) -> String {
    let Unread { container, error } = unread;
    format!("container {container} was not verified: {error}")
}
