//! Counts the work of a server. Sessions and workers count; the program reads [`Stats`] for its
//! metrics.
//!
//! Invariant: counting never blocks. Connections add once per batch, not once per request.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Maximum number of kinds of requests.
pub const KINDS_MAX: usize = 8;

/// Counts since the server started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Connections open now.
    pub connections: u64,
    /// Connections accepted.
    pub connections_total: u64,
    /// Connections refused because there were too many.
    pub connections_refused_total: u64,
    /// Handshakes or logins that failed.
    pub handshakes_failed_total: u64,
    /// Those that failed because the client did not prove who it is, or may not log in.
    pub handshakes_denied_total: u64,
    /// Connections that were dropped because of invalid or unread data.
    pub connections_dropped_total: u64,
    /// Requests by kind, in the order of the protocol's.
    pub requests_total: [u64; KINDS_MAX],
    /// Reads dropped before they began, because their client had disconnected.
    pub reads_abandoned_total: u64,
    /// Requests answered with an error.
    pub errors_total: u64,
    /// Bytes that reads returned to clients, holes included.
    pub read_bytes_total: u64,
    /// Bytes that writes received from clients.
    pub written_bytes_total: u64,
    /// Bytes sent.
    pub sent_bytes_total: u64,
}

impl Stats {
    /// Adds the counts of another server.
    pub fn add(&mut self, more: &Self) {
        self.connections += more.connections;
        self.connections_total += more.connections_total;
        self.connections_refused_total += more.connections_refused_total;
        self.handshakes_failed_total += more.handshakes_failed_total;
        self.handshakes_denied_total += more.handshakes_denied_total;
        self.connections_dropped_total += more.connections_dropped_total;
        for (sum, more) in self.requests_total.iter_mut().zip(more.requests_total) {
            *sum += more;
        }
        self.reads_abandoned_total += more.reads_abandoned_total;
        self.errors_total += more.errors_total;
        self.read_bytes_total += more.read_bytes_total;
        self.written_bytes_total += more.written_bytes_total;
        self.sent_bytes_total += more.sent_bytes_total;
    }
}

/// A kind of requests that is counted.
pub trait RequestKind: Copy {
    /// Returns its place in [`Stats::requests_total`].
    fn index(self) -> usize;
    /// Returns true if it reads data.
    fn reads(self) -> bool;
    /// Returns true if it receives data to write.
    fn writes(self) -> bool;
}

/// The live counters.
#[derive(Default)]
pub struct ServerCounters {
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) handshakes_failed: AtomicU64,
    /// [`Stats::handshakes_denied_total`].
    pub handshakes_denied: AtomicU64,
    pub(crate) dropped: AtomicU64,
    /// [`Stats::reads_abandoned_total`].
    pub abandoned: AtomicU64,
    requests: [AtomicU64; KINDS_MAX],
    errors: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    sent_bytes: AtomicU64,
}

/// Counts of one batch.
#[derive(Default)]
pub struct Tally {
    requests: [u64; KINDS_MAX],
    errors: u64,
    read_bytes: u64,
    written_bytes: u64,
}

impl Tally {
    /// Counts an executed request that moved `bytes`, if its kind moves any.
    pub fn done(&mut self, kind: impl RequestKind, bytes: u64) {
        if let Some(count) = self.requests.get_mut(kind.index()) {
            *count += 1;
        }
        if kind.reads() {
            self.read_bytes += bytes;
        } else if kind.writes() {
            self.written_bytes += bytes;
        }
    }

    /// Counts a request that was answered with an error.
    pub fn failed(&mut self, kind: impl RequestKind) {
        self.done(kind, 0);
        self.failed_unknown();
    }

    /// Counts an error reply to a request of no kind.
    pub fn failed_unknown(&mut self) {
        self.errors += 1;
    }
}

impl ServerCounters {
    /// Adds a batch that was answered with `sent_bytes`, and empties the tally.
    pub fn add(&self, tally: &mut Tally, sent_bytes: usize) {
        let tally = std::mem::take(tally);
        for (total, count) in self.requests.iter().zip(tally.requests) {
            add(total, count);
        }
        add(&self.errors, tally.errors);
        add(&self.read_bytes, tally.read_bytes);
        add(&self.written_bytes, tally.written_bytes);
        add(&self.sent_bytes, sent_bytes as u64);
    }

    /// Returns all counts. `connections` are open now.
    pub fn snapshot(&self, connections: usize) -> Stats {
        Stats {
            connections: connections as u64,
            connections_total: self.accepted.load(Relaxed),
            connections_refused_total: self.refused.load(Relaxed),
            handshakes_failed_total: self.handshakes_failed.load(Relaxed),
            handshakes_denied_total: self.handshakes_denied.load(Relaxed),
            connections_dropped_total: self.dropped.load(Relaxed),
            requests_total: self.requests.each_ref().map(|n| n.load(Relaxed)),
            reads_abandoned_total: self.abandoned.load(Relaxed),
            errors_total: self.errors.load(Relaxed),
            read_bytes_total: self.read_bytes.load(Relaxed),
            written_bytes_total: self.written_bytes.load(Relaxed),
            sent_bytes_total: self.sent_bytes.load(Relaxed),
        }
    }
}

fn add(total: &AtomicU64, count: u64) {
    if count != 0 {
        total.fetch_add(count, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its place, and whether it reads.
    impl RequestKind for (usize, bool) {
        fn index(self) -> usize {
            self.0
        }
        fn reads(self) -> bool {
            self.1
        }
        fn writes(self) -> bool {
            false
        }
    }

    #[test]
    fn a_tally_is_added_once() {
        let counters = ServerCounters::default();
        let mut tally = Tally::default();
        tally.done((0, true), 5);
        tally.done((7, false), 1 << 40);
        counters.add(&mut tally, 7);
        counters.add(&mut tally, 0);
        let stats = counters.snapshot(0);
        assert_eq!(stats.requests_total, [1, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!((stats.read_bytes_total, stats.sent_bytes_total), (5, 7));
    }
}
