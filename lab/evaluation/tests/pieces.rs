//! Clients that read at random beside tasks that also write, on the model of a disk, in virtual
//! time: checks their latencies when containers are written at once, and when they are written in
//! pieces.

use evaluation::disk::{Disk, DiskModel, DiskRequest, MILLISECOND, Ns, SECOND};
use qos::{Direction, Flow, Scheduler, SchedulerSettings};
use std::collections::{BTreeMap, VecDeque};

const STEP_BYTES: u64 = 256 << 10;
const CONTAINER_BYTES: u64 = 16 << 20;
/// The largest request that the system makes of a file's pages.
const WRITE_BYTES: u64 = 1 << 20;
const TASKS: [Flow; 3] = [Flow::Replication, Flow::Scrub, Flow::Collect];
const RUN: Ns = 900 * SECOND;

/// How garbage collection writes a full container.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Containers {
    /// The system writes it as a whole when it is synced.
    AtOnce,
    /// Steps write it within their I/O grants.
    InPieces,
}

/// A request at the disk, and the scheduler's id and flow if it has one.
type Sent = (Option<(u64, Flow)>, DiskRequest);

struct World {
    scheduler: Scheduler,
    disk: Disk,
    seed: sim::Seed,
    how: Containers,
    now: Ns,
    id: u64,
    at_device: VecDeque<Sent>,
    /// By id: arrival of a client's request, or place of a step.
    came: BTreeMap<u64, Ns>,
    steps: BTreeMap<u64, DiskRequest>,
    /// Place of each task, and bytes that garbage collection has not written yet.
    places: [u64; TASKS.len()],
    filled: u64,
    to_write: u64,
    written: u64,
}

impl World {
    fn offer(&mut self, flow: Flow, bytes: u64) -> u64 {
        self.id += 1;
        let request = qos::DeviceRequest {
            id: self.id,
            flow,
            direction: Direction::Read,
            is_sequential: flow.is_maintenance(),
            bytes,
        };
        self.scheduler.offer(request).expect("room");
        self.id
    }

    /// Queues the next step of a task.
    fn ask(&mut self, task: Flow) {
        let id = self.offer(task, STEP_BYTES);
        let at = TASKS.iter().position(|flow| *flow == task).expect("a task");
        let is_write = task == Flow::Collect && self.to_write > 0;
        if is_write {
            self.to_write -= STEP_BYTES;
        }
        // Each task reads in its own quarter of the disk; writes go to the last quarter.
        let quarter = DiskModel::SERVER.capacity / 4;
        let place = match is_write {
            true => 3 * quarter + self.written,
            false => at as u64 * quarter + self.places[at],
        };
        match is_write {
            true => self.written += STEP_BYTES,
            false => self.places[at] += STEP_BYTES,
        }
        let request = DiskRequest {
            address: place,
            bytes: STEP_BYTES,
            is_write,
        };
        self.steps.insert(id, request);
    }

    /// Ends a step. Chunks that garbage collection has read fill a container.
    fn stepped(&mut self, task: Flow, was_write: bool) {
        if task == Flow::Collect && !was_write {
            self.filled += STEP_BYTES;
        }
        if self.filled < CONTAINER_BYTES {
            return self.ask(task);
        }
        self.filled = 0;
        match self.how {
            Containers::InPieces => self.to_write = CONTAINER_BYTES,
            Containers::AtOnce => {
                for _ in 0..CONTAINER_BYTES / WRITE_BYTES {
                    let request = DiskRequest {
                        address: 3 * (DiskModel::SERVER.capacity / 4) + self.written,
                        bytes: WRITE_BYTES,
                        is_write: true,
                    };
                    self.written += WRITE_BYTES;
                    self.at_device.push_back((None, request));
                }
            }
        }
        self.ask(task);
    }

    /// Sends every request to the device that the scheduler allows.
    fn send(&mut self) {
        while let Some((next, _)) = self.scheduler.next(self.now) {
            let request = self.steps.remove(&next.id).unwrap_or_else(|| DiskRequest {
                address: self.seed.below(DiskModel::SERVER.capacity / 4096) * 4096,
                bytes: next.bytes,
                is_write: false,
            });
            self.at_device
                .push_back((Some((next.id, next.flow)), request));
        }
    }
}

/// Returns the 99th percentile of clients' latencies, ms, the share of time of their reads,
/// percent, and the number of containers.
fn run(per_second: u64, tasks: &[Flow], how: Containers) -> (f64, u64, u64) {
    let mut world = World {
        scheduler: Scheduler::new(SchedulerSettings::DISK).expect("the default"),
        disk: Disk::new(DiskModel::SERVER),
        seed: sim::Seed::new(per_second),
        how,
        now: 0,
        id: 0,
        at_device: VecDeque::new(),
        came: BTreeMap::new(),
        steps: BTreeMap::new(),
        places: [0; TASKS.len()],
        filled: 0,
        to_write: 0,
        written: 0,
    };
    let mut arrivals = sim::Seed::new(7);
    let mut gap = move || {
        let share = (arrivals.below(1 << 30) + 1) as f64 / (1u64 << 30) as f64;
        (-share.ln() * SECOND as f64 / per_second as f64) as Ns
    };
    let (mut next_client, mut done_at) = (gap(), Ns::MAX);
    let (mut latencies, mut used) = (Vec::new(), 0);
    tasks.iter().for_each(|task| world.ask(*task));
    while world.now < RUN {
        world.send();
        if done_at == Ns::MAX
            && let Some((owner, request)) = world.at_device.front()
        {
            done_at = world.disk.serve(world.now, *request);
            let is_clients = owner.is_some_and(|(_, flow)| !flow.is_maintenance());
            used += if is_clients { done_at - world.now } else { 0 };
        }
        // A time in the past means waiting for the requests at the device.
        let wakes_at = world.scheduler.wakes_at(world.now);
        let wakes_at = wakes_at.filter(|at| *at > world.now).unwrap_or(Ns::MAX);
        world.now = done_at.min(next_client).min(wakes_at);
        if world.now == done_at {
            done_at = Ns::MAX;
            let Some((Some((id, flow)), request)) = world.at_device.pop_front() else {
                continue;
            };
            let came = world.came.remove(&id);
            let since = came.unwrap_or(world.now);
            world.scheduler.completed(flow, since, world.now);
            match came {
                Some(came) => latencies.push(world.now - came),
                None => world.stepped(flow, request.is_write),
            }
        } else if world.now == next_client {
            let id = world.offer(Flow::ForegroundNonSequential, 20 << 10);
            world.came.insert(id, world.now);
            next_client = world.now + gap();
        }
    }
    latencies.sort_unstable();
    let p99 = latencies[latencies.len() * 99 / 100] as f64 / MILLISECOND as f64;
    (p99, used * 100 / world.now, world.written / CONTAINER_BYTES)
}

/// The limit is 1.2. Here a step reads 256 KiB at once; real steps stop sooner.
#[test]
fn clients_hardly_notice_containers_that_are_written_in_pieces() {
    for per_second in [20, 42, 65, 85] {
        let (alone, used, _) = run(per_second, &[], Containers::InPieces);
        let (pieces, _, written) = run(per_second, &TASKS, Containers::InPieces);
        let (at_once, _, written_at_once) = run(per_second, &TASKS, Containers::AtOnce);
        println!(
            "{per_second} a second use {used} %: p99 alone {alone:.1} ms, in pieces {pieces:.1} ({written} containers), \
             at once {at_once:.1} ({written_at_once})"
        );
        assert!(used <= 62, "{used} %");
        assert!(written > 0 && written_at_once > 0);
        assert!(
            pieces <= alone * 1.2,
            "{used} % used: {pieces:.1} ms, alone {alone:.1} ms"
        );
    }
    // Shows why containers are written in pieces.
    let (alone, ..) = run(20, &[], Containers::InPieces);
    let (at_once, ..) = run(20, &TASKS, Containers::AtOnce);
    assert!(
        at_once > alone * 1.3,
        "{at_once:.1} ms at once, alone {alone:.1} ms"
    );
}
