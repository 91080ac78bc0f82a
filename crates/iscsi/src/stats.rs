//! Counts the work of a server. The program reads [`Stats`] for its metrics.
//!
//! Invariant: counting never blocks. Connections add once per batch, not once per command.

use crate::scsi::action::{Job, Work};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Number of buckets in the latency histogram. Bucket `n` counts commands in less than 2^n
/// microseconds that no lower bucket counts; the last one counts all others.
pub const LATENCY_BUCKETS: usize = 26;

/// Counts since the server started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Connections open now.
    pub connections: u64,
    /// Connections accepted.
    pub connections_total: u64,
    /// Connections refused because there were too many.
    pub connections_refused_total: u64,
    /// Logins that failed.
    pub logins_failed_total: u64,
    /// Logins that failed because the initiator did not prove who it is, or may not log in.
    pub logins_denied_total: u64,
    /// Connections that were dropped because of invalid or unread data.
    pub connections_dropped_total: u64,
    /// Commands that read blocks.
    pub reads_total: u64,
    /// Commands that write blocks, also as a pattern.
    pub writes_total: u64,
    /// Commands that make changes durable.
    pub flushes_total: u64,
    /// Commands that free blocks.
    pub unmaps_total: u64,
    /// All other commands.
    pub others_total: u64,
    /// Reads dropped before they began, because their initiator had disconnected.
    pub reads_abandoned_total: u64,
    /// Commands answered with an error.
    pub errors_total: u64,
    /// Bytes that reads returned.
    pub read_bytes_total: u64,
    /// Bytes that writes received.
    pub written_bytes_total: u64,
    /// Bytes sent.
    pub sent_bytes_total: u64,
    /// Time from the arrival of a command until its answer is handed to the socket, see
    /// [`LATENCY_BUCKETS`].
    pub latency_us: [u64; LATENCY_BUCKETS],
}

impl Stats {
    /// Adds the counts of another server.
    pub fn add(&mut self, more: &Self) {
        self.connections += more.connections;
        self.connections_total += more.connections_total;
        self.connections_refused_total += more.connections_refused_total;
        self.logins_failed_total += more.logins_failed_total;
        self.logins_denied_total += more.logins_denied_total;
        self.connections_dropped_total += more.connections_dropped_total;
        self.reads_total += more.reads_total;
        self.writes_total += more.writes_total;
        self.flushes_total += more.flushes_total;
        self.unmaps_total += more.unmaps_total;
        self.others_total += more.others_total;
        self.reads_abandoned_total += more.reads_abandoned_total;
        self.errors_total += more.errors_total;
        self.read_bytes_total += more.read_bytes_total;
        self.written_bytes_total += more.written_bytes_total;
        self.sent_bytes_total += more.sent_bytes_total;
        for (sum, more) in self.latency_us.iter_mut().zip(more.latency_us) {
            *sum += more;
        }
    }

    /// Returns the number of commands of each kind, with the kind's name.
    pub fn commands(&self) -> [(&'static str, u64); 5] {
        [
            ("read", self.reads_total),
            ("write", self.writes_total),
            ("flush", self.flushes_total),
            ("unmap", self.unmaps_total),
            ("other", self.others_total),
        ]
    }
}

/// Kinds of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Flush,
    Unmap,
    Other,
}

const KINDS: usize = 5;

/// The live counters.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) logins_failed: AtomicU64,
    pub(crate) logins_denied: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) abandoned: AtomicU64,
    commands: [AtomicU64; KINDS],
    errors: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    latency_us: [AtomicU64; LATENCY_BUCKETS],
}

/// Counts of one batch.
#[derive(Default)]
pub(crate) struct Tally {
    commands: [u64; KINDS],
    answered: u64,
    errors: u64,
    read_bytes: u64,
    written_bytes: u64,
}

impl Tally {
    /// Counts an executed command that moved `bytes`.
    pub(crate) fn done(&mut self, kind: Kind, bytes: u64) {
        if let Some(count) = self.commands.get_mut(kind as usize) {
            *count += 1;
        }
        self.answered += 1;
        match kind {
            Kind::Read => self.read_bytes += bytes,
            Kind::Write => self.written_bytes += bytes,
            Kind::Flush | Kind::Unmap | Kind::Other => {}
        }
    }

    /// Counts an executed job with this much data.
    pub(crate) fn job(&mut self, job: &Job, bytes: u64) {
        let kind = match job.work {
            Work::Write { .. }
            | Work::OrWrite { .. }
            | Work::CompareAndWrite { .. }
            | Work::WriteSame { .. } => Kind::Write,
            Work::Unmap { .. } => Kind::Unmap,
            Work::Flush { .. } => Kind::Flush,
            Work::Verify { .. }
            | Work::LbaStatus { .. }
            | Work::ModeSelect { .. }
            | Work::PersistentOut { .. } => Kind::Other,
        };
        self.done(kind, bytes);
    }

    /// Counts a command that was answered with an error.
    pub(crate) fn failed(&mut self) {
        self.done(Kind::Other, 0);
        self.errors += 1;
    }
}

impl Counters {
    /// Adds a batch that took `elapsed` and was answered with `sent_bytes`, and empties the tally.
    pub(crate) fn add(&self, tally: &mut Tally, sent_bytes: usize, elapsed: Duration) {
        let tally = std::mem::take(tally);
        for (total, count) in self.commands.iter().zip(tally.commands) {
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
        let [reads, writes, flushes, unmaps, others] =
            self.commands.each_ref().map(|count| count.load(Relaxed));
        Stats {
            connections: connections as u64,
            connections_total: self.accepted.load(Relaxed),
            connections_refused_total: self.refused.load(Relaxed),
            logins_failed_total: self.logins_failed.load(Relaxed),
            logins_denied_total: self.logins_denied.load(Relaxed),
            connections_dropped_total: self.dropped.load(Relaxed),
            reads_total: reads,
            writes_total: writes,
            flushes_total: flushes,
            unmaps_total: unmaps,
            others_total: others,
            reads_abandoned_total: self.abandoned.load(Relaxed),
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
