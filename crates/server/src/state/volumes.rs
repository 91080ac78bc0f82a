//! Opens the volumes of a pool. `serve` calls this and keeps them open; commands call it to change
//! volumes without a server.
//!
//! Invariant: the pool and its volumes together use at most the memory that the user allowed.

use super::ServerState;
use crate::memory_plan::MemoryPlan;
use chunking::Compression;
use std::ops::Deref;
use std::sync::Arc;
use store::{LaneOptions, Pool};
use volumes::{AccessOptions, DirectLimits, JournalOptions, JournalPlacement};
use volumes::{Switches, Thresholds, Volumes, VolumesOptions};

/// Default size of the journal, bytes.
pub const JOURNAL_BYTES_DEFAULT: u64 = 1 << 30;
/// Number of journal slots. A slot is freed as a whole: fewer slots free more at once, more slots
/// leave a smaller part of the journal in the slot that cannot be freed yet.
const SLOTS: u64 = 32;
const SLOT_BYTES_MIN: u64 = 1 << 20;
const BLOCK_BYTES: u64 = 4096;
/// Raw size of a volume's region, bytes. A random read decompresses one region
/// (docs/evaluation/access-patterns.md).
pub const REGION_BYTES: usize = 16 << 10;
/// Limits of a volume container's size, bytes.
const CONTAINER_BYTES_MIN: usize = 4 << 20;
const CONTAINER_BYTES_MAX: usize = 16 << 20;
/// Number of containers that fill the memory budget: some are being filled, some wait for the disk.
const CONTAINERS: usize = 64;
/// Returns the size at which containers of volumes are closed, bytes.
fn container_bytes(memory_bytes: usize) -> usize {
    let whole_mib = (memory_bytes / CONTAINERS) >> 20 << 20;
    whole_mib.clamp(CONTAINER_BYTES_MIN, CONTAINER_BYTES_MAX)
}

/// How a server wants its volumes.
pub struct VolumesWanted {
    /// Size of the journal.
    pub journal_bytes: u64,
    /// Where the journal is, or shall be.
    pub placement: JournalPlacement,
    /// Decisions that follow access patterns.
    pub switches: Switches,
}

impl Default for VolumesWanted {
    fn default() -> Self {
        Self {
            journal_bytes: JOURNAL_BYTES_DEFAULT,
            placement: JournalPlacement::default(),
            switches: Switches::default(),
        }
    }
}

/// Opens the volumes of a pool that is open for writing, with the journal where it is or shall be,
/// and replays that.
pub fn open_volumes(
    pool: Arc<Pool>,
    plan: &MemoryPlan,
    compression: Compression,
    wanted: &VolumesWanted,
) -> store::Result<Volumes> {
    let options = volumes_options(plan, compression, wanted);
    Volumes::open_placed(&pool, &options, &wanted.placement)
}

/// Returns the options with which a server opens its volumes.
pub fn volumes_options(
    plan: &MemoryPlan,
    compression: Compression,
    wanted: &VolumesWanted,
) -> VolumesOptions {
    let journal_bytes = wanted.journal_bytes;
    let slot_bytes = (journal_bytes / SLOTS).max(SLOT_BYTES_MIN) / BLOCK_BYTES * BLOCK_BYTES;
    VolumesOptions {
        journal: JournalOptions {
            bytes_max: journal_bytes,
            slot_bytes,
            buffer_bytes: plan.journal,
        },
        memory_bytes: plan.volumes_bytes,
        thresholds: Thresholds::default(),
        lane: LaneOptions {
            compression,
            region_bytes: REGION_BYTES,
            container_bytes: container_bytes(plan.all),
        },
        direct: DirectLimits::default(),
        access: AccessOptions {
            switches: wanted.switches,
            ..AccessOptions::default()
        },
    }
}

/// The volumes of one command: opened for it, or those of the server that runs it.
pub struct OpenVolumes {
    volumes: Arc<Volumes>,
    /// The server state, if a server runs the command.
    pub server: Option<Arc<ServerState>>,
}

impl OpenVolumes {
    /// Wraps volumes that were opened for one command.
    pub fn own(volumes: Volumes) -> Self {
        Self {
            volumes: Arc::new(volumes),
            server: None,
        }
    }

    /// Returns the volumes of a server.
    pub fn of_server(server: &Arc<ServerState>) -> Self {
        Self {
            volumes: Arc::clone(&server.volumes),
            server: Some(Arc::clone(server)),
        }
    }

    /// Returns a shared handle, for callers that outlive the command.
    pub fn shared(&self) -> Arc<Volumes> {
        Arc::clone(&self.volumes)
    }

    /// Returns the number of clients that use a volume, without disconnected ones. 0 without a
    /// server.
    pub fn clients(&self, name: &str) -> usize {
        let server = self.server.as_ref();
        server.map_or(0, |server| server.clients.connected(name))
    }
}

impl Deref for OpenVolumes {
    type Target = Volumes;

    fn deref(&self) -> &Volumes {
        &self.volumes
    }
}
