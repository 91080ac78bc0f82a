//! Looking at a whole pool: is it sound, and what takes how much.
//!
//! Invariant: changes nothing that is stored. Called by the program through `Pool`, and by repair.

use super::{Pool, SpaceCounts};
use crate::catalog::{Forgotten, read_set_aside, visit};
use crate::check::{CheckDepth, CheckProgress, CheckReport, Checked};
use crate::chunk_map::FingerprintSet;
use crate::container::RegionPlace;
use crate::error::Result;
use crate::space::{Marked, mark_object};
use format::snapshot::SnapshotKind;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use units::Fingerprint;

impl Pool {
    /// Verifies the pool. What opening noted is part of the report.
    pub fn check(
        &self,
        depth: CheckDepth,
        progress: &mut CheckProgress<'_>,
    ) -> Result<CheckReport> {
        let mut report = self.check_stored(depth, progress)?;
        report.damage.extend(self.notes.damage.iter().cloned());
        report.notes.extend(self.notes.unpaired.iter().cloned());
        Ok(report)
    }

    pub(super) fn check_stored(
        &self,
        depth: CheckDepth,
        progress: &mut CheckProgress<'_>,
    ) -> Result<CheckReport> {
        let record = self.record();
        let (mut snapshots, unreadable) = self.snapshots_readable()?;
        // A damaged catalog is told by what comes out of it above.
        let volumes = match self.volumes_as_snapshots() {
            Err(e) if e.is_corruption() => Vec::new(),
            volumes => volumes?,
        };
        let volumes_count = volumes.len() as u64;
        snapshots.extend(volumes);
        let mut load = |f: &Fingerprint| self.reader.map_node(f);
        let noted = match read_set_aside(record.catalog, &mut load) {
            // Told with the damage to the catalog.
            Err(e) if e.is_corruption() => BTreeSet::new(),
            other => other?,
        };
        let checked = Checked {
            noted: &noted,
            reader: &self.reader,
            containers: &self.containers,
            chunks: &self.chunks,
            record: &record,
            snapshots: &snapshots,
        };
        let mut report = checked.run(depth, progress)?;
        report.snapshots = report.snapshots.saturating_sub(volumes_count);
        if let Some(e) = unreadable {
            report.damage.push(format!("catalog: {e}"));
        }
        Ok(report)
    }

    /// Regions and containers that are set aside: damaged when they were last read.
    pub fn set_aside(&self) -> Vec<RegionPlace> {
        self.chunks.quarantine.places().into_iter().collect()
    }

    /// Adds up what is stored and what is live. Reads every directory and every recipe.
    pub fn space(&self) -> Result<SpaceCounts> {
        let record = self.record();
        let mut marked = Marked::default();
        let mut counts = SpaceCounts {
            containers: record.containers,
            stored_bytes: record.stored_bytes,
            ..SpaceCounts::default()
        };
        let (forgotten, in_trash) = self.trash()?;
        let in_trash: BTreeSet<_> = in_trash.iter().map(|t| t.entry.id).collect();
        let volumes = self.volumes_as_snapshots()?;
        for snapshot in self.snapshots()?.into_iter().chain(volumes) {
            counts.logical_bytes += snapshot.logical_bytes;
            let is_tree = snapshot.kind == SnapshotKind::Tree;
            mark_object(
                &self.reader,
                &snapshot.root,
                is_tree,
                &mut marked,
                &mut |_, e| Err(e),
            )?;
        }
        self.mark_catalog(&mut marked)?;
        let mut of_forgotten = Marked::default();
        for Forgotten { snapshot, .. } in &forgotten {
            let is_tree = snapshot.kind == SnapshotKind::Tree;
            mark_object(
                &self.reader,
                &snapshot.root,
                is_tree,
                &mut of_forgotten,
                &mut |_, e| Err(e),
            )?;
        }
        let mut seen = FingerprintSet::default();
        crate::container::visit_containers(
            self.containers.blobs(),
            &Default::default(),
            &mut |id| {
                let contents = match self.containers.contents(id) {
                    Err(_) if self.chunks.quarantine.is_damaged(RegionPlace::whole(id)) => {
                        return Ok(ControlFlow::Continue(()));
                    }
                    other => other?,
                };
                if in_trash.contains(&id) {
                    counts.trash_bytes += self.containers.stored_len(id)?;
                    return Ok(ControlFlow::Continue(()));
                }
                for region in &contents.directory.regions {
                    let place = RegionPlace {
                        container: id,
                        sector: region.sector,
                    };
                    if self.chunks.quarantine.is_damaged(place) {
                        counts.reclaimable_bytes += u64::from(region.stored_bytes);
                        continue;
                    }
                    let mut plain = 0;
                    let (mut dead, mut forgotten) = (0, 0);
                    for (fingerprint, len) in &region.chunks {
                        let first = seen.insert(*fingerprint);
                        plain += u64::from(*len);
                        match first {
                            true => counts.unique_bytes += u64::from(*len),
                            false => counts.duplicate_bytes += u64::from(*len),
                        }
                        if first && marked.chunks.contains_key(fingerprint) {
                            counts.live_bytes += u64::from(*len);
                        } else if first && of_forgotten.chunks.contains_key(fingerprint) {
                            forgotten += u64::from(*len);
                        } else {
                            dead += u64::from(*len);
                        }
                    }
                    let share = |bytes| u64::from(region.stored_bytes) * bytes / plain.max(1);
                    counts.reclaimable_bytes += share(dead);
                    counts.forgotten_bytes += share(forgotten);
                }
                Ok(ControlFlow::Continue(()))
            },
        )?;
        counts.chunks = seen.len() as u64;
        Ok(counts)
    }

    fn mark_catalog(&self, marked: &mut Marked) -> Result<()> {
        let catalog = self.head().record.catalog;
        let mut load = |f: &Fingerprint| {
            marked.chunks.insert(*f, 0);
            self.reader.map_node(f)
        };
        visit(catalog, &[], &mut load, &mut |_, _| {
            Ok(ControlFlow::Continue(()))
        })
        .map(drop)
    }
}
