//! Examines a whole pool: is it sound, and what uses how much space? The program calls this, and so
//! does repair.
//!
//! Invariant: changes nothing that is stored.

use super::{Pool, SpaceCounts};
use crate::check::{CheckDepth, CheckProgress, CheckReport, Checked};
use crate::space::{LiveMap, Marking, Sources, Unfollowed, mark_snapshots};
use chunk_store::Result;
use chunk_store::catalog::{read_quarantine, visit};
use chunk_store::container::RegionPlace;
use format::snapshot::Snapshot;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use units::{ContainerId, Fingerprint};

impl Pool {
    /// Verifies the pool. The report includes the findings of opening it.
    pub fn check(
        &self,
        depth: CheckDepth,
        progress: &mut CheckProgress<'_>,
    ) -> Result<CheckReport> {
        let mut report = self.check_stored(depth, progress)?;
        report
            .damage
            .extend(self.health.notes.damage.iter().cloned());
        report
            .notes
            .extend(self.health.notes.unpaired.iter().cloned());
        // Also missing containers: a reader cannot commit the quarantine.
        report
            .bad
            .iter()
            .for_each(|place| self.health.hints().note(*place));
        Ok(report)
    }

    pub(super) fn check_stored(
        &self,
        depth: CheckDepth,
        progress: &mut CheckProgress<'_>,
    ) -> Result<CheckReport> {
        // To the end: what it finds missing must not have been deleted meanwhile.
        let held = self.commits.held();
        let (mut snapshots, unreadable) = self.snapshots_readable()?;
        // The damaged catalog is reported by `snapshots_readable` above.
        let volumes = match self.volumes_as_snapshots() {
            Err(e) if e.is_corruption() => Vec::new(),
            volumes => volumes?,
        };
        let volumes_count = volumes.len() as u64;
        snapshots.extend(volumes);
        let mut load = self.storage.map_node();
        let noted = match read_quarantine(held.catalog(), &mut load) {
            // Reported with the damage of the catalog.
            Err(e) if e.is_corruption() => BTreeSet::new(),
            other => other?,
        };
        let checked = Checked {
            noted: &noted,
            reader: &self.storage.reader,
            containers: &self.storage.containers,
            chunks: &self.storage.chunks,
            record: &held.record,
            snapshots: &snapshots,
            is_described_only: &|id| self.is_described_only(id),
        };
        let mut report = checked.run(depth, progress)?;
        report.snapshots = report.snapshots.saturating_sub(volumes_count);
        if let Some(e) = unreadable {
            report.damage.push(format!("catalog: {e}"));
        }
        Ok(report)
    }

    /// Sums up what is stored and what is live. Reads every directory and every recipe.
    pub fn space(&self) -> Result<SpaceCounts> {
        let held = self.commits.held();
        let mut counts = SpaceCounts {
            containers: held.record.containers,
            stored_bytes: held.record.stored_bytes,
            ..SpaceCounts::default()
        };
        let (forgotten, in_trash) = self.trash()?;
        let in_trash: BTreeSet<_> = in_trash.iter().map(|t| t.entry.id).collect();
        let mut snapshots = self.snapshots()?;
        counts.logical_bytes = snapshots.iter().map(|s| s.logical_bytes).sum();
        let volumes = self.volumes_as_snapshots()?;
        counts.volumes = volumes.len() as u64;
        counts.volumes_bytes = volumes.iter().map(|v| v.root.len).sum();
        snapshots.extend(volumes);
        let filled = snapshots.iter().filter(|s| !s.root.fingerprint.is_hole());
        counts.filled_bytes = filled.map(|s| s.logical_bytes.max(s.root.len)).sum();
        let live = self.live_of(&snapshots, held.catalog())?;
        let forgotten: Vec<_> = forgotten.into_iter().map(|f| f.snapshot).collect();
        let of_forgotten = self.live_of(&forgotten, None)?;
        counts.mark_bytes = (live.bit_bytes() + of_forgotten.bit_bytes()) as u64;
        chunk_store::container::visit_containers(
            self.storage.containers.blobs(),
            &Default::default(),
            &mut |id| {
                let contents = match self.storage.containers.contents(id) {
                    Err(_)
                        if self
                            .storage
                            .chunks
                            .quarantine
                            .is_damaged(RegionPlace::whole(id)) =>
                    {
                        return Ok(ControlFlow::Continue(()));
                    }
                    other => other?,
                };
                if in_trash.contains(&id) {
                    counts.trash_bytes += self.storage.containers.stored_len(id)?;
                    return Ok(ControlFlow::Continue(()));
                }
                // Chunk numbers in the container, as marking counts them.
                let mut numbers = 0..;
                for region in &contents.directory.regions {
                    let numbers: Vec<u32> = numbers.by_ref().take(region.chunks.len()).collect();
                    let place = RegionPlace {
                        container: id,
                        sector: region.sector,
                    };
                    if self.storage.chunks.quarantine.is_damaged(place) {
                        counts.garbage_bytes += u64::from(region.stored_bytes);
                        continue;
                    }
                    let mut plain = 0;
                    let (mut dead, mut forgotten) = (0, 0);
                    for ((fingerprint, len), number) in region.chunks.iter().zip(numbers) {
                        let len = u64::from(*len);
                        plain += len;
                        let is_of =
                            |map: &LiveMap| map.of(id).is_some_and(|live| live.holds(number));
                        let (is_live, is_kept) = (is_of(&live), is_of(&of_forgotten));
                        // Marks are on the copy that garbage collection keeps.
                        if !is_live && !is_kept && !self.is_kept_at(fingerprint, id, number)? {
                            counts.duplicate_bytes += len;
                            dead += len;
                            continue;
                        }
                        counts.chunks += 1;
                        counts.unique_bytes += len;
                        match (is_live, is_kept) {
                            (true, _) => counts.live_bytes += len,
                            (false, true) => forgotten += len,
                            (false, false) => dead += len,
                        }
                    }
                    let share = |bytes| u64::from(region.stored_bytes) * bytes / plain.max(1);
                    counts.garbage_bytes += share(dead);
                    counts.forgotten_bytes += share(forgotten);
                }
                Ok(ControlFlow::Continue(()))
            },
        )?;
        Ok(counts)
    }

    /// Marks what these snapshots reach, and the nodes of the catalog. Ignores missing data: check
    /// reports it.
    fn live_of(&self, snapshots: &[Snapshot], catalog: Option<Fingerprint>) -> Result<LiveMap> {
        let sources = Sources {
            chunks: &self.storage.chunks,
            reader: &self.storage.reader,
            settled: &|_| true,
        };
        let mut marking = Marking::past_damage();
        let mut load = |f: &Fingerprint| {
            marking.push_catalog_node(*f);
            self.storage.reader.map_node(f)
        };
        let _ = visit(catalog, &[], &mut load, &mut |_, _| {
            Ok(ControlFlow::Continue(()))
        })?;
        mark_snapshots(&mut marking, &sources, snapshots)?;
        let live = std::mem::take(&mut marking.live);
        for why in marking.into_damage().into_values() {
            if let Unfollowed::Unreadable(e) = why {
                return Err(e);
            }
        }
        Ok(live)
    }

    /// Returns true if garbage collection keeps this copy of the chunk.
    fn is_kept_at(&self, fingerprint: &Fingerprint, id: ContainerId, number: u32) -> Result<bool> {
        let kept = self.storage.chunks.keeper(fingerprint, &|_| true)?;
        Ok(kept.is_some_and(|kept| kept.directory.container == id && kept.number == number))
    }
}
