//! Metrics of a server in the format of Prometheus. The endpoint calls [`render`].
//!
//! Invariant: every metric is in one table, with its unit in its name and its meaning beside it.
//! Units are base units; names of counters end in `_total`. Rendering reads counters and the cached
//! findings, which are renewed at most once a minute and commit.

mod classes;
mod decisions;
mod device;
mod endpoint;
mod text;
mod tier;

pub use endpoint::{Endpoint, EndpointError};

use crate::findings::{KINDS, worst};
use crate::meters::{Asked, KindReading, bucket_limit_us};
use crate::state::{Live, ServerState};
use nbd::Stats;
use nbd::wire::requests::Command;
use store::HolderKind;
use text::{Text, Value};

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A value that can rise and fall.
    Gauge,
    /// A count that only rises while the server lives.
    Counter,
    /// Counts by size.
    Histogram,
}

/// A line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name, including its unit.
    pub name: &'static str,
    /// Type.
    pub kind: MetricKind,
    /// Help text.
    pub help: &'static str,
}

macro_rules! table {
    ($($name:ident: $kind:ident = $text:literal, $help:literal;)*) => {
        $(const $name: Metric = Metric { name: $text, kind: MetricKind::$kind, help: $help };)*
        /// All metrics.
        pub const METRICS: &[Metric] = &[$($name),*];
    };
}

table! {
    BUILD: Gauge = "quintet_build_info", "Always 1; the label is the version.";
    UPTIME: Gauge = "quintet_uptime_seconds", "Time since the server opened the pool.";
    FAILING: Gauge = "quintet_failing", "1 while writes or checkpoints of volumes fail; quintet status shows why.";
    FINDING: Gauge = "quintet_finding", "Number of findings of this kind in quintet status.";
    STATE: Gauge = "quintet_state", "State that quintet status shows: 0 ONLINE, 1 DEGRADED, 2 DAMAGED, 3 FAILED.";
    SOURCE_TIME: Gauge = "quintet_source_snapshot_timestamp_seconds", "Time of the newest snapshot of a source, since 1970; at most 1000 sources.";
    SOURCE_SIZE: Gauge = "quintet_source_snapshot_bytes", "Bytes of the source in its newest snapshot.";
    SOURCE_COMPLETE: Gauge = "quintet_source_snapshot_complete", "1 if the newest snapshot contains the whole source and no file changed while it was read.";
    SOURCE_UNREAD: Gauge = "quintet_source_snapshot_unread_files", "Files, directories and attributes that could not be read.";
    SOURCE_CHANGED: Gauge = "quintet_source_snapshot_changed_files", "Files that changed while they were read.";
    SOURCE_OVERDUE: Gauge = "quintet_source_snapshot_overdue", "1 if the newest snapshot is older than the source's usual interval allows.";
    COMMITTED: Gauge = "quintet_last_commit_timestamp_seconds", "Time of the newest commit, since 1970.";
    GENERATION: Gauge = "quintet_pool_generation", "Number of the newest commit.";
    STORED: Gauge = "quintet_pool_stored_bytes", "Bytes of all containers.";
    CONTAINERS: Gauge = "quintet_pool_containers", "Number of containers.";
    CHUNK_HITS: Counter = "quintet_pool_chunk_hits_total", "Chunks of snapshots that were read from memory.";
    REGION_READS: Counter = "quintet_pool_region_reads_total", "Regions read from the device, verified and unpacked.";
    SIZE: Gauge = "quintet_volume_size_bytes", "Size of a volume as clients see it.";
    NOT_APPLIED: Gauge = "quintet_volume_unfolded_pieces", "Written pieces of a volume that no checkpoint has applied yet.";
    CLIENTS: Gauge = "quintet_export_clients", "Connections that use an export.";
    IN_FLIGHT: Gauge = "quintet_export_requests_in_flight", "Requests of an export in progress.";
    ERRORS: Counter = "quintet_export_errors_total", "Requests of an export that failed.";
    BYTES: Counter = "quintet_export_bytes_total", "Bytes that clients of an export read and wrote.";
    DURATION: Histogram = "quintet_request_duration_seconds", "Duration of a request in the store, without the network.";
    EXPORT_HITS: Counter = "quintet_export_cache_hits_total", "Chunks and pages that requests of an export found in memory.";
    EXPORT_MISSES: Counter = "quintet_export_cache_misses_total", "Chunks and pages that requests of an export did not find in memory.";
    CONNECTIONS: Gauge = "quintet_nbd_connections", "Open NBD connections.";
    ACCEPTED: Counter = "quintet_nbd_connections_total", "NBD connections that were accepted.";
    REFUSED: Counter = "quintet_nbd_connections_refused_total", "NBD connections refused because there were too many.";
    DROPPED: Counter = "quintet_nbd_connections_dropped_total", "NBD connections closed because of a fault of the client.";
    ABANDONED: Counter = "quintet_nbd_reads_abandoned_total", "NBD reads dropped before they began because the client had disconnected.";
    REQUESTS: Counter = "quintet_nbd_requests_total", "NBD requests that were answered.";
    SENT: Counter = "quintet_nbd_sent_bytes_total", "Bytes sent to NBD clients.";
    ISCSI_CONNECTIONS: Gauge = "quintet_iscsi_connections", "Open iSCSI connections; a session has one.";
    ISCSI_ACCEPTED: Counter = "quintet_iscsi_connections_total", "iSCSI connections that were accepted.";
    ISCSI_REFUSED: Counter = "quintet_iscsi_connections_refused_total", "iSCSI connections refused because there were too many.";
    ISCSI_DROPPED: Counter = "quintet_iscsi_connections_dropped_total", "iSCSI connections closed because of a fault of the initiator.";
    ISCSI_FAILED: Counter = "quintet_iscsi_logins_failed_total", "iSCSI logins that did not succeed, denied ones included.";
    ISCSI_DENIED: Counter = "quintet_iscsi_logins_denied_total", "iSCSI logins with a wrong user or secret, or of an initiator that is not named.";
    ISCSI_ABANDONED: Counter = "quintet_iscsi_reads_abandoned_total", "iSCSI reads dropped before they began because the initiator had disconnected.";
    ISCSI_REQUESTS: Counter = "quintet_iscsi_requests_total", "SCSI commands that were answered, by kind.";
    ISCSI_SENT: Counter = "quintet_iscsi_sent_bytes_total", "Bytes sent to iSCSI initiators.";
    MEMORY: Gauge = "quintet_memory_bytes", "Memory that counts in the budget, by owner.";
    CACHE_HITS: Counter = "quintet_cache_hits_total", "Reads of volumes that were served from memory.";
    CACHE_MISSES: Counter = "quintet_cache_misses_total", "Reads of volumes that were not served from memory.";
    CACHE_EVICTIONS: Counter = "quintet_cache_evictions_total", "Chunks and pages that the cache evicted.";
    CACHE_BYTES: Gauge = "quintet_cache_resident_bytes", "Memory of the page cache.";
    CACHE_SHARED: Gauge = "quintet_cache_shared_bytes", "Memory that sharing of cached chunks saves.";
    CACHE_DIRTY: Gauge = "quintet_cache_unwritten_bytes", "Dirty pages in memory.";
    TIER_STATE: Gauge = "quintet_tier_state", "Fast tier: 0 in use, 1 being opened, 2 read and not written, 3 off. Absent without --fast.";
    TIER_HITS: Counter = "quintet_tier_hits_total", "Chunks that were read from the fast tier.";
    TIER_MISSES: Counter = "quintet_tier_misses_total", "Chunks that the fast tier did not have, by kind.";
    TIER_CLASS_HITS: Counter = "quintet_tier_class_hits_total", "Chunks that were read from blocks of a class.";
    TIER_WRITTEN: Counter = "quintet_tier_written_bytes_total", "Bytes written to the fast tier, by kind and I/O class.";
    TIER_EVICTIONS: Counter = "quintet_tier_evictions_total", "Blocks that the fast tier evicted.";
    TIER_REFUSED: Counter = "quintet_tier_refused_total", "Chunks that were not cached because there was no room or no write budget.";
    INDEX_COPIED: Gauge = "quintet_tier_index_bytes", "Bytes of the fingerprint index that the fast device has. Absent without --fast.";
    INDEX_READS: Counter = "quintet_index_reads_total", "Buckets of the fingerprint index that lookups read, by device. Absent without --fast.";
    TIER_FAILURES: Counter = "quintet_tier_failures_total", "Failed reads and writes of the fast tier, and damaged chunks in it.";
    CLASS_REQUESTS: Counter = "quintet_class_requests_total", "Requests of an I/O class. Absent without a policy, as all metrics of classes.";
    CLASS_BYTES: Counter = "quintet_class_bytes_total", "Bytes of requests of an I/O class.";
    CLASS_CACHE_BYTES: Gauge = "quintet_class_cache_bytes", "Memory of the page cache that a class takes.";
    CLASS_CACHE_HITS: Counter = "quintet_class_cache_hits_total", "Reads of a class that were served from memory.";
    CLASS_CACHE_MISSES: Counter = "quintet_class_cache_misses_total", "Reads of a class that were not served from memory.";
    CLASS_CACHE_EVICTIONS: Counter = "quintet_class_cache_evictions_total", "Chunks and dirty pages of a class that the page cache evicted.";
    LAYOUT_COMPLETE: Gauge = "quintet_layout_complete", "1 if all file systems inside the volume were read, nothing was left out, and nothing that matters was written since.";
    LAYOUT_READS: Counter = "quintet_layout_reads_total", "Reads of the volume that its classification took.";
    LAYOUT_MEMORY: Gauge = "quintet_layout_memory_bytes", "Memory of what is known of the volume's blocks.";
    LAYOUT_NEEDED: Gauge = "quintet_layout_needed_bytes", "Memory that would be needed to leave nothing out; an estimate.";
    LAYOUT_KNOWN: Gauge = "quintet_layout_known_bytes", "Bytes of the volume whose use is known.";
    JOURNAL_SIZE: Gauge = "quintet_journal_size_bytes", "Size of the journal.";
    JOURNAL_PLACE: Gauge = "quintet_journal_place", "Where the journal is: 0 in the pool, 1 on the fast device, 2 on both.";
    JOURNAL_USED: Gauge = "quintet_journal_used_bytes", "Bytes of the journal that wait for a checkpoint.";
    JOURNAL_WRITTEN: Counter = "quintet_journal_written_bytes_total", "Bytes written to the journal.";
    JOURNAL_RECORDS: Counter = "quintet_journal_records_total", "Writes that went to the journal.";
    JOURNAL_FLUSHES: Counter = "quintet_journal_flushes_total", "Flushes that clients requested.";
    JOURNAL_SYNCS: Counter = "quintet_journal_syncs_total", "Syncs of the journal; one sync can serve several flushes.";
    JOURNAL_FULL: Counter = "quintet_journal_full_total", "Number of times that a writer waited because the journal was full.";
    DIRECT: Counter = "quintet_direct_bytes_total", "Bytes of large writes that bypassed the journal.";
    CHECKPOINTS: Counter = "quintet_checkpoints_total", "Checkpoints that were committed.";
    DESTAGED: Counter = "quintet_checkpoint_bytes_total", "Bytes of chunks that checkpoints assembled.";
    DEVICE_BYTES: Counter = "quintet_device_bytes_total", "Bytes read from and written to the pool's device, by I/O origin; reads from the system's page cache count too.";
    DEVICE_LEASED: Counter = "quintet_device_leased_bytes_total", "Bytes that other processes read with I/O grants of this server.";
    DEVICE_REQUESTS: Counter = "quintet_device_requests_total", "Reads and writes of the pool's device.";
    DEVICE_GRANTS: Counter = "quintet_device_turns_total", "I/O grants for client requests and maintenance steps.";
    DEVICE_WAIT: Counter = "quintet_device_wait_seconds_total", "Time that requests and steps waited for I/O grants.";
    DEVICE_HELD: Counter = "quintet_device_held_back_seconds_total", "Part of the waiting time: delays because equally important requests took too long.";
    DEVICE_BUSY: Counter = "quintet_device_busy_seconds_total", "Time that I/O grants were in use.";
    DEVICE_WAITING: Gauge = "quintet_device_waiting", "Requests and steps that wait for an I/O grant.";
    TASK_BYTES: Counter = "quintet_maintenance_bytes_total", "Bytes that a maintenance task has processed: stored bytes for scrub, plain bytes for the others; source cache: from memory, or verified by readers.";
    TASK_PROGRESS: Gauge = "quintet_maintenance_progress_ratio", "Completed part of a running or paused task; 0 at rest.";
    TASK_UNDER_WAY: Gauge = "quintet_maintenance_under_way", "1 while a task runs, 0 at rest or paused.";
    FREE: Gauge = "quintet_disk_free_bytes", "Free bytes of the pool's disk; 0 if unknown.";
    HELD_BACK: Counter = "quintet_writers_held_back_seconds_total", "Time that writers to volumes waited for space on the pool's disk.";
    HOLDS: Gauge = "quintet_holds", "Open NBD connections (kind nbd), iSCSI sessions (kind iscsi) and open files and directories of mounts (kind mount) that protect their snapshot from gc.";
    COLLECT_RUNS: Counter = "quintet_collect_runs_total", "gc runs, by origin: command, server.";
    COLLECT_DELETED: Counter = "quintet_collect_deleted_bytes_total", "Stored bytes that gc deleted.";
    COLLECT_ENDED: Gauge = "quintet_collect_ended_timestamp_seconds", "End of the last gc run, since 1970; 0: none.";
    DEFRAG_ENDED: Gauge = "quintet_defrag_ended_timestamp_seconds", "End of the last defragmentation, since 1970; 0: none, or one is running.";
    DEFRAG_FAILED: Gauge = "quintet_defrag_failed_ranges", "Ranges that the last defragmentation could not read.";
    DEFRAG_SMALL: Gauge = "quintet_defrag_small_region_bytes", "Bytes that the last defragmentation copied into small regions, for random reads.";
    DEFRAG_COLD: Gauge = "quintet_defrag_cold_read_bytes", "Bytes that a cold random read of these hot ranges fetches, by when: before and after the last defragmentation; 0 where it had no such ranges.";
    HOT_RUNS: Counter = "quintet_hot_chunk_runs_total", "Runs that the server began or resumed by itself to copy hot chunks into small regions.";
    HOT_COPIED: Counter = "quintet_hot_chunk_copied_bytes_total", "Bytes that these runs copied.";
    RANDOM_ASKED: Counter = "quintet_random_read_asked_bytes_total", "Bytes that random reads of volumes and served snapshots needed from the pool.";
    RANDOM_FETCHED: Counter = "quintet_random_read_fetched_bytes_total", "Bytes of the regions that were read for them.";
    JUDGED: Counter = "quintet_requests_judged_total", "Requests of volumes and served snapshots whose access pattern was judged, by pattern. Those that hit memory are judged only where a stream is due for another look.";
    AHEAD_BYTES: Counter = "quintet_read_ahead_bytes_total", "Bytes that were to be fetched ahead, by where to (memory, or the fast tier around random reads) and whether the queue was full (planned includes dropped).";
    AHEAD_REGIONS: Counter = "quintet_read_ahead_regions_total", "Regions that were fetched ahead, by where to.";
    TIER_OFFERED: Counter = "quintet_tier_offered_total", "Chunks that were offered to the fast tier without a read that asked for them, by why: around a random read, modified in part by a checkpoint, or important and stored by one.";
    UNPROBED: Counter = "quintet_chunks_unprobed_total", "Chunks of volumes that were stored without a lookup in the fingerprint index.";
    VOLUME_REGIONS: Counter = "quintet_read_regions_total", "Regions that were read, by how: with the container's directory, or directly to the place that the index names.";
    HINTS_DENIED: Counter = "quintet_index_hints_denied_total", "Lookups in the fingerprint index that named no region, or one without the chunk.";
    READS_SHARED: Counter = "quintet_reads_shared_total", "Reads that waited for another request's read of the same region instead of reading it again.";
    SWITCHED_OFF: Gauge = "quintet_decision_switched_off", "1 for a decision that serve --without switched off.";
    SCRUB_VERIFIED: Gauge = "quintet_scrub_verified_timestamp_seconds", "Time of the last complete verification, since 1970; 0: none.";
    SCRUB_DAMAGED: Counter = "quintet_scrub_damaged_total", "Damaged places that the scrub found.";
}

/// Maximum number of sources that are reported.
const SOURCES_MAX: usize = 1000;

/// Upper limits of the histogram's buckets, powers of two of microseconds: 16 us to 4 s.
const DURATION_LOG2_US: [u32; 10] = [4, 6, 8, 10, 12, 14, 16, 18, 20, 22];

/// Renders all metrics in the text format of Prometheus.
pub fn render(server: &ServerState) -> String {
    let live = Live::of(server);
    let mut text = Text::default();
    let record = server.pool.record();
    text.sample(BUILD, &[("version", env!("CARGO_PKG_VERSION"))], 1u64);
    text.sample(UPTIME, &[], server.since.elapsed().as_secs_f64());
    text.sample(
        FAILING,
        &[],
        u64::from(!server.failures.messages().is_empty()),
    );
    findings(&mut text, server);
    text.sample(COMMITTED, &[], record.committed.0 as f64 / 1e9);
    text.sample(GENERATION, &[], server.pool.generation().0);
    text.sample(STORED, &[], record.stored_bytes);
    text.sample(CONTAINERS, &[], record.containers);
    text.sample(CHUNK_HITS, &[], live.reads.chunk_hits);
    text.sample(REGION_READS, &[], live.reads.region_reads);
    decisions::tell(&mut text, &server.volumes);
    exports(&mut text, &live);
    nbd(&mut text, &live.nbd);
    iscsi(&mut text, &live.iscsi);
    holds(&mut text, server);
    for (owner, bytes) in live.memory {
        text.sample(MEMORY, &[("owner", owner)], bytes);
    }
    if let Some(status) = &live.tier {
        text.sample(MEMORY, &[("owner", "tier")], status.memory_bytes);
        tier::tell(&mut text, status);
    }
    if let Some(index) = &live.fast_index {
        text.sample(INDEX_COPIED, &[], index.bytes);
        for (device, reads) in [("fast", index.reads), ("pool", index.file_reads)] {
            text.sample(INDEX_READS, &[("device", device)], reads);
        }
    }
    if let Some(reading) = server.classes.read() {
        classes::tell(&mut text, &reading);
    }
    cache(&mut text, &live.cache);
    journal(&mut text, &live);
    device::tell(&mut text, &live);
    text.finish()
}

fn findings(text: &mut Text, server: &ServerState) {
    let found = server.findings();
    for kind in KINDS {
        let count = found.findings.iter().filter(|f| f.kind == kind).count();
        text.sample(FINDING, &[("kind", kind)], count as u64);
    }
    text.sample(STATE, &[], worst(&found.findings) as u64);
    for source in found.sources.iter().take(SOURCES_MAX) {
        let label = [("source", source.name.as_str())];
        text.sample(SOURCE_TIME, &label, source.newest.0 as f64 / 1e9);
        text.sample(SOURCE_SIZE, &label, source.bytes);
        let missed = source.missed;
        text.sample(SOURCE_COMPLETE, &label, u64::from(missed.is_nothing()));
        text.sample(SOURCE_UNREAD, &label, missed.unread);
        text.sample(SOURCE_CHANGED, &label, missed.changed);
        text.sample(
            SOURCE_OVERDUE,
            &label,
            u64::from(source.overdue_ns.is_some()),
        );
    }
}

fn holds(text: &mut Text, server: &ServerState) {
    let holders = server.pool.holders().open_snapshots();
    for kind in HolderKind::ALL {
        let opens = holders.iter().filter(|h| h.kind == kind).map(|h| h.opens);
        text.sample(HOLDS, &[("kind", kind.name())], opens.sum::<u64>());
    }
}

fn exports(text: &mut Text, live: &Live) {
    for (name, export) in &live.exports {
        let volume = [("volume", name.as_str())];
        if let Some(bytes) = export.volume_bytes {
            text.sample(SIZE, &volume, bytes);
            text.sample(NOT_APPLIED, &volume, export.pieces_unapplied);
        }
    }
    for (name, export) in &live.exports {
        let label = [("export", name.as_str())];
        text.sample(CLIENTS, &label, export.clients);
        text.sample(IN_FLIGHT, &label, export.asked.in_flight);
        text.sample(ERRORS, &label, export.asked.errors);
        let hits = [
            ("place", export.cache.hits_by_place),
            ("content", export.cache.hits_by_content),
            ("unwritten", export.cache.hits_dirty),
        ];
        for (class, count) in hits {
            let labels = [("export", name.as_str()), ("class", class)];
            text.sample(EXPORT_HITS, &labels, count);
        }
        text.sample(EXPORT_MISSES, &label, export.cache.misses);
        for ((asked, operation), kind) in Asked::ALL.iter().zip(&export.asked.kinds) {
            let labels = [("export", name.as_str()), ("operation", *operation)];
            if matches!(asked, Asked::Read | Asked::Write) {
                text.sample(BYTES, &labels, kind.bytes);
            }
            durations(text, &labels, kind);
        }
    }
}

fn durations(text: &mut Text, labels: &[(&str, &str)], kind: &KindReading) {
    let limit_us = DURATION_LOG2_US.map(|log2| 1u64 << log2);
    let below = |limit: u64| -> u64 {
        let buckets = (0..).zip(kind.latency);
        let within = buckets.filter(|(bucket, _)| bucket_limit_us(*bucket) <= limit);
        within.map(|(_, count)| count).sum()
    };
    let buckets = limit_us.map(|limit| (limit as f64 / 1e6, below(limit)));
    let counted = kind.latency.iter().sum();
    text.histogram(
        DURATION,
        labels,
        &buckets,
        kind.busy_us as f64 / 1e6,
        counted,
    );
}

/// Writes the samples that NBD and iSCSI have in common.
fn front_end(text: &mut Text, metrics: [Metric; 6], stats: &Stats) {
    let values = [
        stats.connections,
        stats.connections_total,
        stats.connections_refused_total,
        stats.connections_dropped_total,
        stats.reads_abandoned_total,
        stats.sent_bytes_total,
    ];
    for (metric, value) in metrics.into_iter().zip(values) {
        text.sample(metric, &[], value);
    }
}

fn nbd(text: &mut Text, stats: &Stats) {
    let metrics = [CONNECTIONS, ACCEPTED, REFUSED, DROPPED, ABANDONED, SENT];
    front_end(text, metrics, stats);
    for (command, count) in Command::ALL.iter().zip(stats.requests_total) {
        let name = format!("{command:?}").to_lowercase();
        text.sample(REQUESTS, &[("command", &name)], count);
    }
}

fn iscsi(text: &mut Text, stats: &Stats) {
    let metrics = [
        ISCSI_CONNECTIONS,
        ISCSI_ACCEPTED,
        ISCSI_REFUSED,
        ISCSI_DROPPED,
        ISCSI_ABANDONED,
        ISCSI_SENT,
    ];
    front_end(text, metrics, stats);
    text.sample(ISCSI_FAILED, &[], stats.handshakes_failed_total);
    text.sample(ISCSI_DENIED, &[], stats.handshakes_denied_total);
    for (command, count) in iscsi::commands(stats) {
        text.sample(ISCSI_REQUESTS, &[("command", command)], count);
    }
}

fn cache(text: &mut Text, cache: &page_cache::Counters) {
    let mut by_class = |metric, values: &[(&str, u64)]| {
        for (class, value) in values {
            text.sample(metric, &[("tier", "memory"), ("class", class)], *value);
        }
    };
    by_class(
        CACHE_HITS,
        &[
            ("place", cache.hits_by_place),
            ("content", cache.hits_by_content),
            ("unwritten", cache.hits_dirty),
        ],
    );
    let misses = [("clean", cache.misses), ("unwritten", cache.misses_dirty)];
    by_class(CACHE_MISSES, &misses);
    let evictions = [("clean", cache.evictions), ("unwritten", cache.spills)];
    by_class(CACHE_EVICTIONS, &evictions);
    text.sample(CACHE_BYTES, &[], cache.bytes_resident);
    text.sample(CACHE_SHARED, &[], cache.bytes_shared);
    text.sample(CACHE_DIRTY, &[], cache.bytes_dirty);
}

fn journal(text: &mut Text, live: &Live) {
    let journal = &live.journal;
    let values: [(Metric, Value); 11] = [
        (JOURNAL_PLACE, (journal.place as u64).into()),
        (JOURNAL_SIZE, journal.bytes_max.into()),
        (JOURNAL_USED, journal.used_bytes.into()),
        (JOURNAL_WRITTEN, journal.bytes_written.into()),
        (JOURNAL_RECORDS, journal.records.into()),
        (JOURNAL_FLUSHES, journal.flushes.into()),
        (JOURNAL_SYNCS, journal.syncs.into()),
        (JOURNAL_FULL, live.checkpoints.full.into()),
        (DIRECT, live.direct_bytes.into()),
        (CHECKPOINTS, live.checkpoints.rounds.into()),
        (DESTAGED, live.checkpoints.destaged_bytes.into()),
    ];
    for (metric, value) in values {
        text.sample(metric, &[], value);
    }
}

#[cfg(test)]
pub(crate) mod tests;
