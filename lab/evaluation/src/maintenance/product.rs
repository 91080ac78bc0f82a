//! The product's scheduler (`crates/qos`) in front of the modelled disk.
//!
//! A task asks for an I/O grant for a file. With the grant it reads chunk after chunk. In idle time
//! it continues, also with the next file, until the web server has a request. The product's tasks
//! do the same.
//!
//! The world calls this.
//! Invariant: each grant is completed once.

use super::settings::{CHUNK_BYTES, FILE_BYTES, Kind};
use super::web::Asked;
use crate::disk::{DiskRequest, Ns};
use qos::{Deadline, Direction, Flow, Grant, Scheduler, SchedulerSettings};
use std::collections::{BTreeMap, VecDeque};

/// The request that the disk serves next.
pub(super) enum Due {
    /// A request of the web server.
    Web(Asked),
    /// The next chunk of this task.
    Task(usize),
}

/// A task's I/O grant.
struct TaskGrant {
    id: u64,
    nth: usize,
    grant: Grant,
    since: Ns,
    paid_bytes: u64,
    began: (Ns, bool),
}

#[derive(Default)]
struct Place {
    flow: Option<Flow>,
    /// Where its last request ended.
    end: u64,
    is_in_order: bool,
    has_asked: bool,
}

/// The scheduler and its requests. See the module's head.
pub(super) struct Product {
    scheduler: Scheduler,
    ids: u64,
    web: BTreeMap<u64, Asked>,
    /// Task of each request, by id.
    asked: BTreeMap<u64, usize>,
    places: BTreeMap<usize, Place>,
    /// Requests that were handed out, in order.
    at_device: VecDeque<(u64, Grant, Ns)>,
    turn: Option<TaskGrant>,
    /// Of each task so far: time of its grants, and bytes.
    had: BTreeMap<usize, (Ns, u64)>,
}

fn flow_of(kind: Kind) -> Flow {
    match kind {
        Kind::Backup | Kind::HostBackup => Flow::Replication,
        Kind::Scrub => Flow::Scrub,
        Kind::Defragment => Flow::Defragment,
        Kind::Collect => Flow::Collect,
    }
}

impl Product {
    #[allow(clippy::expect_used)]
    pub fn new() -> Self {
        Self {
            scheduler: Scheduler::new(SchedulerSettings::DISK).expect("the default is checked"),
            ids: 0,
            web: BTreeMap::new(),
            asked: BTreeMap::new(),
            places: BTreeMap::new(),
            at_device: VecDeque::new(),
            turn: None,
            had: BTreeMap::new(),
        }
    }

    /// Sets a task's deadline, as the `device` crate does.
    pub fn finish_by(&mut self, nth: usize, kind: Kind, bytes: u64, at_ns: Ns) {
        let (had_ns, had_bytes) = self.had.get(&nth).copied().unwrap_or_default();
        let seen_ns = u128::from(bytes) * u128::from(had_ns) / u128::from(had_bytes.max(1));
        let work_ns = SchedulerSettings::DISK
            .costs
            .of(true, bytes)
            .max(seen_ns as u64);
        let deadline = Deadline { work_ns, at_ns };
        self.scheduler.set_deadline(flow_of(kind), Some(deadline));
    }

    fn offer(&mut self, flow: Flow, bytes: u64, is_sequential: bool, direction: Direction) -> u64 {
        self.ids += 1;
        let request = qos::DeviceRequest {
            id: self.ids,
            flow,
            direction,
            is_sequential,
            bytes,
        };
        // Queues are longer than this experiment needs.
        let _ = self.scheduler.offer(request);
        self.ids
    }

    pub fn has_web(&self) -> bool {
        !self.web.is_empty()
    }

    /// Queues a request of the web server.
    pub fn ask(&mut self, asked: Asked) {
        let direction = match asked.request.is_write {
            true => Direction::Write,
            false => Direction::Read,
        };
        let flow = Flow::ForegroundNonSequential;
        let id = self.offer(flow, asked.request.bytes, false, direction);
        self.web.insert(id, asked);
    }

    /// Asks for a grant for a task, unless it has one or waits for one.
    pub fn wish(&mut self, nth: usize, kind: Kind) {
        let place = self.places.entry(nth).or_default();
        if place.has_asked {
            return;
        }
        place.has_asked = true;
        place.flow = Some(flow_of(kind));
        let is_in_order = place.is_in_order;
        let id = self.offer(flow_of(kind), FILE_BYTES, is_in_order, Direction::Read);
        self.asked.insert(id, nth);
    }

    /// Returns what the disk serves next, if anything may be served.
    pub fn next(&mut self, now: Ns) -> Option<Due> {
        if let Some(turn) = &self.turn {
            return Some(Due::Task(turn.nth));
        }
        while let Some((request, grant)) = self.scheduler.next(now) {
            self.at_device.push_back((request.id, grant, now));
        }
        let (id, grant, since) = self.at_device.pop_front()?;
        if let Some(asked) = self.web.remove(&id) {
            return Some(Due::Web(asked));
        }
        let nth = self.asked.remove(&id)?;
        self.turn = Some(TaskGrant {
            id,
            nth,
            grant,
            since,
            paid_bytes: FILE_BYTES,
            began: (now, grant == Grant::Idle { is_seek: true }),
        });
        Some(Due::Task(nth))
    }

    pub fn wakes_at(&self, now: Ns) -> Option<Ns> {
        self.scheduler.wakes_at(now).filter(|at| *at > now)
    }

    pub fn web_done(&mut self, since: Ns, now: Ns) {
        let flow = Flow::ForegroundNonSequential;
        self.scheduler.completed(flow, since, now);
    }

    /// Records the first or next chunk of the task that has the grant.
    pub fn begins(&mut self, nth: usize, request: DiskRequest, now: Ns) {
        let place = self.places.entry(nth).or_default();
        place.is_in_order = place.end == request.address;
        place.end = request.address + request.bytes;
        let is_in_order = place.is_in_order;
        if let Some(turn) = &mut self.turn {
            turn.began = (
                now,
                !is_in_order || turn.grant == (Grant::Idle { is_seek: true }),
            );
            if let Grant::Idle { is_seek } = &mut turn.grant {
                *is_seek = false;
            }
        }
    }

    /// Records that a chunk is done. `next` is the task's next request, if it is known.
    pub fn piece_done(
        &mut self,
        nth: usize,
        request: DiskRequest,
        next: Option<DiskRequest>,
        now: Ns,
    ) {
        let (Some(turn), Some(place)) = (&mut self.turn, self.places.get(&nth)) else {
            return;
        };
        let Some(flow) = place.flow else { return };
        let (began, is_seek) = turn.began;
        self.had.entry(nth).or_default().1 += request.bytes;
        let idle_time = matches!(turn.grant, Grant::Idle { .. }).then_some(is_seek);
        self.scheduler.piece_took(flow, idle_time, now - began, now);
        turn.paid_bytes = turn.paid_bytes.saturating_sub(request.bytes);
        let is_contiguous = next.is_none_or(|next| next.address == place.end);
        let goes_on = match turn.grant {
            Grant::Idle { .. } => {
                let times = (turn.since, now);
                self.scheduler
                    .go_on(flow, is_contiguous, CHUNK_BYTES, times)
            }
            Grant::Floor | Grant::User => turn.paid_bytes > 0,
        };
        // The task computes between two files, and asks again.
        if !goes_on || next.is_none() {
            self.leaves(nth, now);
        }
    }

    /// Ends the task's grant.
    pub fn leaves(&mut self, nth: usize, now: Ns) {
        let Some(turn) = self.turn.take_if(|turn| turn.nth == nth) else {
            return;
        };
        debug_assert!(turn.id > 0, "it was handed out");
        let took_ns = now - turn.since;
        self.had.entry(nth).or_default().0 += took_ns;
        if let Some(place) = self.places.get_mut(&nth) {
            place.has_asked = false;
            if let Some(flow) = place.flow {
                self.scheduler.completed(flow, turn.since, now);
            }
        }
    }
}
