//! Which of several copies of a chunk stays.
//!
//! Invariant: the same for every reference to a chunk while no container comes or goes, and never one
//! that is not committed while a committed one exists. Called by the collector's marking.

use super::{ChunkMap, ChunkPlace, LoadedDirectory, Near};
use crate::error::Result;
use std::cmp::Reverse;
use std::sync::Arc;
use units::{ContainerId, Fingerprint};

/// The copy of a chunk that stays.
pub(crate) struct Kept {
    pub place: ChunkPlace,
    /// Number of the chunk in its container.
    pub number: u32,
    pub directory: Arc<LoadedDirectory>,
}

impl ChunkMap {
    /// The copy that stays: whole before damaged, in use before retired, the newest. Copies in
    /// containers that are not `settled` (their session may still fail) count only when there is no
    /// other. `None` when the chunk is nowhere.
    pub fn keeper(
        &self,
        fingerprint: &Fingerprint,
        settled: &dyn Fn(ContainerId) -> bool,
    ) -> Result<Option<Kept>> {
        if let Some(kept) = self.best(fingerprint, settled)? {
            return Ok(Some(kept));
        }
        match self.locate(fingerprint, &mut Near::default())? {
            Some(place) => self.kept_in(fingerprint, place.region.container),
            None => Ok(None),
        }
    }

    /// The same for a chunk that may be in no container: everything is read for it only when the
    /// index does not know all.
    pub fn keeper_indexed(
        &self,
        fingerprint: &Fingerprint,
        settled: &dyn Fn(ContainerId) -> bool,
    ) -> Result<Option<Kept>> {
        match self.index.is_damaged() || self.index.counters().dropped != 0 {
            true => self.keeper(fingerprint, settled),
            false => self.best(fingerprint, settled),
        }
    }

    /// The best of the copies that the index knows in settled containers.
    fn best(
        &self,
        fingerprint: &Fingerprint,
        settled: &dyn Fn(ContainerId) -> bool,
    ) -> Result<Option<Kept>> {
        let mut candidates = Vec::new();
        self.index.lookup(fingerprint, &mut candidates)?;
        let mut containers: Vec<_> = candidates.into_iter().map(|c| c.container).collect();
        containers.sort_by_key(|id| (self.quarantine.retired.holds(*id), Reverse(*id)));
        containers.dedup();
        let mut best: Option<Kept> = None;
        for id in containers.into_iter().filter(|id| settled(*id)) {
            match self.kept_in(fingerprint, id)? {
                Some(kept) if !self.quarantine.is_damaged(kept.place.region) => {
                    return Ok(Some(kept));
                }
                kept => best = best.or(kept),
            }
        }
        Ok(best)
    }

    fn kept_in(&self, fingerprint: &Fingerprint, id: ContainerId) -> Result<Option<Kept>> {
        let directory = match self.directory(id) {
            Err(e) if e.is_corruption() => return Ok(None),
            other => other?,
        };
        let found = directory
            .find(fingerprint)
            .zip(directory.number(fingerprint));
        Ok(found.map(|(place, number)| Kept {
            place,
            number,
            directory,
        }))
    }
}
