//! Findings of a scrub until they are recorded in the pool. `scrub` and the server's scrub thread
//! call this.
//!
//! Invariant: damaged regions are in quarantine before they get here. If recording fails, the next
//! commit of this process records them.

use maintenance::{ScrubFindings, Unread};
use store::{LaneOptions, Pool, RegionPlace, StoreError};

/// Findings of one pass.
#[derive(Default)]
pub struct ScrubNotes {
    /// Number of damaged places.
    pub damaged: u64,
    /// Number of damaged places that the pool did not know or that parity restored.
    pub news: u64,
    /// Number of containers that could not be read from the device.
    pub failures: u64,
    /// A finding must be recorded in the pool.
    is_unnoted: bool,
    /// Damaged containers, as a whole, whose readable chunks are to be stored again.
    whole: Vec<RegionPlace>,
}

impl ScrubNotes {
    /// Adds the findings of a step.
    pub fn add(&mut self, found: &ScrubFindings) {
        for damaged in &found.damaged {
            self.damaged += 1;
            if damaged.is_restored() {
                self.news += 1;
                // The pool's record of this damage must be removed.
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

    /// Returns true if a finding must be recorded in the pool.
    pub fn is_unnoted(&self) -> bool {
        self.is_unnoted
    }

    /// Records the findings. The caller must have the writer lock.
    pub fn note(&mut self, pool: &Pool, lane: LaneOptions) -> Result<(), StoreError> {
        if self.is_unnoted {
            pool.note_damage(&self.whole, lane)?;
            self.is_unnoted = false;
            self.whole.clear();
        }
        Ok(())
    }
}

/// Returns the message about a container that could not be read.
pub fn unread_words(unread: &Unread) -> String {
    let Unread { container, error } = unread;
    format!("cannot verify container {container}: {error}")
}
