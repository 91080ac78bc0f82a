//! Back-pressure: writers that wait for free space on the disk, beside a gc run that frees it.

use crate::small_volumes;

use chunking::Compression;
use maintenance::{Collector, GcPolicy};
use media::Room;
use sim::SimDisk;
use small_volumes::{is_sound, made, open, read, small, write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use store::GcStep;
use testkit::specimen::{noise, options};
use volumes::Volumes;

const SIZE: u64 = 4 << 20;
/// More than the reserve of such a disk: writers that need not wait get no error.
const KEPT: u64 = 1 << 30;

fn room(free_bytes: u64) -> Option<Room> {
    Some(Room {
        free_bytes,
        total_bytes: 1 << 40,
        ..Room::default()
    })
}

/// A volume that was written once, with so little free space on its disk that no writer may take
/// it.
fn nearly_full() -> (Arc<SimDisk>, Volumes) {
    let disk = made();
    let volumes = open(&disk, 2);
    let volume = volumes.create("v", SIZE, 12).expect("create");
    write(&volume, 0, &noise(1, SIZE as usize));
    volumes.checkpoint().expect("checkpoint");
    disk.set_room(room(KEPT - 1));
    volumes.keep_free(KEPT);
    (disk, volumes)
}

/// Returns when `what` holds. It must come; how soon depends on the machine.
fn until(what: impl Fn() -> bool) {
    let since = Instant::now();
    while !what() {
        assert!(since.elapsed() < Duration::from_secs(60), "waited in vain");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns when the only writer waits for space. It looks again and again: it has found none in two
/// looks that began after this was called.
fn until_held_back(volumes: &Volumes) {
    let waited_ns = || volumes.writer_wait_counts().waited_ns;
    for _ in 0..3 {
        let before = waited_ns();
        until(|| waited_ns() != before);
    }
}

/// Overwrites the volume in parts of `part_bytes`, beside a gc run. Returns the bytes written while
/// space was short.
fn overwrite_beside_a_collector(part_bytes: usize) -> u64 {
    let (disk, volumes) = nearly_full();
    let volume = volumes.volume("v").expect("volume");
    let content = noise(2, SIZE as usize);
    let (written, direct) = (AtomicU64::new(0), volumes.direct_bytes());
    let (rounds, waits) = (
        volumes.checkpoint_counts().rounds,
        volumes.writer_wait_counts().waits,
    );
    let stood = std::thread::scope(|scope| {
        scope.spawn(|| {
            for (n, part) in (0u64..).zip(content.chunks(part_bytes)) {
                write(&volume, n * part_bytes as u64, part);
                written.fetch_add(part.len() as u64, Relaxed);
            }
        });
        until_held_back(&volumes);
        let stood = written.load(Relaxed);
        assert_eq!(volumes.checkpoint_counts().rounds, rounds);
        assert_eq!(volumes.direct_bytes(), direct, "past the journal");
        // It would wait forever for a writer that waits while it holds a session.
        let pool = volumes.pool();
        let policy = GcPolicy::with_trash_period(0);
        let lane = options(Compression::None);
        for _ in 0..2 {
            let mut collector = Collector::new(pool, policy, lane).expect("alone");
            while collector
                .step(pool, Some(&volumes), &volumes, u64::MAX)
                .expect("step")
                == GcStep::Working
            {}
        }
        until_held_back(&volumes);
        assert_eq!(written.load(Relaxed), stood);
        disk.set_room(room(KEPT));
        stood
    });
    assert_eq!(written.load(Relaxed), SIZE);
    let counts = volumes.writer_wait_counts();
    assert_eq!(counts.waits, waits + 1);
    assert_eq!(read(&volume), content);
    volumes.checkpoint().expect("checkpoint");
    is_sound(&volumes);
    stood
}

#[test]
fn small_writes_wait_when_the_journal_is_full() {
    let stood = overwrite_beside_a_collector(4096);
    let journal = small().journal.bytes_max;
    assert!(stood > journal / 2 && stood <= journal, "{stood} bytes");
}

#[test]
fn large_writes_take_the_journal_then() {
    let stood = overwrite_beside_a_collector(256 << 10);
    assert!(stood <= small().journal.bytes_max, "{stood} bytes");
}

/// The caller of `keep_free` decides whether waiting is worthwhile.
#[test]
fn no_caller_waits_without_need() {
    for (free, keep) in [(Some(KEPT - 1), 0), (Some(KEPT), KEPT), (None, KEPT)] {
        let (disk, volumes) = nearly_full();
        disk.set_room(free.and_then(room));
        volumes.keep_free(keep);
        let volume = volumes.volume("v").expect("volume");
        write(&volume, 0, &noise(3, SIZE as usize));
        assert_eq!(volumes.writer_wait_counts().waits, 0);
    }
    // A writer that waits already continues.
    let (_disk, volumes) = nearly_full();
    let volume = volumes.volume("v").expect("volume");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&volume, 0, &noise(3, SIZE as usize)));
        until(|| volumes.writer_wait_counts().waits == 1);
        assert!(!writer.is_finished());
        volumes.keep_free(0);
    });
}
