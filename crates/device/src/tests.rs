use super::*;
use media::{Barrier, Disk, DiskFile, Ticks};
use qos::{DeviceKind, Direction, Plan};
use sim::SimDisk;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(super) const MS: u64 = 1_000_000;
pub(super) const NOW: Duration = Duration::ZERO;

/// A clock that moves only when a test moves it.
#[derive(Default)]
pub(super) struct Standing(AtomicU64);

impl Standing {
    pub(super) fn pass(&self, ns: u64) {
        self.0.fetch_add(ns, Ordering::Relaxed);
    }
}

impl Ticks for Standing {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub(super) const RANDOM: IoOrigin = IoOrigin {
    origin: Origin::Foreground,
    is_sequential: false,
};

pub(super) fn queue(device: Option<DeviceKind>) -> (Arc<DeviceQueue>, Arc<Standing>) {
    let ticks = Arc::new(Standing::default());
    ticks.pass(1000 * MS);
    let plan = Plan {
        device,
        ..Plan::default()
    };
    let queue = DeviceQueue::new(plan, Arc::clone(&ticks) as _).expect("the default plan");
    (Arc::new(queue), ticks)
}

/// A client's read that takes `took_ns` at the device.
fn read(queue: &DeviceQueue, ticks: &Standing, took_ns: u64) {
    let granted_step = queue.enter(RANDOM, Direction::Read, false, 4096);
    ticks.pass(took_ns);
    drop(granted_step);
}

/// Returns how many scrub steps of 5 ms get a grant in ten seconds, beside a user's read of 8 ms in
/// every `period_ms`.
fn steps_beside(period_ms: Option<u64>) -> u64 {
    let (queue, ticks) = queue(Some(DeviceKind::Disk));
    let (mut steps, mut next_user_ms) = (0, 0);
    let mut wish = None;
    for now_ms in 0..10_000 {
        if period_ms.is_some() && now_ms >= next_user_ms {
            next_user_ms = now_ms + period_ms.unwrap_or(0);
            let granted_step = queue.enter(RANDOM, Direction::Read, false, 4096);
            assert!(granted_step.is_some(), "a user waits for nobody");
            ticks.pass(8 * MS);
        }
        let mut granted_step = wish
            .take()
            .unwrap_or_else(|| queue.ask(Flow::Scrub, 1 << 20));
        match granted_step.wait(NOW) {
            true => {
                let kind = PieceKind::Read {
                    is_sequential: true,
                };
                queue.before_piece(Flow::Scrub, kind, 1 << 20);
                steps += 1;
                ticks.pass(5 * MS);
                queue.after_piece(Flow::Scrub);
            }
            false => wish = Some(granted_step),
        }
        ticks.pass(MS);
    }
    steps
}

#[test]
fn maintenance_has_idle_time_and_a_floor() {
    assert_eq!(steps_beside(None), 10_000, "alone it never waits");
    let busy = steps_beside(Some(2));
    assert!((30..=150).contains(&busy), "{busy} beside a busy user");
    let calm = steps_beside(Some(400));
    assert!(calm > 5_000, "{calm} beside a calm one");
}

#[test]
fn the_device_is_idle_only_when_users_have_left_it_for_a_while() {
    let (queue, ticks) = queue(Some(DeviceKind::Disk));
    assert!(queue.is_idle());
    let user = queue.enter(RANDOM, Direction::Read, false, 4096);
    assert!(!queue.is_idle(), "a request is there");
    ticks.pass(8 * MS);
    drop(user);
    assert!(!queue.is_idle(), "another may follow");
    ticks.pass(1000 * MS);
    assert!(queue.is_idle());
}

#[test]
fn a_deadline_makes_the_floor_rise() {
    let (queue, ticks) = queue(Some(DeviceKind::Disk));
    let mut given = [0u32; 2];
    for (is_urgent, given) in given.iter_mut().enumerate() {
        if is_urgent == 1 {
            queue.finish_within(Flow::Scrub, 1 << 40, Duration::from_secs(60));
        }
        let mut wish = None;
        for _ in 0..1000 {
            read(&queue, &ticks, 4 * MS);
            let mut granted_step = wish
                .take()
                .unwrap_or_else(|| queue.ask(Flow::Scrub, 1 << 20));
            match granted_step.wait(NOW) {
                true => *given += 1,
                false => wish = Some(granted_step),
            }
            ticks.pass(4 * MS);
        }
    }
    let [calm, urgent] = given;
    assert!(urgent > 5 * calm.max(1), "{given:?}");
}

#[test]
fn a_caller_that_gives_up_leaves_nothing_behind() {
    let (queue, ticks) = queue(Some(DeviceKind::Ssd));
    read(&queue, &ticks, MS);
    let mut first = queue.ask(Flow::Scrub, 1 << 20);
    assert!(first.wait(NOW), "its floor");
    let mut second = queue.ask(Flow::Collect, 1 << 20);
    assert!(!second.wait(NOW), "one at a time beside users");
    drop(second);
    drop(first);
    ticks.pass(1000 * MS);
    for _ in 0..100 {
        let (mut one, mut other) = (queue.ask(Flow::Scrub, 1), queue.ask(Flow::Collect, 1));
        assert!(one.wait(NOW) && other.wait(NOW), "idle: several at a time");
    }
    let counts = queue.counts();
    assert_eq!(counts[Flow::Scrub as usize].grants, 101);
    assert_eq!(counts[Flow::Collect as usize].grants, 100);
    assert!(counts.iter().all(|counts| counts.waiting == 0));
}

#[test]
fn users_wait_for_each_other_and_all_of_them_go() {
    let (queue, _) = queue(Some(DeviceKind::Disk));
    let (inside, most) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for n in 0..24u64 {
            let (queue, inside, most) = (&queue, &inside, &most);
            scope.spawn(move || {
                let io_origin =
                    [RANDOM, IoOrigin::UNKNOWN, IoOrigin::of(Origin::Backup)][n as usize % 3];
                for _ in 0..50 {
                    let direction = [Direction::Read, Direction::Write][n as usize % 2];
                    let granted_step = queue.enter(io_origin, direction, false, 4096);
                    let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(granted_step);
                }
            });
        }
    });
    assert!(most.into_inner() <= 8, "more than the device takes");
    let grants: u64 = queue.counts().iter().map(|counts| counts.grants).sum();
    assert_eq!(grants, 24 * 50);
}

#[test]
fn being_held_back_is_no_reason_to_be_held_back() {
    let mut plan = Plan::default();
    plan.targets.target_ns[Flow::ForegroundNonSequential as usize] = MS;
    plan.targets.half_life_ns = u64::MAX;
    let queue = DeviceQueue::new(plan, Arc::new(media::SystemTicks::default())).expect("a plan");
    let held_back = || queue.counts()[Flow::ForegroundNonSequential as usize].held_back_ns;
    let granted_step = queue.enter(RANDOM, Direction::Read, false, 4096);
    std::thread::sleep(Duration::from_millis(30));
    drop(granted_step);
    let mut delays = Vec::new();
    for _ in 0..60 {
        let before = held_back();
        drop(queue.enter(RANDOM, Direction::Read, false, 4096));
        delays.push(held_back() - before);
    }
    assert!(delays[0] >= 29 * MS, "the device took too long: {delays:?}");
    assert!(
        delays[59] < delays[0] / 2,
        "and does not any more: {delays:?}"
    );
}

#[test]
fn a_slow_device_is_treated_as_a_disk() {
    let (queue, ticks) = queue(None);
    assert_eq!(queue.plan().1, DeviceKind::Ssd);
    for _ in 0..20 {
        let granted_step = queue.enter(RANDOM, Direction::Read, false, 4096);
        ticks.pass(9 * MS);
        drop(granted_step);
    }
    assert_eq!(queue.plan().1, DeviceKind::Disk);
}

#[test]
fn a_file_counts_what_it_does_for_each_origin() {
    let (queue, _) = queue(None);
    let below: Arc<dyn Disk> = SimDisk::new();
    let paced = |writes| PacedDisk::new(Arc::clone(&below), Arc::clone(&queue) as _, writes);
    let (blobs, files) = (paced(Writes::WaitForGrants), paced(Writes::Pass));
    let written = |file: Arc<dyn DiskFile>, origin| {
        let _io_origin = IoOrigin::of(origin).begin();
        file.write_at(0, &[7; 8192]).expect("write");
        file.sync(Barrier::BlobBeforeName).expect("sync");
        let mut bytes = [0; 4096];
        file.read_at(4096, &mut bytes).expect("read");
        assert_eq!(bytes, [7; 4096]);
    };
    written(blobs.create_new("a").expect("new"), Origin::Backup);
    written(files.create_new("b").expect("new"), Origin::Foreground);
    written(blobs.create_new("c").expect("new"), Origin::Scrub);
    let counts = queue.counts();
    let of = |flow| {
        let c: FlowCounts = counts[flow as usize];
        (c.reads, c.read_bytes, c.writes, c.written_bytes, c.grants)
    };
    assert_eq!(of(Flow::Backup), (1, 4096, 1, 8192, 2));
    assert_eq!(of(Flow::ForegroundSequential), (1, 4096, 1, 8192, 1));
    assert_eq!(of(Flow::Scrub), (1, 4096, 1, 8192, 0), "in its step's turn");
}

const STEP: u64 = 1 << 20;

#[test]
fn steps_of_users_are_a_quarter_and_go_in_order() {
    let (queue, ticks) = queue(Some(DeviceKind::Disk));
    let mut steps: Vec<_> = (0..5).map(|_| queue.ask(Flow::Restore, STEP)).collect();
    let go = |steps: &mut Vec<StepGrant<'_>>| -> Vec<bool> {
        steps.iter_mut().map(|step| step.wait(NOW)).collect()
    };
    assert_eq!(go(&mut steps), [true, true, false, false, false]);
    assert_eq!(queue.counts()[Flow::Restore as usize].waiting, 3);
    for _ in 0..6 {
        // A process that leases grants and does not return takes none from clients.
        drop(queue.enter(RANDOM, Direction::Read, false, 4096));
    }
    // A step at the device ends, and a waiting step is withdrawn.
    drop(steps.remove(0));
    drop(steps.remove(2));
    assert_eq!(go(&mut steps), [true, true, false]);
    drop(steps);
    let mut again = queue.ask(Flow::Backup, STEP);
    assert!(again.wait(NOW), "nothing is left behind");
    drop(again);
    ticks.pass(1000 * MS);
    let mut scrub = queue.ask(Flow::Scrub, STEP);
    assert!(scrub.wait(NOW), "the device is idle");
    let counts = queue.counts();
    assert_eq!(counts[Flow::Restore as usize].grants, 3);
    assert!(counts.iter().all(|counts| counts.waiting == 0));
}

#[test]
fn steps_that_threads_wait_for_all_come() {
    let (queue, _) = queue(Some(DeviceKind::Disk));
    std::thread::scope(|scope| {
        for n in 0..12u64 {
            let queue = &queue;
            scope.spawn(move || {
                for round in 0..40 {
                    let flow = [Flow::Restore, Flow::Scrub, Flow::Backup][n as usize % 3];
                    let mut step = queue.ask(flow, STEP);
                    // Some steps give up. Scrub steps do not wait: on a stopped clock they might
                    // wait forever.
                    let is_scrub = flow == Flow::Scrub;
                    if round % 5 != 0 && !is_scrub {
                        while !step.wait(Duration::from_secs(1)) {}
                    }
                    drop(queue.enter(RANDOM, Direction::Read, false, 4096));
                }
            });
        }
    });
    let counts = queue.counts();
    assert_eq!(counts[Flow::ForegroundNonSequential as usize].grants, 480);
    let waited = counts[Flow::Restore as usize].grants + counts[Flow::Backup as usize].grants;
    assert_eq!(waited, 8 * 32);
    assert!(counts.iter().all(|counts| counts.waiting == 0));
}

#[test]
fn steps_of_users_are_held_back_where_clients_wait() {
    let (queue, ticks) = queue(Some(DeviceKind::Disk));
    let granted_step = queue.enter(RANDOM, Direction::Read, false, 4096);
    ticks.pass(120 * MS);
    drop(granted_step);
    let mut step = queue.ask(Flow::Restore, STEP);
    assert!(!step.wait(NOW), "clients should wait for 20 ms, not 120");
    ticks.pass(99 * MS);
    assert!(!step.wait(NOW));
    ticks.pass(2 * MS);
    assert!(step.wait(NOW));
    let held_back = queue.counts()[Flow::Restore as usize].held_back_ns;
    assert!((99 * MS..=100 * MS).contains(&held_back), "{held_back}");
}

#[test]
fn steps_are_long_on_a_device_without_other_users() {
    let (queue, ticks) = queue(Some(DeviceKind::Disk));
    assert_eq!(queue.step_bytes(Flow::Restore, 1), 4 << 20);
    assert_eq!(queue.step_bytes(Flow::Scrub, 1), 256 << 10);
    assert_eq!(queue.step_bytes(Flow::Scrub, 3 << 20), 3 << 20);
    let client = queue.enter(RANDOM, Direction::Read, false, 4096);
    ticks.pass(1000 * MS);
    assert_eq!(queue.step_bytes(Flow::Restore, 1), STEP);
    drop(client);
    assert_eq!(queue.step_bytes(Flow::Restore, 1), STEP);
    ticks.pass(101 * MS);
    assert_eq!(queue.step_bytes(Flow::Restore, 1), 4 << 20);
    let _waits = [(); 3].map(|()| queue.ask(Flow::Backup, STEP));
    assert_eq!(queue.step_bytes(Flow::Restore, 1), STEP);
}

#[test]
fn what_was_leased_is_counted_and_charged() {
    let (queue, _) = queue(Some(DeviceKind::Disk));
    queue.count_leased(Flow::Restore, 200, 200, 1 << 20);
    let counts = queue.counts()[Flow::Restore as usize];
    let read = (counts.reads, counts.read_bytes, counts.leased_bytes);
    assert_eq!(read, (200, 1 << 20, 1 << 20));
    // Both wait for clients' grants. Restores have already been charged for their seeks.
    let mut clients: Vec<_> = (0..8)
        .map(|_| queue.enter(RANDOM, Direction::Read, false, 4096))
        .collect();
    let mut steps = [Flow::Restore, Flow::Backup].map(|flow| queue.ask(flow, STEP));
    assert!(steps.iter_mut().all(|step| !step.wait(NOW)));
    drop(clients.pop());
    assert_eq!(steps.each_mut().map(|step| step.wait(NOW)), [false, true]);
}

/// Regression: the waiter slept until its next look, 100 ms later, so it began three times a
/// second.
#[test]
fn a_task_that_waits_for_idle_time_hears_that_the_last_user_has_left() {
    let (queue, ticks) = queue(Some(DeviceKind::Disk));
    let one = || {
        let user = queue.enter(RANDOM, Direction::Read, false, 4096);
        let (send, waits) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let mut scrub = queue.ask(Flow::Scrub, STEP);
                // Use up the I/O floor.
                while scrub.wait(NOW) {
                    scrub = queue.ask(Flow::Scrub, STEP);
                }
                send.send(()).expect("somebody listens");
                assert!(scrub.wait(Duration::from_secs(3600)));
                std::time::Instant::now()
            });
            waits.recv().expect("it waits");
            std::thread::sleep(Duration::from_millis(5));
            let left = std::time::Instant::now();
            drop(user);
            // The user's last request becomes old.
            ticks.pass(50 * MS);
            waiter.join().expect("no panic").duration_since(left)
        })
    };
    let shortest = (0..8).map(|_| one()).min().expect("some");
    assert!(shortest < Duration::from_millis(50), "{shortest:?}");
}

#[test]
fn an_origin_is_maintenance_if_its_flow_is() {
    for origin in [
        Origin::Foreground,
        Origin::Backup,
        Origin::Restore,
        Origin::Replication,
        Origin::Scrub,
        Origin::Collect,
        Origin::Defragment,
    ] {
        let flow = flow_of(IoOrigin::of(origin));
        assert_eq!(origin.is_maintenance(), flow.is_maintenance(), "{origin:?}");
    }
}

/// A read that is announced is at the device before it enters: nothing may have to wait for it.
#[test]
fn only_reads_that_would_pass_are_announced() {
    let (queue, ticks) = queue(Some(DeviceKind::Ssd));
    assert!(queue.would_pass(RANDOM));
    let scrub = IoOrigin {
        origin: Origin::Scrub,
        is_sequential: true,
    };
    assert!(!queue.would_pass(scrub), "its step has the grant, or waits");
    // Enough users to fill the device.
    let mut at_device = Vec::new();
    std::thread::scope(|scope| {
        let queue = &queue;
        loop {
            let (send, entered) = std::sync::mpsc::channel();
            let (go, may_go) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || {
                let grant = queue.enter(RANDOM, Direction::Read, false, 4096);
                let _ = send.send(());
                let _ = may_go.recv();
                drop(grant);
            });
            at_device.push(go);
            if entered.recv_timeout(Duration::from_millis(200)).is_err() {
                break;
            }
            assert!(at_device.len() < 10_000, "no limit");
        }
        assert!(!queue.would_pass(RANDOM), "one waits already");
        at_device.clear();
    });
    ticks.pass(MS);
    assert!(queue.would_pass(RANDOM));
    let (disk, _) = self::queue(Some(DeviceKind::Disk));
    assert!(!disk.would_pass(RANDOM), "the order of reads matters there");
}
