//! Verifies one container after the other, in bounded steps. The scrubber in `maintenance` calls
//! this.
//!
//! ```text
//! begin: header, directory, footer, parity -> runs of regions -> verify each
//!   damaged -> parity restores and stores it again, or quarantine
//! ```
//!
//! Invariant: it finds everything that check would find in a container. A damaged region is put
//! into quarantine before it is reported, so that nothing new is deduplicated against it. A
//! container that leaves the inventory meanwhile is not damage.

use super::Pool;
use crate::check::Checked;
use crate::write_path::{LaneOptions, WriteCounts};
use chunk_store::catalog::{
    InventoryEntry, inventory_key, parse_inventory, quarantine_key, visit_readable,
};
use chunk_store::chunk_map::Near;
use chunk_store::container::{Ahead, Copies, RegionPlace};
use chunk_store::{Result, StoreError, StoreErrorKind};
use duet::Duet;
use format::container::{
    DirectoryRegion, HEADER_BYTES, REGION_HEADER_BYTES, SECTOR_BYTES, region_sectors,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use units::{ContainerId, Fingerprint};

/// Approximate stored size of header, directory and footer, bytes.
const DESCRIPTION_BYTES: u64 = 3 * HEADER_BYTES as u64;

/// Maximum size of one read, bytes.
const AHEAD_BYTES_MAX: u64 = 1 << 20;

/// Adjacent regions.
struct Run {
    regions: usize,
    /// From the beginning of the first region to the end of the last one.
    bytes: usize,
}

/// Returns the run of adjacent regions, starting with the first, that no reader has verified: at
/// most `bytes_max` bytes, or one region.
fn run_of(
    regions: &[DirectoryRegion],
    bytes_max: u64,
    is_verified: &mut dyn FnMut(u32) -> bool,
) -> Run {
    let mut run = Run {
        regions: 0,
        bytes: 0,
    };
    let mut next_sector = None;
    for region in regions {
        let bytes = REGION_HEADER_BYTES + region.stored_bytes as usize;
        let sectors = region_sectors(region.stored_bytes);
        let is_first = next_sector.is_none();
        let goes_on = is_first || next_sector == Some(region.sector);
        let padded = run.bytes.next_multiple_of(SECTOR_BYTES as usize);
        let fits = padded.saturating_add(bytes) as u64 <= bytes_max;
        if !goes_on || !(is_first || fits && !is_verified(region.sector)) {
            break;
        }
        run.regions += 1;
        run.bytes = padded + bytes;
        next_sector = region.sector.checked_add(sectors);
    }
    run
}

/// A container whose verification has begun.
pub struct Verification {
    container: ContainerId,
    regions: Vec<DirectoryRegion>,
    next: usize,
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
        self.next >= self.regions.len()
    }
}

impl Pool {
    /// Sets the table that receives an event for each region that readers verify
    /// (`Space::Containers`, page number: the region's sector). Only the first call has an effect.
    pub fn tell_of_reads(&self, duet: &Arc<Duet>) {
        self.reader.tell(duet);
    }

    /// Returns the disk of files that may be lost: those below `cache`.
    pub fn cache_files(&self) -> &dyn media::Disk {
        &*self.media.disk
    }

    /// Returns the first container after this one in the newest commit. Skips unreadable parts of
    /// the catalog: the containers with these parts are verified like all others.
    pub fn container_after(&self, after: Option<ContainerId>) -> Result<Option<ContainerId>> {
        let from = match after.map(|id| id.0.checked_add(1)) {
            Some(None) => return Ok(None),
            Some(Some(next)) => ContainerId(next),
            None => ContainerId::default(),
        };
        Ok(self.inventory_from(from)?.map(|entry| entry.id))
    }

    fn inventory_from(&self, from: ContainerId) -> Result<Option<InventoryEntry>> {
        let mut found = None;
        let mut load = |f: &Fingerprint| self.reader.map_node(f);
        let mut entry = |key: &[u8], value: &[u8]| {
            found = parse_inventory(key, value)?;
            Ok(ControlFlow::Break(()))
        };
        let damaged = &mut |_| Ok(());
        let from = inventory_key(from);
        let catalog = self.record().catalog;
        let _ = visit_readable(catalog, &from, &mut load, &mut entry, damaged)?;
        Ok(found)
    }

    pub(super) fn inventory_of(&self, id: ContainerId) -> Result<Option<InventoryEntry>> {
        Ok(self.inventory_from(id)?.filter(|entry| entry.id == id))
    }

    /// Begins a verification: reads header, directory and footer, and checks the parity.
    pub fn begin_verification(&self, id: ContainerId) -> Result<Verification> {
        let mut verification = Verification {
            container: id,
            regions: Vec::new(),
            next: 0,
            read_bytes: 0,
            cached_bytes: 0,
            damaged: Vec::new(),
            taken_back: Vec::new(),
            is_sound: false,
        };
        let Some(entry) = self.inventory_of(id)? else {
            return Ok(verification);
        };
        let (record, nothing) = (self.record(), BTreeSet::new());
        let checked = Checked {
            is_described_only: &|_| false,
            reader: &self.reader,
            containers: &self.containers,
            chunks: &self.chunks,
            record: &record,
            snapshots: &[],
            noted: &nothing,
        };
        let mut trouble = Vec::new();
        let describe = |trouble: &mut Vec<String>| {
            match checked.describe(id, entry.blob_bytes, Copies::Nowhere, trouble) {
                Ok(contents) => return Ok(contents.directory.regions),
                Err(e) if e.is_corruption() => trouble.push(e.to_string()),
                Err(e) => return Err(e),
            }
            Ok(Vec::new())
        };
        // Forget earlier findings: the device may have other bytes now.
        self.containers.forget_damage(id);
        verification.regions = describe(&mut trouble)?;
        verification.read_bytes = DESCRIPTION_BYTES;
        if trouble.is_empty() {
            trouble.extend(self.containers.parity_trouble(id)?);
        }
        if !trouble.is_empty() {
            let whole = RegionPlace::whole(id);
            if let Some(restored) = self.put_back(whole, trouble.join("; "), 0)? {
                verification.damaged.push(restored);
                verification.read_bytes += entry.blob_bytes;
                trouble.clear();
                verification.regions = describe(&mut trouble)?;
            }
        }
        verification.is_sound = trouble.is_empty();
        if !trouble.is_empty() && self.inventory_of(id)?.is_some() {
            let place = RegionPlace::whole(id);
            let why = trouble.join("; ");
            let damaged = self.quarantine_damaged(place, why, &[])?;
            verification.damaged.push(damaged);
        }
        if verification.is_done() {
            self.end_verification(&mut verification);
        }
        Ok(verification)
    }

    /// Reads and verifies the next regions, about `budget_bytes`. Skips regions for which
    /// `is_verified` returns true.
    pub fn go_on_verifying(
        &self,
        verification: &mut Verification,
        is_verified: &mut dyn FnMut(RegionPlace) -> bool,
        budget_bytes: u64,
    ) -> Result<()> {
        let mut left = budget_bytes.max(1);
        let mut ahead = None;
        let mut ahead_to = verification.next;
        while left > 0 {
            let Some(region) = verification.regions.get(verification.next) else {
                return Ok(());
            };
            let place = RegionPlace {
                container: verification.container,
                sector: region.sector,
            };
            let bytes = u64::from(region.stored_bytes);
            if is_verified(place) {
                verification.cached_bytes += bytes;
            } else {
                if verification.next >= ahead_to {
                    // The rest of the budget is too small for a run. A lone region would cost a
                    // disk as much.
                    if left < budget_bytes / 2 {
                        break;
                    }
                    if let Some(read) = ahead.take() {
                        self.containers.reuse_ahead(read);
                    }
                    let rest = verification.regions.get(verification.next..);
                    let run = run_of(
                        rest.unwrap_or_default(),
                        left.min(AHEAD_BYTES_MAX),
                        &mut |sector| is_verified(RegionPlace { sector, ..place }),
                    );
                    ahead_to = verification.next + run.regions;
                    ahead = self.containers.ahead(place, run.bytes);
                }
                match self.verify(ahead.as_ref(), place, region)? {
                    None => {
                        if self.take_back(place) {
                            verification.taken_back.push(place);
                        }
                    }
                    Some(_) if self.inventory_of(place.container)?.is_none() => {
                        verification.next = verification.regions.len();
                        return Ok(());
                    }
                    Some(why) => {
                        let chunks = &region.chunks;
                        let restored = self.put_back(place, why.clone(), chunks.len())?;
                        // Read it again: the bytes that were read ahead are from before the
                        // restore.
                        let is_sound = |restored: &Damaged| {
                            let again = self.verify(None, restored.place, region);
                            again.is_ok_and(|why| why.is_none())
                        };
                        if let Some(restored) = restored.filter(is_sound) {
                            if let Some(stale) = ahead.take() {
                                self.containers.reuse_ahead(stale);
                            }
                            verification.damaged.push(restored);
                        } else {
                            let damaged = self.quarantine_damaged(place, why, chunks)?;
                            verification.damaged.push(damaged);
                            verification.is_sound = false;
                        }
                    }
                }
                verification.read_bytes += bytes;
                left = left.saturating_sub(bytes);
            }
            verification.next += 1;
            if verification.is_done() {
                self.end_verification(verification);
            }
        }
        Ok(())
    }

    fn end_verification(&self, verification: &mut Verification) {
        let whole = RegionPlace::whole(verification.container);
        if verification.is_sound && self.take_back(whole) {
            verification.taken_back.push(whole);
        }
    }

    /// Takes a place out of quarantine. Returns true if it was in it.
    fn take_back(&self, place: RegionPlace) -> bool {
        let quarantine = &self.chunks.quarantine;
        let was_in_quarantine = quarantine.names(place);
        if was_in_quarantine {
            quarantine.release(place);
        }
        was_in_quarantine
    }

    /// Returns why a region is damaged, or `None` if it has the chunks of its directory.
    pub(super) fn verify(
        &self,
        ahead: Option<&Ahead>,
        place: RegionPlace,
        region: &DirectoryRegion,
    ) -> Result<Option<String>> {
        // Past the system's page cache: the cache does not prove what the device has, and no reader
        // needs a copy.
        let read = self.containers.region_of(ahead, place, region.stored_bytes);
        match read {
            Ok(decoded) => {
                let found = decoded.chunks.iter().map(|(f, _, len)| (f, len));
                let is_same = found.eq(region.chunks.iter().map(|(f, len)| (f, len)));
                self.containers.reuse(decoded);
                let why = || format!("{place}: not the chunks that its directory names");
                Ok((!is_same).then(why))
            }
            Err(e) if e.is_corruption() => Ok(Some(e.to_string())),
            Err(e) => Err(e),
        }
    }

    /// Stores a container again if parity restores it. Returns `None` if it does not.
    fn put_back(&self, place: RegionPlace, why: String, chunks: usize) -> Result<Option<Damaged>> {
        let quarantine = &self.chunks.quarantine;
        let is_known = quarantine.names(place);
        match self.restore_container(place.container) {
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
        let is_known = match self.has_key(self.record().catalog, &quarantine_key(place)) {
            // Reading the damaged container of the catalog reports that damage.
            Err(e) if e.is_corruption() => false,
            is_known => is_known?,
        };
        self.chunks.put_in_quarantine(place);
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
        let place = match self.chunks.locate(fingerprint, near) {
            Ok(Some(place)) => place,
            Ok(None) => return Ok(false),
            Err(e) if e.is_corruption() => return Ok(false),
            Err(e) => return Err(e),
        };
        if self.chunks.quarantine.holds(place.region) {
            return Ok(false);
        }
        let sectors = region_sectors(place.stored_bytes);
        match self.containers.region(place.region, sectors) {
            Ok(region) => Ok(region.chunks.iter().any(|(f, _, _)| f == fingerprint)),
            Err(e) if e.is_corruption() => {
                self.chunks.put_in_quarantine(place.region);
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }

    /// Commits the current quarantine, and stores again what is readable of the `whole` containers.
    /// Durable on return. The pool must be open for writing.
    pub fn note_damage(&self, whole: &[RegionPlace], options: LaneOptions) -> Result<WriteCounts> {
        if self.lock.is_none() {
            let why = "the pool was opened for reading";
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        let mut session = self.begin_for(super::Purpose::Snapshots, options)?;
        for place in whole.iter().filter(|place| place.is_whole()) {
            self.salvage(*place, &mut session)?;
        }
        let salvaged = session.seal_data()?;
        self.commit(session, &[], &[])?;
        Ok(salvaged)
    }
}
