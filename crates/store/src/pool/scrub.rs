//! Verifies one container after the other, in bounded steps. The scrubber in `maintenance` calls
//! this.
//!
//! ```text
//! from the first byte to the last, once (walk.rs)   -> not found sound there: read alone
//! or header, directory, parity, footer first        -> runs of regions (reading.rs)
//!   damaged -> parity restores and stores it again, or quarantine
//! ```
//!
//! The first way seeks less, the second one skips regions that readers have verified.
//!
//! Invariant: it finds everything that check would find in a container. A damaged region is put
//! into quarantine before it is reported, so that nothing new is deduplicated against it. A
//! container that leaves the inventory meanwhile is not damage.

pub(super) mod reading;
mod walk;

use super::Pool;
use crate::check::Checked;
use crate::write_path::{LaneOptions, WriteCounts};
use chunk_store::Result;
use chunk_store::catalog::quarantine_key;
use chunk_store::chunk_map::Near;
use chunk_store::container::{ContainerReader, Copies, RegionPlace, Shape};
use duet::Duet;
use format::container::{DirectoryRegion, HEADER_BYTES, sectors_max};
use reading::{Batch, Reading};
use std::collections::BTreeSet;
use std::sync::Arc;
use units::{ContainerId, Fingerprint, Part};
use walk::{Walk, Walked};

/// Approximate stored size of header, directory and footer, bytes.
const DESCRIPTION_BYTES: u64 = 3 * HEADER_BYTES as u64;

/// Bytes that a disk reads in order in the time of a seek to a directory and back.
const SEEKS_BYTES: u64 = 1 << 20;
/// Size from which a run goes to another thread, bytes.
const LARGE_BYTES: usize = 128 << 10;

/// Batches that another thread verifies while the next one is read.
const BATCHES_BEHIND: usize = 1;

/// A container whose verification has begun.
pub struct Verification {
    container: ContainerId,
    /// Length according to the inventory.
    blob_bytes: u64,
    /// It is being read from the first byte to the last; nothing is decided yet.
    walk: Option<Walk>,
    regions: Arc<[DirectoryRegion]>,
    /// Regions before this one are done.
    next: usize,
    reading: Reading,
    /// Stored bytes that were read.
    pub read_bytes: u64,
    /// Stored bytes that readers had verified.
    pub cached_bytes: u64,
    /// Damage found in it.
    pub damaged: Vec<Damaged>,
    /// Places in quarantine that are sound and were taken out of it.
    pub taken_back: Vec<RegionPlace>,
    is_sound: bool,
}

/// A damaged place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damaged {
    /// A region, or a whole container.
    pub place: RegionPlace,
    /// Description of the damage.
    pub why: String,
    /// Number of its chunks; 0 for a whole container.
    pub chunks: u64,
    /// Part of `chunks` that are intact elsewhere: reads use these copies from now on.
    pub chunks_elsewhere: u64,
    /// True if the catalog has it in quarantine already.
    pub is_known: bool,
    /// Number of sectors (4 KiB) that parity restored: the container is then stored again as it was
    /// written. 0: it is not.
    pub restored_sectors: u32,
}

impl Damaged {
    /// Returns true if nothing is lost.
    pub fn is_repaired(&self) -> bool {
        self.is_restored() || self.chunks > 0 && self.chunks_elsewhere == self.chunks
    }

    /// Returns true if it was stored again as it was written.
    pub fn is_restored(&self) -> bool {
        self.restored_sectors > 0
    }
}

impl Verification {
    /// Returns the container.
    pub fn container(&self) -> ContainerId {
        self.container
    }

    /// Returns true if nothing is left to verify.
    pub fn is_done(&self) -> bool {
        self.walk.is_none() && self.next >= self.regions.len()
    }
}

impl Pool {
    /// Sets the table that receives an event for each region that readers verify
    /// (`Space::Containers`, page number: the region's sector). Only the first call has an effect.
    pub fn tell_of_reads(&self, duet: &Arc<Duet>) {
        self.storage.reader.tell(duet);
    }

    /// Returns the disk of files that may be lost: those below `cache`.
    pub fn cache_files(&self) -> &dyn media::Disk {
        &*self.storage.media.disk
    }

    /// Returns the first container after this one in the newest commit. Skips unreadable parts of
    /// the catalog: the containers with these parts are verified like all others.
    pub fn container_after(&self, after: Option<ContainerId>) -> Result<Option<ContainerId>> {
        let from = match after.map(|id| id.0.checked_add(1)) {
            Some(None) => return Ok(None),
            Some(Some(next)) => ContainerId(next),
            None => ContainerId::default(),
        };
        Ok(self.commits.inventory_from(from)?.map(|entry| entry.id))
    }

    /// Begins a verification. `verified` is the number of its regions that readers have verified.
    /// If they are few, the container is read from the first byte to the last one. Otherwise
    /// header, directory and footer are read now, and these regions are skipped later.
    pub fn begin_verification(&self, id: ContainerId, verified: usize) -> Result<Verification> {
        let mut verification = Verification {
            container: id,
            blob_bytes: 0,
            walk: None,
            regions: Arc::default(),
            next: 0,
            reading: Reading::new(id, &Arc::default(), 0),
            read_bytes: 0,
            cached_bytes: 0,
            damaged: Vec::new(),
            taken_back: Vec::new(),
            is_sound: false,
        };
        let Some(entry) = self.commits.inventory_of(id)? else {
            return Ok(verification);
        };
        verification.blob_bytes = entry.blob_bytes;
        let worth_bytes = SEEKS_BYTES.min(entry.blob_bytes / 2);
        let in_order = verified == 0 || self.stored_bytes_of(id, verified) < worth_bytes;
        // Forget earlier findings: the device may have other bytes now.
        self.storage.containers.forget_damage(id);
        if in_order {
            verification.walk = Walk::new(&self.storage.containers, id);
        }
        if verification.walk.is_none() {
            self.describe_verified(&mut verification, None)?;
        }
        Ok(verification)
    }

    /// Estimates the stored bytes of this many regions of a container. Readers that have verified
    /// some have its header in memory. Without one they count as everything.
    fn stored_bytes_of(&self, id: ContainerId, regions: usize) -> u64 {
        let all = |shape: &Shape| {
            (
                u64::from(shape.header.blob_bytes),
                shape.header.region_count,
            )
        };
        let shape = self.storage.containers.shape(id);
        let Ok((bytes, of)) = shape.map(|shape| all(&shape)) else {
            return u64::MAX;
        };
        bytes.saturating_mul(regions as u64) / u64::from(of.max(1))
    }

    /// Learns from header, directory and footer what is to be verified, and checks the parity.
    fn describe_verified(&self, v: &mut Verification, walked: Option<Walked>) -> Result<()> {
        let (id, blob_bytes) = (v.container, v.blob_bytes);
        let (record, nothing) = (self.record(), BTreeSet::new());
        let describe = |containers: &ContainerReader, trouble: &mut Vec<String>| {
            let checked = Checked {
                is_described_only: &|_| false,
                reader: &self.storage.reader,
                containers,
                chunks: &self.storage.chunks,
                record: &record,
                snapshots: &[],
                noted: &nothing,
            };
            let how = (Copies::Nowhere, true);
            match checked.describe(id, blob_bytes, how, trouble) {
                Ok(contents) => return Ok(contents.directory.regions),
                Err(e) if e.is_corruption() => trouble.push(e.to_string()),
                Err(e) => return Err(e),
            }
            Ok(Vec::new())
        };
        let (mut trouble, mut walked) = (Vec::new(), walked);
        let in_memory = walked.as_mut().and_then(|walked| walked.reader.take());
        let mut regions = match &in_memory {
            Some(containers) => describe(containers, &mut trouble)?,
            None => Vec::new(),
        };
        if in_memory.is_none() || !trouble.is_empty() {
            // Damage is judged by what the device says when it is asked for that part.
            trouble.clear();
            regions = describe(&self.storage.containers, &mut trouble)?;
            v.read_bytes += DESCRIPTION_BYTES;
        }
        if !trouble.is_empty() {
            let whole = RegionPlace::whole(id);
            if let Some(restored) = self.put_back(whole, trouble.join("; "), 0)? {
                v.damaged.push(restored);
                v.read_bytes += blob_bytes;
                // The walk read it before the restore.
                walked = None;
                trouble.clear();
                regions = describe(&self.storage.containers, &mut trouble)?;
            }
        }
        v.regions = regions.into();
        v.reading = Reading::new(id, &v.regions, 0).after(walked);
        v.is_sound = trouble.is_empty();
        if !trouble.is_empty() && self.commits.inventory_of(id)?.is_some() {
            let place = RegionPlace::whole(id);
            let why = trouble.join("; ");
            let damaged = self.quarantine_damaged(place, why, &[])?;
            v.damaged.push(damaged);
        }
        if v.is_done() {
            self.end_verification(v);
        }
        Ok(())
    }

    /// Reads and verifies about `budget_bytes` more. Skips regions for which `is_verified` returns
    /// true, unless the container is read in order. The regions that were read last may be verified
    /// in the next call, so that the device does not wait for that.
    pub fn go_on_verifying(
        &self,
        verification: &mut Verification,
        is_verified: &mut dyn FnMut(RegionPlace) -> bool,
        budget_bytes: u64,
    ) -> Result<()> {
        let budget_bytes = budget_bytes.max(1);
        let mut left = budget_bytes;
        let v = verification;
        while let Some(walk) = v.walk.as_mut().filter(|_| left > 0) {
            let bytes = walk.read(&self.storage.containers, left);
            v.read_bytes += bytes;
            left = left.saturating_sub(bytes.max(1));
            if let Some(walk) = v.walk.take_if(|walk| walk.is_done()) {
                self.describe_verified(v, Some(walk.end(&self.storage.containers)))?;
            }
        }
        if v.walk.is_some() {
            return Ok(());
        }
        // The rest of the budget may be too small for a run. A lone region would cost a disk as
        // much.
        let is_enough = |left: u64| left > 0 && left >= budget_bytes / 2;
        loop {
            if !v.reading.pass_over() {
                if !v.reading.has_more() || !is_enough(left) {
                    break;
                }
                let bytes = v.reading.read(&self.storage.containers, is_verified, left);
                v.read_bytes += bytes;
                left = left.saturating_sub(bytes.max(1));
            }
            while v.reading.batches() > BATCHES_BEHIND {
                self.settle_batch(v)?;
            }
        }
        while !v.reading.has_more() && !v.is_done() {
            self.settle_batch(v)?;
        }
        Ok(())
    }

    /// Settles the regions of the oldest batch.
    fn settle_batch(&self, v: &mut Verification) -> Result<()> {
        let (run, verdicts) = match v.reading.take(&self.storage.containers)? {
            None => return Ok(()),
            Some(Batch::ByReaders(run)) => {
                let regions = v.regions.part(run.clone())?;
                let bytes = regions.iter().map(|r| u64::from(r.stored_bytes));
                v.cached_bytes += bytes.sum::<u64>();
                v.next = run.end;
                (0..0, Vec::new())
            }
            Some(Batch::Read(run, verdicts)) => (run, verdicts),
        };
        let regions = Arc::clone(&v.regions);
        let of_run = regions.part(run)?;
        for (region, verdict) in of_run.iter().zip(verdicts) {
            let place = RegionPlace {
                container: v.container,
                sector: region.sector,
            };
            let verdict = match verdict {
                Some(verdict) => verdict?,
                None => self.health.verify(place, region)?,
            };
            v.next += 1;
            let is_as_read = match verdict {
                None => {
                    if self.take_back(place) {
                        v.taken_back.push(place);
                    }
                    true
                }
                Some(_) if self.commits.inventory_of(place.container)?.is_none() => {
                    v.next = regions.len();
                    return Ok(());
                }
                Some(why) => !self.settle_damaged(v, place, why, region)?,
            };
            if !is_as_read {
                // Later batches hold bytes from before the container was stored again.
                v.reading = Reading::new(v.container, &regions, v.next);
                break;
            }
        }
        if v.is_done() {
            self.end_verification(v);
        }
        Ok(())
    }

    /// Restores a damaged region, or puts it into quarantine. Returns true if it was restored.
    fn settle_damaged(
        &self,
        v: &mut Verification,
        place: RegionPlace,
        why: String,
        region: &DirectoryRegion,
    ) -> Result<bool> {
        let chunks = &region.chunks;
        let restored = self.put_back(place, why.clone(), chunks.len())?;
        // Read it again: what was read before is from before the restore.
        let is_sound = |restored: &Damaged| {
            let again = self.health.verify(restored.place, region);
            again.is_ok_and(|why| why.is_none())
        };
        let restored = restored.filter(is_sound);
        let is_restored = restored.is_some();
        v.damaged.push(match restored {
            Some(restored) => restored,
            None => {
                v.is_sound = false;
                self.quarantine_damaged(place, why, chunks)?
            }
        });
        Ok(is_restored)
    }

    fn end_verification(&self, verification: &mut Verification) {
        let whole = RegionPlace::whole(verification.container);
        if verification.is_sound && self.take_back(whole) {
            verification.taken_back.push(whole);
        }
    }

    /// Takes a place out of quarantine. Returns true if it was in it.
    fn take_back(&self, place: RegionPlace) -> bool {
        let quarantine = &self.storage.chunks.quarantine;
        let was_in_quarantine = quarantine.names(place);
        if was_in_quarantine {
            quarantine.release(place);
        }
        was_in_quarantine
    }

    /// Stores a container again if parity restores it. Returns `None` if it does not.
    fn put_back(&self, place: RegionPlace, why: String, chunks: usize) -> Result<Option<Damaged>> {
        let quarantine = &self.storage.chunks.quarantine;
        let is_known = quarantine.names(place);
        match self.health.restore_container(place.container) {
            Ok(sectors) => Ok(Some(Damaged {
                place,
                why,
                chunks: chunks as u64,
                chunks_elsewhere: 0,
                is_known,
                // With 0 damaged sectors this read succeeded completely, unlike the earlier one.
                restored_sectors: sectors.max(1),
            })),
            // No parity, too much damage, or a pool opened for reading: it is treated as damage
            // without parity.
            Err(_) => Ok(None),
        }
    }

    fn quarantine_damaged(
        &self,
        place: RegionPlace,
        why: String,
        chunks: &[(Fingerprint, u32)],
    ) -> Result<Damaged> {
        let held = self.commits.held();
        let is_known = match self.has_key(held.catalog(), &quarantine_key(place)) {
            // Reading the damaged container of the catalog reports that damage.
            Err(e) if e.is_corruption() => false,
            is_known => is_known?,
        };
        self.storage.chunks.put_in_quarantine(place);
        let mut near = Near::default();
        let mut chunks_elsewhere = 0;
        for (fingerprint, _) in chunks {
            chunks_elsewhere += u64::from(self.is_intact_elsewhere(fingerprint, &mut near)?);
        }
        Ok(Damaged {
            place,
            why,
            chunks: chunks.len() as u64,
            chunks_elsewhere,
            is_known,
            restored_sectors: 0,
        })
    }

    /// Returns true if a region outside of quarantine has the chunk. Reads and verifies that
    /// region.
    fn is_intact_elsewhere(&self, fingerprint: &Fingerprint, near: &mut Near) -> Result<bool> {
        let place = match self.storage.chunks.locate(fingerprint, near) {
            Ok(Some(place)) => place,
            Ok(None) => return Ok(false),
            Err(e) if e.is_corruption() => return Ok(false),
            Err(e) => return Err(e),
        };
        if self.storage.chunks.quarantine.holds(place.region) {
            return Ok(false);
        }
        let sectors = sectors_max(place.stored_bytes);
        match self.storage.containers.region(place.region, sectors) {
            Ok(region) => Ok(region.chunks.iter().any(|(f, _, _)| f == fingerprint)),
            Err(e) if e.is_corruption() => {
                self.storage.chunks.put_in_quarantine(place.region);
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }

    /// Commits the current quarantine, and stores again what is readable of the `whole` containers.
    /// Durable on return. The pool must be open for writing.
    pub fn note_damage(&self, whole: &[RegionPlace], options: LaneOptions) -> Result<WriteCounts> {
        self.storage.check_writable()?;
        let mut session = self.begin_for(super::Purpose::Snapshots, options)?;
        for place in whole.iter().filter(|place| place.is_whole()) {
            self.salvage(*place, &mut session)?;
        }
        let salvaged = session.seal_data()?;
        self.commit(session, &[], &[])?;
        Ok(salvaged)
    }
}
