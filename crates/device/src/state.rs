//! State of a device's queue: waiting threads, present requests, counters. `grants`, `steps` and
//! `pieces` read and change it.
//!
//! Invariant: it is accessed only under the queue's lock.

use super::FlowCounts;
use qos::{
    DeviceKind, DeviceRequest, Direction, EdgeThrottle, Flow, Grant, InvalidShares, KindDetector,
    Plan, Scheduler,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::thread::{Thread, ThreadId};

/// A waiting thread.
pub(super) struct Waiter {
    granted: OnceLock<Grant>,
    pub thread: Thread,
    /// It computes itself when it may go, so it is woken when the last user leaves.
    is_maintenance: bool,
}

impl Waiter {
    pub fn here(flow: Flow) -> Self {
        Self {
            is_maintenance: flow.is_maintenance(),
            granted: OnceLock::new(),
            thread: std::thread::current(),
        }
    }

    /// Returns why it may go, or `None` while it has to wait.
    pub fn granted(&self) -> Option<Grant> {
        self.granted.get().copied()
    }

    /// Lets it go.
    pub fn grant(&self, grant: Grant) {
        let _ = self.granted.set(grant);
    }
}

/// Users' steps outside of the scheduler, in order of arrival, and how many are inside it or at the
/// device.
#[derive(Default)]
pub(super) struct Line {
    /// Each with the time until which it is delayed.
    pub outside: VecDeque<(u64, DeviceRequest)>,
    pub inside: usize,
    /// Of `inside`, those at the device.
    pub at_device: usize,
}

impl Line {
    pub fn waiting(&self, flow: Flow) -> usize {
        let of_flow = self.outside.iter().filter(|(_, step)| step.flow == flow);
        of_flow.count()
    }

    /// Withdraws a step. Returns false if it is not outside.
    pub fn withdraw(&mut self, id: u64) -> bool {
        let before = self.outside.len();
        self.outside.retain(|(_, step)| step.id != id);
        self.outside.len() < before
    }
}

/// Bytes that maintenance writes at once, or reads at once under a paid grant. A request that
/// arrives meanwhile waits for them.
pub(super) const PIECE_BYTES: usize = 256 << 10;
/// Bytes that maintenance reads at once in idle time: from a disk, and from other devices.
const READ_BYTES: (u64, u64) = (64 << 10, 1 << 20);

/// The I/O of a step that has a grant.
pub(super) struct Piece {
    /// Number of the step's request.
    pub id: u64,
    pub thread: ThreadId,
    pub flow: Flow,
    pub began_ns: u64,
    pub grant: Grant,
    /// Bytes of the grant that were not read or written yet.
    pub paid_bytes: u64,
    /// Nothing was read or written yet.
    pub is_fresh: bool,
    /// Start of the I/O that is at the device now, and whether the head had to move for it.
    pub at_device: Option<(u64, bool)>,
}

impl Piece {
    /// Creates the piece of a step that this thread begins now: its grant and the bytes it is for.
    pub fn new(id: u64, flow: Flow, (grant, paid_bytes): (Grant, u64), now_ns: u64) -> Self {
        Self {
            id,
            thread: std::thread::current().id(),
            flow,
            began_ns: now_ns,
            grant,
            paid_bytes,
            is_fresh: true,
            at_device: None,
        }
    }

    pub fn is_idle_time(&self) -> bool {
        matches!(self.grant, Grant::Idle { .. })
    }

    pub fn moves_head(&self) -> bool {
        self.grant == (Grant::Idle { is_seek: true })
    }

    /// Returns how many of `bytes` bytes are read or written at once.
    pub fn at_once(&self, kind: PieceKind, device: DeviceKind, bytes: u64) -> u64 {
        match (kind, self.is_idle_time()) {
            (PieceKind::Write, _) => bytes,
            (PieceKind::Read { .. }, true) => bytes.min(read_bytes(device)),
            (PieceKind::Read { .. }, false) => bytes.min(PIECE_BYTES as u64),
        }
    }
}

pub(super) fn read_bytes(device: DeviceKind) -> u64 {
    match device {
        DeviceKind::Disk => READ_BYTES.0,
        DeviceKind::Ssd => READ_BYTES.1,
    }
}

/// Kind of I/O that maintenance is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceKind {
    /// Read.
    Read {
        /// It begins where the last read ended.
        is_sequential: bool,
    },
    /// Write a piece of a long write.
    Write,
}

pub(super) struct DeviceState {
    pub plan: Plan,
    pub kind: DeviceKind,
    pub scheduler: Scheduler,
    pub edge: EdgeThrottle,
    pub judge: KindDetector,
    id_next: u64,
    pub waiting: BTreeMap<u64, Arc<Waiter>>,
    /// Steps of processes beside this one, from arrival until they leave the scheduler.
    pub line: Line,
    /// Steps of maintenance that have a grant. They are few.
    pub pieces: Vec<Piece>,
    /// By flow: the last read was sequential.
    in_order: [bool; Flow::ALL.len()],
    /// Users' grants that have not ended, without those of steps.
    pub users_at_device: usize,
    /// When a user of this process was last at the device.
    pub own_user_at_ns: Option<u64>,
    pub counts: [FlowCounts; Flow::ALL.len()],
}

impl DeviceState {
    pub fn new(plan: Plan) -> Result<Self, InvalidShares> {
        plan.check()?;
        let kind = plan.device.unwrap_or_default();
        Ok(Self {
            plan,
            kind,
            scheduler: Scheduler::new(plan.settings(kind))?,
            edge: EdgeThrottle::new(plan.targets),
            judge: KindDetector::default(),
            id_next: 0,
            waiting: BTreeMap::new(),
            line: Line::default(),
            pieces: Vec::new(),
            in_order: Default::default(),
            users_at_device: 0,
            own_user_at_ns: None,
            counts: Default::default(),
        })
    }

    pub fn new_id(&mut self) -> u64 {
        self.id_next += 1;
        self.id_next
    }

    pub fn of(&mut self, flow: Flow) -> &mut FlowCounts {
        &mut self.counts[flow as usize]
    }

    /// Wakes maintenance that waits for idle time when the last user has left a disk. Other devices
    /// have too many users for that, and short waits.
    pub fn tell_of_gap(&self) {
        if self.kind == DeviceKind::Disk && self.users_at_device + self.line.at_device == 0 {
            let waiting = self.waiting.values().filter(|waiter| waiter.is_maintenance);
            waiting.for_each(|waiter| waiter.thread.unpark());
        }
    }

    /// Returns true if a user's request waits for its grant.
    pub fn is_user_waiting(&self) -> bool {
        let mut waiting = self.waiting.values();
        waiting.any(|waiter| !waiter.is_maintenance) || !self.line.outside.is_empty()
    }

    pub fn note_order(&mut self, flow: Flow, is_sequential: bool) {
        if let Some(in_order) = self.in_order.get_mut(flow as usize) {
            *in_order = is_sequential;
        }
    }

    pub fn reads_in_order(&self, flow: Flow) -> bool {
        self.in_order
            .get(flow as usize)
            .copied()
            .unwrap_or_default()
    }

    pub fn count(&mut self, flow: Flow, direction: Direction, bytes: u64) {
        let counts = self.of(flow);
        let (requests, sum) = match direction {
            Direction::Read => (&mut counts.reads, &mut counts.read_bytes),
            Direction::Write => (&mut counts.writes, &mut counts.written_bytes),
        };
        *requests += 1;
        *sum += bytes;
    }

    pub fn choose_kind(&mut self) -> Result<(), InvalidShares> {
        self.kind = self.plan.device.unwrap_or(self.judge.kind());
        self.scheduler.set(self.plan.settings(self.kind))
    }
}
