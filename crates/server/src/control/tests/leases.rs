//! Tests of leases over a real socket: counts, clients that die or keep their grant, malformed
//! requests. Part of the tests of `control`.
//!
//! Invariant: times are used as limits only, and no test sleeps for a fixed time.

use super::*;
use crate::control::Leases;
use device::{FlowCounts, RequestQueue};
use media::IoOrigin;
use qos::lease::{self, Ask, Hello, Used};
use qos::{DeviceKind, Direction, Flow};
use std::io::ErrorKind;
use std::time::Instant;
use terminal::interrupt::Interrupt;

const KIB: u64 = 1 << 10;
const SOON: Duration = Duration::from_secs(60);

fn disk() -> Arc<DeviceQueue> {
    let device = device();
    let plan = Plan {
        device: Some(DeviceKind::Disk),
        ..Plan::default()
    };
    device.set(plan).unwrap();
    device
}

fn leases(pool: &Path, flow: Flow) -> Leases {
    Leases::new(pool.to_owned(), flow, Interrupt::of_command().unwrap())
}

fn read(leases: &Leases, bytes: u64) {
    drop(leases.enter(IoOrigin::UNKNOWN, Direction::Read, true, bytes));
}

fn of(device: &DeviceQueue, flow: Flow) -> FlowCounts {
    device.counts()[flow as usize]
}

fn until(what: impl Fn() -> bool) {
    let since = Instant::now();
    while !what() {
        assert!(since.elapsed() < SOON, "waited in vain");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A client that sends exactly the bytes that a test says.
struct Raw(UnixStream);

impl Raw {
    fn new(pool: &Path, flow: Flow) -> Self {
        let stream = address::connect(pool, LIMIT).unwrap().unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        (&stream).write_all(&Hello { flow }.encode()).unwrap();
        Self(stream)
    }

    fn ask(&self, wanted: u32, used: Used) {
        let ask = Ask { wanted, used };
        (&self.0).write_all(&ask.encode()).unwrap();
    }

    /// Returns the next answer other than "waits". `None`: the server has closed the connection.
    fn hears(&self) -> Option<u32> {
        loop {
            let mut bytes = [0; lease::LeaseAnswer::BYTES];
            match (&self.0).read_exact(&mut bytes) {
                Ok(()) => {}
                // Silence is no end.
                Err(e) if e.kind() == ErrorKind::WouldBlock => panic!("waited in vain"),
                Err(_) => return None,
            }
            match lease::LeaseAnswer::decode(&bytes).ok()? {
                lease::LeaseAnswer::Waits => {}
                lease::LeaseAnswer::Granted(bytes) => return Some(bytes),
            }
        }
    }

    fn hears_nothing_within(&self, time: Duration) -> bool {
        self.0.set_read_timeout(Some(time)).unwrap();
        let nothing = (&self.0).read(&mut [0]).is_err();
        self.0.set_read_timeout(Some(SOON)).unwrap();
        nothing
    }
}

#[test]
fn what_a_process_reads_is_counted_in_few_grants() {
    let top = tempfile::tempdir().unwrap();
    let device = disk();
    let control = serve_device(top.path(), Arc::clone(&device));
    let restore = leases(top.path(), Flow::Restore);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100).for_each(|_| read(&restore, 100 * KIB)));
        }
    });
    let check = leases(top.path(), Flow::Scrub);
    (0..10).for_each(|_| read(&check, 100 * KIB));
    drop((restore, check));
    until(|| of(&device, Flow::Scrub).leased_bytes == 1000 * KIB);
    until(|| of(&device, Flow::Restore).leased_bytes == 40_000 * KIB);
    let counts = of(&device, Flow::Restore);
    assert_eq!((counts.reads, counts.read_bytes), (400, 40_000 * KIB));
    assert!((10..=11).contains(&counts.grants), "{counts:?}");
    assert!((5..=6).contains(&of(&device, Flow::Scrub).grants));
    assert!(control.stop(SOON));
}

#[test]
fn beside_others_a_lease_ends_with_its_reads() {
    let top = tempfile::tempdir().unwrap();
    let device = disk();
    let _control = serve_device(top.path(), Arc::clone(&device));
    let restore = leases(top.path(), Flow::Restore);
    let begin = |bytes| restore.enter(IoOrigin::UNKNOWN, Direction::Read, true, bytes);
    // A client that is alone waits for no other.
    drop([(); 3].map(|()| begin(2 << 20)));
    let _client = device.enter(IoOrigin::UNKNOWN, Direction::Read, true, 4096);
    read(&restore, 3 << 20);
    let reads = [begin(512 * KIB), begin(512 * KIB)];
    let grants = of(&device, Flow::Restore).grants;
    std::thread::scope(|scope| {
        let next = scope.spawn(|| read(&restore, 512 * KIB));
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(of(&device, Flow::Restore).grants, grants);
        drop(reads);
        until(|| next.is_finished());
    });
    assert_eq!(of(&device, Flow::Restore).grants, grants + 1);
}

#[test]
fn small_reads_here_and_there_take_more_of_a_lease() {
    let top = tempfile::tempdir().unwrap();
    let device = disk();
    let _control = serve_device(top.path(), Arc::clone(&device));
    let restore = leases(top.path(), Flow::Restore);
    for _ in 0..640 {
        restore.enter(IoOrigin::UNKNOWN, Direction::Read, false, 4096);
    }
    assert_eq!(of(&device, Flow::Restore).grants, 10);
}

#[test]
fn grants_of_dead_or_lost_processes_go_to_others() {
    let top = tempfile::tempdir().unwrap();
    let device = disk();
    let control = serve_device(top.path(), Arc::clone(&device));
    let has_grant = || {
        let client = Raw::new(top.path(), Flow::Restore);
        client.ask(1, Used::default());
        assert!(client.hears().is_some());
        client
    };
    let [dies, _sleeps] = [(); 2].map(|()| has_grant());
    let since = Instant::now();
    drop(dies);
    // A disk has two grants for them. The dead client's is free; the sleeping client's ends after
    // its limit.
    let _others = [(); 2].map(|()| has_grant());
    assert!(since.elapsed() < SOON);

    // Maintenance has one grant at a time on a disk. The same limits hold for it.
    let scrub = |wanted| {
        let client = Raw::new(top.path(), Flow::Scrub);
        client.ask(wanted, Used::default());
        client
    };
    let holder = scrub(1);
    assert!(holder.hears().is_some());
    assert!(scrub(1).hears().is_some());
    assert!(control.stop(SOON));
    assert_eq!(holder.hears(), None);
}

#[test]
fn a_process_that_dies_while_waiting_leaves_the_queue() {
    let top = tempfile::tempdir().unwrap();
    let device = disk();
    let _control = serve_device(top.path(), Arc::clone(&device));
    // The device is full.
    let random = IoOrigin {
        is_sequential: false,
        ..IoOrigin::UNKNOWN
    };
    let users: Vec<_> = (0..8)
        .map(|_| device.enter(random, Direction::Read, false, 4096))
        .collect();
    let clients: Vec<_> = [Flow::Restore, Flow::Backup, Flow::Restore, Flow::Scrub]
        .map(|flow| {
            let client = Raw::new(top.path(), flow);
            client.ask(1, Used::default());
            client
        })
        .into();
    let waiting = || device.counts().iter().map(|c| c.waiting).sum::<u64>();
    until(|| waiting() == 4);
    assert!(clients[0].hears_nothing_within(Duration::from_millis(300)));
    drop(clients);
    until(|| waiting() == 0);
    drop(users);
    let client = Raw::new(top.path(), Flow::Restore);
    client.ask(1, Used::default());
    assert!(client.hears().is_some());
}

#[test]
fn without_a_server_everything_passes() {
    let top = tempfile::tempdir().unwrap();
    read(&leases(top.path(), Flow::Restore), 100 * KIB);

    let device = disk();
    let control = serve_device(top.path(), Arc::clone(&device));
    let restore = leases(top.path(), Flow::Restore);
    read(&restore, KIB);
    let users: Vec<_> = (0..8)
        .map(|_| device.enter(IoOrigin::UNKNOWN, Direction::Read, true, 4096))
        .collect();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| read(&restore, 5 << 20));
        until(|| of(&device, Flow::Restore).waiting == 1);
        assert!(!waiting.is_finished());
        assert!(control.stop(SOON));
        until(|| waiting.is_finished());
    });
    drop(users);
    (0..100).for_each(|_| read(&restore, 5 << 20));
    assert_eq!(of(&device, Flow::Restore).grants, 1);
}

/// Without the limit, two servers that scrub with each other as replicas would wait for ever.
#[test]
fn a_reader_with_a_grant_elsewhere_waits_a_limited_time() {
    let top = tempfile::tempdir().unwrap();
    let device = disk();
    let _control = serve_device(top.path(), Arc::clone(&device));
    let scrub = leases(top.path(), Flow::Scrub);
    // The device is free, however long the server takes to say so.
    read(&scrub, KIB);
    let scrub = scrub.within(Duration::from_secs(1));
    let users: Vec<_> = (0..8)
        .map(|_| device.enter(IoOrigin::UNKNOWN, Direction::Read, true, 4096))
        .collect();
    // These grants occupy the device during the read.
    read(&scrub, 5 << 20);
    until(|| of(&device, Flow::Scrub).waiting == 0);
    (0..100).for_each(|_| read(&scrub, 5 << 20));
    drop(users);
    assert_eq!(of(&device, Flow::Scrub).grants, 1);
}

#[test]
fn the_wish_to_stop_ends_the_waiting_for_a_stuck_server() {
    let top = tempfile::tempdir().unwrap();
    let _never_answers = address::Place::of(top.path()).unwrap().listen().unwrap();
    let interrupt = Interrupt::of_command().unwrap();
    let stops = Leases::new(top.path().to_owned(), Flow::Restore, interrupt.clone());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| read(&stops, KIB));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!waiting.is_finished());
        interrupt.request();
    });
}

#[test]
fn nonsense_ends_its_client_and_no_other() {
    let top = tempfile::tempdir().unwrap();
    let device = disk();
    let control = serve_device(top.path(), Arc::clone(&device));
    let good = leases(top.path(), Flow::Restore);
    read(&good, KIB);
    // A reader of the pool may not claim to be a client of volumes.
    assert_eq!(
        Raw::new(top.path(), Flow::ForegroundNonSequential).hears(),
        None
    );
    let too_long = Raw::new(top.path(), Flow::Restore);
    too_long.ask(lease::LEASE_BYTES_MAX + 1, Used::default());
    assert_eq!(too_long.hears(), None);
    let half = Raw::new(top.path(), Flow::Restore);
    (&half.0).write_all(&[0; Ask::BYTES - 1]).unwrap();
    assert_eq!(half.hears(), None);
    // The server counts at most as many bytes as it granted.
    let boasts = Raw::new(top.path(), Flow::Restore);
    let used = Used {
        reads: u32::MAX,
        seeks: u32::MAX,
        bytes: u32::MAX,
    };
    boasts.ask(0, used);
    boasts.ask(1, used);
    let granted = boasts.hears().unwrap();
    boasts.ask(0, used);
    until(|| of(&device, Flow::Restore).leased_bytes == u64::from(granted));
    // The server disconnects a client that sends and does not read, and drops its grant.
    let deaf = Raw::new(top.path(), Flow::Restore);
    let ask = Ask {
        wanted: 1,
        used: Used::default(),
    };
    while (&deaf.0).write_all(&ask.encode()).is_ok() {}
    until(|| of(&device, Flow::Restore).waiting == 0);
    read(&good, 5 << 20);
    assert!(control.stop(SOON));
}

#[test]
fn many_leases_leave_room_for_commands() {
    let top = tempfile::tempdir().unwrap();
    let control = serve(top.path());
    let clients: Vec<Raw> = (0..64)
        .map(|_| {
            let client = Raw::new(top.path(), Flow::Backup);
            client.ask(1, Used::default());
            assert!(client.hears().is_some());
            client
        })
        .collect();
    let late = Raw::new(top.path(), Flow::Backup);
    // The server may have refused the client and closed the connection already.
    let (wanted, used) = (1, Used::default());
    let _ = (&late.0).write_all(&Ask { wanted, used }.encode());
    assert_eq!(late.hears(), None);
    until(|| control.clients() == 0);
    let client = ask(top.path(), "say", top.path(), View::own().unwrap());
    assert_eq!(client.answers(), Some(CommandAnswer::Started));
    drop(clients);
    assert!(control.stop(SOON));
}
