//! How the program opens the volumes of a pool.
//!
//! Invariant: pool and volumes together take the memory that the user gave, no more. Called by `serve`,
//! which keeps them open, and by commands that change volumes without a server.

use super::Held;
use chunking::Compression;
use format::volume::VolumeRecord;
use std::ops::Deref;
use std::sync::Arc;
use store::{
    AccessOptions, DirectLimits, JournalDamage, JournalOptions, LaneOptions, LostWrites, Pool,
    Thresholds, Volumes, VolumesOptions,
};
use units::VolumeId;

/// Size of the journal unless the user says otherwise, bytes.
pub const JOURNAL_BYTES_DEFAULT: u64 = 1 << 30;
/// Slots of a journal: few, so that trims free enough at once; many, so that little of it is the
/// one that cannot be freed.
const SLOTS: u64 = 32;
const SLOT_BYTES_MIN: u64 = 1 << 20;
const BLOCK_BYTES: u64 = 4096;
/// Raw bytes of a region of a volume: a random read unpacks one (docs/evaluation/access-patterns.md).
pub const REGION_BYTES: usize = 16 << 10;
/// Containers of volumes are closed at such sizes, bytes ...
const CONTAINER_BYTES_MIN: usize = 4 << 20;
const CONTAINER_BYTES_MAX: usize = 16 << 20;
/// ... so that this many are the memory: some are filled, some wait for the disk.
const CONTAINERS: usize = 64;
/// Sixteenths of the memory that the pool gets: index, directories, regions. What clients read is
/// in the page cache of the volumes, which gets the rest.
const POOL_SHARE: usize = 6;
/// Sixteenths for the directories of mounts.
const DIRECTORIES_SHARE: usize = 1;

/// Large requests of one NBD socket and kind get no more, bytes: more does not make them faster.
const REQUESTS_BYTES_MAX: usize = 256 << 20;

/// The part of the memory that a pool with open volumes gets, bytes.
pub fn pool_memory(memory_bytes: usize) -> usize {
    memory_bytes / 16 * POOL_SHARE
}

/// The part that directories of mounts get, bytes.
pub fn directory_memory(memory_bytes: usize) -> usize {
    memory_bytes / 16 * DIRECTORIES_SHARE
}

/// What one of so many NBD sockets may take for large reads, and as much again for large writes, bytes: a quarter of the
/// memory for all of them, unless the largest requests need more.
pub fn request_memory(memory_bytes: usize, sockets: usize) -> u64 {
    (memory_bytes / 8 / sockets.max(1)).min(REQUESTS_BYTES_MAX) as u64
}

/// The size at which containers of volumes are closed, bytes.
fn container_bytes(memory_bytes: usize) -> usize {
    let whole_mib = (memory_bytes / CONTAINERS) >> 20 << 20;
    whole_mib.clamp(CONTAINER_BYTES_MIN, CONTAINER_BYTES_MAX)
}

/// Opens the volumes of a pool that was opened for writing with [`pool_memory`]; replays the
/// journal.
pub fn open_volumes(
    pool: Arc<Pool>,
    memory_bytes: usize,
    journal_bytes: u64,
    compression: Compression,
) -> store::Result<Volumes> {
    let left = (memory_bytes - pool_memory(memory_bytes) - directory_memory(memory_bytes)) as u64;
    // Of the journal's own memory some is in use most of the time.
    let buffer_bytes = (left / 16).clamp(4 << 20, 32 << 20);
    let slot_bytes = (journal_bytes / SLOTS).max(SLOT_BYTES_MIN) / BLOCK_BYTES * BLOCK_BYTES;
    let options = VolumesOptions {
        journal: JournalOptions {
            bytes_max: journal_bytes,
            slot_bytes,
            buffer_bytes: buffer_bytes as usize,
        },
        memory_bytes: left.saturating_sub(buffer_bytes),
        thresholds: Thresholds::default(),
        lane: LaneOptions {
            compression,
            region_bytes: REGION_BYTES,
            container_bytes: container_bytes(memory_bytes),
        },
        direct: DirectLimits::default(),
        access: AccessOptions::default(),
    };
    Volumes::open(pool, &options)
}

/// What the journal has lost of which volume, as this process found it, for people.
pub fn lost_writes(volumes: &Volumes) -> Vec<String> {
    let records: Vec<_> = volumes.list().into_iter().map(|v| v.record).collect();
    let damage = volumes.damage();
    damage.iter().map(|d| named(d, &records)).collect()
}

/// The same, or what earlier processes found and nobody has acknowledged.
pub fn unacknowledged_losses(volumes: &Volumes) -> Vec<String> {
    let found = lost_writes(volumes);
    if !found.is_empty() {
        return found;
    }
    let records: Vec<_> = volumes.list().into_iter().map(|v| v.record).collect();
    recorded_losses(&volumes.lost_writes(), &records)
}

/// Damage of the journal, and whose it is.
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

/// Lost writes that nobody has acknowledged, for people.
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
            None => "the journal has lost writes, of which volume is not known".to_owned(),
        }
    };
    let mut lines: Vec<_> = lost.iter().map(line).collect();
    if *more > 0 {
        lines.push(format!(
            "the journal has lost writes: {more} further ranges"
        ));
    }
    lines
}

/// The volumes of one command: opened for it, or held by the server that runs it.
pub struct OpenVolumes {
    volumes: Arc<Volumes>,
    /// Whose they are, in a server.
    pub held: Option<Arc<Held>>,
}

impl OpenVolumes {
    /// Opened for one command.
    pub fn own(volumes: Volumes) -> Self {
        Self {
            volumes: Arc::new(volumes),
            held: None,
        }
    }

    /// The server's.
    pub fn of_server(held: &Arc<Held>) -> Self {
        Self {
            volumes: Arc::clone(&held.volumes),
            held: Some(Arc::clone(held)),
        }
    }

    /// For who keeps them.
    pub fn shared(&self) -> Arc<Volumes> {
        Arc::clone(&self.volumes)
    }

    /// Connections that use a volume.
    pub fn clients(&self, name: &str) -> usize {
        self.held.as_ref().map_or(0, |held| held.clients(name))
    }
}

impl Deref for OpenVolumes {
    type Target = Volumes;

    fn deref(&self) -> &Volumes {
        &self.volumes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_take_a_part_of_the_memory_whatever_the_sockets() {
        for (memory_mib, sockets) in [(256, 1), (1024, 3), (8192, 1), (32, 2)] {
            let memory = memory_mib << 20;
            let all = 2 * sockets as u64 * request_memory(memory, sockets);
            assert!(
                all <= memory as u64 / 4,
                "{memory_mib} MiB, {sockets} sockets"
            );
        }
        assert_eq!(request_memory(64 << 30, 1), 256 << 20);
        assert_eq!(request_memory(1 << 30, 1), 128 << 20);
    }
}
