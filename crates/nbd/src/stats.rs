//! Counts the work of a server. The program reads [`Stats`] for its metrics.
//!
//! Invariant: counting never blocks. Connections add once per batch, not once per request.

use crate::wire::requests::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Number of buckets in the latency histogram. Bucket `n` counts replies in less than 2^n
/// microseconds that no lower bucket counts; the last one counts all others.
pub const LATENCY_BUCKETS: usize = 26;

const COMMANDS: usize = Command::ALL.len();

/// Counts since the server started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Connections open now.
    pub connections: u64,
    /// Connections accepted.
    pub connections_total: u64,
    /// Connections refused because there were too many.
    pub connections_refused_total: u64,
    /// Connections that ended before transmission.
    pub handshakes_failed_total: u64,
    /// Connections that were dropped because of invalid or unread data.
    pub connections_dropped_total: u64,
    /// Requests by command, in the order of [`Command::ALL`].
    pub requests_total: [u64; COMMANDS],
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
    /// Time from the arrival of a request until its reply is handed to the socket, see
    /// [`LATENCY_BUCKETS`]. Requests that are answered together count with the time of the whole
    /// batch.
    pub latency_us: [u64; LATENCY_BUCKETS],
}

/// The live counters.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) handshakes_failed: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) abandoned: AtomicU64,
    requests: [AtomicU64; COMMANDS],
    errors: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    latency_us: [AtomicU64; LATENCY_BUCKETS],
}

/// Counts of one batch.
#[derive(Default)]
pub(crate) struct Tally {
    requests: [u64; COMMANDS],
    answered: u64,
    pub(crate) errors: u64,
    read_bytes: u64,
    written_bytes: u64,
}

impl Tally {
    /// Counts an executed request; `len_bytes` is its length.
    pub(crate) fn done(&mut self, command: Command, len_bytes: u64) {
        if let Some(count) = self.requests.get_mut(command as usize) {
            *count += 1;
        }
        self.answered += 1;
        match command {
            Command::Read => self.read_bytes += len_bytes,
            Command::Write => self.written_bytes += len_bytes,
            _ => {}
        }
    }

    /// Counts an error reply to a known command.
    pub(crate) fn failed(&mut self, command: Command) {
        self.done(command, 0);
        self.errors += 1;
    }
}

impl Counters {
    /// Adds a batch that took `elapsed` and was answered with `sent_bytes`, and empties the tally.
    pub(crate) fn add(&self, tally: &mut Tally, sent_bytes: usize, elapsed: Duration) {
        let tally = std::mem::take(tally);
        for (total, count) in self.requests.iter().zip(tally.requests) {
            add(total, count);
        }
        add(&self.errors, tally.errors);
        add(&self.read_bytes, tally.read_bytes);
        add(&self.written_bytes, tally.written_bytes);
        add(&self.sent_bytes, sent_bytes as u64);
        if let Some(bucket) = self.latency_us.get(bucket(elapsed)) {
            add(bucket, tally.answered);
        }
    }

    /// Returns all counts. `connections` are open now.
    pub(crate) fn snapshot(&self, connections: usize) -> Stats {
        Stats {
            connections: connections as u64,
            connections_total: self.accepted.load(Relaxed),
            connections_refused_total: self.refused.load(Relaxed),
            handshakes_failed_total: self.handshakes_failed.load(Relaxed),
            connections_dropped_total: self.dropped.load(Relaxed),
            reads_abandoned_total: self.abandoned.load(Relaxed),
            requests_total: self.requests.each_ref().map(|n| n.load(Relaxed)),
            errors_total: self.errors.load(Relaxed),
            read_bytes_total: self.read_bytes.load(Relaxed),
            written_bytes_total: self.written_bytes.load(Relaxed),
            sent_bytes_total: self.sent_bytes.load(Relaxed),
            latency_us: self.latency_us.each_ref().map(|n| n.load(Relaxed)),
        }
    }
}

fn add(total: &AtomicU64, count: u64) {
    if count != 0 {
        total.fetch_add(count, Relaxed);
    }
}

fn bucket(elapsed: Duration) -> usize {
    let us = elapsed.as_micros().min(u128::from(u64::MAX)) as u64;
    let bits = (u64::BITS - us.leading_zeros()) as usize;
    bits.min(LATENCY_BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_powers_of_two() {
        let of = |us| bucket(Duration::from_micros(us));
        assert_eq!((of(0), of(1), of(2), of(3), of(4)), (0, 1, 2, 2, 3));
        assert_eq!(of(u64::MAX), LATENCY_BUCKETS - 1);
    }

    #[test]
    fn a_tally_is_added_once() {
        let counters = Counters::default();
        let mut tally = Tally::default();
        tally.done(Command::Read, 5);
        tally.done(Command::BlockStatus, 1 << 40);
        counters.add(&mut tally, 7, Duration::from_micros(3));
        counters.add(&mut tally, 0, Duration::ZERO);
        let stats = counters.snapshot(0);
        assert_eq!(stats.requests_total, [1, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!((stats.read_bytes_total, stats.sent_bytes_total), (5, 7));
        assert_eq!(stats.latency_us[2], 2);
    }
}
