//! I/O grants for steps: of maintenance, and of processes beside the server, which lease them.
//! Maintenance calls this, and the server does so for its clients.
//!
//! Invariant: each step that is asked for is either granted and ended once, or withdrawn, by a
//! drop. Users' steps are at most a quarter of the requests that the device takes at once: a
//! process that leases a grant computes between its reads, and may not return for a while.

use super::grants::{DeviceQueue, LOOK_EVERY};
use super::state::{DeviceState, Piece, Waiter};
use qos::{DeviceKind, DeviceRequest, Direction, Flow, Grant};
use std::sync::Arc;
use std::time::Duration;

/// One in this many requests at the device may be a user's step.
const STEPS_IN: usize = 4;
/// Size of a maintenance step on a disk, bytes: other requests hardly notice it between two of
/// theirs.
const DISK_STEP_BYTES: u64 = 256 << 10;
/// Size of a step beside other users, and of a maintenance step on devices without seeks, bytes.
const STEP_BYTES: u64 = 1 << 20;
/// Size of a step of a user that is alone, bytes.
const LONE_STEP_BYTES: u64 = 4 << 20;
/// A user that has sent nothing for this time counts as absent, nanoseconds.
const ABSENT_NS: u64 = 100_000_000;

/// A grant for a step, or the request for one. It ends when this is dropped.
pub struct StepGrant<'a> {
    queue: &'a DeviceQueue,
    pub(super) id: u64,
    flow: Flow,
    bytes: u64,
    waiter: Arc<Waiter>,
    came_ns: u64,
    began_ns: Option<u64>,
    /// Another step has taken the grant over.
    is_given: bool,
}

impl DeviceState {
    /// Moves users' steps into the scheduler, as far as their quarter allows.
    pub fn admit(&mut self, now_ns: u64) {
        let inside_max = self.plan.settings(self.kind).in_flight_max / STEPS_IN;
        while self.line.inside < inside_max.max(1)
            && let Some((_, step)) = self.line.outside.pop_front_if(|(at, _)| *at <= now_ns)
        {
            self.line.inside += 1;
            if self.scheduler.offer(step).is_err() {
                // The scheduler is full. The step stays first in line.
                self.line.inside -= 1;
                self.line.outside.push_front((now_ns, step));
                return;
            }
        }
    }

    /// Returns when a waiting step may go if nothing else happens.
    fn step_wakes_at(&self, now_ns: u64) -> Option<u64> {
        let held_back = self.line.outside.front().map(|(at, _)| *at);
        let times = [self.scheduler.wakes_at(now_ns), held_back];
        // A time in the past means that the step waits for requests at the device. Their end wakes
        // it.
        times.into_iter().flatten().filter(|at| *at > now_ns).min()
    }
}

impl DeviceQueue {
    /// Asks for a grant for one step: a maintenance task will read and write about `bytes` bytes,
    /// or a process beside this one will read them. The step is charged a seek, unless it is
    /// maintenance that reads sequentially.
    pub fn ask(&self, flow: Flow, bytes: u64) -> StepGrant<'_> {
        let came_ns = self.ticks.now_ns();
        let mut state = self.lock();
        let id = state.new_id();
        let waiter = Arc::new(Waiter::here(flow));
        let request = DeviceRequest {
            id,
            flow,
            direction: Direction::Read,
            is_sequential: flow.is_maintenance() && state.reads_in_order(flow),
            bytes,
        };
        state.waiting.insert(id, Arc::clone(&waiter));
        if !flow.is_maintenance() {
            let delay_ns = state.edge.delay_ns(flow, came_ns);
            state.of(flow).held_back_ns += delay_ns;
            let at_ns = came_ns.saturating_add(delay_ns);
            state.line.outside.push_back((at_ns, request));
        } else if state.scheduler.offer(request).is_err() {
            // Cannot happen: tasks are few.
            state.waiting.remove(&id);
            waiter.grant(Grant::Floor);
        }
        StepGrant {
            queue: self,
            id,
            flow,
            bytes,
            waiter,
            came_ns,
            began_ns: None,
            is_given: false,
        }
    }

    /// Returns how much a process beside this one should read in one step that needs `wanted`
    /// bytes: more while no other user is there.
    pub fn step_bytes(&self, flow: Flow, wanted: u64) -> u64 {
        let state = self.lock();
        let idle_at = state.own_user_at_ns.map(|at| at.saturating_add(ABSENT_NS));
        let is_alone = state.line.outside.is_empty()
            && state.users_at_device == 0
            && idle_at.is_none_or(|idle_at| idle_at <= self.ticks.now_ns());
        let step = match (flow.is_maintenance(), state.kind) {
            (true, DeviceKind::Disk) => DISK_STEP_BYTES,
            (false, _) if is_alone => LONE_STEP_BYTES,
            _ => STEP_BYTES,
        };
        step.max(wanted)
    }

    /// Counts what a process beside this one read in its step: `reads` reads, of which `seeks` were
    /// not sequential. The grant was charged for one seek, so this charges the rest.
    pub fn count_leased(&self, flow: Flow, reads: u64, seeks: u64, bytes: u64) {
        let mut state = self.lock();
        let counts = state.of(flow);
        counts.reads += reads;
        counts.read_bytes += bytes;
        counts.leased_bytes += bytes;
        let seek_ns = state.plan.settings(state.kind).costs.seek_ns;
        let more_ns = seeks.saturating_sub(1).saturating_mul(seek_ns);
        state.scheduler.cost_more(flow, more_ns);
    }
}

impl StepGrant<'_> {
    /// Waits for the grant, at most this long. Returns true if the step has it; it then lasts until
    /// the drop.
    pub fn wait(&mut self, at_most: Duration) -> bool {
        let at_most_ns = u64::try_from(at_most.as_nanos()).unwrap_or(u64::MAX);
        let until_ns = self.queue.ticks.now_ns().saturating_add(at_most_ns);
        loop {
            let mut state = self.queue.lock();
            self.queue.hand_out(&mut state, None);
            let now_ns = self.queue.ticks.now_ns();
            if let Some(grant) = self.waiter.granted() {
                if self.began_ns.replace(now_ns).is_none() {
                    match self.flow.is_maintenance() {
                        true => {
                            let paid = (grant, self.bytes);
                            state.begin_piece(Piece::new(self.id, self.flow, paid, now_ns));
                        }
                        false => state.line.at_device += 1,
                    }
                    let counts = state.of(self.flow);
                    counts.grants += 1;
                    counts.wait_ns += now_ns.saturating_sub(self.came_ns);
                }
                return true;
            }
            if now_ns >= until_ns {
                return false;
            }
            let wakes_at = state.step_wakes_at(now_ns).unwrap_or(u64::MAX);
            drop(state);
            let left_ns = wakes_at.min(until_ns).saturating_sub(now_ns);
            std::thread::park_timeout(Duration::from_nanos(left_ns).min(LOOK_EVERY));
        }
    }

    /// Returns true if maintenance may go on with its next step under this grant: no user has
    /// arrived, and no other task is due. Otherwise the task drops this and asks again.
    pub fn goes_on(&self) -> bool {
        let state = self.queue.lock();
        state.goes_on(self.id, self.queue.ticks.now_ns())
    }

    /// Takes the grant without waiting: other threads may wait for this one.
    pub(super) fn force(&mut self) {
        let mut state = self.queue.lock();
        if state.waiting.remove(&self.id).is_some() {
            state.scheduler.hand_out(self.flow, self.id);
            self.waiter.grant(Grant::Floor);
        }
        drop(state);
        self.wait(Duration::ZERO);
    }

    /// Hands the grant over to another step.
    pub(super) fn give_up(&mut self, state: &mut DeviceState) -> Option<Piece> {
        self.is_given = true;
        state.take_piece(self.id)
    }
}

impl Drop for StepGrant<'_> {
    fn drop(&mut self) {
        if self.is_given {
            return;
        }
        let mut state = self.queue.lock();
        let now_ns = self.queue.ticks.now_ns();
        let is_users = !self.flow.is_maintenance();
        if state.line.withdraw(self.id) {
            state.waiting.remove(&self.id);
            return;
        }
        state.line.inside -= usize::from(is_users);
        if state.waiting.remove(&self.id).is_some() {
            state.scheduler.withdraw(self.flow, self.id);
        } else {
            match (self.began_ns, state.take_piece(self.id)) {
                (_, Some(piece)) => state.leave(&piece, now_ns),
                (Some(began_ns), None) => {
                    state.of(self.flow).busy_ns += now_ns.saturating_sub(began_ns);
                    state.line.at_device -= usize::from(is_users);
                    state.scheduler.completed(self.flow, self.came_ns, now_ns);
                }
                (None, None) => state.scheduler.completed(self.flow, self.came_ns, now_ns),
            }
        }
        self.queue.hand_out(&mut state, None);
    }
}
