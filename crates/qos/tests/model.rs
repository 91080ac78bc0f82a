//! Random loads, devices and settings: every request is handed out once, reads and writes keep
//! their order, limits hold, and a waiting request has either a full device or a time to ask again.

use qos::{
    Deadline, DeviceCosts, DeviceRequest, Direction, Flow, GraceLimits, Scheduler,
    SchedulerSettings,
};
use std::collections::{BTreeMap, VecDeque};

const MS: u64 = 1_000_000;

struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

fn settings(numbers: &mut Numbers) -> SchedulerSettings {
    let in_flight_max = 1 + numbers.below(9) as usize;
    SchedulerSettings {
        non_sequential_percent: 1 + numbers.below(99) as u8,
        weights: Flow::ALL.map(|_| 1 + numbers.below(9) as u16),
        floors_permille: Flow::ALL.map(|_| numbers.below(60) as u16),
        floors_percent_max: 1 + numbers.below(90) as u8,
        grace: GraceLimits::fixed(numbers.below(30) * MS),
        in_flight_max,
        maintenance_in_flight_max: 1 + numbers.below(4) as usize,
        waiting_max: 5 + numbers.below(40) as usize,
        costs: match numbers.below(2) {
            0 => DeviceCosts::DISK,
            _ => DeviceCosts::SSD,
        },
    }
}

/// Waiting requests by flow and direction, and requests at the device.
#[derive(Default)]
struct Model {
    waiting: BTreeMap<(Flow, bool), VecDeque<u64>>,
    at_device: Vec<DeviceRequest>,
    offered: u64,
    handed_out: u64,
}

impl Model {
    fn waits(&self, of: impl Fn(Flow) -> bool) -> usize {
        let queues = self.waiting.iter().filter(|((flow, _), _)| of(*flow));
        queues.map(|(_, queue)| queue.len()).sum()
    }

    fn maintenance_at_device(&self) -> usize {
        let flows = self.at_device.iter().map(|r| r.flow);
        flows.filter(|flow| flow.is_maintenance()).count()
    }

    fn offer(
        &mut self,
        scheduler: &mut Scheduler,
        numbers: &mut Numbers,
        limits: &SchedulerSettings,
    ) {
        self.offered += 1;
        let flow = Flow::ALL[numbers.below(8) as usize];
        let is_read = numbers.below(3) > 0;
        let request = DeviceRequest {
            id: self.offered,
            flow,
            direction: if is_read {
                Direction::Read
            } else {
                Direction::Write
            },
            is_sequential: numbers.below(2) == 0,
            bytes: numbers.below(1 << 20),
        };
        let is_full = self.waits(|f| f == flow) >= limits.waiting_max;
        assert_eq!(scheduler.offer(request).is_err(), is_full);
        if is_full {
            self.offered -= 1;
        } else {
            let queue = self.waiting.entry((flow, is_read)).or_default();
            queue.push_back(request.id);
        }
    }

    fn hand_out(&mut self, scheduler: &mut Scheduler, limits: &SchedulerSettings, now: u64) {
        let was_idle = scheduler.is_idle(now);
        while let Some((request, _)) = scheduler.next(now) {
            let key = (request.flow, request.direction == Direction::Read);
            let queue = self.waiting.entry(key).or_default();
            assert_eq!(queue.pop_front(), Some(request.id), "in order, once");
            self.handed_out += 1;
            self.at_device.push(request);
            assert!(self.at_device.len() <= limits.in_flight_max);
            if request.flow.is_maintenance() {
                let max = match was_idle {
                    true => limits.maintenance_in_flight_max,
                    false => 1,
                };
                assert!(self.maintenance_at_device() <= max, "idle: {was_idle}");
            }
        }
        if self.at_device.len() < limits.in_flight_max {
            assert_eq!(
                self.waits(|f| !f.is_maintenance()),
                0,
                "users wait for nothing"
            );
        }
    }
}

#[test]
fn every_request_goes_once_and_none_waits_for_ever() {
    for seed in 0..60 {
        let mut numbers = Numbers(seed);
        let limits = settings(&mut numbers);
        let mut scheduler = Scheduler::new(limits).expect("within ranges");
        let (mut model, mut now) = (Model::default(), 0);
        for _ in 0..1500 {
            match numbers.below(10) {
                0..4 => model.offer(&mut scheduler, &mut numbers, &limits),
                4..8 if !model.at_device.is_empty() => {
                    let nth = numbers.below(model.at_device.len() as u64) as usize;
                    let request = model.at_device.swap_remove(nth);
                    now += limits.costs.of(request.is_sequential, request.bytes);
                    scheduler.completed(request.flow, now, now);
                }
                8 if numbers.below(20) == 0 => {
                    let (work_ns, at_ns) = (numbers.below(1000) * MS, now + 1000 * MS);
                    let deadline = Deadline { work_ns, at_ns };
                    scheduler.set_deadline(Flow::Scrub, Some(deadline));
                }
                _ => now += numbers.below(20 * MS),
            }
            model.hand_out(&mut scheduler, &limits, now);
        }
        // No more requests are offered: all must finish.
        let mut quiet = 0;
        while model.waits(|_| true) > 0 || !model.at_device.is_empty() {
            quiet += 1;
            assert!(quiet < 10_000, "{} wait", model.waits(|_| true));
            match model.at_device.pop() {
                Some(request) => {
                    now += limits.costs.of(request.is_sequential, request.bytes);
                    scheduler.completed(request.flow, now, now);
                }
                None => {
                    let wakes_at = scheduler.wakes_at(now).expect("somebody waits");
                    assert!(wakes_at > now, "it could have gone at once");
                    now = wakes_at;
                }
            }
            model.hand_out(&mut scheduler, &limits, now);
        }
        assert_eq!(model.handed_out, model.offered);
    }
}
