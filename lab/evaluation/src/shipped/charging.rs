//! The real scheduler in front of the modelled disk, in virtual time.
//!
//! The world calls this.
//! Invariant: the disk serves requests in the order in which the scheduler hands them out. Each
//! request that was handed out is completed once.

use crate::disk::{BLOCK_BYTES, Disk, DiskModel, DiskRequest, Ns, SECOND};
use qos::{Direction, Flow, Grant, Scheduler, SchedulerSettings};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// The owner of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestOwner {
    /// An operation of the web server, by number.
    User(u64),
    /// A task, by number.
    Task(usize),
}

/// A request at the disk.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Its owner.
    pub owner: RequestOwner,
    request: DiskRequest,
    /// When it entered the scheduler; `None`: it passed the scheduler.
    entered: Option<Ns>,
    began: Ns,
}

/// The scheduler and the disk. See the module's head.
pub struct Device {
    /// The real scheduler.
    pub scheduler: Scheduler,
    disk: Disk,
    ids: u64,
    /// Requests in the scheduler, by id.
    offered: BTreeMap<u64, (RequestOwner, DiskRequest, Ns)>,
    at_device: VecDeque<Sent>,
    in_flight: Option<(Ns, Sent)>,
    /// Bytes that have passed under the head since it last moved.
    passed: Range<u64>,
    /// Size of the drive's memory, bytes, and of what it reads to skip a gap.
    segment: u64,
    command: Ns,
    bus_rate: u64,
    /// Disk time of users' requests.
    pub users_busy: Ns,
}

/// Longest gap that the drive reads over, bytes.
const SKIPPED_BYTES: u64 = 128 << 10;
/// Flow of the web server: it picks files at random.
const USERS: Flow = Flow::ForegroundNonSequential;

impl Device {
    #[allow(clippy::expect_used)]
    pub fn new(model: DiskModel) -> Self {
        Self {
            scheduler: Scheduler::new(SchedulerSettings::DISK).expect("the default is checked"),
            disk: Disk::new(model),
            ids: 0,
            offered: BTreeMap::new(),
            at_device: VecDeque::new(),
            in_flight: None,
            passed: 0..0,
            segment: model.segment,
            command: model.command,
            bus_rate: model.bus_rate,
            users_busy: 0,
        }
    }

    /// Queues a request of a user.
    pub fn offer(&mut self, op: u64, request: DiskRequest, is_sequential: bool, now: Ns) {
        self.ids += 1;
        let direction = match request.is_write {
            true => Direction::Write,
            false => Direction::Read,
        };
        let offered = self.scheduler.offer(qos::DeviceRequest {
            id: self.ids,
            flow: USERS,
            direction,
            is_sequential,
            bytes: request.bytes,
        });
        match offered {
            Ok(()) => drop(
                self.offered
                    .insert(self.ids, (RequestOwner::User(op), request, now)),
            ),
            // The real queue lets it pass too.
            Err(_) => self.pass(RequestOwner::User(op), request),
        }
    }

    /// Asks for a grant for a task. Returns the request's id.
    pub fn ask(
        &mut self,
        nth: usize,
        (flow, bytes): (Flow, u64),
        is_sequential: bool,
        now: Ns,
    ) -> u64 {
        self.ids += 1;
        // Tasks are few: there is room.
        let _ = self.scheduler.offer(qos::DeviceRequest {
            id: self.ids,
            flow,
            direction: Direction::Read,
            is_sequential,
            bytes,
        });
        let nothing = DiskRequest {
            address: 0,
            bytes: 0,
            is_write: false,
        };
        self.offered
            .insert(self.ids, (RequestOwner::Task(nth), nothing, now));
        self.ids
    }

    /// Withdraws a task's request for a grant.
    pub fn withdraw(&mut self, flow: Flow, id: u64) {
        if self.offered.remove(&id).is_some() {
            self.scheduler.withdraw(flow, id);
        }
    }

    /// Takes a task's grant without waiting longer. Returns false if it has it already.
    pub fn force(&mut self, flow: Flow, id: u64) -> bool {
        self.offered.remove(&id).is_some() && self.scheduler.hand_out(flow, id)
    }

    /// Sends a request to the disk that the scheduler has granted, or does not see.
    pub fn pass(&mut self, owner: RequestOwner, request: DiskRequest) {
        self.at_device.push_back(Sent {
            owner,
            request,
            entered: None,
            began: 0,
        });
    }

    /// Sends users' requests to the disk, as the scheduler hands them out. Returns the first task
    /// that is granted, if any.
    pub fn hand_out(&mut self, now: Ns) -> Option<(usize, Grant)> {
        while let Some((request, grant)) = self.scheduler.next(now) {
            let Some((owner, request, entered)) = self.offered.remove(&request.id) else {
                continue;
            };
            match owner {
                RequestOwner::Task(nth) => return Some((nth, grant)),
                RequestOwner::User(_) => self.at_device.push_back(Sent {
                    owner,
                    request,
                    entered: Some(entered),
                    began: 0,
                }),
            }
        }
        None
    }

    /// Starts the next request if the disk is free.
    pub fn start(&mut self, now: Ns) {
        if self.in_flight.is_none()
            && let Some(mut sent) = self.at_device.pop_front()
        {
            sent.began = now;
            self.in_flight = Some((self.serve(now, sent.request), sent));
        }
    }

    /// Returns when the disk has served a request. Containers are read in places that are near each
    /// other, forwards and backwards: the drive has what has just passed under its head, and waits
    /// for what comes soon.
    fn serve(&mut self, now: Ns, request: DiskRequest) -> Ns {
        let DiskRequest { address, bytes, .. } = request;
        let end = address + bytes;
        let Range { start, end: head } = self.passed;
        let kept = start.max(head.saturating_sub(self.segment));
        if !request.is_write && kept <= address && end <= head {
            let bus = u128::from(bytes) * u128::from(SECOND) / u128::from(self.bus_rate);
            return now + self.command + bus as Ns;
        }
        let soon = head.saturating_sub(BLOCK_BYTES)..=head + SKIPPED_BYTES;
        let is_soon = !request.is_write && soon.contains(&address) && end > head;
        let (from, start) = match is_soon {
            true => (head, start),
            false => (address, address),
        };
        self.passed = match request.is_write {
            true => end..end,
            false => start..end,
        };
        let whole = DiskRequest {
            address: from,
            bytes: end - from,
            ..request
        };
        self.disk.serve(now, whole)
    }

    /// Completes the request whose time is over.
    pub fn complete(&mut self, now: Ns) -> Option<(RequestOwner, DiskRequest)> {
        let (_, sent) = self.in_flight.take_if(|(end, _)| *end <= now)?;
        if let RequestOwner::User(_) = sent.owner {
            self.users_busy += now - sent.began;
            match sent.entered {
                Some(entered) => self.scheduler.completed(USERS, entered, now),
                None => self.scheduler.saw_user(now),
            }
        }
        Some((sent.owner, sent.request))
    }

    /// Returns when something happens here next, after `now`.
    pub fn next_event(&self, now: Ns) -> Option<Ns> {
        let end = self.in_flight.map(|(end, _)| end);
        let wakes = self.scheduler.wakes_at(now).filter(|at| *at > now);
        end.into_iter().chain(wakes).min()
    }
}
