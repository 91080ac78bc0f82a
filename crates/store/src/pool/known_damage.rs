//! Summarizes the known damage without searching for more. `server::findings` calls this.
//!
//! Invariant: reads at most directories of containers, never data. A place whose loss is uncertain
//! counts as lost.

use super::{Pool, Purpose};
use crate::write_path::LaneOptions;
use chunk_store::catalog::{harmless_edits, read_harmless, read_quarantine};
use chunk_store::chunk_map::Near;
use chunk_store::container::RegionPlace;
use chunk_store::{Result, StoreError};
use std::collections::BTreeSet;

/// Maximum number of places whose directories are read. Others count as lost.
const PLACES_READ_MAX: u64 = 256;

/// Counts of damaged places that are still in the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownDamage {
    /// Regions and whole containers in quarantine.
    pub places: u64,
    /// Part of `places` with a chunk that no other region is known to have, or with unknown chunks,
    /// unless a repair found later that nothing is lost.
    pub lost: u64,
    /// Damaged containers that parity restores: nothing of them is lost.
    pub restorable: u64,
}

impl Pool {
    /// Counts the known damage, see [`KnownDamage`].
    pub fn known_damage(&self) -> Result<KnownDamage> {
        let mut known = KnownDamage {
            restorable: self.health.hints().restorable().len() as u64,
            ..KnownDamage::default()
        };
        let mut near = Near::default();
        let mut load = self.storage.map_node();
        let held = self.commits.held();
        let harmless = match read_harmless(held.catalog(), &mut load) {
            Err(e) if e.is_corruption() => BTreeSet::new(),
            harmless => harmless?,
        };
        for place in self.health.quarantined() {
            if self.commits.inventory_of(place.container)?.is_none() {
                // It was deleted, or no commit ever needed it.
                continue;
            }
            known.places += 1;
            if harmless.contains(&place) {
                continue;
            }
            let is_read = known.places <= PLACES_READ_MAX && !place.is_whole();
            known.lost += u64::from(!(is_read && self.is_all_elsewhere(place, &mut near)?));
        }
        Ok(known)
    }

    /// Records that no damage in quarantine affects anything that is needed; the caller has just
    /// verified that. Makes no commit if that is recorded already.
    pub(super) fn note_harmless(&self) -> Result<()> {
        let held = self.commits.held();
        let mut load = self.storage.map_node();
        let noted = read_quarantine(held.catalog(), &mut load)?;
        let harmless = read_harmless(held.catalog(), &mut load)?;
        drop(held);
        let news: Vec<_> = noted.difference(&harmless).copied().collect();
        if news.is_empty() {
            return Ok(());
        }
        let session = self.begin_for(Purpose::Snapshots, LaneOptions::metadata())?;
        self.commit_with(Purpose::Snapshots, |base| {
            session.commit(base, harmless_edits(&news), 0)
        })?;
        Ok(())
    }

    /// Returns true if each chunk of this region has a place elsewhere.
    fn is_all_elsewhere(&self, place: RegionPlace, near: &mut Near) -> Result<bool> {
        let or_false = |e: StoreError| if e.is_corruption() { Ok(false) } else { Err(e) };
        let contents = match self.storage.containers.contents(place.container) {
            Ok(contents) => contents,
            Err(e) => return or_false(e),
        };
        let mut regions = contents.directory.regions.iter();
        let Some(region) = regions.find(|region| region.sector == place.sector) else {
            return Ok(false);
        };
        for (fingerprint, _) in &region.chunks {
            match self.storage.chunks.place(fingerprint, near) {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(false),
                Err(e) => return or_false(e),
            }
        }
        Ok(true)
    }
}
