//! One frame of `top`: the activity between two readings. `top` calls this.
//!
//! Invariant: no I/O.

use server::meters::{KindReading, Reading};
use server::state::{ExportReading, Live};
use std::time::Duration;
use terminal::console::printable;
use terminal::json::Object;
use terminal::sizes;
use terminal::table::Table;
use terminal::words::wrapped;
use volumes::CacheTally;

/// Lines between the head and the first row: an empty one and the heading.
const HEADING_LINES: usize = 2;
/// Columns that a narrow terminal does without: flushes, queue, mean latency, clients.
const OPTIONAL: [usize; 4] = [4, 9, 7, 1];

/// One frame. See the module's head.
pub struct Frame<'a> {
    pub uptime: Duration,
    /// The state that `status` shows.
    pub state: &'static str,
    pub last: &'a Live,
    pub now: &'a Live,
}

/// An export in this frame.
struct Row<'a> {
    name: &'a str,
    export: &'a ExportReading,
    /// Requests since the last reading.
    asked: Reading,
    /// Reads and writes, for latencies.
    transfers: KindReading,
    /// Where reads found their data.
    cache: CacheTally,
}

impl Frame<'_> {
    fn seconds(&self) -> f64 {
        let between = self.now.at.saturating_duration_since(self.last.at);
        between.as_secs_f64().max(1e-3)
    }

    fn rate(&self, count: impl Fn(&Live) -> u64) -> f64 {
        count(self.now).saturating_sub(count(self.last)) as f64 / self.seconds()
    }

    /// Returns the rows, the busiest first.
    fn rows(&self) -> Vec<Row<'_>> {
        let none = Reading::default();
        let mut rows: Vec<Row<'_>> = self
            .now
            .exports
            .iter()
            .map(|(name, export)| {
                let before = self.last.exports.get(name);
                let asked = export.asked.since(before.map_or(&none, |e| &e.asked));
                let looked = before.map_or(CacheTally::default(), |e| e.cache);
                let [read, write, ..] = &asked.kinds;
                Row {
                    name,
                    export,
                    transfers: read.and(write),
                    cache: export.cache.since(&looked),
                    asked,
                }
            })
            // Snapshots without clients and requests get no row.
            .filter(|row| {
                row.export.volume_bytes.is_some() || row.export.clients > 0 || row.is_busy()
            })
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.asked.all().busy_us));
        rows
    }

    /// Returns about `rows_max` lines of at most `width` characters.
    pub fn lines(&self, rows_max: usize, width: usize) -> Vec<String> {
        let head = [self.head(), self.journal(), self.cache(), self.nbd()];
        let head = head.into_iter().chain(self.iscsi());
        let mut lines: Vec<String> = head.flat_map(|line| wrapped(&line, width)).collect();
        let head_lines = lines.len() + HEADING_LINES;
        lines.push(String::new());
        let heading = [
            "Name",
            "Clients",
            "Read/s",
            "Write/s",
            "Flush/s",
            "Read B/s",
            "Write B/s",
            "Mean us",
            "P99 us",
            "Queue",
            "Hits",
            "Errors",
        ];
        let mut table = Table::new(heading, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        let seconds = self.seconds();
        for row in self.rows().iter().take(rows_max.saturating_sub(head_lines)) {
            let [read, write, flush, _] = &row.asked.kinds;
            let count = |kind: &KindReading| format!("{:.0}", kind.count as f64 / seconds);
            let bytes = |kind: &KindReading| sizes::display((kind.bytes as f64 / seconds) as u64);
            table.row([
                printable(row.name.as_bytes()),
                row.export.clients.to_string(),
                count(read),
                count(write),
                count(flush),
                bytes(read),
                bytes(write),
                format!("{:.0}", row.transfers.mean_us()),
                row.transfers.quantile_us(990).to_string(),
                format!("{:.1}", row.queue(seconds)),
                row.hits(),
                row.asked.errors.to_string(),
            ]);
        }
        lines.extend(table.lines_within(width, 0, &OPTIONAL));
        lines
    }

    fn head(&self) -> String {
        let uptime = uptime(self.uptime);
        let (volumes, shown) = (self.volumes(), self.seconds());
        let state = match self.state {
            "ONLINE" => String::new(),
            state => format!("{state} (see quintet status), "),
        };
        format!(
            "quintet: {state}up {uptime}, {}; over the last {shown:.1} s",
            units::count(volumes as u64, "volume")
        )
    }

    fn volumes(&self) -> usize {
        let exports = self.now.exports.values();
        exports.filter(|e| e.volume_bytes.is_some()).count()
    }

    fn journal(&self) -> String {
        let journal = &self.now.journal;
        let used = journal.used_bytes * 100 / journal.bytes_max.max(1);
        let per_second = |bytes: f64| sizes::display(bytes as u64);
        format!(
            "journal: {used} % of {}; per second {:.0} records, {}, {:.0} flushes, {:.0} syncs; \
             checkpoints: {}, {} per second",
            sizes::display(journal.bytes_max),
            self.rate(|live| live.journal.records),
            per_second(self.rate(|live| live.journal.bytes_written)),
            self.rate(|live| live.journal.flushes),
            self.rate(|live| live.journal.syncs),
            self.now.checkpoints.rounds,
            per_second(self.rate(|live| live.checkpoints.destaged_bytes)),
        )
    }

    fn cache(&self) -> String {
        let cache = &self.now.cache;
        let since = |count: fn(&page_cache::Counters) -> u64| {
            count(cache).saturating_sub(count(&self.last.cache))
        };
        let hits = [
            since(|c| c.hits_by_place),
            since(|c| c.hits_by_content),
            since(|c| c.hits_dirty),
        ];
        let misses = since(|c| c.misses) + since(|c| c.misses_dirty);
        let all = (hits.iter().sum::<u64>() + misses).max(1) as f64;
        let [place, content, unwritten] = hits.map(|hits| hits as f64 * 100.0 / all);
        format!(
            "cache: {} in memory; hits {place:.0} % by place, {content:.0} % by content, \
             {unwritten:.0} % dirty; {misses} misses; sharing saves {}",
            sizes::display(cache.bytes_resident),
            sizes::display(cache.bytes_shared),
        )
    }

    fn nbd(&self) -> String {
        format!(
            "nbd: {}; per second {:.0} requests, {} sent",
            units::count(self.now.nbd.connections, "connection"),
            self.rate(|live| live.nbd.requests_total.iter().sum()),
            sizes::display(self.rate(|live| live.nbd.sent_bytes_total) as u64),
        )
    }

    /// Returns nothing before an initiator has connected.
    fn iscsi(&self) -> Option<String> {
        let requests = |live: &Live| live.iscsi.requests_total.iter().sum();
        (self.now.iscsi.connections_total > 0).then(|| {
            format!(
                "iscsi: {}; per second {:.0} requests, {} sent",
                units::count(self.now.iscsi.connections, "connection"),
                self.rate(requests),
                sizes::display(self.rate(|live| live.iscsi.sent_bytes_total) as u64),
            )
        })
    }

    /// Formats the same as JSON.
    pub fn message(&self) -> Object {
        let seconds = self.seconds();
        let exports = self.rows().into_iter().map(|row| {
            let [read, write, flush, other] = &row.asked.kinds;
            let rate = |count: u64| count as f64 / seconds;
            Object::new()
                .text("name", row.name)
                .integer("clients", row.export.clients)
                .number("reads_per_second", rate(read.count))
                .number("writes_per_second", rate(write.count))
                .number("flushes_per_second", rate(flush.count))
                .number("others_per_second", rate(other.count))
                .number("read_bytes_per_second", rate(read.bytes))
                .number("written_bytes_per_second", rate(write.bytes))
                .number("latency_mean_us", row.transfers.mean_us())
                .integer("latency_p99_us", row.transfers.quantile_us(990))
                .number("queue_depth", row.queue(seconds))
                .integer("hits_by_place", row.cache.hits_by_place)
                .integer("hits_by_content", row.cache.hits_by_content)
                .integer("hits_unwritten", row.cache.hits_dirty)
                .integer("misses", row.cache.misses)
                .integer("errors", row.asked.errors)
                .integer("pieces_unfolded", row.export.pieces_unapplied)
        });
        let (journal, cache) = (&self.now.journal, &self.now.cache);
        Object::message("top")
            .number("seconds", seconds)
            .number("uptime_seconds", self.uptime.as_secs_f64())
            .text("state", self.state)
            .integer("nbd_connections", self.now.nbd.connections)
            .integer("iscsi_connections", self.now.iscsi.connections)
            .object(
                "journal",
                Object::new()
                    .integer("used_bytes", journal.used_bytes)
                    .integer("size_bytes", journal.bytes_max)
                    .number("records_per_second", self.rate(|l| l.journal.records))
                    .number("syncs_per_second", self.rate(|l| l.journal.syncs)),
            )
            .object("cache", cache_object(cache))
            .integer("checkpoints", self.now.checkpoints.rounds)
            .objects("exports", exports.collect::<Vec<_>>())
    }
}

impl Row<'_> {
    fn is_busy(&self) -> bool {
        self.asked.all().count > 0
    }

    /// Formats the share of chunks and pages that were in memory.
    fn hits(&self) -> String {
        let (looks, misses) = (self.cache.looks(), self.cache.misses);
        match looks {
            0 => "-".to_owned(),
            _ => format!("{} %", (looks - misses) * 100 / looks),
        }
    }

    /// Returns the mean number of requests in flight (Little's law).
    fn queue(&self, seconds: f64) -> f64 {
        self.asked.all().busy_us as f64 / 1e6 / seconds
    }
}

/// Formats the page cache's counters since its start, and its size.
pub fn cache_object(cache: &page_cache::Counters) -> Object {
    Object::new()
        .integer("hits_by_place", cache.hits_by_place)
        .integer("hits_by_content", cache.hits_by_content)
        .integer("hits_unwritten", cache.hits_dirty)
        .integer("misses", cache.misses + cache.misses_dirty)
        .integer("resident_bytes", cache.bytes_resident)
        .integer("shared_bytes", cache.bytes_shared)
        .integer("unwritten_bytes", cache.bytes_dirty)
}

/// Formats `2d 3h`, `3h 12m`, `12m 5s`, `5s`.
pub fn uptime(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (seconds, text) in [
            (5, "5s"),
            (65, "1m 5s"),
            (3 * 3600 + 61, "3h 1m"),
            (49 * 3600, "2d 1h"),
        ] {
            assert_eq!(uptime(Duration::from_secs(seconds)), text);
        }
    }
}
