//! One reading of all counters of a server. `top`, `status` and the metrics call this.
//!
//! Invariant: a reading does no I/O and walks nothing that grows with the stored data.

use super::{CollectStatus, DefragStatus, HotChunksStatus, ServerState, TaskReading};
use crate::meters::Reading;
use device::FlowCounts;
use maintenance::{ScrubStatus, TaskTotals};
use media::Room;
use nbd::Stats;
use qos::Flow;
use std::collections::BTreeMap;
use std::time::Instant;
use store::{IndexCopyStatus, ReadCounts};
use volumes::{CacheTally, CheckpointCounts, JournalUsage, MemoryByOwner, WriterWaitCounts};

/// Reading of one export.
#[derive(Clone, Debug, Default)]
pub struct ExportReading {
    /// Size of the volume, bytes. `None` if the export is not a volume, or no longer one.
    pub volume_bytes: Option<u64>,
    /// Number of overlay pieces that are not yet applied to the volume's recipe.
    pub pieces_unapplied: u64,
    /// Number of connections and open files that use the export.
    pub clients: u64,
    /// Requests of clients.
    pub asked: Reading,
    /// Where reads found their data.
    pub cache: CacheTally,
}

/// A reading of all counters. See the module's head.
#[derive(Clone, Debug)]
pub struct Live {
    /// Time of the reading.
    pub at: Instant,
    /// Readings of all volumes and of every other export that was ever opened, by name.
    pub exports: BTreeMap<String, ExportReading>,
    /// Sums of all NBD servers.
    pub nbd: Stats,
    /// Sums of all iSCSI servers.
    pub iscsi: Stats,
    /// Usage of the journal.
    pub journal: JournalUsage,
    /// Bytes written directly to containers, not through the journal.
    pub direct_bytes: u64,
    /// Counts of checkpoints.
    pub checkpoints: CheckpointCounts,
    /// Counters of the volumes' page cache.
    pub cache: page_cache::Counters,
    /// Memory use by owner.
    pub memory: MemoryByOwner,
    /// The fast tier, if there is one.
    pub tier: Option<ssd_tier::Status>,
    /// The copy of the fingerprint index beside it.
    pub fast_index: Option<IndexCopyStatus>,
    /// Counts of the pool's own reads.
    pub reads: ReadCounts,
    /// Device I/O by origin, in the order of [`Flow::ALL`].
    pub device: [FlowCounts; Flow::ALL.len()],
    /// Progress of the scrub.
    pub scrub: ScrubStatus,
    /// Scrub totals of this server.
    pub scrub_totals: TaskTotals,
    /// The defragmentation run in progress, or else the last one.
    pub defrag: Option<DefragStatus>,
    /// Hot chunks that the server copies by itself.
    pub hot_chunks: HotChunksStatus,
    /// Readings of all maintenance tasks.
    pub tasks: [TaskReading; 4],
    /// State of garbage collection.
    pub collecting: CollectStatus,
    /// Free space of the pool's disk. `None` if it is unknown.
    pub room: Option<Room>,
    /// Counts of writers delayed by back-pressure.
    pub waits: WriterWaitCounts,
}

impl Live {
    /// Reads all counters.
    pub fn of(server: &ServerState) -> Self {
        let mut exports: BTreeMap<String, ExportReading> = BTreeMap::new();
        for volume in server.volumes.list() {
            let reading = ExportReading {
                volume_bytes: Some(volume.record.root.len),
                pieces_unapplied: volume.pieces_unapplied,
                cache: volume.cache,
                ..ExportReading::default()
            };
            exports.insert(volume.record.name, reading);
        }
        server.meters.for_each(|name, meter| {
            let export = exports.entry(name.to_owned()).or_default();
            export.asked = meter.read();
            if export.volume_bytes.is_none() {
                export.cache = meter.cache.read();
            }
        });
        for (name, export) in &mut exports {
            export.clients = server.clients.count(name) as u64;
        }
        let tasks = &server.tasks;
        let (scrub, scrub_totals) = (tasks.scrub.status(), tasks.scrub.totals());
        let (collecting, defrag) = (tasks.collecting.status(), tasks.defrag.status());
        let readings = tasks.readings(&scrub, &collecting, defrag.as_ref());
        Self {
            at: Instant::now(),
            exports,
            nbd: server.clients.nbd_stats(),
            iscsi: server.clients.iscsi_stats(),
            journal: server.volumes.journal_usage(),
            direct_bytes: server.volumes.direct_bytes(),
            checkpoints: server.volumes.checkpoint_counts(),
            cache: server.volumes.cache_counters(),
            memory: server.volumes.memory_by_owner(),
            tier: server.pool.fast_tier().map(|tier| tier.status()),
            fast_index: server.pool.fast_index(),
            reads: server.pool.read_counts(),
            device: server.device.counts(),
            scrub,
            scrub_totals,
            defrag,
            hot_chunks: tasks.hot_chunks.status(),
            tasks: readings,
            collecting,
            room: server.pool.room(),
            waits: server.volumes.writer_wait_counts(),
        }
    }
}
