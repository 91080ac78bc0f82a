use crate::tests::{MS, NOW, RANDOM, Standing, queue};
use crate::{DeviceQueue, FlowCounts, PacedDisk, PieceKind, RequestQueue, Writes};
use media::{Blobs, DirBlobs, Disk, IoOrigin, Put, Syncing, Ticks};
use qos::{DeviceKind, Direction, Flow};
use sim::SimDisk;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use units::Origin;

/// Eight pieces and a remainder.
const BLOB_BYTES: usize = (2 << 20) + 1000;
const PIECES: u64 = 9;

fn blobs(queue: &Arc<DeviceQueue>) -> (Arc<SimDisk>, DirBlobs) {
    let disk = SimDisk::new();
    let below: Arc<dyn Disk> = Arc::<SimDisk>::clone(&disk);
    let paced = PacedDisk::new(below, Arc::clone(queue) as _, Writes::WaitForGrants);
    let (threads, queue) = (1, 1);
    let blobs = DirBlobs::new(Arc::new(paced), Syncing::Threads { threads, queue });
    blobs
        .put("containers/first", vec![1], Put::IfAbsent)
        .expect("put");
    (disk, blobs)
}

fn collected(queue: &DeviceQueue) -> FlowCounts {
    queue.counts()[Flow::Collect as usize]
}

/// Puts a blob as garbage collection does. Returns the writes and syncs that were done when the put
/// returned.
fn put(blobs: &DirBlobs, disk: &SimDisk, name: &str) -> (u64, u64) {
    let _io_origin = IoOrigin::of(Origin::Collect).begin();
    let before = disk.counts();
    let bytes: Vec<u8> = (0..BLOB_BYTES).map(|at| (at / 7) as u8).collect();
    blobs.put(name, bytes.clone(), Put::New).expect("put");
    let after = disk.counts();
    assert!(blobs.read(name, u64::MAX).expect("it is there") == bytes);
    let writes = after.writes - before.writes;
    (writes, after.file_syncs - before.file_syncs)
}

#[test]
fn what_a_step_stores_in_idle_time_costs_one_turn_and_one_sync() {
    let (queue, ticks) = queue(Some(DeviceKind::Disk));
    let (disk, blobs) = blobs(&queue);
    ticks.pass(1000 * MS);
    let mut granted_step = queue.ask(Flow::Collect, 1);
    assert!(granted_step.wait(NOW));
    assert_eq!(put(&blobs, &disk, "containers/a"), (PIECES, 1));
    let counts = collected(&queue);
    assert_eq!((counts.grants, counts.writes), (1, PIECES));
    assert_eq!(counts.written_bytes, BLOB_BYTES as u64);
    assert!(granted_step.goes_on(), "nobody has come");
    let mut next = queue.ask(Flow::Collect, 1);
    assert!(!next.wait(NOW), "one at a time");
    drop(granted_step);
    assert!(next.wait(NOW));
    drop(next);
    // Outside of a step the put does not wait.
    assert_eq!(put(&blobs, &disk, "containers/b"), (PIECES, 1));
    let counts = collected(&queue);
    assert_eq!((counts.grants, counts.waiting), (2, 0));
}

#[test]
fn long_reads_stop_where_a_user_comes() {
    let (queue, ticks) = queue(Some(DeviceKind::Disk));
    let mut granted_step = queue.ask(Flow::Scrub, 256 << 10);
    assert!(granted_step.wait(NOW));
    let read = |is_sequential, bytes| {
        let kind = PieceKind::Read { is_sequential };
        let may = queue.before_piece(Flow::Scrub, kind, bytes);
        queue.after_piece(Flow::Scrub);
        may
    };
    // In idle time each read is short, and reads may go on without limit.
    assert_eq!(read(false, 1 << 20), 64 << 10);
    (0..100).for_each(|_| assert_eq!(read(true, 1 << 20), 64 << 10));
    assert_eq!(queue.counts()[Flow::Scrub as usize].grants, 1);
    assert!(granted_step.goes_on());
    let user = queue.enter(RANDOM, Direction::Read, false, 4096);
    assert!(user.is_some() && !granted_step.goes_on());
    // Short reads pass: other threads may wait for locks that this thread holds.
    assert_eq!(read(false, 4096), 4096);
    assert_eq!(queue.counts()[Flow::Scrub as usize].grants, 1);
    // A long read waits for a grant and gets the bytes that the grant was charged for.
    let passing = Passing::begin(&ticks);
    assert_eq!(read(true, 1 << 20), 256 << 10);
    drop(passing);
    assert_eq!(queue.counts()[Flow::Scrub as usize].grants, 2);
    drop((granted_step, user));
    assert_eq!(read(true, 1 << 20), 1 << 20, "outside of a step");
}

#[test]
fn others_go_between_two_pieces() {
    let (queue, _) = queue(Some(DeviceKind::Disk));
    let mut step = queue.ask(Flow::Collect, 1);
    assert!(step.wait(NOW));
    let mut other = queue.ask(Flow::Scrub, 1);
    assert!(!other.wait(NOW), "one at a time");
    let scrubbed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let may = other.wait(std::time::Duration::from_secs(60));
            scrubbed.store(may, Ordering::Relaxed);
            drop(other);
        });
        // The task at the device goes on for half a second of device time.
        for _ in 0..2000 {
            queue.before_piece(Flow::Collect, PieceKind::Write, 256 << 10);
            queue.after_piece(Flow::Collect);
        }
    });
    assert!(scrubbed.load(Ordering::Relaxed), "in all these pieces");
    drop(step);
    assert_eq!(collected(&queue).grants, 2);
    assert_eq!(queue.counts()[Flow::Scrub as usize].grants, 1);
}

/// Advances the clock until it is dropped.
struct Passing(Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

impl Passing {
    fn begin(ticks: &Arc<Standing>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (ticks, until) = (Arc::clone(ticks), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                ticks.pass(10 * MS);
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        });
        Self(stop, Some(thread))
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        if let Some(thread) = self.1.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn pieces_wait_beside_users_and_not_for_ever() {
    let (queue, ticks) = queue(Some(DeviceKind::Disk));
    let (disk, blobs) = blobs(&queue);
    let mut granted_step = queue.ask(Flow::Collect, 1);
    assert!(granted_step.wait(NOW), "nobody is there");
    // From now on a user is always present.
    let _user = queue.enter(RANDOM, Direction::Read, false, 4096);
    let began_ns = ticks.now_ns();
    let passing = Passing::begin(&ticks);
    assert_eq!(put(&blobs, &disk, "containers/a"), (PIECES, 1));
    // The blob is written, then read.
    let waits = 2 * PIECES - 2;
    let each_ms = (ticks.now_ns() - began_ns) / MS / waits;
    drop(passing);
    // At an I/O floor of 2 % a piece of 10 ms would wait longer, but other threads may wait for
    // locks that its thread holds.
    assert!(
        (300..1500).contains(&each_ms),
        "{each_ms} ms for each piece"
    );
    drop(granted_step);
    let counts = collected(&queue);
    assert_eq!((counts.grants, counts.waiting), (1 + waits, 0));
    let mut next = queue.ask(Flow::Collect, 1);
    assert!(!next.wait(NOW), "what went too early is owed");
}
