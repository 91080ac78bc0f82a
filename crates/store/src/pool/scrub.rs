//! Verification of one container after the other, in pieces, for a scrub.
//!
//! Invariant: what check would find in a container this finds too; a region that is damaged is set
//! aside at once, before anybody is told, so that nothing new is deduplicated against it. A container
//! that is gone from the inventory meanwhile is nobody's damage. Called by maintenance.

use super::Pool;
use crate::check::Checked;
use crate::write_path::{LaneOptions, WriteCounts};
use chunk_store::catalog::{
    InventoryEntry, inventory_key, parse_inventory, set_aside_key, visit_readable,
};
use chunk_store::chunk_map::Near;
use chunk_store::container::{Ahead, Copies, RegionPlace, Tail};
use chunk_store::{Result, StoreError, StoreErrorKind};
use duet::Duet;
use format::container::{
    DirectoryRegion, HEADER_BYTES, REGION_HEADER_BYTES, SECTOR_BYTES, region_sectors,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use units::{ContainerId, Fingerprint};

/// Stored bytes of what describes a container, about: header, directory, footer.
const DESCRIPTION_BYTES: u64 = 3 * HEADER_BYTES as u64;

/// Stored bytes that are read at once.
const AHEAD_BYTES_MAX: u64 = 1 << 20;

/// Regions that lie one after the other.
struct Run {
    regions: usize,
    /// From the begin of the first to the end of the last.
    bytes: usize,
}

/// The regions from the first on that nobody has verified, and that have no gap between them: about
/// `bytes_max`, or one.
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
    /// Stored bytes that somebody else had verified.
    pub cached_bytes: u64,
    /// What is damaged in it.
    pub damaged: Vec<Damaged>,
    /// Places that were set aside and are as they were written: they count again.
    pub taken_back: Vec<RegionPlace>,
    is_sound: bool,
    tail: Option<Tail>,
}

/// A place that was found damaged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damaged {
    /// A region, or a whole container.
    pub place: RegionPlace,
    /// In words.
    pub why: String,
    /// Chunks that lie there; 0 for a whole container.
    pub chunks: u64,
    /// ... of them, those that lie intact somewhere else too: reads go there from now on.
    pub chunks_elsewhere: u64,
    /// The catalog said so already.
    pub is_known: bool,
    /// Sectors (4 KiB) that parity restored: the container is as it was written again. 0: it is not.
    pub restored_sectors: u32,
}

impl Damaged {
    /// True when nothing is lost with it.
    pub fn is_repaired(&self) -> bool {
        self.is_restored() || self.chunks > 0 && self.chunks_elsewhere == self.chunks
    }

    /// True when it was put back as it was written.
    pub fn is_restored(&self) -> bool {
        self.restored_sectors > 0
    }
}

impl Verification {
    /// Which container.
    pub fn container(&self) -> ContainerId {
        self.container
    }

    /// Nothing is left to do.
    pub fn is_done(&self) -> bool {
        self.next >= self.regions.len()
    }
}

impl Pool {
    /// Where maintenance hears which regions readers have just verified (`Space::Containers`, the
    /// region's sector as the page). The first one stays.
    pub fn tell_of_reads(&self, duet: &Arc<Duet>) {
        self.reader.tell(duet);
    }

    /// Where files lie that may be lost: below `cache`.
    pub fn cache_files(&self) -> &dyn media::Disk {
        &*self.media.disk
    }

    /// The first container after this one, of those that the newest commit names. What of the catalog
    /// cannot be read is passed over: the containers that hold it are verified like all others.
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

    /// Reads what describes a container.
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
            tail: None,
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
        // What is remembered of earlier damage is not what is there now.
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
            let damaged = self.set_aside_damaged(place, why, &[])?;
            verification.damaged.push(damaged);
        }
        if verification.is_done() {
            self.end_verification(&mut verification);
        }
        Ok(verification)
    }

    /// Reads and verifies the next regions, about `budget_bytes` of them, those left out of which
    /// `is_verified` says that somebody has just done it.
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
                    // What is left is for less than a run: a lone region costs as much of a disk.
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
                    let tail = &mut verification.tail;
                    ahead = self.containers.ahead(place, run.bytes, tail);
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
                        // Read again: what was ahead is what was there before.
                        let is_sound = |restored: &Damaged| {
                            let again = self.verify(None, restored.place, region);
                            again.is_ok_and(|why| why.is_none())
                        };
                        if let Some(restored) = restored.filter(is_sound) {
                            if let Some(stale) = ahead.take() {
                                self.containers.reuse_ahead(stale);
                            }
                            verification.tail = None;
                            verification.damaged.push(restored);
                        } else {
                            let damaged = self.set_aside_damaged(place, why, chunks)?;
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

    /// True when it was set aside.
    fn take_back(&self, place: RegionPlace) -> bool {
        let quarantine = &self.chunks.quarantine;
        let was_set_aside = quarantine.names(place);
        if was_set_aside {
            quarantine.release(place);
        }
        was_set_aside
    }

    /// Why a region is damaged; `None` when it is as its directory says.
    pub(super) fn verify(
        &self,
        ahead: Option<&Ahead>,
        place: RegionPlace,
        region: &DirectoryRegion,
    ) -> Result<Option<String>> {
        // What the system remembers of a file is not what the device has; and nobody needs a copy.
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

    /// Puts a container back that its parity restores; `None` when it does not.
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
                // It was read whole this time, if there are none.
                restored_sectors: sectors.max(1),
            })),
            // No parity, too much damage, or nobody may write: it is treated as damage always was.
            Err(_) => Ok(None),
        }
    }

    fn set_aside_damaged(
        &self,
        place: RegionPlace,
        why: String,
        chunks: &[(Fingerprint, u32)],
    ) -> Result<Damaged> {
        let is_known = match self.has_key(self.record().catalog, &set_aside_key(place)) {
            // Its damage is found where it lies.
            Err(e) if e.is_corruption() => false,
            is_known => is_known?,
        };
        self.chunks.set_aside(place);
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

    /// True when a region that is not set aside holds the chunk: it is read and verified.
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
                self.chunks.set_aside(place.region);
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }

    /// Notes in the pool what is set aside and what is not any more, and stores anew what can be
    /// read of `whole` containers; durable on return. The pool must be open for writing.
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
