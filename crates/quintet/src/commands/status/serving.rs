//! The part of `status` about a running server. `status` calls this.
//!
//! Invariant: it reads counters only.

use super::schedule;
use crate::commands::qos;
use crate::commands::top::{cache_object, uptime};
use ::qos::Flow;
use device::FlowCounts;
use format::journal_place::JournalPlace;
use jiff::tz::TimeZone;
use server::settings::flow_name;
use server::state::{CopyState, Live, ServerState, TaskDue};
use ssd_tier::{Status, TierState};
use store::{IndexCopyState, IndexCopyStatus};
use terminal::calendar;
use terminal::json::Object;
use terminal::sizes;
use units::count;

/// Returns names and values as text.
pub fn lines(server: &ServerState, live: &Live, zone: &TimeZone) -> Vec<(&'static str, String)> {
    let clients: u64 = live.exports.values().map(|export| export.clients).sum();
    let used = live.exports.values().filter(|e| e.clients > 0).count();
    let (journal, cache) = (&live.journal, &live.cache);
    let size = sizes::display;
    let percent = journal.used_bytes * 100 / journal.bytes_max.max(1);
    let hits = cache.hits_by_place + cache.hits_by_content + cache.hits_dirty;
    let reads = hits + cache.misses + cache.misses_dirty;
    let mut lines = vec![
        (
            "server",
            format!(
                "process {}, up {}",
                std::process::id(),
                uptime(server.since.elapsed())
            ),
        ),
        (
            "clients",
            format!(
                "{} to {}",
                count(clients, "connection"),
                count(used as u64, "export")
            ),
        ),
        (
            "journal",
            format!(
                "{percent} % of {} in use, {}, {} written, {} for {}",
                size(journal.bytes_max),
                journal_words(journal.place),
                size(journal.bytes_written),
                count(journal.syncs, "sync"),
                count(journal.flushes, "flush")
            ),
        ),
        (
            "direct",
            format!(
                "{} of large writes bypassed the journal",
                size(live.direct_bytes)
            ),
        ),
        (
            "checkpoints",
            format!(
                "{}, {} destaged",
                live.checkpoints.rounds,
                size(live.checkpoints.destaged_bytes)
            ),
        ),
        (
            "cache",
            format!(
                "{} in memory; {} of {reads} reads were hits: {} by place, {} by content, {} dirty; \
                 sharing saves {}",
                size(cache.bytes_resident),
                hits,
                cache.hits_by_place,
                cache.hits_by_content,
                cache.hits_dirty,
                size(cache.bytes_shared)
            ),
        ),
        (
            "memory",
            live.memory
                .map(|(owner, bytes)| format!("{owner} {}", size(bytes)))
                .join(", "),
        ),
    ];
    if let Some(tier) = &live.tier {
        lines.push(("fast tier", tier_words(tier)));
    }
    if let Some(index) = &live.fast_index {
        lines.push(("fast index", index_words(index)));
    }
    lines.push(("gc", schedule::collecting(server, live, zone)));
    lines.push(("scrubs", schedule::scrubbing(server, zone)));
    lines.push(("hot chunks", schedule::hot_chunks(server, live, zone)));
    for task in &live.tasks {
        if let Some(due) = &task.due {
            lines.push(("deadline", deadline_words(task.name, due, zone)));
        }
    }
    let flows = Flow::ALL.iter().zip(&live.device);
    for (flow, counts) in flows.filter(|(_, counts)| **counts != FlowCounts::default()) {
        lines.push((flow_name(*flow), format!("device: {}", qos::words(counts))));
    }
    lines.extend(
        server
            .tasks
            .copies
            .states()
            .iter()
            .map(|copy| ("copy", copy_words(copy))),
    );
    lines
}

fn journal_words(place: JournalPlace) -> &'static str {
    match place {
        JournalPlace::Pool => "in the pool",
        JournalPlace::Fast => "on the fast device only",
        JournalPlace::Mirrored => "on the fast device and in the pool",
    }
}

fn tier_words(tier: &Status) -> String {
    let state = match &tier.state {
        TierState::Closed => "not open yet".to_owned(),
        TierState::Opening { done, total } => format!("opening, {done} of {total} blocks"),
        TierState::Ready => "in use".to_owned(),
        TierState::NotWritten { reason } => format!("not written for now: {reason}"),
        TierState::Off { reason } => format!("off: {reason}"),
    };
    let misses: u64 = tier.misses.iter().sum();
    format!(
        "{state}; {} of {} blocks, {} of {} chunks read were hits, {} written, {} evicted",
        tier.slots_full,
        tier.slots,
        tier.hits,
        tier.hits + misses,
        sizes::display(tier.bytes_written),
        count(tier.evictions, "block")
    )
}

fn index_words(index: &IndexCopyStatus) -> String {
    let state = match &index.state {
        IndexCopyState::Copying => "being copied".to_owned(),
        IndexCopyState::Ready if index.bytes < index.index_bytes => {
            "in use, as far as its share goes (serve --fast-shares)".to_owned()
        }
        IndexCopyState::Ready => "in use".to_owned(),
        IndexCopyState::Off { reason } => format!("off: {reason}"),
    };
    let damaged = match index.damaged {
        0 => String::new(),
        count => format!("; {count} damaged buckets there were read from the pool"),
    };
    format!(
        "{state}; {} of {} on the fast device, which answered {} of {} lookups that memory did not\
         {damaged}",
        sizes::display(index.bytes),
        sizes::display(index.index_bytes),
        index.reads,
        index.reads + index.file_reads,
    )
}

fn deadline_words(task: &str, due: &TaskDue, zone: &TimeZone) -> String {
    format!(
        "{task}: {} left until {}; this needs {:.1} % of the disk's time",
        sizes::display(due.left_bytes),
        calendar::local(due.at, zone),
        due.needed * 100.0
    )
}

fn copy_words(copy: &CopyState) -> String {
    let size = sizes::display;
    let state = match copy.is_paused {
        true => "paused (quintet copy --resume)",
        false => "under way",
    };
    format!(
        "to {}: {state}, {}, {} of {}; read {}, from memory {}, sent {}",
        copy.to,
        copy.snapshot,
        size(copy.done_bytes),
        size(copy.total_bytes),
        size(copy.counts.read_bytes),
        size(copy.counts.cached_bytes),
        size(copy.sent_bytes),
    )
}

/// Formats the same as JSON.
pub fn object(server: &ServerState, live: &Live) -> Object {
    let exports = live.exports.iter().map(|(name, export)| {
        let object = Object::new()
            .text("name", name)
            .integer("clients", export.clients)
            .integer("requests", export.asked.all().count)
            .integer("errors", export.asked.errors)
            .integer("hits_by_place", export.cache.hits_by_place)
            .integer("hits_by_content", export.cache.hits_by_content)
            .integer("hits_unwritten", export.cache.hits_dirty)
            .integer("misses", export.cache.misses);
        match export.volume_bytes {
            Some(bytes) => object
                .integer("size_bytes", bytes)
                .integer("pieces_unfolded", export.pieces_unapplied),
            None => object,
        }
    });
    let copies = server.tasks.copies.states().into_iter().map(|copy| {
        Object::new()
            .text("to", &copy.to)
            .text("snapshot", &copy.snapshot)
            .boolean("paused", copy.is_paused)
            .integer("total_bytes", copy.total_bytes)
            .integer("bytes_done", copy.done_bytes)
            .integers(copy.counts.fields())
            .integer("data_added", copy.sent_bytes)
    });
    let tasks = live.tasks.iter().map(|task| {
        let object = Object::new()
            .text("task", task.name)
            .boolean("running", task.is_under_way)
            .integer("disk_bytes", task.bytes.disk)
            .integer("cache_bytes", task.bytes.cache);
        let object = match task.progress {
            Some(share) => object.number("progress", share),
            None => object,
        };
        match &task.due {
            Some(due) => object
                .time("due", due.at)
                .integer("left_bytes", due.left_bytes)
                .number("needed_share", due.needed),
            None => object,
        }
    });
    let memory = live.memory.into_iter();
    let memory = memory.fold(Object::new(), |object, (owner, bytes)| {
        object.integer(&format!("{owner}_bytes"), bytes)
    });
    Object::new()
        .integer("pid", std::process::id())
        .number("uptime_seconds", server.since.elapsed().as_secs_f64())
        .integer("nbd_connections", live.nbd.connections)
        .integer("iscsi_connections", live.iscsi.connections)
        .text("journal_place", live.journal.place.name())
        .integer("journal_used_bytes", live.journal.used_bytes)
        .integer("journal_size_bytes", live.journal.bytes_max)
        .integer("journal_written_bytes", live.journal.bytes_written)
        .integer("journal_syncs", live.journal.syncs)
        .integer("direct_bytes", live.direct_bytes)
        .integer("checkpoints", live.checkpoints.rounds)
        .integer("checkpoint_bytes", live.checkpoints.destaged_bytes)
        .object("cache", cache_object(&live.cache))
        .object("memory", memory)
        .object("gc", schedule::object(server, live))
        .object("hot_chunks", schedule::hot_chunks_object(server, live))
        .objects("device", qos::flows(&live.device))
        .objects("maintenance", tasks)
        .objects("copies", copies)
        .objects("exports", exports.collect::<Vec<_>>())
}
