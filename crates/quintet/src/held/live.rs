//! One look at everything that a server counts.
//!
//! Invariant: cheap: no I/O and no walk over anything that grows with the data. Called by `top`,
//! `status` and the metrics.

use super::{CollectStatus, DefragStatus, Held, TaskReading, lock, tasks};
use crate::meters::Reading;
use device::FlowCounts;
use maintenance::{ScrubStatus, ScrubTotals};
use media::Room;
use nbd::Stats;
use qos::Flow;
use std::collections::BTreeMap;
use std::time::Instant;
use store::ReadCounts;
use volumes::{CacheTally, CheckpointCounts, JournalUsage, MemoryByOwner, RestraintCounts};

/// Of one export.
#[derive(Clone, Debug, Default)]
pub struct ExportReading {
    /// Size of the volume, bytes; `None` for what is no volume, or not any more.
    pub volume_bytes: Option<u64>,
    /// Pieces that are written and not folded into the volume's recipe.
    pub pieces_unfolded: u64,
    /// Connections and open files that use it.
    pub clients: u64,
    /// What they asked.
    pub asked: Reading,
    /// Where it was found.
    pub cache: CacheTally,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub struct Live {
    /// When it was looked at.
    pub at: Instant,
    /// Volumes, and whatever else was ever opened, by name.
    pub exports: BTreeMap<String, ExportReading>,
    /// All NBD servers together.
    pub nbd: Stats,
    /// The journal.
    pub journal: JournalUsage,
    /// Bytes that passed it by.
    pub direct_bytes: u64,
    /// Checkpoints.
    pub checkpoints: CheckpointCounts,
    /// The volumes' page cache.
    pub cache: page_cache::Counters,
    /// Who has how much of the memory budget.
    pub memory: MemoryByOwner,
    /// The pool's own reads.
    pub reads: ReadCounts,
    /// What went to the device and came from it, in the order of [`Flow::ALL`].
    pub device: [FlowCounts; Flow::ALL.len()],
    /// How far the scrub is.
    pub scrub: ScrubStatus,
    /// What this server has done of it.
    pub scrub_totals: ScrubTotals,
    /// The defragmentation that is under way, or the last one.
    pub defrag: Option<DefragStatus>,
    /// All maintenance tasks.
    pub tasks: [TaskReading; 4],
    /// Giving back space.
    pub collecting: CollectStatus,
    /// Room on the pool's disk; `None`: nobody knows.
    pub room: Option<Room>,
    /// Writers that waited for it.
    pub restraint: RestraintCounts,
}

impl Live {
    /// Looks at everything.
    pub fn of(held: &Held) -> Self {
        let mut exports: BTreeMap<String, ExportReading> = BTreeMap::new();
        for volume in held.volumes.list() {
            let reading = ExportReading {
                volume_bytes: Some(volume.record.root.len),
                pieces_unfolded: volume.pieces_unfolded,
                cache: volume.cache,
                ..ExportReading::default()
            };
            exports.insert(volume.record.name, reading);
        }
        for (name, meter) in lock(&held.meters).iter() {
            let export = exports.entry(name.clone()).or_default();
            export.asked = meter.read();
            if export.volume_bytes.is_none() {
                export.cache = meter.cache.read();
            }
        }
        let servers = lock(&held.servers);
        for (name, export) in &mut exports {
            let clients = servers.iter().map(|server| server.clients(name));
            let clients = clients.sum::<usize>() + held.files.count(name);
            export.clients = clients as u64;
        }
        let stats = servers.iter().map(|server| server.stats());
        let nbd = stats.fold(Stats::default(), |sum, stats| together(sum, &stats));
        drop(servers);
        let (scrub, scrub_totals) = (held.scrub.status(), held.scrub.totals());
        let (collecting, defrag) = (held.collecting.status(), held.defrag.status());
        let tasks = tasks::tasks(held, (&scrub, &scrub_totals), &collecting, defrag.as_ref());
        Self {
            at: Instant::now(),
            exports,
            nbd,
            journal: held.volumes.journal_usage(),
            direct_bytes: held.volumes.direct_bytes(),
            checkpoints: held.volumes.checkpoint_counts(),
            cache: held.volumes.cache_counters(),
            memory: held.volumes.memory_by_owner(),
            reads: held.pool.read_counts(),
            device: held.device.counts(),
            scrub,
            scrub_totals,
            defrag,
            tasks,
            collecting,
            room: held.pool.room(),
            restraint: held.volumes.restraint_counts(),
        }
    }
}

fn together(mut sum: Stats, more: &Stats) -> Stats {
    sum.connections += more.connections;
    sum.connections_total += more.connections_total;
    sum.connections_refused_total += more.connections_refused_total;
    sum.handshakes_failed_total += more.handshakes_failed_total;
    sum.connections_dropped_total += more.connections_dropped_total;
    sum.reads_abandoned_total += more.reads_abandoned_total;
    sum.errors_total += more.errors_total;
    sum.read_bytes_total += more.read_bytes_total;
    sum.written_bytes_total += more.written_bytes_total;
    sum.sent_bytes_total += more.sent_bytes_total;
    for (sum, more) in sum.requests_total.iter_mut().zip(more.requests_total) {
        *sum += more;
    }
    for (sum, more) in sum.latency_us.iter_mut().zip(more.latency_us) {
        *sum += more;
    }
    sum
}
