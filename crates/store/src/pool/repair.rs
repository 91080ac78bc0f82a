//! Repair: puts damaged places into quarantine, stores again what is still readable of them, and
//! takes sound places out of quarantine. The program calls this.
//!
//! Invariant: nothing is ever removed. A wrong or interrupted repair costs space and no data. A
//! chunk that a snapshot needs and no region has stays lost until the same bytes are backed up
//! again: they are then stored, and the snapshot is complete.

use super::Pool;
use crate::check::{CheckDepth, CheckProgress, CheckReport};
use crate::write_path::{LaneOptions, WriteCounts, WriteSession};
use chunk_store::Result;
use chunk_store::container::RegionPlace;
use chunk_store::superblock::{Notes, list_slots, newest_root, read_config};
use format::container::ContainerClass;
use std::ops::ControlFlow;

/// Result of a repair.
#[derive(Clone, Debug)]
pub struct Repair {
    /// State before the repair.
    pub found: CheckReport,
    /// Number of regions and containers put into quarantine.
    pub quarantined: u64,
    /// Number of places taken out of quarantine.
    pub taken_back: u64,
    /// Number of containers that parity restored and that were stored again.
    pub restored: u64,
    /// Counts of chunks that were stored again because their whole container is in quarantine.
    pub salvaged: WriteCounts,
    /// Damage that remains. Covers only the structure.
    pub remaining: CheckReport,
}

impl Pool {
    /// Verifies the pool as [`Pool::check`] does and commits the consequences, durable on return.
    /// Makes no commit if nothing is wrong. The pool must be open for writing.
    pub fn repair(
        &self,
        depth: CheckDepth,
        options: LaneOptions,
        progress: &mut CheckProgress<'_>,
    ) -> Result<Repair> {
        self.storage.check_writable()?;
        let found = self.check(depth, progress)?;
        let mut restored = 0;
        for id in &found.restorable {
            match self.health.restore_container(*id) {
                Ok(_) => restored += 1,
                // It stays damaged, and the check at the end reports that.
                Err(e) if e.is_corruption() => {}
                Err(e) => return Err(e),
            }
        }
        let (bad, verified) = (&found.bad, &found.verified);
        if found.is_sound() && bad.is_empty() && verified.is_empty() {
            self.note_harmless()?;
            return Ok(Repair {
                remaining: found.clone(),
                found,
                quarantined: 0,
                taken_back: 0,
                restored: 0,
                salvaged: WriteCounts::default(),
            });
        }
        let quarantine = &self.storage.chunks.quarantine;
        verified.iter().for_each(|place| quarantine.release(*place));
        bad.iter()
            .for_each(|place| self.storage.chunks.put_in_quarantine(*place));
        let mut session = self.begin_for(super::Purpose::Snapshots, options)?;
        for place in bad.iter().filter(|place| place.is_whole()) {
            self.salvage(*place, &mut session)?;
        }
        let salvaged = session.seal_data()?;
        self.commit(session, &[], &[])?;
        let (quarantined, taken_back) = (bad.len() as u64, verified.len() as u64);
        let remaining = self.look_again()?;
        Ok(Repair {
            remaining,
            found,
            quarantined,
            taken_back,
            restored,
            salvaged,
        })
    }

    /// Stores again what is readable of a container that is in quarantine as a whole.
    pub(super) fn salvage(&self, place: RegionPlace, session: &mut WriteSession) -> Result<()> {
        let contents = match self.storage.containers.contents(place.container) {
            Err(e) if e.is_corruption() => return Ok(()),
            other => other?,
        };
        session.main().pack_like(&contents)?;
        for region in &contents.directory.regions {
            let at = RegionPlace {
                sector: region.sector,
                ..place
            };
            let region = match self.storage.containers.region(at, 1) {
                Err(e) if e.is_corruption() => continue,
                other => other?,
            };
            for number in 0..region.chunks.len() {
                let (lane, chunk) = (session.main(), region.chunk(number));
                match contents.class {
                    ContainerClass::Data => lane.store_chunk(chunk)?,
                    ContainerClass::Recipe => lane.store_node(chunk)?,
                };
            }
        }
        Ok(())
    }

    /// Returns the current damage: checks the structure, and reads again the small blobs that every
    /// commit repairs. If nothing is missing, records that no damage in quarantine affects
    /// anything.
    pub fn look_again(&self) -> Result<CheckReport> {
        let mut report =
            self.check_stored(CheckDepth::Structure, &mut |_, _| ControlFlow::Continue(()))?;
        let (media, pool) = (&self.storage.media, self.storage.id());
        let mut notes = Notes::new();
        read_config(&*media.blobs, &mut notes)?;
        list_slots(media, pool, &mut notes)?;
        newest_root(media, pool, self.sealing(), None, &mut notes)?;
        report.damage.append(&mut notes.damage);
        report.notes.append(&mut notes.unpaired);
        if report.is_sound() {
            self.note_harmless()?;
        }
        Ok(report)
    }
}
