//! What a scrub found: told at once, noted in the pool soon.
//!
//! Invariant: what is set aside was set aside before it gets here; a note that is not made is made
//! by the next commit of this process. Called by `scrub` and by the server's thread.

use crate::console::Console;
use crate::json::Object;
use maintenance::{ScrubFindings, Unread};
use store::{Damaged, LaneOptions, Pool, RegionPlace, StoreError};

/// Of one pass.
#[derive(Default)]
pub(in crate::commands) struct Findings {
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

impl Findings {
    /// Takes up what a step found, all of it before anything is told: output may fail.
    pub fn add(&mut self, console: &Console, found: ScrubFindings) -> std::io::Result<()> {
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
        tell(console, &found)
    }

    /// Tells that the device did not give a container.
    pub fn add_failure(&mut self, console: &Console, unread: &Unread) {
        let Unread { container, error } = unread;
        self.failures += 1;
        console.warn(format_args!(
            "container {container} was not verified: {error}"
        ));
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

fn tell(console: &Console, found: &ScrubFindings) -> std::io::Result<()> {
    for damaged in &found.damaged {
        let text = words(damaged);
        if damaged.is_known && !damaged.is_restored() {
            console.note(format_args!("{text} (known)"));
            continue;
        }
        console.warn(format_args!("damage: {text}"));
        console.message(
            Object::message("damage")
                .text("message", &damaged.why)
                .text("place", &damaged.place.to_string())
                .integer("chunks", damaged.chunks)
                .integer("chunks_elsewhere", damaged.chunks_elsewhere)
                .integer("restored_sectors", damaged.restored_sectors),
        )?;
    }
    for place in &found.taken_back {
        console.note(format_args!("{place} is as it was written: taken back"));
    }
    Ok(())
}

fn words(damaged: &Damaged) -> String {
    let Damaged {
        why,
        chunks,
        chunks_elsewhere,
        ..
    } = damaged;
    if damaged.is_restored() {
        let sectors = damaged.restored_sectors;
        return format!("{why}; parity restored {sectors} sectors of 4 KiB: nothing is lost");
    }
    match (*chunks, damaged.is_repaired()) {
        (0, _) => format!("{why}; what can be read of it is stored anew"),
        (_, true) => format!("{why}; nothing is lost: its {chunks} chunks lie elsewhere too"),
        _ => format!("{why}; {chunks_elsewhere} of its {chunks} chunks lie elsewhere too"),
    }
}
