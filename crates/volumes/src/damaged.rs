//! What damage has cost volumes, and what it keeps in the journal, for people.
//!
//! Invariant: a loss is told until somebody acknowledges it. Called by the program.

use super::Volumes;
use super::kept::KeptWrites;
use crate::journal::{JournalDamage, LostWrites};
use store::Result;

/// Ranges that are named.
const RANGES_MAX: usize = 64;

impl Volumes {
    /// Writes that were acknowledged and that the journal has lost to damage.
    pub fn damage(&self) -> Vec<JournalDamage> {
        self.engine.losses.list()
    }

    /// Acknowledged writes that are lost, and how many more there were, until somebody acknowledges
    /// that.
    pub fn lost_writes(&self) -> (Vec<LostWrites>, u32) {
        self.engine.backing.journal.losses()
    }

    /// Somebody knows of the lost writes: they are not told any more.
    pub fn acknowledge_lost_writes(&self) -> Result<()> {
        // Nothing of the journal is needed then that shows the loss again.
        self.checkpoint()?;
        self.engine.checkpointer.trim_all()?;
        self.engine.backing.journal.acknowledge_losses()?;
        self.engine.losses.clear();
        Ok(())
    }

    /// What stays in the journal because it cannot be checkpointed, by name of the volume.
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
