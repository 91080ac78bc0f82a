//! Turns at the device: the scheduler of `qos` under one lock, and threads that wait for it.
//!
//! Invariant: every turn that is given is ended once, by a drop; who gives up takes his wish back. What
//! waits in the scheduler, or for room in it, has a waiter here. Called by [`super::PacedDisk`]; turns of steps are
//! in [`super::steps`].

use super::state::{State, Waiter};
use super::{FlowCounts, PieceKind, RequestQueue, Turn, flow_of};
use media::{Asker, Ticks};
use parking_lot::{Mutex, MutexGuard};
use qos::{Deadline, DeviceKind, Direction, Flow, InvalidShares, Plan, Request};
use std::sync::Arc;
use std::time::Duration;

/// Longer reads say little about seeks.
const SHORT_BYTES: u64 = 256 << 10;
/// Who waits looks after itself so often, whatever happens.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// See the module's head.
pub struct DeviceQueue {
    state: Mutex<State>,
    pub(super) ticks: Arc<dyn Ticks>,
}

/// A turn of a user's request; it ends when this is dropped.
pub struct AtDevice<'a> {
    queue: &'a DeviceQueue,
    request: Request,
    /// When it was let in: how long it was held back before says nothing of the device.
    entered_ns: u64,
    began_ns: u64,
    /// Users' requests at the device then, itself included.
    at_device: usize,
}

impl DeviceQueue {
    /// Refuses a plan that leaves nothing to somebody.
    pub fn new(plan: Plan, ticks: Arc<dyn Ticks>) -> Result<Self, InvalidShares> {
        Ok(Self {
            state: Mutex::new(State::new(plan)?),
            ticks,
        })
    }

    /// What is set, and what the device is taken for.
    pub fn plan(&self) -> (Plan, DeviceKind) {
        let state = self.lock();
        (state.plan, state.kind)
    }

    /// Another plan from now on; what waits stays.
    pub fn set(&self, plan: Plan) -> Result<(), InvalidShares> {
        plan.check()?;
        let mut state = self.lock();
        state.plan = plan;
        state.edge.set_targets(plan.targets);
        state.choose_kind()?;
        self.hand_out(&mut state, None);
        Ok(())
    }

    /// What went through, in the order of [`Flow::ALL`].
    pub fn counts(&self) -> [FlowCounts; Flow::ALL.len()] {
        let state = self.lock();
        let mut counts = state.counts;
        for (flow, counts) in Flow::ALL.iter().zip(&mut counts) {
            let waiting = state.scheduler.waiting(*flow) + state.line.waiting(*flow);
            counts.waiting = waiting as u64;
        }
        counts
    }

    /// How long no user must have come before maintenance begins, as learned, and what maintenance did to the
    /// 99th percentile of clients' latencies lately, as a factor.
    pub fn idle_time(&self) -> (Duration, f64) {
        let state = self.lock();
        let grace = Duration::from_nanos(state.scheduler.grace_ns());
        (grace, state.scheduler.harm())
    }

    /// A task should be through with so many bytes in this time; its share of a busy device rises as
    /// far as that needs.
    pub fn finish_within(&self, flow: Flow, bytes: u64, within: Duration) {
        let at_ns = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
        let mut state = self.lock();
        let costs = state.plan.settings(state.kind).costs;
        let deadline = Deadline {
            work_ns: costs.of(true, bytes),
            at_ns: self.ticks.now_ns().saturating_add(at_ns),
        };
        state.scheduler.set_deadline(flow, Some(deadline));
    }

    /// Gives turns to whoever may have one. True if `mine` is among them.
    pub(super) fn hand_out(&self, state: &mut State, mine: Option<u64>) -> bool {
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

    /// Until the request has its turn.
    fn wait<'s>(&'s self, mut state: MutexGuard<'s, State>, id: u64) -> MutexGuard<'s, State> {
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

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl RequestQueue for DeviceQueue {
    /// `None`: one of maintenance, whose step has the turn.
    fn enter(
        &self,
        asker: Asker,
        direction: Direction,
        is_sequential: bool,
        bytes: u64,
    ) -> Option<Box<dyn Turn + '_>> {
        let flow = flow_of(asker);
        if flow.is_maintenance() {
            self.note(asker, direction, bytes);
            return None;
        }
        let came_ns = self.ticks.now_ns();
        let mut state = self.lock();
        let delay_ns = match direction {
            Direction::Read => state.edge.delay_ns(flow, came_ns),
            // Who writes may hold a lock that others need.
            Direction::Write => 0,
        };
        if delay_ns > 0 {
            drop(state);
            // Whoever wakes it early lets it go early.
            std::thread::park_timeout(Duration::from_nanos(delay_ns));
            state = self.lock();
            state.of(flow).held_back_ns += delay_ns;
        }
        let entered_ns = self.ticks.now_ns();
        state.own_user_at_ns = Some(entered_ns);
        let request = Request {
            id: state.new_id(),
            flow,
            direction,
            is_sequential,
            bytes,
        };
        let offered = state.scheduler.offer(request);
        state.count(flow, direction, bytes);
        // More wait than there is room for: nobody is kept from the device for ever.
        offered.ok()?;
        if !self.hand_out(&mut state, Some(request.id)) {
            state = self.wait(state, request.id);
        }
        let began_ns = self.ticks.now_ns();
        state.users_at_device += 1;
        let counts = state.of(flow);
        counts.turns += 1;
        counts.wait_ns += began_ns.saturating_sub(came_ns);
        Some(Box::new(AtDevice {
            queue: self,
            request,
            entered_ns,
            began_ns,
            at_device: state.users_at_device + state.line.at_device,
        }))
    }

    /// Of maintenance in its turn, or what nobody holds back; users are seen.
    fn note(&self, asker: Asker, direction: Direction, bytes: u64) {
        let flow = flow_of(asker);
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

impl Turn for AtDevice<'_> {}

impl Drop for AtDevice<'_> {
    fn drop(&mut self) {
        let Request {
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
                    // The plan was checked for both kinds.
                    let _ = state.choose_kind();
                }
            }
        }
        self.queue.hand_out(&mut state, None);
        state.tell_of_gap();
    }
}
