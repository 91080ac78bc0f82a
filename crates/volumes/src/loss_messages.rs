//! Words about writes that the journal of the volumes has lost. Findings and commands show them.
//!
//! Invariant: losses that this process found go before those that earlier processes recorded.

use super::Volumes;
use format::volume::VolumeRecord;
use journal::{JournalDamage, LostWrites};
use units::VolumeId;

/// Returns messages about the journal damage that this process found, by volume.
pub fn lost_writes(volumes: &Volumes) -> Vec<String> {
    let records: Vec<_> = volumes.list().into_iter().map(|v| v.record).collect();
    let damage = volumes.damage();
    damage.iter().map(|d| named(d, &records)).collect()
}

/// The same; if this process found none, the unacknowledged losses of earlier processes.
pub fn unacknowledged_losses(volumes: &Volumes) -> Vec<String> {
    let found = lost_writes(volumes);
    if !found.is_empty() {
        return found;
    }
    let records: Vec<_> = volumes.list().into_iter().map(|v| v.record).collect();
    recorded_losses(&volumes.lost_writes(), &records)
}

/// Returns a message about journal damage, with the name of its volume if that is known.
pub fn named(damage: &JournalDamage, volumes: &[VolumeRecord]) -> String {
    let record = damage.record.as_ref();
    match record.and_then(|record| name_of(volumes, record.volume)) {
        Some(name) => format!("volume {name} has lost writes: {damage}"),
        None => format!("journal: {damage}"),
    }
}

fn name_of(volumes: &[VolumeRecord], id: VolumeId) -> Option<&str> {
    let found = volumes.iter().find(|volume| volume.id == id);
    found.map(|volume| volume.name.as_str())
}

/// Returns messages about recorded losses that the user has not acknowledged.
pub fn recorded_losses(
    (lost, more): &(Vec<LostWrites>, u32),
    volumes: &[VolumeRecord],
) -> Vec<String> {
    let line = |lost: &LostWrites| {
        let unit = if lost.is_chunks { "chunks" } else { "bytes" };
        let (from, to) = (lost.start, lost.start.saturating_add(lost.len));
        match lost.volume {
            Some(id) => {
                let id_text = id.to_string();
                let name = name_of(volumes, id).unwrap_or(&id_text);
                format!("volume {name} has lost writes: {unit} {from} to {to}")
            }
            // Positions of the journal: all volumes share them.
            None if lost.len > 0 => format!(
                "the journal has lost writes: any volume may lack some (positions {from} to {to})"
            ),
            None => "the journal has lost writes of an unknown volume".to_owned(),
        }
    };
    let mut lines: Vec<_> = lost.iter().map(line).collect();
    if *more > 0 {
        lines.push(format!("the journal has lost writes: {more} more ranges"));
    }
    lines
}
