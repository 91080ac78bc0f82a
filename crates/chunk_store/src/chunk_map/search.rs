//! Looking into every directory: the answer when the index may have let a place go.
//!
//! Invariant: what no directory of a container that exists has is in no container; costs one read of a
//! directory for each container that memory does not hold. Called by the chunk map.

use super::keeper::Kept;
use super::{ChunkMap, ChunkPlace, FingerprintSet};
use crate::container::visit_containers;
use crate::error::Result;
use crate::index::Location;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use units::{ContainerId, Fingerprint};

impl ChunkMap {
    /// Where the chunk lies, a place that is not set aside first. The index learns of it: it had let
    /// the place go, and many reads of one chunk must not search each time.
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
                sectors: format::container::region_sectors(best.stored_bytes),
            };
            self.index.insert(fingerprint, location)?;
        }
        Ok(places)
    }

    /// Calls `found` with the copy that stays of each of these chunks that lies in a settled
    /// container; all of them for one reading of all directories.
    pub fn search_settled(
        &self,
        wanted: &FingerprintSet,
        settled: &dyn Fn(ContainerId) -> bool,
        found: &mut dyn FnMut(Kept),
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

    /// Directories that cannot be read are left to check.
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
