//! Check: is everything there that the snapshots need, and is it what was written?
//!
//! Invariant: reports, never repairs; finds every damage of what it reads and names the snapshots
//! and paths that it reaches. `subset n/t` is deterministic: t runs read everything. What is set
//! aside already is damage only where a snapshot needs it; it is read again at every depth.

mod affected;

use crate::read_path::Reader;
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
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use units::{ContainerId, Fingerprint, SnapshotId};

/// How much to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckDepth {
    /// Roots, catalog, directories, recipes: everything but user data.
    Structure,
    /// ... and the data of the containers whose number is `part` - 1 modulo `parts`.
    Data {
        /// 1 to `parts`.
        part: u64,
        /// 1: everything.
        parts: u64,
    },
}

/// A name that damage reaches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Affected {
    /// The snapshot.
    pub snapshot: SnapshotId,
    /// Path inside, any bytes; empty for images and streams.
    pub path: Vec<u8>,
    /// First damaged byte of the object, when the damage is in its data.
    pub offset: Option<u64>,
}

/// What check found.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Containers whose description was read.
    pub containers: u64,
    /// Regions whose data was read, opened, decompressed and hashed.
    pub regions: u64,
    /// Their stored bytes.
    pub data_bytes: u64,
    /// Snapshots walked.
    pub snapshots: u64,
    /// Unique chunks and nodes that snapshots reach.
    pub chunks: u64,
    /// Memory that saying which are reached took, bytes.
    pub mark_bytes: u64,
    /// Damage, one item each, in words.
    pub damage: Vec<String>,
    /// Names that it reaches.
    pub affected: Vec<Affected>,
    /// Not damage, but worth knowing (a second copy was lost and will be healed).
    pub notes: Vec<String>,
    /// Regions and containers that were found damaged and are not set aside in the pool yet.
    pub bad: BTreeSet<RegionPlace>,
    /// Those that are set aside, and of which all was read and is as it was written.
    pub verified: BTreeSet<RegionPlace>,
    /// Containers whose damage, part of `damage`, their parity makes good: nothing of them is lost.
    pub restorable: BTreeSet<ContainerId>,
}

impl CheckReport {
    /// True when everything is as it was written.
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty() && self.affected.is_empty()
    }

    /// Damage that parity makes good.
    fn restorable(&mut self, id: ContainerId, why: &str) {
        self.damage
            .push(format!("{why}; its parity restores it (quintet scrub)"));
        self.restorable.insert(id);
    }

    /// Damage at a place, which is news unless it is set aside already.
    fn found(&mut self, place: RegionPlace, is_known: bool, why: String) {
        if is_known {
            self.notes
                .push(format!("{why} (set aside, or in the trash)"));
        } else {
            self.damage.push(why);
            self.bad.insert(place);
        }
    }
}

/// What check works on.
pub(crate) struct Checked<'a> {
    pub reader: &'a Reader,
    pub containers: &'a ContainerReader,
    pub chunks: &'a ChunkMap,
    pub record: &'a RootRecord,
    pub snapshots: &'a [Snapshot],
    /// What the catalog notes as damaged.
    pub noted: &'a BTreeSet<RegionPlace>,
    /// A rehearsal's new containers of data: nothing of their payloads can be read.
    pub is_described_only: &'a dyn Fn(ContainerId) -> bool,
}

/// Told after each container: containers done, stored bytes read.
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

    /// What the readable part of the catalog says of the containers.
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
                // An unfinished run's: the next writer adopts it.
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

    /// A container above the marks that holds a catalog which names this very container: all of
    /// a commit is there but its root. Nobody can tell a deleted root from a run that was
    /// interrupted at its very end.
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
                    "commit {generation} was written and has no root: its run was interrupted at \
                     its end, or its root was deleted"
                )));
            }
        }
        Ok(None)
    }

    /// `known_bytes` is its length as the inventory has it; 0: not known.
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
        let contents = match self.describe(id, known_bytes, Copies::InSystem, &mut trouble) {
            Err(e) if e.is_corruption() => {
                trouble.push(e.to_string());
                None
            }
            other => Some(other?),
        };
        report.containers += 1;
        let is_read = match depth {
            CheckDepth::Structure => false,
            CheckDepth::Data { part, parts } => id.sequence() % parts == part - 1,
        };
        if is_read && trouble.is_empty() {
            trouble.extend(self.containers.parity_trouble(id)?);
        }
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

    /// The catalog says that it is damaged, or in the trash.
    fn is_noted(&self, place: RegionPlace) -> bool {
        let whole = RegionPlace::whole(place.container);
        // What the collector has given up may go while this looks at it.
        let is_retired = self.chunks.quarantine.retired.holds(place.container);
        is_retired || self.noted.contains(&place) || self.noted.contains(&whole)
    }

    /// It is as it was written.
    fn verified(&self, place: RegionPlace, report: &mut CheckReport) {
        if self.noted.contains(&place) {
            let note = format!("{place} is set aside and as it should be");
            report.notes.push(note);
        }
        if self.chunks.quarantine.names(place) {
            report.verified.insert(place);
        }
    }

    /// What a container says of itself; whatever is wrong with that goes to `trouble`.
    pub fn describe(
        &self,
        id: ContainerId,
        known_bytes: u64,
        copies: Copies,
        trouble: &mut Vec<String>,
    ) -> Result<Contents> {
        let len = self.containers.stored_len(id)?;
        if known_bytes != 0 && known_bytes != len {
            trouble.push(format!(
                "container {id}: {len} bytes, expected {known_bytes}"
            ));
        }
        let mut contents = self.containers.contents_by(id, copies)?;
        trouble.append(&mut contents.damage);
        let header_bytes = u64::from(self.containers.shape(id)?.header.blob_bytes);
        if header_bytes != len {
            trouble.push(format!(
                "container {id}: {len} bytes, its header says {header_bytes}"
            ));
        }
        if let Err(e) = self.containers.check_footer(id, len, copies)
            && e.is_corruption()
        {
            trouble.push(e.to_string());
        }
        Ok(contents)
    }

    /// Reads a region; true when it holds what its directory says. What is damaged is set aside
    /// for this process at once.
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
                format!("{place}: not the chunks that its directory names")
            }
            Err(e) if e.is_corruption() => e.to_string(),
            Err(e) => return Err(e),
        };
        if self.containers.restored(place.container).is_some() {
            report.restorable(place.container, &why);
            return Ok(false);
        }
        report.found(place, self.is_noted(place), why);
        self.chunks.set_aside(place);
        lost.extend(region.chunks.iter().map(|(f, _)| *f));
        Ok(false)
    }

    /// Every chunk that a snapshot reaches must be in a directory; of the lost ones those are not
    /// lost that another container holds intact. True when an object's recipe or directory cannot
    /// be read.
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
        let told = needed
            .iter()
            .map(|f| format!("chunk {f} is needed and not there"));
        report.damage.extend(told);
        Ok(is_broken)
    }
}
