//! Repair: sets aside what is damaged, stores anew what can still be read of it, and takes back
//! what was set aside and is whole.
//!
//! Invariant: nothing is ever removed; a repair that is wrong, or is interrupted, costs space and
//! no data. What a snapshot needs and no region holds stays lost until the same bytes are backed up
//! again: then they are stored anew, and the snapshot is whole. Called by the program.

use super::Pool;
use crate::check::{CheckDepth, CheckProgress, CheckReport};
use crate::write_path::{LaneOptions, WriteCounts, WriteSession};
use chunk_store::container::RegionPlace;
use chunk_store::superblock::{Notes, list_slots, newest_root, read_config};
use chunk_store::{Result, StoreError, StoreErrorKind};
use format::container::ContainerClass;
use std::ops::ControlFlow;

/// What a repair found and did.
#[derive(Clone, Debug)]
pub struct Repair {
    /// What was there before.
    pub found: CheckReport,
    /// Regions and containers that are set aside from now on.
    pub set_aside: u64,
    /// Those that were set aside and count again.
    pub taken_back: u64,
    /// Containers that were put back as they were written, with their parity.
    pub restored: u64,
    /// Chunks that were stored anew, because their containers are set aside as a whole, and what
    /// that took.
    pub salvaged: WriteCounts,
    /// What is still wrong: reads the structure only.
    pub remaining: CheckReport,
}

impl Pool {
    /// Verifies the pool as [`Pool::check`] does and commits what follows from it; durable on
    /// return. Commits nothing when nothing is wrong. The pool must be open for writing.
    pub fn repair(
        &self,
        depth: CheckDepth,
        options: LaneOptions,
        progress: &mut CheckProgress<'_>,
    ) -> Result<Repair> {
        if self.lock.is_none() {
            let why = "the pool was opened for reading";
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        let found = self.check(depth, progress)?;
        let mut restored = 0;
        for id in &found.restorable {
            match self.restore_container(*id) {
                Ok(_) => restored += 1,
                // It stays damaged, and the look at the end says so.
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
                set_aside: 0,
                taken_back: 0,
                restored: 0,
                salvaged: WriteCounts::default(),
            });
        }
        let quarantine = &self.chunks.quarantine;
        verified.iter().for_each(|place| quarantine.release(*place));
        bad.iter().for_each(|place| self.chunks.set_aside(*place));
        let mut session = self.begin_for(super::Purpose::Snapshots, options)?;
        for place in bad.iter().filter(|place| place.is_whole()) {
            self.salvage(*place, &mut session)?;
        }
        let salvaged = session.seal_data()?;
        self.commit(session, &[], &[])?;
        let (set_aside, taken_back) = (bad.len() as u64, verified.len() as u64);
        let remaining = self.look_again()?;
        if remaining.is_sound() {
            self.note_harmless()?;
        }
        Ok(Repair {
            remaining,
            found,
            set_aside,
            taken_back,
            restored,
            salvaged,
        })
    }

    /// Stores anew what can be read of a container that is set aside as a whole.
    pub(super) fn salvage(&self, place: RegionPlace, session: &mut WriteSession) -> Result<()> {
        let contents = match self.containers.contents(place.container) {
            Err(e) if e.is_corruption() => return Ok(()),
            other => other?,
        };
        for region in &contents.directory.regions {
            let at = RegionPlace {
                sector: region.sector,
                ..place
            };
            let region = match self.containers.region(at, 1) {
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

    /// What is wrong now: the structure, and the small blobs that every commit heals, read again.
    pub fn look_again(&self) -> Result<CheckReport> {
        let mut report =
            self.check_stored(CheckDepth::Structure, &mut |_, _| ControlFlow::Continue(()))?;
        let (media, pool) = (&self.media, self.config.pool);
        let mut notes = Notes::new();
        read_config(&*media.blobs, &mut notes)?;
        list_slots(media, pool, &mut notes)?;
        newest_root(media, pool, self.sealing(), None, &mut notes)?;
        report.damage.append(&mut notes.damage);
        report.notes.append(&mut notes.unpaired);
        Ok(report)
    }
}
