//! Opens the volumes that a crash left and compares them with the allowed states. The scenario's
//! check calls this.
//!
//! Invariant: contents do not change when a checkpoint applies them or when the pool is opened
//! again. The pool checks as sound and takes writes.

use super::model::{VolumeContents, VolumeModel};
use super::setup::{CONTEXT, contents_of, open_placed, read_volume};
use crate::SimDisk;
use crate::pool_histories::{at_once, check_all, finish_gc, lane_options};
use format::snapshot::SnapshotKind;
use maintenance::Collector;
use media::Disk;
use std::collections::BTreeMap;
use std::sync::Arc;
use volume::{Durability, Volume};
use volumes::{JournalPlacement, Volumes};

pub(super) type Found = BTreeMap<String, VolumeContents>;

/// Largest volume of the histories.
const BYTES_MAX: u64 = 1 << 24;

fn words(e: impl std::fmt::Display) -> String {
    e.to_string()
}

/// Returns what is wrong with the volumes on `disk`, or how many chunks came from the tier. `fast`:
/// the fast device, if there is one.
pub fn examine(
    disk: &Arc<SimDisk>,
    seed: u64,
    models: &[VolumeModel],
    fast: Option<Arc<dyn Disk>>,
) -> Result<u64, String> {
    let placement = JournalPlacement {
        fast,
        ..JournalPlacement::default()
    };
    let opened = open_placed(disk, seed, (seed << 11) + 2000, &placement).map_err(words)?;
    if let Some(damage) = opened.damage().first() {
        return Err(format!("damage without a cause: {damage:?}"));
    }
    let volumes = volumes_of(&opened)?;
    let snapshots = snapshots_of(&opened)?;
    let refusals: Vec<_> = models
        .iter()
        .map_while(|model| model.refuses(&volumes, &snapshots))
        .collect();
    if refusals.len() == models.len() {
        return Err(refusals.join("; or: "));
    }
    // A small write, so that the checkpoint applies more than it found.
    if let Some((name, contents)) = volumes.iter().find(|(_, c)| c.size >= 512) {
        let volume = opened.volume(name).ok_or("gone")?;
        let mut first = vec![0; 512];
        volume.read(CONTEXT, 0, &mut first).map_err(words)?;
        volume
            .write(CONTEXT, 0, &first, Durability::Durable)
            .map_err(words)?;
        let _ = contents;
    }
    opened.checkpoint().map_err(words)?;
    is_still("after folding", &volumes, &volumes_of(&opened)?)?;
    is_sound(&opened)?;
    for _ in 0..2 {
        collect(&opened)?;
    }
    is_still("after collecting", &volumes, &volumes_of(&opened)?)?;
    is_sound(&opened)?;
    let mut hits = tier_hits(&opened);
    drop(opened);
    let again = open_placed(disk, seed, (seed << 11) + 2001, &placement).map_err(words)?;
    is_still("opened again", &volumes, &volumes_of(&again)?)?;
    is_still("snapshots opened again", &snapshots, &snapshots_of(&again)?)?;
    hits += tier_hits(&again);
    Ok(hits)
}

/// Returns how many chunks came from the tier, if there is one.
fn tier_hits(volumes: &Volumes) -> u64 {
    let tier = volumes.pool().fast_tier();
    tier.map_or(0, |tier| tier.status().hits)
}

/// Runs gc once, completely.
fn collect(volumes: &Volumes) -> Result<(), String> {
    let pool = volumes.pool();
    let mut collector = Collector::new(pool, at_once(), lane_options()).map_err(words)?;
    let counts = finish_gc(pool, Some(volumes), &mut collector, 1 << 20);
    counts.map(drop).map_err(words)
}

fn is_still(when: &str, before: &Found, now: &Found) -> Result<(), String> {
    match before == now {
        true => Ok(()),
        false => Err(format!("changed {when}")),
    }
}

pub(super) fn volumes_of(volumes: &Volumes) -> Result<Found, String> {
    let mut found = Found::new();
    for status in volumes.list() {
        let name = status.record.name;
        let volume = volumes.volume(&name).ok_or("a listed volume is gone")?;
        let contents = read_volume(&volume).map_err(|e| format!("{name}: {e}"))?;
        found.insert(name, contents);
    }
    // Two records of one volume would be one volume here, under either name.
    let stored = volumes.pool().volumes().map_err(words)?;
    match stored.iter().map(|record| &record.name).eq(found.keys()) {
        true => Ok(found),
        false => Err(format!(
            "the catalog has {stored:?}, open are {:?}",
            found.keys()
        )),
    }
}

pub(super) fn snapshots_of(volumes: &Volumes) -> Result<Found, String> {
    let mut found = Found::new();
    for snapshot in volumes.pool().snapshots().map_err(words)? {
        if snapshot.kind == SnapshotKind::Volume {
            let reader = volumes.pool().reader();
            let bytes = reader.read_whole(&snapshot.root, BYTES_MAX);
            let bytes = bytes.map_err(|e| format!("{}: {e}", snapshot.name))?;
            found.insert(snapshot.name, contents_of(&bytes)?);
        }
    }
    Ok(found)
}

pub(super) fn is_sound(volumes: &Volumes) -> Result<(), String> {
    let report = check_all(volumes.pool()).map_err(words)?;
    match report.is_sound() {
        true => Ok(()),
        false => Err(format!("check: {report:?}")),
    }
}
