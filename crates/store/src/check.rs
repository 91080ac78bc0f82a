//! Check: verifies that everything that snapshots need exists and is unchanged. `Pool::check`,
//! repair and scrub call this.
//!
//! ```text
//! inventory -> containers -> regions (by depth) -> lost chunks
//! snapshots -> references -> lost chunks that are needed -> names of files (affected.rs)
//! ```
//!
//! Invariant: it reports and never repairs. It finds all damage in what it reads, and names the
//! affected snapshots and paths. `subset n/t` is deterministic: t runs read everything. A place in
//! quarantine is reported as damage only if a snapshot needs it; it is read again at every depth.

mod affected;

use crate::space::{Marking, Sources, Unfollowed, mark_snapshots};
use affected::name_affected;
use chunk_store::catalog::{InventoryEntry, inventory_key, parse_inventory, visit_readable};
use chunk_store::chunk_map::{ChunkMap, FingerprintSet, Near};
use chunk_store::container::{
    ContainerReader, Contents, Copies, RegionPlace, container_name, visit_containers,
};
use chunk_store::{Result, StoreError, StoreErrorKind};
use format::container::{ContainerClass, DirectoryRegion};
use format::map_node::MapNode;
use format::root::RootRecord;
use format::snapshot::Snapshot;
use read_path::Reader;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use units::{ContainerId, Fingerprint, SnapshotId};

/// Selects how much is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckDepth {
    /// Roots, catalog, directories and recipes: everything except user data.
    Structure,
    /// Also the data of the containers whose sequence number is `part` - 1 modulo `parts`.
    Data {
        /// 1 to `parts`.
        part: u64,
        /// 1: everything.
        parts: u64,
    },
}

impl CheckDepth {
    /// Everything.
    pub const ALL: Self = Self::Data { part: 1, parts: 1 };
}

/// A name that damage affects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Affected {
    /// The snapshot.
    pub snapshot: SnapshotId,
    /// Path in the snapshot, any bytes. Empty for images and streams.
    pub path: Vec<u8>,
    /// First damaged byte of the object, if its data are damaged and the offset is known.
    pub offset: Option<u64>,
}

/// Result of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Containers whose header, directory and footer were read.
    pub containers: u64,
    /// Regions that were read, opened, decompressed and fingerprinted.
    pub regions: u64,
    /// Stored size of these regions, bytes.
    pub data_bytes: u64,
    /// Snapshots that were walked.
    pub snapshots: u64,
    /// Unique chunks and nodes that snapshots reach.
    pub chunks: u64,
    /// Memory of the marks, bytes.
    pub mark_bytes: u64,
    /// Descriptions of the damage.
    pub damage: Vec<String>,
    /// Names that the damage affects.
    pub affected: Vec<Affected>,
    /// Notes that are not damage, for example a lost second copy that the next writer stores again.
    pub notes: Vec<String>,
    /// Damaged regions and containers that are not in quarantine yet.
    pub bad: BTreeSet<RegionPlace>,
    /// Places in quarantine that were read completely and are sound.
    pub verified: BTreeSet<RegionPlace>,
    /// Containers whose damage (part of `damage`) parity restores: nothing of them is lost.
    pub restorable: BTreeSet<ContainerId>,
}

impl CheckReport {
    /// Returns true if everything is unchanged.
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty() && self.affected.is_empty()
    }

    /// Records damage that parity restores.
    fn restorable(&mut self, id: ContainerId, why: &str) {
        self.damage
            .push(format!("{why}; parity can restore it: run quintet scrub"));
        self.restorable.insert(id);
    }

    /// Records damage at a place. Known damage is only a note.
    fn found(&mut self, place: RegionPlace, is_known: bool, why: String) {
        if is_known {
            self.notes
                .push(format!("{why} (in quarantine, or in the trash)"));
        } else {
            self.damage.push(why);
            self.bad.insert(place);
        }
    }
}

/// Inputs of a check.
pub(crate) struct Checked<'a> {
    pub reader: &'a Reader,
    pub containers: &'a ContainerReader,
    pub chunks: &'a ChunkMap,
    pub record: &'a RootRecord,
    pub snapshots: &'a [Snapshot],
    /// Places in quarantine, from the catalog.
    pub noted: &'a BTreeSet<RegionPlace>,
    /// Returns true for a dry run's new data containers: their payloads were not kept.
    pub is_described_only: &'a dyn Fn(ContainerId) -> bool,
}

/// Called after each container: number of containers, stored bytes read.
pub type CheckProgress<'a> = dyn FnMut(u64, u64) -> ControlFlow<()> + 'a;

impl Checked<'_> {
    pub fn run(&self, depth: CheckDepth, progress: &mut CheckProgress<'_>) -> Result<CheckReport> {
        if let CheckDepth::Data { part, parts } = depth
            && !(1..=parts).contains(&part)
        {
            let why = format!("subset {part}/{parts}: the part must be 1 to {parts}");
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        let mut report = CheckReport::default();
        let mut lost = FingerprintSet::default();
        self.check_containers(depth, &mut report, &mut lost, progress)?;
        let broken = self.check_references(&mut report, &mut lost)?;
        if broken || !lost.is_empty() {
            name_affected(self.reader, self.snapshots, &lost, &mut report)?;
        }
        report.affected.sort();
        report.affected.dedup();
        Ok(report)
    }

    /// Reads the inventory from the readable part of the catalog.
    fn inventory(&self, report: &mut CheckReport) -> Result<BTreeMap<ContainerId, InventoryEntry>> {
        let mut inventory = BTreeMap::new();
        let mut load = |f: &Fingerprint| self.reader.map_node(f);
        let _ = visit_readable(
            self.record.catalog,
            b"c",
            &mut load,
            &mut |key, value| {
                match parse_inventory(key, value)? {
                    Some(entry) => inventory.insert(entry.id, entry),
                    None => return Ok(ControlFlow::Break(())),
                };
                Ok(ControlFlow::Continue(()))
            },
            &mut |e| {
                report.damage.push(format!("inventory of containers: {e}"));
                Ok(())
            },
        )?;
        Ok(inventory)
    }

    fn check_containers(
        &self,
        depth: CheckDepth,
        report: &mut CheckReport,
        lost: &mut FingerprintSet,
        progress: &mut CheckProgress<'_>,
    ) -> Result<()> {
        let mut expected = match self.inventory(report) {
            Err(e) if e.is_corruption() => {
                report.damage.push(format!("inventory of containers: {e}"));
                BTreeMap::new()
            }
            other => other?,
        };
        let blobs = self.containers.blobs();
        let mut interrupted = false;
        visit_containers(blobs, &BTreeMap::new(), &mut |id| {
            let next = self
                .record
                .next_sequence
                .get(&id.writer())
                .copied()
                .unwrap_or(0);
            if id.sequence() >= next {
                // It belongs to an unfinished run. The next writer adopts it.
                report.notes.extend(self.commit_without_root(id)?);
                return Ok(ControlFlow::Continue(()));
            }
            let known = expected.remove(&id).map_or(0, |entry| entry.blob_bytes);
            self.check_container(id, known, depth, report, lost)?;
            if progress(report.containers, report.data_bytes).is_break() {
                interrupted = true;
                return Ok(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if interrupted {
            return Err(StoreError::new(StoreErrorKind::Interrupted, "check"));
        }
        for id in expected.into_keys() {
            let whole = RegionPlace::whole(id);
            let why = format!("container {id}: missing ({})", container_name(id));
            report.found(whole, self.is_noted(whole), why);
        }
        Ok(())
    }

    /// Detects a container above the marks whose catalog lists this very container: a complete
    /// commit without a root. A deleted root and an interruption just before the root look the
    /// same.
    fn commit_without_root(&self, id: ContainerId) -> Result<Option<String>> {
        let contents = match self.containers.contents(id) {
            Err(e) if e.is_corruption() => return Ok(Some(format!("container {id}: {e}"))),
            other => other?,
        };
        if contents.class != ContainerClass::Recipe {
            return Ok(None);
        }
        let own_key = inventory_key(id);
        let names_itself = |chunk: &[u8]| match MapNode::decode(chunk) {
            Ok(MapNode::Leaf(entries)) => entries.iter().any(|(key, _)| *key == own_key),
            _ => false,
        };
        for region in &contents.directory.regions {
            let place = RegionPlace {
                container: id,
                sector: region.sector,
            };
            let Ok(region) = self.containers.region(place, 1) else {
                continue;
            };
            if (0..region.chunks.len()).any(|number| names_itself(region.chunk(number))) {
                let generation = self.containers.shape(id)?.header.generation;
                return Ok(Some(format!(
                    "commit {generation} has no root: its run was interrupted at the end, or the root was deleted"
                )));
            }
        }
        Ok(None)
    }

    /// Checks one container. `known_bytes` is its length in the inventory; 0: unknown.
    fn check_container(
        &self,
        id: ContainerId,
        known_bytes: u64,
        depth: CheckDepth,
        report: &mut CheckReport,
        lost: &mut FingerprintSet,
    ) -> Result<()> {
        let whole = RegionPlace::whole(id);
        let mut trouble = Vec::new();
        let is_read = match depth {
            CheckDepth::Structure => false,
            CheckDepth::Data { part, parts } => id.sequence() % parts == part - 1,
        };
        let how = (Copies::InSystem, is_read);
        let contents = match self.describe(id, known_bytes, how, &mut trouble) {
            Err(e) if e.is_corruption() => {
                trouble.push(e.to_string());
                None
            }
            other => Some(other?),
        };
        report.containers += 1;
        let is_described = trouble.is_empty();
        for why in trouble {
            match self.containers.restored(id) {
                Some(_) => report.restorable(id, &why),
                None => report.found(whole, self.is_noted(whole), why),
            }
        }
        let Some(contents) = contents else {
            return Ok(());
        };
        let mut all_sound = is_described;
        for region in &contents.directory.regions {
            let place = RegionPlace {
                container: id,
                sector: region.sector,
            };
            if is_read || self.chunks.quarantine.is_damaged(place) {
                all_sound &= self.check_region(place, region, report, lost)?;
            }
        }
        if all_sound {
            self.verified(whole, report);
        }
        Ok(())
    }

    /// Returns true if the place is in the catalog's quarantine or its container is retired.
    fn is_noted(&self, place: RegionPlace) -> bool {
        let whole = RegionPlace::whole(place.container);
        // Garbage collection may delete a retired container during the check.
        let is_retired = self.chunks.quarantine.retired.holds(place.container);
        is_retired || self.noted.contains(&place) || self.noted.contains(&whole)
    }

    /// Records a sound place.
    fn verified(&self, place: RegionPlace, report: &mut CheckReport) {
        if self.noted.contains(&place) {
            let note = format!("{place} is in quarantine and sound");
            report.notes.push(note);
        }
        if self.chunks.quarantine.names(place) {
            report.verified.insert(place);
        }
    }

    /// Reads header, directory and footer of a container, and its parity if `with_parity` and
    /// nothing else is damaged. Appends their damage to `trouble`. Reads in the order of places: a
    /// disk waits for a revolution before it reads what lies behind the head.
    pub fn describe(
        &self,
        id: ContainerId,
        known_bytes: u64,
        (copies, with_parity): (Copies, bool),
        trouble: &mut Vec<String>,
    ) -> Result<Contents> {
        let len = self.containers.stored_len(id)?;
        if known_bytes != 0 && known_bytes != len {
            trouble.push(format!(
                "container {id}: the file has {len} bytes, expected {known_bytes}"
            ));
        }
        let mut contents = self.containers.contents_by(id, copies)?;
        trouble.append(&mut contents.damage);
        let header_bytes = u64::from(self.containers.shape(id)?.header.blob_bytes);
        if header_bytes != len {
            trouble.push(format!(
                "container {id}: the file has {len} bytes, its header says {header_bytes}"
            ));
        }
        if with_parity && trouble.is_empty() {
            trouble.extend(self.containers.parity_trouble(id)?);
        }
        if let Err(e) = self.containers.check_footer(id, len, copies)
            && e.is_corruption()
        {
            trouble.push(e.to_string());
        }
        Ok(contents)
    }

    /// Verifies a region. Returns true if it has the chunks of its directory. Otherwise puts it
    /// into quarantine for this process, unless parity restores it.
    fn check_region(
        &self,
        place: RegionPlace,
        region: &DirectoryRegion,
        report: &mut CheckReport,
        lost: &mut FingerprintSet,
    ) -> Result<bool> {
        report.regions += 1;
        report.data_bytes += u64::from(region.stored_bytes);
        let why = match self.containers.region_as_stored(place, 1) {
            Ok(decoded) => {
                let found = decoded.chunks.iter().map(|(f, _, len)| (f, len));
                if found.eq(region.chunks.iter().map(|(f, len)| (f, len))) {
                    self.verified(place, report);
                    return Ok(true);
                }
                format!("{place}: its chunks differ from its directory")
            }
            Err(e) if e.is_corruption() => e.to_string(),
            Err(e) => return Err(e),
        };
        if self.containers.restored(place.container).is_some() {
            report.restorable(place.container, &why);
            return Ok(false);
        }
        report.found(place, self.is_noted(place), why);
        self.chunks.put_in_quarantine(place);
        lost.extend(region.chunks.iter().map(|(f, _)| *f));
        Ok(false)
    }

    /// Checks that every chunk that a snapshot reaches is in a directory. Removes chunks from
    /// `lost` that another container has intact. Returns true if a recipe or directory cannot be
    /// read.
    fn check_references(
        &self,
        report: &mut CheckReport,
        lost: &mut FingerprintSet,
    ) -> Result<bool> {
        let mut near = Near::default();
        let mut is_elsewhere = |f: &Fingerprint| match self.chunks.locate(f, &mut near) {
            Ok(Some(place)) => {
                !self.chunks.quarantine.is_damaged(place.region)
                    && ((self.is_described_only)(place.region.container)
                        || self.reader.chunk(f).is_ok())
            }
            _ => false,
        };
        lost.retain(|f| !is_elsewhere(f));
        let mut marking = Marking::past_damage();
        let sources = Sources {
            chunks: self.chunks,
            reader: self.reader,
            settled: &|_| true,
        };
        mark_snapshots(&mut marking, &sources, self.snapshots)?;
        report.snapshots += self.snapshots.len() as u64;
        report.chunks = marking.live.chunks;
        report.mark_bytes = marking.live.bit_bytes() as u64;
        let mut needed = Vec::new();
        for fingerprint in lost.iter() {
            let kept = self.chunks.keeper(fingerprint, sources.settled)?;
            if kept.is_some_and(|kept| marking.live.holds(&kept)) {
                needed.push(*fingerprint);
            }
        }
        let mut is_broken = false;
        for (fingerprint, why) in marking.into_damage() {
            match why {
                Unfollowed::Missing => {
                    lost.insert(fingerprint);
                    needed.push(fingerprint);
                }
                Unfollowed::Unreadable(e) => {
                    is_broken = true;
                    report.damage.push(format!("object {fingerprint}: {e}"));
                }
            }
        }
        needed.sort_unstable_by_key(|f| f.0);
        needed.dedup();
        // A damaged region has many chunks: one line for all of them.
        if let Some(first) = needed.first() {
            let missing = needed.len();
            report.damage.push(format!(
                "missing chunks that snapshots or volumes need: {missing} (the first: {first})"
            ));
        }
        Ok(is_broken)
    }
}
