//! Searches every directory, for chunks whose places the index may have dropped. The chunk map
//! calls this.
//!
//! Invariant: a chunk that no readable directory lists is in no container with a readable
//! directory. Costs one read for each directory that is not in memory.

use super::keeper::KeptCopy;
use super::{ChunkMap, ChunkPlace, FingerprintSet};
use crate::container::visit_containers;
use crate::error::Result;
use crate::index::Location;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use units::{ContainerId, Fingerprint};

impl ChunkMap {
    /// Returns the places of a chunk, the best first. Inserts the best one into the index again, so
    /// that further reads of this chunk do not search.
    pub(super) fn search(&self, fingerprint: &Fingerprint) -> Result<Vec<ChunkPlace>> {
        let mut places = Vec::new();
        self.visit_directories(&mut |directory| places.extend(directory.find(fingerprint)))?;
        places.sort_by_key(|place| self.last_resort(place));
        if let Some(best) = places.first()
            && !self.quarantine.holds(best.region)
        {
            let location = Location {
                container: best.region.container,
                sector: best.region.sector,
                sectors: super::sectors_to_read(best.stored_bytes),
            };
            self.index.insert(fingerprint, location)?;
        }
        Ok(places)
    }

    /// Calls `found` with the copy to keep of each of these chunks that is in a settled container.
    /// One reading of all directories serves all chunks.
    pub fn search_settled(
        &self,
        wanted: &FingerprintSet,
        settled: &dyn Fn(ContainerId) -> bool,
        found: &mut dyn FnMut(KeptCopy),
    ) -> Result<()> {
        if wanted.is_empty() {
            return Ok(());
        }
        let mut best: HashMap<Fingerprint, ContainerId> = HashMap::new();
        let rank = |place: &ChunkPlace| {
            let newest = Reverse(place.region.container);
            (self.last_resort(place), newest)
        };
        self.visit_directories(&mut |directory| {
            if !settled(directory.container) {
                return;
            }
            for fingerprint in wanted {
                let Some(place) = directory.find(fingerprint) else {
                    continue;
                };
                let before = best.get(fingerprint);
                let before = before.and_then(|id| self.directory(*id).ok()?.find(fingerprint));
                if before.is_none_or(|before| rank(&place) < rank(&before)) {
                    best.insert(*fingerprint, directory.container);
                }
            }
        })?;
        for (fingerprint, id) in best {
            if let Some(kept) = self.kept_in(&fingerprint, id)? {
                found(kept);
            }
        }
        Ok(())
    }

    /// Visits all directories. Skips unreadable ones: check reports them.
    fn visit_directories(&self, visit: &mut dyn FnMut(&super::LoadedDirectory)) -> Result<()> {
        visit_containers(self.containers.blobs(), &BTreeMap::new(), &mut |id| {
            match self.directory(id) {
                Ok(directory) => visit(&directory),
                Err(e) if e.is_corruption() => {}
                Err(e) => return Err(e),
            }
            Ok(ControlFlow::Continue(()))
        })
    }
}
