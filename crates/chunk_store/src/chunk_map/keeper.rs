//! Chooses which of several copies of a chunk garbage collection keeps. Marking, check and
//! `Pool::space` call this.
//!
//! Invariant: the choice is the same for every reference to a chunk while no container is created
//! or deleted. It is never in a deleted container, and never in an uncommitted one while a
//! committed copy exists.

use super::{ChunkMap, ChunkPlace, FingerprintSet, LoadedDirectory, Near};
use crate::error::Result;
use std::cmp::Reverse;
use std::sync::Arc;
use units::{ContainerId, Fingerprint};

/// The copy of a chunk that is kept.
pub struct KeptCopy {
    /// Its place.
    pub place: ChunkPlace,
    /// Number of the chunk in its container.
    pub number: u32,
    /// The directory that confirms it.
    pub directory: Arc<LoadedDirectory>,
}

/// Answer of the index about the copy to keep.
pub enum Indexed {
    /// This copy is kept.
    Kept(KeptCopy),
    /// No settled container has a copy, if the index is right.
    Nowhere,
    /// The known copies are damaged or deleted, and the index may have dropped a better one.
    Unsure,
}

impl ChunkMap {
    /// Returns the container that [`Self::keeper`] chooses if the index is right. Reads no
    /// directory: callers with many chunks put them in the order of these containers, so that
    /// each directory is read once.
    pub fn expected_keeper(
        &self,
        fingerprint: &Fingerprint,
        settled: &dyn Fn(ContainerId) -> bool,
    ) -> Result<Option<ContainerId>> {
        let (containers, _) = self.candidates(fingerprint)?;
        Ok(containers.into_iter().find(|id| settled(*id)))
    }

    /// Returns the result of [`Self::keeper`], without the index where `expected` of
    /// [`Self::expected_keeper`] still holds.
    pub fn keeper_expected(
        &self,
        fingerprint: &Fingerprint,
        expected: Option<ContainerId>,
        settled: &dyn Fn(ContainerId) -> bool,
    ) -> Result<Option<KeptCopy>> {
        if let Some(id) = expected
            && !self.quarantine.retired.holds(id)
            && let Some(kept) = self.kept_in(fingerprint, id)?
            && !self.quarantine.is_damaged(kept.place.region)
        {
            return Ok(Some(kept));
        }
        self.keeper(fingerprint, settled)
    }

    /// Returns the copy to keep: sound before damaged, in use before retired, then the newest.
    /// Copies in containers that are not `settled` (their session may still fail) count only if
    /// there is no other. Returns `None` if the chunk is nowhere.
    pub fn keeper(
        &self,
        fingerprint: &Fingerprint,
        settled: &dyn Fn(ContainerId) -> bool,
    ) -> Result<Option<KeptCopy>> {
        if let Indexed::Kept(kept) = self.keeper_indexed(fingerprint, settled)? {
            return Ok(Some(kept));
        }
        self.enter_all()?;
        match self.keeper_indexed(fingerprint, settled)? {
            Indexed::Kept(kept) => return Ok(Some(kept)),
            Indexed::Nowhere => {}
            Indexed::Unsure => {
                let wanted = FingerprintSet::from_iter([*fingerprint]);
                let mut best = None;
                self.search_settled(&wanted, settled, &mut |kept| best = Some(kept))?;
                if best.is_some() {
                    return Ok(best);
                }
            }
        }
        match self.locate(fingerprint, &mut Near::default())? {
            Some(place) => self.kept_in(fingerprint, place.region.container),
            None => Ok(None),
        }
    }

    /// Returns the best copy that the index knows in settled containers.
    pub fn keeper_indexed(
        &self,
        fingerprint: &Fingerprint,
        settled: &dyn Fn(ContainerId) -> bool,
    ) -> Result<Indexed> {
        let (containers, is_all) = self.candidates(fingerprint)?;
        let mut best: Option<KeptCopy> = None;
        for id in containers.into_iter().filter(|id| settled(*id)) {
            match self.kept_in(fingerprint, id)? {
                Some(kept) if !self.quarantine.is_damaged(kept.place.region) => {
                    return Ok(Indexed::Kept(kept));
                }
                kept => best = best.or(kept),
            }
        }
        Ok(match best {
            _ if !is_all => Indexed::Unsure,
            Some(damaged) => Indexed::Kept(damaged),
            None => Indexed::Nowhere,
        })
    }

    /// Returns the containers that the index names, the one to keep first, and whether it knows
    /// all of them.
    fn candidates(&self, fingerprint: &Fingerprint) -> Result<(Vec<ContainerId>, bool)> {
        let mut candidates = Vec::new();
        self.index.lookup(fingerprint, &mut candidates)?;
        let is_all = self.index.knows_all(&candidates);
        let mut containers: Vec<_> = candidates.into_iter().map(|c| c.container).collect();
        containers.sort_by_key(|id| (self.quarantine.retired.holds(*id), Reverse(*id)));
        containers.dedup();
        Ok((containers, is_all))
    }

    pub(super) fn kept_in(
        &self,
        fingerprint: &Fingerprint,
        id: ContainerId,
    ) -> Result<Option<KeptCopy>> {
        // The cache may still have its directory, and the index its places.
        if self.quarantine.retired.is_deleted(id) {
            return Ok(None);
        }
        let directory = match self.directory(id) {
            Err(e) if e.is_corruption() => return Ok(None),
            other => other?,
        };
        let found = directory
            .find(fingerprint)
            .zip(directory.number(fingerprint));
        Ok(found.map(|(place, number)| KeptCopy {
            place,
            number,
            directory,
        }))
    }
}
