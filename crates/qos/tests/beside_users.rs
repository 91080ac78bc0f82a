//! Maintenance beside clients that read at random from a disk, in virtual time: checks clients'
//! latencies and how much of the disk's idle time maintenance uses.

use qos::{DeviceRequest, Direction, Flow, Grant, Scheduler, SchedulerSettings};
use std::collections::{BTreeMap, VecDeque};

const MS: u64 = 1_000_000;
const STEP_BYTES: u64 = 256 << 10;
const PIECE_BYTES: u64 = 64 << 10;
/// 64 KiB at 120 MB/s.
const PIECE_NS: u64 = 546_000;
/// Time in which a task verifies data between two steps.
const THINK_NS: u64 = 300_000;
const RUN_NS: u64 = 1_200_000 * MS;

/// Access pattern of a task.
#[derive(Clone, Copy, PartialEq)]
enum Reads {
    /// One container after another.
    InOrder,
    /// At random places: the head moves for each piece.
    Scattered,
}

const ALL: [(Flow, Reads); 4] = [
    (Flow::Replication, Reads::InOrder),
    (Flow::Scrub, Reads::InOrder),
    (Flow::Collect, Reads::Scattered),
    (Flow::Defragment, Reads::Scattered),
];
const SCRUB: [(Flow, Reads); 1] = [(Flow::Scrub, Reads::InOrder)];

/// How clients arrive.
#[derive(Clone, Copy, Debug)]
enum Arrivals {
    /// At random times.
    Poisson,
    /// In bursts of half a second with three times the mean rate, or as many as the disk can serve.
    Bursts,
}

struct Numbers(u64);

impl Numbers {
    /// Returns a number from 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean_ns: f64) -> u64 {
        (-(1.0 - self.next()).ln() * mean_ns) as u64
    }
}

/// Arrival times of clients.
struct Clients {
    numbers: Numbers,
    arrivals: Arrivals,
    mean_ns: f64,
    /// Factor by which the rate rises in bursts.
    denser: f64,
    burst_ends: u64,
}

impl Clients {
    /// Returns the next arrival after `now`.
    fn next(&mut self, now: u64) -> u64 {
        const BURST_NS: f64 = 500.0 * MS as f64;
        if let Arrivals::Poisson = self.arrivals {
            return now + self.numbers.exponential(self.mean_ns);
        }
        let next = now + self.numbers.exponential(self.mean_ns / self.denser);
        if next < self.burst_ends {
            return next;
        }
        let pause_ns = BURST_NS * (self.denser - 1.0);
        let begins = self.burst_ends + self.numbers.exponential(pause_ns);
        self.burst_ends = begins + self.numbers.exponential(BURST_NS);
        begins
    }
}

/// Result of a run of twenty minutes.
struct Outcome {
    p99_ms: f64,
    /// Time that the disk worked for clients, percent of all time.
    used: f64,
    /// Time that it read in order for tasks, percent of the time not used for clients.
    streamed: f64,
    /// All time that it worked for tasks, percent of the time not used for clients.
    worked: f64,
    grace_ms: f64,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            p99_ms,
            used,
            streamed,
            worked,
            grace_ms,
        } = self;
        write!(
            f,
            "p99 {p99_ms:.1} ms, clients use {used:.0} %, idle time: {streamed:.0} % read in order, \
             {worked:.0} % worked, starts after {grace_ms:.1} ms"
        )
    }
}

/// A step, or a client's request, in the order in which the disk serves them.
struct Served {
    request: DeviceRequest,
    grant: Grant,
    granted_at: u64,
    left_bytes: u64,
}

struct World {
    scheduler: Scheduler,
    reads: BTreeMap<Flow, Reads>,
    seeks: Numbers,
    now: u64,
    id: u64,
    came: BTreeMap<u64, u64>,
    at_device: VecDeque<Served>,
    /// When the disk finishes the current piece.
    done_at: Option<u64>,
    began_at: u64,
    head_of: Option<Flow>,
    /// When each task finishes verifying.
    thinking: BTreeMap<Flow, u64>,
    latencies: Vec<u64>,
    clients_ns: u64,
    streamed_ns: u64,
    worked_ns: u64,
}

impl World {
    fn offer(&mut self, flow: Flow, bytes: u64) {
        self.id += 1;
        let request = DeviceRequest {
            id: self.id,
            flow,
            direction: Direction::Read,
            is_sequential: self.reads.get(&flow) == Some(&Reads::InOrder),
            bytes,
        };
        self.came.insert(self.id, self.now);
        self.scheduler.offer(request).expect("room");
    }

    fn step_bytes(&self, flow: Flow) -> u64 {
        match self.reads.get(&flow) {
            Some(Reads::Scattered) => PIECE_BYTES,
            _ => STEP_BYTES,
        }
    }

    /// Starts a piece of the first request at the disk.
    fn begin(&mut self) {
        while let Some((request, grant)) = self.scheduler.next(self.now) {
            self.at_device.push_back(Served {
                request,
                grant,
                granted_at: self.now,
                left_bytes: request.bytes,
            });
        }
        let Some(first) = self.at_device.front().filter(|_| self.done_at.is_none()) else {
            return;
        };
        let flow = first.request.flow;
        let reads = self.reads.get(&flow);
        let goes_on = self.head_of == Some(flow) && reads == Some(&Reads::InOrder);
        let seek = match goes_on {
            true => 0,
            false => ((4.0 + 8.0 * self.seeks.next()) * MS as f64) as u64,
        };
        self.head_of = Some(flow);
        let transfer = PIECE_NS * first.left_bytes.min(PIECE_BYTES) / PIECE_BYTES;
        self.began_at = self.now;
        self.done_at = Some(self.now + seek + transfer);
        match reads {
            None => self.clients_ns += seek + transfer,
            Some(reads) => {
                self.worked_ns += seek + transfer;
                if *reads == Reads::InOrder {
                    self.streamed_ns += transfer;
                }
            }
        }
    }

    /// Finishes a piece.
    fn end(&mut self) {
        self.done_at = None;
        let first = self.at_device.front_mut().expect("it was served");
        first.left_bytes = first.left_bytes.saturating_sub(PIECE_BYTES);
        let DeviceRequest { flow, id, .. } = first.request;
        if let Grant::Idle { is_seek } = first.grant {
            let took = self.now - self.began_at;
            let now = self.now;
            self.scheduler.piece_took(flow, Some(is_seek), took, now);
            first.grant = Grant::Idle { is_seek: false };
        }
        if first.left_bytes > 0 {
            let goes_on = match first.grant {
                Grant::Idle { .. } => {
                    self.scheduler
                        .go_on(flow, true, PIECE_BYTES, (first.granted_at, self.now))
                }
                Grant::Floor | Grant::User => true,
            };
            if goes_on {
                return;
            }
        }
        let done = self.at_device.pop_front().expect("it was served");
        let came = self.came.remove(&id).expect("once");
        self.scheduler.completed(flow, came, self.now);
        if !flow.is_maintenance() {
            self.latencies.push(self.now - came);
        } else if done.left_bytes > 0 {
            self.offer(flow, done.left_bytes);
        } else {
            self.thinking.insert(flow, self.now + THINK_NS);
        }
    }

    fn run(&mut self, mut clients: Clients) {
        let mut next_client = clients.next(0);
        while self.now < RUN_NS {
            self.begin();
            let thinks = self.thinking.values().min().copied();
            // A time in the past means waiting for the requests at the device.
            let wakes_at = self
                .scheduler
                .wakes_at(self.now)
                .filter(|at| *at > self.now);
            let times = [self.done_at, Some(next_client), thinks, wakes_at];
            self.now = times.into_iter().flatten().min().expect("a client comes");
            if self.done_at == Some(self.now) {
                self.end();
            } else if self.now == next_client {
                self.offer(Flow::ForegroundNonSequential, 4096);
                next_client = clients.next(self.now);
            } else if thinks == Some(self.now) {
                let ready = |(flow, at): (&Flow, &u64)| (*at == self.now).then_some(*flow);
                let flow = self.thinking.iter().find_map(ready).expect("one is");
                self.thinking.remove(&flow);
                self.offer(flow, self.step_bytes(flow));
            }
        }
    }
}

/// A disk that serves one request at a time: 4 to 12 ms if the head moves, plus the bytes.
fn run(used_percent: u64, arrivals: Arrivals, tasks: &[(Flow, Reads)]) -> Outcome {
    let mut world = World {
        scheduler: Scheduler::new(SchedulerSettings::DISK).expect("the default"),
        reads: tasks.iter().copied().collect(),
        seeks: Numbers(7),
        now: 0,
        id: 0,
        came: BTreeMap::new(),
        at_device: VecDeque::new(),
        done_at: None,
        began_at: 0,
        head_of: None,
        thinking: tasks.iter().map(|(flow, _)| (*flow, 1)).collect(),
        latencies: Vec::new(),
        clients_ns: 0,
        streamed_ns: 0,
        worked_ns: 0,
    };
    world.run(Clients {
        numbers: Numbers(used_percent),
        arrivals,
        mean_ns: 803.0 / used_percent as f64 * MS as f64,
        denser: (80.0 / used_percent as f64).min(3.0),
        burst_ends: 0,
    });
    world.latencies.sort_unstable();
    let latencies = &world.latencies;
    let idle = (world.now - world.clients_ns) as f64;
    Outcome {
        p99_ms: latencies[latencies.len() * 99 / 100] as f64 / MS as f64,
        used: world.clients_ns as f64 / world.now as f64 * 100.0,
        streamed: world.streamed_ns as f64 / idle * 100.0,
        worked: world.worked_ns as f64 / idle * 100.0,
        grace_ms: world.scheduler.grace_ns() as f64 / MS as f64,
    }
}

/// The requirement: maintenance raises the 99th percentile of clients by a factor of at most 1.2. A
/// scrub in order uses half of the idle time if clients use a quarter of the disk, and 30 % if they
/// use half.
#[test]
fn idle_time_is_used_and_clients_hardly_notice() {
    for arrivals in [Arrivals::Poisson, Arrivals::Bursts] {
        for (used, streamed_least) in [(10, 60.0), (25, 50.0), (50, 30.0), (65, 10.0)] {
            let alone = run(used, arrivals, &[]);
            println!("{arrivals:?}, {used} %: alone {alone}");
            assert!((alone.used - used as f64).abs() < 3.0, "{alone}");
            for tasks in [&SCRUB[..], &ALL[..]] {
                let beside = run(used, arrivals, tasks);
                let ratio = beside.p99_ms / alone.p99_ms;
                println!("    {} tasks: {ratio:.2}, {beside}", tasks.len());
                assert!(
                    ratio <= 1.2,
                    "{arrivals:?}, {used} %: {alone}, beside {beside}"
                );
                let used_for_tasks = match tasks.len() {
                    1 => beside.streamed,
                    _ => beside.worked,
                };
                assert!(
                    used_for_tasks >= streamed_least,
                    "{arrivals:?}, {used} %: {beside}"
                );
            }
        }
    }
}

#[test]
fn maintenance_has_what_no_user_needs() {
    let calm = run(2, Arrivals::Poisson, &SCRUB);
    assert!(calm.streamed > 70.0, "{calm}");
}
