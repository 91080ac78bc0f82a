//! Executes commands that wait, on the threads of a connection. Sessions submit them.
//!
//! Invariant: the window of command numbers limits the queues. A task that must wait for older ones
//! ([`crate::scsi::task_set`]) waits in its queue, and younger ones that need not wait pass it.
//! Changes that have all their data are executed, unless they wait for an older command.

use crate::answers::{Answered, Segments};
use crate::replies::{Format, Replies};
use crate::scsi::action::{Job, Span};
use crate::scsi::reservations::{Nexus, Use};
use crate::scsi::task_set::Ticket;
use crate::scsi::unit::Unit;
use crate::sender::{Place, Sender};
use crate::stats::{Kind, failed};
use connections::{
    Connection, Disconnected, Lane, Lease, ServerCounters, Service, Share, Tally,
    WORKER_OUTPUT_BYTES, WorkerRequest,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// The work of a worker.
pub(crate) enum TaskWork {
    /// Send this, as the answer of a command that had to wait for older ones.
    Reply(Vec<u8>),
    Read(Span),
    Job(Job, Vec<u8>),
}

/// A command for a worker.
pub(crate) struct Task {
    pub(crate) unit: Arc<Unit>,
    pub(crate) work: TaskWork,
    pub(crate) answered: Answered,
    /// Memory for its data and its reply, if it is large.
    pub(crate) leases: Vec<Lease>,
    pub(crate) place: Place,
    pub(crate) ticket: Ticket,
}

impl WorkerRequest for Task {
    /// Its tag, and the number of its unit.
    type Name = (u32, u8);

    fn name(&self) -> (u32, u8) {
        (self.answered.tag, self.unit.number())
    }

    fn lane(&self) -> Lane {
        match &self.work {
            TaskWork::Reply(_) | TaskWork::Read(_) => Lane::Reads,
            TaskWork::Job(job, _) => job.work.lane(),
        }
    }

    fn cost_bytes(&self) -> u64 {
        // Leases limit them.
        0
    }

    fn is_ready(&self) -> bool {
        self.ticket.is_ready()
    }

    fn announced(&self) -> Option<Instant> {
        None
    }
}

/// The session that workers work for.
pub(crate) struct SessionService {
    pub(crate) nexus: Nexus,
    pub(crate) sender: Arc<Sender>,
    pub(crate) connection: Arc<Connection>,
    pub(crate) counters: Arc<ServerCounters>,
    pub(crate) segments: Segments,
    pub(crate) format: Format,
    /// Memory for large reads.
    pub(crate) reads: Arc<Share>,
}

impl Service for SessionService {
    const THREAD_NAME: &'static str = "iscsi-worker";
    type Request = Task;
    type Replies = Replies;
    type Leases = Vec<Lease>;

    fn connection(&self) -> &Connection {
        &self.connection
    }

    fn abandoned(&self) -> &AtomicU64 {
        &self.counters.abandoned
    }

    fn replies(&self) -> Replies {
        Replies::new(WORKER_OUTPUT_BYTES, self.format)
    }

    fn execute(&self, task: Task, replies: &mut Replies) -> Vec<Lease> {
        let Task {
            unit,
            work,
            answered,
            leases,
            place,
            ticket,
        } = task;
        let Ok(leases) = self.lease(leases, &work, &answered, &ticket) else {
            self.counters.abandoned.fetch_add(1, Relaxed);
            return Vec::new();
        };
        let mut tally = Tally::default();
        match ticket.begin() {
            true => {
                let task = (&*unit, &work, &ticket);
                execute(self, task, answered, replies, &mut tally);
            }
            false => {
                failed(&mut tally);
                answered.aborted(replies);
            }
        }
        // It has ended for those that wait for it, however long its initiator takes no answer.
        if !ticket.end() {
            replies.clear();
        }
        // Count before sending: an initiator that has a reply must find it counted.
        self.counters.add(&mut tally, replies.len());
        // The reply opens the window.
        drop(place);
        // Only the memory of a read is in use until its reply is sent.
        let leases = match work {
            TaskWork::Read(_) => leases,
            TaskWork::Job(..) | TaskWork::Reply(_) => Vec::new(),
        };
        for lease in &leases {
            lease.transfer(replies.len() as u64);
        }
        leases
    }

    fn send(&self, replies: &mut Replies) {
        let _ = self.sender.send(replies);
    }
}

impl SessionService {
    /// Leases the memory of a read that has none yet, unless it is aborted.
    pub(crate) fn lease(
        &self,
        mut leases: Vec<Lease>,
        work: &TaskWork,
        answered: &Answered,
        ticket: &Ticket,
    ) -> Result<Vec<Lease>, Disconnected> {
        let bytes = answered.command_bytes.min(answered.expected_bytes);
        let is_large = bytes > WORKER_OUTPUT_BYTES as u64;
        if matches!(work, TaskWork::Read(_)) && is_large && leases.is_empty() {
            match self.reads.take_while(bytes, || !ticket.is_over()) {
                None if !ticket.is_over() => return Err(Disconnected),
                lease => leases.extend(lease),
            }
        }
        Ok(leases)
    }
}

/// Executes a command that may wait, and appends its answer.
pub(crate) fn execute(
    service: &SessionService,
    (unit, work, ticket): (&Unit, &TaskWork, &Ticket),
    answered: Answered,
    replies: &mut Replies,
    tally: &mut Tally,
) {
    match work {
        TaskWork::Reply(data) => {
            tally.done(Kind::Other, 0);
            answered.data(replies, &service.segments, data);
        }
        TaskWork::Read(span) => match unit.recheck(&service.nexus, Use::Read) {
            Ok(()) => {
                answered.read(replies, &service.segments, unit, *span);
                tally.done(Kind::Read, answered.command_bytes);
            }
            Err(refusal) => {
                failed(tally);
                answered.refuse(replies, refusal, Some(unit));
            }
        },
        TaskWork::Job(job, data) => match unit.run(&service.nexus, job, data, Some(ticket)) {
            Ok(reply) => {
                tally.done(Kind::of(job), data.len() as u64);
                answer_job(service, answered, reply.unwrap_or_default(), replies);
            }
            Err(refusal) => {
                failed(tally);
                answered.refuse(replies, refusal, Some(unit));
            }
        },
    }
}

fn answer_job(service: &SessionService, answered: Answered, data: Vec<u8>, replies: &mut Replies) {
    if data.is_empty() {
        return answered.good(replies);
    }
    let answered = Answered {
        command_bytes: data.len() as u64,
        ..answered
    };
    answered.data(replies, &service.segments, &data);
}
