//! Reports damage: writes that volumes lost, and writes that stay in the journal because of it.
//!
//! The server calls this.
//! Invariant: a loss is reported until a user acknowledges it.

use super::Volumes;
use super::kept::KeptWrites;
use journal::{JournalDamage, LostWrites};
use store::Result;

/// Maximum number of ranges that are listed.
const RANGES_MAX: usize = 64;

impl Volumes {
    /// Returns acknowledged writes that the journal lost to damage.
    pub fn damage(&self) -> Vec<JournalDamage> {
        self.engine.losses.list()
    }

    /// Returns lost acknowledged writes that no user has acknowledged, and how many more there
    /// were.
    pub fn lost_writes(&self) -> (Vec<LostWrites>, u32) {
        self.engine.backing.journal.losses()
    }

    /// Ends the reports of lost writes, because a user acknowledged them.
    pub fn acknowledge_lost_writes(&self) -> Result<()> {
        // After this, replay needs no part of the journal that would show the loss again.
        self.checkpoint()?;
        self.engine.checkpointer.trim_all()?;
        self.engine.backing.journal.acknowledge_losses()?;
        self.engine.losses.clear();
        Ok(())
    }

    /// Returns the writes that stay in the journal because they cannot be checkpointed, ordered by
    /// the volume's name.
    pub fn kept_writes(&self) -> Vec<KeptWrites> {
        let registry = self.engine.registry.lock();
        let kept = registry.values().filter_map(|registered| {
            let kept = registered.volume.state().kept.clone()?;
            Some(KeptWrites {
                name: registered.record.name.clone(),
                ranges: kept.ranges.iter().take(RANGES_MAX).cloned().collect(),
                why: kept.why.clone(),
                bytes: kept.bytes,
                refuses: self.engine.levels.is_too_much(&kept),
            })
        });
        let mut list: Vec<_> = kept.collect();
        list.sort_by(|a, b| a.name.cmp(&b.name));
        list
    }
}
