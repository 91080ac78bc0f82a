//! Four maintenance tasks beside clients that read at random from a disk, in virtual time: what their
//! latencies become, and what maintenance gets.

use qos::{Direction, Flow, Request, Scheduler, Settings};
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;
const STEP_BYTES: u64 = 256 << 10;
const TASKS: [Flow; 4] = [
    Flow::Replication,
    Flow::Scrub,
    Flow::Collect,
    Flow::Defragment,
];

struct Numbers(u64);

impl Numbers {
    /// From 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// What a run of ten minutes gave.
struct Outcome {
    p99_ms: f64,
    /// Steps of all tasks.
    steps: u64,
    /// Of the time, what the device worked for clients, percent.
    used_percent: u64,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            p99_ms,
            steps,
            used_percent,
        } = self;
        write!(
            f,
            "p99 {p99_ms:.1} ms, {steps} steps, clients use {used_percent} %"
        )
    }
}

/// A disk that serves one request at a time: 4 to 12 ms where the head has to move, and the bytes.
fn run(used_percent: u64, tasks: &[Flow]) -> Outcome {
    let mut scheduler = Scheduler::new(Settings::DISK).expect("the default");
    let (mut arrivals, mut seeks) = (Numbers(used_percent), Numbers(7));
    let mut arrive = || (-arrivals.next().ln() * 800.0 / used_percent as f64 * MS as f64) as u64;
    let (mut now, mut next_user, mut id) = (0, arrive(), 0);
    let mut came = BTreeMap::new();
    // What is at the device, in order, and when the first of it is done.
    let mut at_device: std::collections::VecDeque<Request> = Default::default();
    let mut done_at = u64::MAX;
    let mut head_of = None;
    let (mut latencies, mut steps, mut busy) = (Vec::new(), 0, 0);
    let request = |id, flow, bytes| Request {
        id,
        flow,
        direction: Direction::Read,
        is_sequential: false,
        bytes,
    };
    for task in tasks {
        id += 1;
        scheduler
            .offer(request(id, *task, STEP_BYTES), now)
            .expect("room");
    }
    while now < 600_000 * MS {
        while let Some(next) = scheduler.next(now) {
            at_device.push_back(next);
        }
        if done_at == u64::MAX
            && let Some(first) = at_device.front()
        {
            // A task goes on where it was, unless somebody moved the head.
            let goes_on = first.flow.is_maintenance() && head_of == Some(first.flow);
            let seek = match goes_on {
                true => 0,
                false => ((4.0 + 8.0 * seeks.next()) * MS as f64) as u64,
            };
            head_of = Some(first.flow);
            let took = seek + first.bytes * 5 / 1024 * 1000;
            busy += if first.flow.is_maintenance() { 0 } else { took };
            done_at = now + took;
        }
        // In the past: it waits for what is at the device.
        let wakes_at = scheduler.wakes_at(now).filter(|at| *at > now);
        now = done_at.min(next_user).min(wakes_at.unwrap_or(u64::MAX));
        if now == done_at {
            done_at = u64::MAX;
            let done = at_device.pop_front().expect("something is");
            scheduler.completed(done.flow, now);
            if done.flow.is_maintenance() {
                steps += 1;
                id += 1;
                scheduler
                    .offer(request(id, done.flow, STEP_BYTES), now)
                    .expect("room");
            } else {
                latencies.push(now - came.remove(&done.id).expect("once"));
            }
        } else if now == next_user {
            id += 1;
            came.insert(id, now);
            let read = request(id, Flow::ForegroundNonSequential, 4096);
            scheduler.offer(read, now).expect("room");
            next_user = now + arrive();
        }
    }
    latencies.sort_unstable();
    Outcome {
        p99_ms: latencies[latencies.len() * 99 / 100] as f64 / MS as f64,
        steps,
        used_percent: busy / (now / 100),
    }
}

/// The bar is 1.2. Floors that do not look for gaps between users' requests are at 1.15 and 1.17.
#[test]
fn clients_hardly_notice_maintenance() {
    for used in [20, 40, 60] {
        let (alone, beside) = (run(used, &[]), run(used, &TASKS));
        println!("{used} %: alone {alone}, beside {beside}");
        assert!(
            (used - 3..=used + 3).contains(&alone.used_percent),
            "{alone}"
        );
        assert!(
            beside.p99_ms <= alone.p99_ms * 1.12,
            "{used} %: {alone}, beside maintenance {beside}"
        );
        // 5 % of the time at least, in steps of 9 ms.
        assert!(beside.steps > 600_000 * 4 / 100 / 9, "{beside}");
    }
}

#[test]
fn maintenance_has_what_nobody_uses() {
    let calm = run(2, &TASKS);
    assert!(calm.steps > 600_000 * 6 / 10 / 9, "{calm}");
}
