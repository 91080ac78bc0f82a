//! Executes requests that wait, on the threads of a connection. Sessions submit them.
//!
//! Invariant: every request that a worker takes gets its reply, or its connection ends.

use crate::command::Export;
use crate::wire::requests::{Command, NbdRequest};
use connections::{
    Connection, Lane, Lease, Output, Payload, ReplyWriter, ServerCounters, Service, Tally,
    WORKER_OUTPUT_BYTES, WorkerRequest,
};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// Returns the lane of the command with this number.
pub(crate) fn lane_of(command: u16) -> Lane {
    match Command::from_number(command) {
        Some(Command::Write | Command::Trim | Command::WriteZeroes) => Lane::Changes,
        Some(Command::Flush) => Lane::Flushes,
        Some(Command::Read | Command::BlockStatus | Command::Cache | Command::Disconnect)
        | None => Lane::Reads,
    }
}

/// A request for a worker.
pub(crate) struct Job {
    pub(crate) request: NbdRequest,
    pub(crate) payload: Payload,
    /// Lease for its payload and its reply.
    pub(crate) lease: Lease,
    pub(crate) cost_bytes: u64,
    /// Arrival time of a read with which the device has begun.
    pub(crate) announced: Option<Instant>,
}

impl WorkerRequest for Job {
    type Name = ();

    fn name(&self) {}

    fn lane(&self) -> Lane {
        lane_of(self.request.command)
    }

    fn cost_bytes(&self) -> u64 {
        self.cost_bytes
    }

    fn is_ready(&self) -> bool {
        true
    }

    fn announced(&self) -> Option<Instant> {
        self.announced
    }
}

/// An export, for workers.
pub(crate) struct ExportService {
    pub(crate) export: Arc<Export>,
    pub(crate) writer: Arc<ReplyWriter>,
    pub(crate) connection: Arc<Connection>,
    pub(crate) counters: Arc<ServerCounters>,
}

impl Service for ExportService {
    const THREAD_NAME: &'static str = "nbd-worker";
    type Request = Job;
    type Replies = Output;
    type Leases = Lease;

    fn connection(&self) -> &Connection {
        &self.connection
    }

    fn abandoned(&self) -> &AtomicU64 {
        &self.counters.abandoned
    }

    fn replies(&self) -> Output {
        Output::new(WORKER_OUTPUT_BYTES)
    }

    fn execute(&self, job: Job, out: &mut Output) -> Lease {
        let mut tally = Tally::default();
        let payload = job.payload.as_bytes();
        let before = out.len();
        self.export
            .execute(&job.request, payload, true, out, &mut tally);
        let bytes = out.len() - before;
        // Count before sending: a client that has a reply must find it counted.
        self.counters.add(&mut tally, bytes);
        job.lease.transfer(bytes as u64);
        job.lease
    }

    fn send(&self, out: &mut Output) {
        let _ = self.writer.send(out.as_bytes());
        out.clear();
    }
}
