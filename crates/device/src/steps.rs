//! Turns for steps: of maintenance, and of processes beside the server, which lease them.
//!
//! Invariant: as of [`super::turns`]: what was asked for is waited for, had and ended once, or taken back, by
//! a drop. Of the requests that the device takes at once, users' steps are a quarter at most: who leases
//! a turn computes between its reads, and may not come back for a while. Called by maintenance, and
//! by the server for its clients.

use super::state::{Piece, State, Waiter};
use super::turns::{DeviceQueue, LOOK_EVERY};
use qos::{DeviceKind, Direction, Flow, Grant, Request};
use std::sync::Arc;
use std::time::Duration;

/// Of what the device takes at once, one in so many is for users' steps.
const STEPS_IN: usize = 4;
/// A step of maintenance on a disk: what it reads between two requests of others without their noticing
/// much.
const DISK_STEP_BYTES: u64 = 256 << 10;
/// A step beside others, and of maintenance where seeks are nothing.
const STEP_BYTES: u64 = 1 << 20;
/// A step of a user who is alone.
const LONE_STEP_BYTES: u64 = 4 << 20;
/// Who has not come for so long is not there.
const GONE_NS: u64 = 100_000_000;

/// A turn for a step, or the wish for one. It ends when this is dropped.
pub struct StepTurn<'a> {
    queue: &'a DeviceQueue,
    pub(super) id: u64,
    flow: Flow,
    bytes: u64,
    waiter: Arc<Waiter>,
    came_ns: u64,
    began_ns: Option<u64>,
    /// Another step has it now.
    is_given: bool,
}

impl State {
    /// Lets users' steps into the scheduler, as far as there is room for them.
    pub fn admit(&mut self, now_ns: u64) {
        let inside_max = self.plan.settings(self.kind).in_flight_max / STEPS_IN;
        while self.line.inside < inside_max.max(1)
            && let Some((_, step)) = self.line.outside.pop_front_if(|(at, _)| *at <= now_ns)
        {
            self.line.inside += 1;
            if self.scheduler.offer(step).is_err() {
                // More wait than there is room for; its turn ends without one.
                self.line.inside -= 1;
                self.line.outside.push_front((now_ns, step));
                return;
            }
        }
    }

    /// When a step that waits may go on, if nothing else happens.
    fn step_wakes_at(&self, now_ns: u64) -> Option<u64> {
        let held_back = self.line.outside.front().map(|(at, _)| *at);
        let times = [self.scheduler.wakes_at(now_ns), held_back];
        // In the past: it waits for what is at the device, whose end wakes it.
        times.into_iter().flatten().filter(|at| *at > now_ns).min()
    }
}

impl DeviceQueue {
    /// A maintenance task wants to read and write about so many bytes, or a process beside this one
    /// to read them: one step. On a device that others use it takes the head away from them, and is charged for it.
    pub fn ask(&self, flow: Flow, bytes: u64) -> StepTurn<'_> {
        let came_ns = self.ticks.now_ns();
        let mut state = self.lock();
        let id = state.new_id();
        let waiter = Arc::new(Waiter::here(flow));
        let request = Request {
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
            // Tasks are few: cannot be.
            state.waiting.remove(&id);
            waiter.grant(Grant::Floor);
        }
        StepTurn {
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

    /// How much a process beside this one should read in one step that needs `wanted` bytes: more where
    /// nobody else is there.
    pub fn step_bytes(&self, flow: Flow, wanted: u64) -> u64 {
        let state = self.lock();
        let idle_at = state.own_user_at_ns.map(|at| at.saturating_add(GONE_NS));
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

    /// What a process beside this one has read in its steps: so many reads, of which so many did not go
    /// on where the one before had ended. One such was thought of.
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

impl StepTurn<'_> {
    /// Waits for the turn, at most so long. True: it is there, and lasts until the drop.
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
                    counts.turns += 1;
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

    /// Whether maintenance that has its turn may go on with its next step without leaving the device: no user has
    /// come, and it is no other task's turn. Otherwise it drops this, and asks for another one.
    pub fn goes_on(&self) -> bool {
        let state = self.queue.lock();
        state.goes_on(self.id, self.queue.ticks.now_ns())
    }

    /// Goes to the device though it is not its turn: others may wait for who waits here.
    pub(super) fn force(&mut self) {
        let mut state = self.queue.lock();
        if state.waiting.remove(&self.id).is_some() {
            state.scheduler.hand_out(self.flow, self.id);
            self.waiter.grant(Grant::Floor);
        }
        drop(state);
        self.wait(Duration::ZERO);
    }

    /// What it has at the device is another step's from now on.
    pub(super) fn give_up(&mut self, state: &mut State) -> Option<Piece> {
        self.is_given = true;
        state.take_piece(self.id)
    }
}

impl Drop for StepTurn<'_> {
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
