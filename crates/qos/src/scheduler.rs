//! Chooses the request that uses the device next.
//!
//! The `device` crate calls this under the lock of the device's queue.
//! Invariant: a user request waits only for maintenance that is already at the device, and for one
//! floor request of a task that found no gap for a while. Every flow with a share gets it while the
//! device is busy. An offered request is handed out at most once.

mod idle;
mod queue;

use crate::floor::{Deadline, Floor, Moment};
use crate::flow::{ByFlow, Flow};
use crate::grace::Grace;
use crate::settings::{InvalidShares, SchedulerSettings};
use queue::Queue;

/// Direction of the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the device.
    Read,
    /// To the device.
    Write,
}

/// A request for the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceRequest {
    /// Number that the caller assigns.
    pub id: u64,
    /// Flow that it belongs to.
    pub flow: Flow,
    /// Direction.
    pub direction: Direction,
    /// True if it begins where the previous request of the same flow ended.
    pub is_sequential: bool,
    /// Size in bytes.
    pub bytes: u64,
}

/// Too many requests of the flow wait. The caller delays or refuses this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("too many requests wait: {flow:?}")]
pub struct QueueFull {
    /// Flow of the request.
    pub flow: Flow,
}

/// Why a request may go to the device now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grant {
    /// A user made it.
    User,
    /// The device is idle: the task may continue until a user arrives ([`Scheduler::go_on`]).
    Idle {
        /// The head moves.
        is_seek: bool,
    },
    /// The task's I/O floor pays for it: its bytes and no more.
    Floor,
}

/// A request that takes less than this fraction of a seek was answered from memory, not by the
/// device.
const IN_MEMORY: u64 = 16;

/// Shares are counted in units of 2^-16 ns.
const FRACTION: u32 = 16;

#[derive(Default)]
struct Lane {
    queue: Queue,
    in_flight: usize,
    /// Device time that the flow has had, divided by its weight.
    had: u128,
    floor: Floor,
    /// Cost of the last request, if it was charged to the floor.
    floor_paid_ns: Option<u64>,
    /// The device's completion of the last request was measured, which precedes the end of its
    /// grant.
    is_measured: bool,
}

impl Lane {
    fn is_active(&self) -> bool {
        self.in_flight > 0 || !self.queue.is_empty()
    }
}

/// Chooses the next request. See the module's head.
pub struct Scheduler {
    settings: SchedulerSettings,
    lanes: ByFlow<Lane>,
    /// Time that the last flow to be served had: users, maintenance. A flow that becomes active
    /// starts there.
    had: [u128; 2],
    /// When a user request was last at the device.
    user_at_ns: Option<u64>,
    /// Maintenance has had idle time since `user_at_ns`: the head is still where it was left.
    is_streaming: bool,
    /// When the head may next move in idle time for a non-contiguous request.
    seek_at_ns: u64,
    grace: Grace,
    /// The maintenance task that used the device last, if it reads in order, and when it left.
    maintained: Option<Flow>,
    left_at_ns: u64,
}

impl Scheduler {
    /// Creates a scheduler without requests.
    pub fn new(settings: SchedulerSettings) -> Result<Self, InvalidShares> {
        settings.check()?;
        Ok(Self {
            settings,
            lanes: Default::default(),
            had: [0; 2],
            user_at_ns: None,
            is_streaming: false,
            seek_at_ns: 0,
            grace: Grace::new(settings.grace, settings.costs.seek_ns),
            maintained: None,
            left_at_ns: 0,
        })
    }

    /// Changes the settings. Waiting requests stay.
    pub fn set(&mut self, settings: SchedulerSettings) -> Result<(), InvalidShares> {
        settings.check()?;
        if settings.grace != self.settings.grace {
            self.grace = Grace::new(settings.grace, settings.costs.seek_ns);
        }
        self.settings = settings;
        Ok(())
    }

    /// Sets the deadline of a maintenance task; `None`: no deadline.
    pub fn set_deadline(&mut self, flow: Flow, deadline: Option<Deadline>) {
        self.lane_mut(flow).floor.set_deadline(deadline);
    }

    /// Returns the share of the device that a task's deadline needs from now on, millionths; 0
    /// without one.
    pub fn needed(&self, flow: Flow, now_ns: u64) -> u64 {
        self.lane(flow).floor.needed(now_ns)
    }

    /// Queues a request. Fails if too many of its flow wait.
    pub fn offer(&mut self, request: DeviceRequest) -> Result<(), QueueFull> {
        let DeviceRequest { flow, .. } = request;
        let begins_at = self.had[usize::from(flow.is_maintenance())];
        let waiting_max = self.settings.waiting_max;
        let lane = self.lane_mut(flow);
        if lane.queue.len() >= waiting_max {
            return Err(QueueFull { flow });
        }
        if !lane.is_active() {
            lane.had = lane.had.max(begins_at);
        }
        lane.queue.push(request);
        Ok(())
    }

    /// Hands out the request that goes to the device now. `None`: no request may go. The caller
    /// asks again when a request was offered or completed, and at [`wakes_at`](Self::wakes_at).
    pub fn next(&mut self, now_ns: u64) -> Option<(DeviceRequest, Grant)> {
        if self.in_flight(|_| true) >= self.settings.in_flight_max {
            return None;
        }
        let shares = self.floors(now_ns);
        for (lane, share) in self.lanes.iter_mut().zip(shares) {
            lane.floor.earn(share, now_ns);
        }
        let maintenance = self.in_flight(Flow::is_maintenance);
        let may = maintenance < self.settings.maintenance_in_flight_max && self.is_idle(now_ns);
        let (flow, grant) = if let Some(flow) = self.idle_turn(now_ns).filter(|_| may) {
            let is_seek = !self.is_where(flow);
            (flow, Grant::Idle { is_seek })
        } else {
            let moment = self.moment();
            let earned = |flow: Flow| {
                let share = shares.get(flow as usize).copied().unwrap_or_default();
                flow.is_maintenance() && self.lane(flow).floor.may_spend(share, moment)
            };
            let floor = self.most_urgent(maintenance == 0, now_ns, earned);
            let user = || self.least(true, |flow| !flow.is_maintenance());
            match floor {
                Some(flow) => (flow, Grant::Floor),
                None => (user()?, Grant::User),
            }
        };
        let request = self.lane_mut(flow).queue.pop()?;
        self.charge(&request, grant);
        if let Grant::Idle { is_seek: true } = grant {
            self.seeks(now_ns);
        }
        Some((request, grant))
    }

    /// Removes a request that was not handed out. Returns false if it is not waiting.
    pub fn withdraw(&mut self, flow: Flow, id: u64) -> bool {
        self.lane_mut(flow).queue.remove(id).is_some()
    }

    /// Hands out a waiting request regardless of limits: requests at the device may wait for its
    /// caller. It is charged like a request with a grant. Returns false if it is not waiting.
    pub fn hand_out(&mut self, flow: Flow, id: u64) -> bool {
        let request = self.lane_mut(flow).queue.remove(id);
        request
            .inspect(|request| self.charge(request, Grant::Floor))
            .is_some()
    }

    /// Counts a request of this flow, offered at `came_ns`, that has left the device.
    pub fn completed(&mut self, flow: Flow, came_ns: u64, now_ns: u64) {
        let lane = self.lane_mut(flow);
        debug_assert!(lane.in_flight > 0, "what was handed out is completed once");
        lane.in_flight = lane.in_flight.saturating_sub(1);
        if flow.is_maintenance() {
            if !std::mem::take(&mut self.lane_mut(flow).is_measured) {
                self.grace.maintenance_completed(now_ns);
            }
            self.left_at_ns = now_ns;
        } else {
            let is_client = flow <= Flow::ForegroundSequential;
            // The system answered it from memory: neither the device nor a task that uses it was
            // disturbed.
            let least_ns = self.settings.costs.seek_ns / IN_MEMORY;
            if self.grace.service_ns(came_ns, now_ns) >= least_ns {
                self.grace.user_completed(is_client, came_ns, now_ns);
                self.saw_user(now_ns);
            }
        }
    }

    /// Records that a user uses the device without this queue.
    pub fn saw_user(&mut self, now_ns: u64) {
        self.user_at_ns = Some(now_ns);
        self.is_streaming = false;
    }

    /// Charges a maintenance request's time beyond its estimate to its floor, so that wrong
    /// estimates take nothing from users.
    pub fn took(&mut self, flow: Flow, took_ns: u64) {
        let lane = self.lane_mut(flow);
        if let Some(paid_ns) = lane.floor_paid_ns.take() {
            lane.floor.owe(took_ns.saturating_sub(paid_ns));
        }
    }

    /// Charges a flow with additional cost of an earlier request.
    pub fn cost_more(&mut self, flow: Flow, more_ns: u64) {
        let more = self.weighed(flow, more_ns);
        self.lane_mut(flow).had += more;
    }

    fn moment(&self) -> Moment {
        let mut users = Flow::ALL.iter().filter(|flow| !flow.is_maintenance());
        match users.any(|flow| self.lane(*flow).is_active()) {
            true => Moment::InUse,
            false => Moment::Gap,
        }
    }

    /// Returns when waiting maintenance may continue if nothing else happens. `None`: nothing
    /// waits, or a request must be completed first.
    pub fn wakes_at(&self, now_ns: u64) -> Option<u64> {
        let maintenance = self.in_flight(Flow::is_maintenance);
        let has_room = maintenance < self.settings.maintenance_in_flight_max;
        let idle_at = self.idle_at().filter(|_| has_room);
        let stays_until = self.stays_until(now_ns);
        let shares = self.floors(now_ns);
        let lanes = Flow::ALL.iter().zip(&self.lanes).zip(shares);
        let waits = |flow: &Flow, lane: &Lane| flow.is_maintenance() && !lane.queue.is_empty();
        let waiting = lanes.filter(|((flow, lane), _)| waits(flow, lane));
        let moment = self.moment();
        let earned = |((_, lane), share): ((_, &Lane), u64)| {
            let ready_at = lane.floor.ready_at(share, moment);
            ready_at.filter(|_| maintenance == 0)
        };
        let idle = |((flow, lane), _): ((&Flow, &Lane), u64)| {
            let seeks_at = match lane.queue.is_in_order() {
                true => 0,
                false => self.seek_at(now_ns),
            };
            let stays_until = stays_until.filter(|(stays, _)| stays != flow);
            let others_at = stays_until.map_or(0, |(_, until)| until);
            idle_at.map(|at| at.max(seeks_at).max(others_at))
        };
        let times = waiting.map(|lane| [earned(lane), idle(lane)]);
        times.flatten().flatten().min()
    }

    /// Returns the number of waiting requests of a flow.
    pub fn waiting(&self, flow: Flow) -> usize {
        self.lane(flow).queue.len()
    }

    /// Returns the I/O floors of active maintenance, millionths. Their sum is at most
    /// `floors_percent_max`. Each task has its configured floor; deadlines share the rest, the one
    /// that needs the highest rate first (DINGO, OSDI'26).
    fn floors(&self, now_ns: u64) -> ByFlow<u64> {
        let is_active = |flow: Flow| flow.is_maintenance() && self.lane(flow).is_active();
        let mut shares = Flow::ALL.map(|flow| match is_active(flow) {
            true => self.settings.floor(flow),
            false => 0,
        });
        let mut urgent = Flow::ALL.map(|flow| match is_active(flow) {
            true => (self.needed(flow, now_ns), flow),
            false => (0, flow),
        });
        let most = u64::from(self.settings.floors_percent_max) * 10_000;
        let sum: u64 = shares.iter().sum();
        if sum > most {
            shares
                .iter_mut()
                .for_each(|share| *share = *share * most / sum);
        }
        let mut left = most.saturating_sub(sum);
        // Stable: the most important flow first if the rates are equal.
        urgent.sort_by_key(|(needed, _)| std::cmp::Reverse(*needed));
        for (needed, flow) in urgent {
            let share = &mut shares[flow as usize];
            let more = needed.saturating_sub(*share).min(left);
            *share += more;
            left -= more;
        }
        shares
    }

    /// Returns the flow that had least, of those that have waiting requests and satisfy `of`.
    fn least(&self, may: bool, of: impl Fn(Flow) -> bool) -> Option<Flow> {
        let flows = Flow::ALL.into_iter().filter(|_| may);
        let waiting = flows.filter(|flow| of(*flow) && !self.lane(*flow).queue.is_empty());
        waiting.min_by_key(|flow| self.lane(*flow).had)
    }

    /// Returns the flow whose deadline needs the highest rate, of those that have waiting requests
    /// and satisfy `of`. Without deadlines, the one that had least.
    fn most_urgent(&self, may: bool, now_ns: u64, of: impl Fn(Flow) -> bool) -> Option<Flow> {
        let needed = |flow: Flow| self.needed(flow, now_ns);
        let waits = |flow: &Flow| of(*flow) && !self.lane(*flow).queue.is_empty();
        let waiting = || Flow::ALL.into_iter().filter(|_| may).filter(waits);
        let highest = waiting().map(needed).max()?;
        self.least(may, |flow| of(flow) && needed(flow) == highest)
    }

    fn charge(&mut self, request: &DeviceRequest, grant: Grant) {
        let DeviceRequest { flow, .. } = *request;
        // A floor request runs beside users, so it moves the head.
        let stays = match grant {
            Grant::User => request.is_sequential,
            Grant::Idle { is_seek } => !is_seek,
            Grant::Floor => false,
        };
        let cost_ns = self.settings.costs.of(stays, request.bytes);
        let weighed = self.weighed(flow, cost_ns);
        let set = self.settings.floor(flow);
        let lane = self.lane_mut(flow);
        lane.in_flight += 1;
        let began_at = lane.had;
        lane.had += weighed;
        if flow.is_maintenance() {
            // A task that reads at random does not keep the head.
            self.maintained = Some(flow).filter(|_| request.is_sequential);
        }
        let lane = self.lane_mut(flow);
        match grant {
            Grant::Idle { .. } => {
                lane.floor.had_for_nothing(cost_ns, set);
                lane.floor_paid_ns = None;
                self.is_streaming = true;
            }
            Grant::Floor if flow.is_maintenance() => {
                lane.floor.spend(cost_ns);
                lane.floor_paid_ns = Some(cost_ns);
            }
            Grant::Floor | Grant::User => {}
        }
        let had = &mut self.had[usize::from(flow.is_maintenance())];
        *had = (*had).max(began_at);
    }

    fn weighed(&self, flow: Flow, cost_ns: u64) -> u128 {
        let (weight, of) = self.weight(flow);
        (u128::from(cost_ns) << FRACTION) * u128::from(of) / u128::from(weight.max(1))
    }

    /// Returns a flow's weight as a fraction. The weight of non-sequential client requests yields
    /// their share beside all other active users.
    fn weight(&self, flow: Flow) -> (u64, u64) {
        if flow != Flow::ForegroundNonSequential {
            return (self.settings.weight(flow), 1);
        }
        let others = Flow::ALL.iter().filter(|other| {
            let is_user = !other.is_maintenance() && **other != flow;
            is_user && self.lane(**other).is_active()
        });
        let sum: u64 = others.map(|other| self.settings.weight(*other)).sum();
        let percent = u64::from(self.settings.non_sequential_percent);
        (sum.max(1) * percent, 100 - percent)
    }

    fn in_flight(&self, of: impl Fn(Flow) -> bool) -> usize {
        let flows = Flow::ALL.into_iter().filter(|flow| of(*flow));
        flows.map(|flow| self.lane(flow).in_flight).sum()
    }

    fn lane(&self, flow: Flow) -> &Lane {
        &self.lanes[flow as usize]
    }

    fn lane_mut(&mut self, flow: Flow) -> &mut Lane {
        &mut self.lanes[flow as usize]
    }
}

#[cfg(test)]
mod tests;
