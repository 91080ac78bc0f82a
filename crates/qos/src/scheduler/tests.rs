use super::*;
use crate::settings::DeviceCosts;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

/// A device that serves one request at a time for its estimated cost, with flows that keep a fixed
/// number of requests queued.
struct Device {
    scheduler: Scheduler,
    costs: DeviceCosts,
    now_ns: u64,
    /// By flow: number of requests to keep queued, and their template.
    loads: BTreeMap<Flow, (usize, DeviceRequest)>,
    /// By flow: device time, completed requests, longest wait.
    had_ns: BTreeMap<Flow, u64>,
    done: BTreeMap<Flow, u64>,
    waits: BTreeMap<Flow, u64>,
    offered: BTreeMap<u64, u64>,
    at_device: Vec<DeviceRequest>,
    next_id: u64,
}

fn request(flow: Flow, is_sequential: bool, bytes: u64) -> DeviceRequest {
    DeviceRequest {
        id: 0,
        flow,
        direction: Direction::Read,
        is_sequential,
        bytes,
    }
}

fn random(flow: Flow) -> DeviceRequest {
    request(flow, false, 8192)
}

fn stream(flow: Flow) -> DeviceRequest {
    request(flow, true, 1 << 20)
}

impl Device {
    fn new(settings: SchedulerSettings) -> Self {
        Self {
            scheduler: Scheduler::new(settings).expect("good settings"),
            costs: settings.costs,
            now_ns: 0,
            loads: BTreeMap::new(),
            had_ns: BTreeMap::new(),
            done: BTreeMap::new(),
            waits: BTreeMap::new(),
            offered: BTreeMap::new(),
            at_device: Vec::new(),
            next_id: 0,
        }
    }

    fn load(&mut self, depth: usize, request: DeviceRequest) {
        self.loads.insert(request.flow, (depth, request));
        (0..depth).for_each(|_| self.offer(request));
    }

    fn offer(&mut self, request: DeviceRequest) {
        self.next_id += 1;
        let id = self.next_id;
        self.offered.insert(id, self.now_ns);
        let request = DeviceRequest { id, ..request };
        self.scheduler.offer(request).expect("room");
    }

    fn run(&mut self, until_ns: u64) {
        while self.now_ns < until_ns {
            while let Some((request, _)) = self.scheduler.next(self.now_ns) {
                self.at_device.push(request);
            }
            if self.at_device.is_empty() {
                let wakes_at = self.scheduler.wakes_at(self.now_ns);
                let next = wakes_at.unwrap_or(until_ns).min(until_ns);
                assert!(next > self.now_ns, "it says when, and means it");
                self.now_ns = next;
                continue;
            }
            let request = self.at_device.remove(0);
            let cost = self.costs.of(request.is_sequential, request.bytes);
            self.now_ns += cost;
            let DeviceRequest { flow, .. } = request;
            *self.had_ns.entry(flow).or_default() += cost;
            *self.done.entry(flow).or_default() += 1;
            let wait = self.now_ns - self.offered.remove(&request.id).expect("handed out once");
            let longest = self.waits.entry(flow).or_default();
            *longest = wait.max(*longest);
            self.scheduler
                .completed(flow, self.now_ns - wait, self.now_ns);
            if let Some((_, again)) = self.loads.get(&flow).copied() {
                self.offer(again);
            }
        }
    }

    /// Returns a flow's percentage of `of_ns`, the time since the counts were cleared.
    fn percent(&self, flow: Flow, of_ns: u64) -> f64 {
        *self.had_ns.get(&flow).unwrap_or(&0) as f64 * 100.0 / of_ns as f64
    }

    fn clear(&mut self) {
        self.had_ns.clear();
        self.done.clear();
        self.waits.clear();
    }
}

fn assert_near(found: f64, expected: f64) {
    let off = (found - expected).abs();
    assert!(off <= 2.0, "{found:.1} % instead of {expected} %");
}

/// A deep queue at the device would blur the shares of the test's short runs.
const SHALLOW: SchedulerSettings = SchedulerSettings {
    in_flight_max: 2,
    ..SchedulerSettings::DISK
};

#[test]
fn non_sequential_requests_get_their_share_beside_any_others() {
    let random_flow = Flow::ForegroundNonSequential;
    let others: [&[Flow]; 3] = [
        &[Flow::ForegroundSequential],
        &[Flow::Backup, Flow::Restore],
        &[Flow::ForegroundSequential, Flow::Backup, Flow::Restore],
    ];
    for others in others {
        let mut device = Device::new(SHALLOW);
        device.load(32, random(random_flow));
        others.iter().for_each(|flow| device.load(8, stream(*flow)));
        device.run(30 * S);
        assert_near(device.percent(random_flow, 30 * S), 20.0);
        let weights = |flow: &Flow| SHALLOW.weight(*flow) as f64;
        let sum: f64 = others.iter().map(weights).sum();
        for flow in others {
            let expected = 80.0 * weights(flow) / sum;
            assert_near(device.percent(*flow, 30 * S), expected);
        }
    }
}

#[test]
fn shares_change_while_running_and_what_is_not_used_is_everybodys() {
    let mut device = Device::new(SHALLOW);
    device.load(32, random(Flow::ForegroundNonSequential));
    device.run(5 * S);
    assert_near(device.percent(Flow::ForegroundNonSequential, 5 * S), 100.0);
    // It has had a lot, and a flow that becomes active has saved nothing up.
    device.load(8, stream(Flow::Backup));
    device.clear();
    device.run(15 * S);
    assert_near(device.percent(Flow::ForegroundNonSequential, 10 * S), 20.0);
    let settings = SchedulerSettings {
        non_sequential_percent: 60,
        ..SHALLOW
    };
    device.scheduler.set(settings).expect("good settings");
    device.clear();
    device.run(25 * S);
    assert_near(device.percent(Flow::ForegroundNonSequential, 10 * S), 60.0);
    let none = SchedulerSettings {
        non_sequential_percent: 0,
        ..SHALLOW
    };
    assert!(device.scheduler.set(none).is_err());
}

#[test]
fn maintenance_has_its_floor_on_a_busy_device_and_all_of_an_idle_one() {
    let maintenance = [Flow::Collect, Flow::Scrub, Flow::Defragment];
    let mut device = Device::new(SHALLOW);
    device.load(8, random(Flow::ForegroundNonSequential));
    maintenance
        .iter()
        .for_each(|flow| device.load(4, request(*flow, false, 128 << 10)));
    device.run(60 * S);
    for (flow, floor) in maintenance.iter().zip([2.0, 2.0, 1.0]) {
        let percent = device.percent(*flow, 60 * S);
        assert!((percent - floor).abs() < 0.2, "{percent} % of {floor} %");
    }
    // It waits for the request at the device, one floor request, and the requests before it.
    let wait = device.waits[&Flow::ForegroundNonSequential];
    assert!(wait < 110 * MS, "{wait} ns");
    device.loads.remove(&Flow::ForegroundNonSequential);
    device.run(61 * S);
    device.clear();
    device.run(161 * S);
    for (flow, weight) in maintenance.iter().zip([6.0, 1.0, 2.0]) {
        assert_near(device.percent(*flow, 100 * S), 100.0 * weight / 9.0);
    }
}

#[test]
fn a_pause_that_is_too_short_for_a_seek_is_not_idle_time() {
    let mut device = Device::new(SHALLOW);
    let settings = SchedulerSettings {
        floors_permille: [0; 8],
        ..SHALLOW
    };
    device.scheduler.set(settings).expect("good settings");
    device.load(4, random(Flow::Scrub));
    device.offer(random(Flow::ForegroundNonSequential));
    // A client that asks again 10 ms after each answer would meet each seek.
    for n in 0..2000 {
        let until = device.now_ns + 18 * MS;
        device.run(until);
        device.offer(random(Flow::ForegroundNonSequential));
        if n == 999 {
            device.clear();
        }
    }
    let learned = device.scheduler.grace_ns();
    assert!(learned > 10 * MS, "{learned} ns");
    assert_eq!(device.done.get(&Flow::Scrub), None);
    assert_eq!(device.done[&Flow::ForegroundNonSequential], 1000);
    let until = device.now_ns + 3 * S;
    device.run(until);
    assert!(device.done[&Flow::Scrub] > 200);
}

#[test]
fn a_task_goes_on_until_a_user_comes_and_seeks_now_and_then_only() {
    let settings = SchedulerSettings {
        floors_permille: [0; 8],
        ..SchedulerSettings::DISK
    };
    let mut scheduler = Scheduler::new(settings).expect("good settings");
    let at = |ms: u64| 10 * S + ms * MS;
    let client = random(Flow::ForegroundNonSequential);
    let scrub = stream(Flow::Scrub);
    scheduler.offer(client).expect("room");
    assert!(scheduler.next(at(0)).is_some());
    scheduler.completed(client.flow, at(0), at(8));
    scheduler.offer(scrub).expect("room");
    assert_eq!(scheduler.next(at(9)), None, "it may come back at once");
    let begins = scheduler.wakes_at(at(9)).expect("it waits");
    assert_eq!(begins, at(108), "nothing is known of its gaps");
    let (_, grant) = scheduler.next(begins).expect("the device is idle");
    assert_eq!(grant, Grant::Idle { is_seek: true });
    // Contiguous reads continue freely; a seek must wait.
    let since = begins;
    assert!(scheduler.go_on(Flow::Scrub, true, 65536, (since, since + MS)));
    assert!(!scheduler.go_on(Flow::Scrub, false, 65536, (since, since + MS)));
    assert!(!scheduler.go_on(Flow::Scrub, false, 65536, (since, since + 500 * MS)));
    assert!(scheduler.go_on(Flow::Scrub, false, 65536, (since, since + 530 * MS)));
    assert!(!scheduler.go_on(Flow::Scrub, false, 65536, (since, since + 531 * MS)));
    assert!(scheduler.go_on(Flow::Scrub, true, 65536, (since, since + 531 * MS)));
    // Another task waits until this one has not returned for as long as a seek takes.
    scheduler.offer(stream(Flow::Collect)).expect("room");
    scheduler.completed(Flow::Scrub, since, since + 532 * MS);
    assert_eq!(scheduler.next(since + 533 * MS), None);
    scheduler.offer(scrub).expect("room");
    let (next, grant) = scheduler.next(since + 533 * MS).expect("its turn");
    assert_eq!(
        (next.flow, grant),
        (Flow::Scrub, Grant::Idle { is_seek: false })
    );
    scheduler.completed(Flow::Scrub, since, since + 534 * MS);
    let other = scheduler.wakes_at(since + 534 * MS).expect("one waits");
    let (next, _) = scheduler.next(other).expect("its turn");
    assert_eq!(next.flow, Flow::Collect);
    // A client arrives: no task continues.
    scheduler.offer(client).expect("room");
    assert!(!scheduler.go_on(Flow::Collect, true, 65536, (other, other + MS)));
}

#[test]
fn a_task_does_not_stop_for_others_that_may_not_seek_yet() {
    let settings = SchedulerSettings {
        floors_permille: [0; 8],
        ..SchedulerSettings::DISK
    };
    let mut scheduler = Scheduler::new(settings).expect("good settings");
    let at = |ms: u64| 10 * S + ms * MS;
    let client = random(Flow::ForegroundNonSequential);
    scheduler.offer(client).expect("room");
    assert!(scheduler.next(at(0)).is_some());
    scheduler.completed(client.flow, at(0), at(8));
    scheduler.offer(stream(Flow::Scrub)).expect("room");
    let since = scheduler.wakes_at(at(9)).expect("it waits");
    assert!(scheduler.next(since).is_some());
    scheduler.seeks(since);
    scheduler.offer(random(Flow::Collect)).expect("room");
    // It has had seconds of the device more than the other.
    assert!(scheduler.go_on(Flow::Scrub, true, 1 << 30, (since, since + MS)));
    let goes_on = |now| scheduler.may_go_on(Flow::Scrub, true, (since, now));
    assert!(goes_on(since + 500 * MS));
    assert!(!goes_on(since + 530 * MS), "the other may seek now");
}

#[test]
fn a_floor_looks_for_a_gap_between_users_and_not_for_ever() {
    let mut scheduler = Scheduler::new(SchedulerSettings::DISK).expect("the default");
    let now = |ms: u64| ms * S / 1000;
    scheduler
        .offer(random(Flow::ForegroundNonSequential))
        .expect("room");
    scheduler.offer(random(Flow::Scrub)).expect("room");
    let is_scrub = |next: Option<(DeviceRequest, Grant)>| next.map(|(r, _)| r.flow == Flow::Scrub);
    assert_eq!(is_scrub(scheduler.next(now(0))), Some(false));
    // The task has earned its request, but a user is still there.
    assert_eq!(scheduler.next(now(1)), None);
    let latest = scheduler.wakes_at(now(1)).expect("it waits");
    assert!(latest <= now(600), "{latest} ns");
    scheduler.completed(Flow::ForegroundNonSequential, now(0), now(2));
    assert_eq!(is_scrub(scheduler.next(now(2))), Some(true));
    scheduler.completed(Flow::Scrub, now(0), now(10));
    // No gap comes.
    scheduler.offer(random(Flow::Scrub)).expect("room");
    scheduler
        .offer(random(Flow::ForegroundNonSequential))
        .expect("room");
    assert_eq!(is_scrub(scheduler.next(now(10))), Some(false));
    let latest = scheduler.wakes_at(now(10)).expect("it waits");
    assert_eq!(scheduler.next(latest - now(1)), None);
    assert_eq!(is_scrub(scheduler.next(latest)), Some(true));
}

#[test]
fn a_deadline_is_met_on_a_busy_device() {
    let scrub_ends_at = |deadline: Option<Deadline>| {
        let mut device = Device::new(SHALLOW);
        device.load(8, random(Flow::ForegroundNonSequential));
        device.scheduler.set_deadline(Flow::Scrub, deadline);
        // Nine seconds of work.
        let read = request(Flow::Scrub, false, 128 << 10);
        let each = device.costs.of(false, read.bytes);
        (0..9 * S / each).for_each(|_| device.offer(read));
        while device.scheduler.waiting(Flow::Scrub) > 0 {
            device.run(device.now_ns + S / 10);
        }
        (device.now_ns, device.percent(Flow::Scrub, device.now_ns))
    };
    let at_ns = 30 * S;
    let work_ns = 9 * S;
    let (in_time, percent) = scrub_ends_at(Some(Deadline { work_ns, at_ns }));
    // The first step looks for a gap first.
    assert!(in_time <= at_ns + S / 2, "{in_time} ns");
    assert!(percent < 33.0, "not sooner than needed: {percent} %");
    let (too_much, percent) = scrub_ends_at(Some(Deadline {
        work_ns,
        at_ns: 10 * S,
    }));
    assert!(too_much > 17 * S && percent < 51.0, "users keep their half");
    let (sometime, _) = scrub_ends_at(None);
    assert!(sometime > 400 * S, "{sometime} ns at its floor");
}

/// Divided in proportion to their needs, the half that maintenance may have is too little for both
/// at first, and the scrub is late.
#[test]
fn the_highest_rate_goes_first_and_both_deadlines_are_met() {
    let mut device = Device::new(SHALLOW);
    device.load(8, random(Flow::ForegroundNonSequential));
    let tasks = [(Flow::Scrub, 22 * S), (Flow::Replication, 60 * S)];
    for (flow, at_ns) in tasks {
        let read = request(flow, false, 4 << 20);
        let each = device.costs.of(false, read.bytes);
        let work_ns = 9 * S;
        (0..work_ns / each).for_each(|_| device.offer(read));
        let deadline = Deadline { work_ns, at_ns };
        device.scheduler.set_deadline(flow, Some(deadline));
    }
    for (flow, at_ns) in tasks {
        while device.scheduler.waiting(flow) > 0 {
            device.run(device.now_ns + S / 10);
        }
        let now_ns = device.now_ns;
        assert!(now_ns <= at_ns + S / 2, "{flow:?} ends at {now_ns} ns");
    }
}

#[test]
fn queues_have_an_end() {
    let settings = SchedulerSettings {
        waiting_max: 3,
        ..SHALLOW
    };
    let mut scheduler = Scheduler::new(settings).expect("good settings");
    let backup = stream(Flow::Backup);
    (0..3).for_each(|_| scheduler.offer(backup).expect("room"));
    let flow = Flow::Backup;
    assert_eq!(scheduler.offer(backup), Err(QueueFull { flow }));
    assert!(scheduler.offer(stream(Flow::Restore)).is_ok());
    let both = [scheduler.next(0), scheduler.next(0)].map(|next| next.map(|(r, _)| r.flow));
    assert_eq!(both, [Some(Flow::Restore), Some(Flow::Backup)]);
    assert_eq!(scheduler.next(0), None, "two are at the device");
    scheduler.completed(Flow::Restore, 0, 1);
    assert!(scheduler.offer(backup).is_ok());
    assert!(scheduler.next(1).is_some());
}
