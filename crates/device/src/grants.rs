//! I/O grants for requests: the scheduler of `qos` under one lock, and threads that wait for it.
//! [`super::PacedDisk`] calls this; grants for steps are in [`super::steps`].
//!
//! Invariant: each grant ends exactly once, by a drop. A step that gives up withdraws its request.
//! Each request in the scheduler, and each step outside of it, has a waiter here, except requests
//! that passed because the scheduler was full.

use super::state::{DeviceState, Waiter};
use super::{FlowCounts, PieceKind, RequestGrant, RequestQueue, flow_of};
use media::{IoOrigin, Ticks};
use parking_lot::{Mutex, MutexGuard};
use qos::{Deadline, DeviceKind, DeviceRequest, Direction, Flow, InvalidShares, Plan};
use std::sync::Arc;
use std::time::Duration;

/// Longest read from which the kind of the device is judged, bytes: longer reads say little about
/// seeks.
const SHORT_BYTES: u64 = 256 << 10;
/// A waiting thread looks again after this time at the latest, even if no thread wakes it.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// See the module's head.
pub struct DeviceQueue {
    state: Mutex<DeviceState>,
    pub(super) ticks: Arc<dyn Ticks>,
}

/// An I/O grant for a user's request. It ends when this is dropped.
pub struct AtDevice<'a> {
    queue: &'a DeviceQueue,
    request: DeviceRequest,
    /// When the request entered the scheduler. The delay before that says nothing about the device.
    entered_ns: u64,
    began_ns: u64,
    /// Users' requests at the device when the grant began, including this one.
    at_device: usize,
}

impl DeviceQueue {
    /// Fails on a plan that leaves a flow without a share.
    pub fn new(plan: Plan, ticks: Arc<dyn Ticks>) -> Result<Self, InvalidShares> {
        Ok(Self {
            state: Mutex::new(DeviceState::new(plan)?),
            ticks,
        })
    }

    /// Returns the plan, and the kind of device that is assumed.
    pub fn plan(&self) -> (Plan, DeviceKind) {
        let state = self.lock();
        (state.plan, state.kind)
    }

    /// Replaces the plan. Waiting requests stay.
    pub fn set(&self, plan: Plan) -> Result<(), InvalidShares> {
        plan.check()?;
        let mut state = self.lock();
        state.plan = plan;
        state.edge.set_targets(plan.targets);
        state.choose_kind()?;
        self.hand_out(&mut state, None);
        Ok(())
    }

    /// Returns the counters in the order of [`Flow::ALL`].
    pub fn counts(&self) -> [FlowCounts; Flow::ALL.len()] {
        let state = self.lock();
        let mut counts = state.counts;
        for (flow, counts) in Flow::ALL.iter().zip(&mut counts) {
            let waiting = state.scheduler.waiting(*flow) + state.line.waiting(*flow);
            counts.waiting = waiting as u64;
        }
        counts
    }

    /// Returns the learned time without users after which maintenance begins, and the factor by
    /// which maintenance lately changed the 99th percentile of clients' latencies.
    pub fn idle_time(&self) -> (Duration, f64) {
        let state = self.lock();
        let grace = Duration::from_nanos(state.scheduler.grace_ns());
        (grace, state.scheduler.harm())
    }

    /// Returns true if no client's request was there for that time.
    pub fn is_idle(&self) -> bool {
        self.lock().scheduler.is_idle(self.ticks.now_ns())
    }

    /// Sets a deadline: the flow should finish `bytes` bytes in this time. Its share of a busy
    /// device rises as far as that needs: at least the time of reading them in order, and more if
    /// the flow's steps took longer so far.
    pub fn finish_within(&self, flow: Flow, bytes: u64, within: Duration) {
        let at_ns = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
        let mut state = self.lock();
        let costs = state.plan.settings(state.kind).costs;
        let counts = state.of(flow);
        let done = u128::from(counts.read_bytes.saturating_add(counts.written_bytes));
        let seen_ns = u128::from(bytes) * u128::from(counts.busy_ns) / done.max(1);
        let seen_ns = u64::try_from(seen_ns).unwrap_or(u64::MAX);
        let deadline = Deadline {
            work_ns: costs.of(true, bytes).max(seen_ns),
            at_ns: self.ticks.now_ns().saturating_add(at_ns),
        };
        state.scheduler.set_deadline(flow, Some(deadline));
    }

    /// Returns the share of the device that the flow's deadline needs from now on, 0 to 1.
    pub fn needed(&self, flow: Flow) -> f64 {
        let now_ns = self.ticks.now_ns();
        self.lock().scheduler.needed(flow, now_ns) as f64 / 1e6
    }

    /// Grants every request that may go now. Returns true if `mine` is among them.
    pub(super) fn hand_out(&self, state: &mut DeviceState, mine: Option<u64>) -> bool {
        let now_ns = self.ticks.now_ns();
        let mut is_mine = false;
        state.admit(now_ns);
        while let Some((request, grant)) = state.scheduler.next(now_ns) {
            if Some(request.id) == mine {
                is_mine = true;
            } else if let Some(waiter) = state.waiting.remove(&request.id) {
                waiter.grant(grant);
                waiter.thread.unpark();
            }
        }
        is_mine
    }

    /// Waits until the request has its grant.
    fn wait<'s>(
        &'s self,
        mut state: MutexGuard<'s, DeviceState>,
        id: u64,
    ) -> MutexGuard<'s, DeviceState> {
        let waiter = Arc::new(Waiter::here(Flow::ForegroundNonSequential));
        state.waiting.insert(id, Arc::clone(&waiter));
        while waiter.granted().is_none() {
            drop(state);
            std::thread::park_timeout(LOOK_EVERY);
            state = self.lock();
            self.hand_out(&mut state, None);
        }
        state
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, DeviceState> {
        self.state.lock()
    }
}

impl RequestQueue for DeviceQueue {
    /// Returns `None` for maintenance: its step has the grant.
    fn enter(
        &self,
        io_origin: IoOrigin,
        direction: Direction,
        is_sequential: bool,
        bytes: u64,
    ) -> Option<Box<dyn RequestGrant + '_>> {
        let flow = flow_of(io_origin);
        if flow.is_maintenance() {
            self.note(io_origin, direction, bytes);
            return None;
        }
        let came_ns = self.ticks.now_ns();
        let mut state = self.lock();
        let delay_ns = match direction {
            Direction::Read => state.edge.delay_ns(flow, came_ns),
            // A writer may hold a lock that other threads need.
            Direction::Write => 0,
        };
        if delay_ns > 0 {
            drop(state);
            // An early unpark ends the delay early. That is harmless.
            std::thread::park_timeout(Duration::from_nanos(delay_ns));
            state = self.lock();
            state.of(flow).held_back_ns += delay_ns;
        }
        let entered_ns = self.ticks.now_ns();
        state.own_user_at_ns = Some(entered_ns);
        let request = DeviceRequest {
            id: state.new_id(),
            flow,
            direction,
            is_sequential,
            bytes,
        };
        let offered = state.scheduler.offer(request);
        state.count(flow, direction, bytes);
        // The scheduler is full: pass, so that no request waits forever.
        offered.ok()?;
        if !self.hand_out(&mut state, Some(request.id)) {
            state = self.wait(state, request.id);
        }
        let began_ns = self.ticks.now_ns();
        state.users_at_device += 1;
        let counts = state.of(flow);
        counts.grants += 1;
        counts.wait_ns += began_ns.saturating_sub(came_ns);
        Some(Box::new(AtDevice {
            queue: self,
            request,
            entered_ns,
            began_ns,
            at_device: state.users_at_device + state.line.at_device,
        }))
    }

    fn would_pass(&self, io_origin: IoOrigin) -> bool {
        let flow = flow_of(io_origin);
        let now_ns = self.ticks.now_ns();
        let mut state = self.lock();
        // A disk with arms serves few at a time, and in an order that the scheduler chooses.
        let is_held = flow.is_maintenance()
            || state.kind == DeviceKind::Disk
            || state.edge.delay_ns(flow, now_ns) > 0
            || state.is_user_waiting();
        if !is_held {
            state.scheduler.saw_user(now_ns);
            state.own_user_at_ns = Some(now_ns);
        }
        !is_held
    }

    fn has_arms(&self) -> bool {
        self.lock().kind == DeviceKind::Disk
    }

    /// Counts a request of maintenance within its grant, or one that is never delayed. The
    /// scheduler sees the latter as users.
    fn note(&self, io_origin: IoOrigin, direction: Direction, bytes: u64) {
        let flow = flow_of(io_origin);
        let mut state = self.lock();
        state.count(flow, direction, bytes);
        if !flow.is_maintenance() {
            let now_ns = self.ticks.now_ns();
            state.scheduler.saw_user(now_ns);
            state.own_user_at_ns = Some(now_ns);
        }
    }

    fn before_piece(&self, flow: Flow, kind: PieceKind, bytes: u64) -> u64 {
        self.begin_piece(flow, kind, bytes)
    }

    fn after_piece(&self, flow: Flow) {
        self.end_piece(flow);
    }
}

impl RequestGrant for AtDevice<'_> {}

impl Drop for AtDevice<'_> {
    fn drop(&mut self) {
        let DeviceRequest {
            flow,
            direction,
            is_sequential,
            bytes,
            ..
        } = self.request;
        let mut state = self.queue.lock();
        let now_ns = self.queue.ticks.now_ns();
        let took_ns = now_ns.saturating_sub(self.began_ns);
        state.of(flow).busy_ns += took_ns;
        state.users_at_device = state.users_at_device.saturating_sub(1);
        state.own_user_at_ns = Some(now_ns);
        state.scheduler.completed(flow, self.entered_ns, now_ns);
        if direction == Direction::Read {
            let latency_ns = now_ns.saturating_sub(self.entered_ns);
            state.edge.completed(flow, latency_ns, now_ns);
            if !is_sequential && bytes <= SHORT_BYTES {
                state.judge.saw(took_ns, self.at_device);
                if state.plan.device.is_none() && state.judge.kind() != state.kind {
                    // Cannot fail: the plan was checked for both kinds.
                    let _ = state.choose_kind();
                }
            }
        }
        self.queue.hand_out(&mut state, None);
        state.tell_of_gap();
    }
}
