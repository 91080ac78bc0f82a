//! `DirBlobs` on failing disks: full disks, failed syncs, leftovers, concurrent barriers.
//! `cargo test -p sim` runs it.
//!
//! Invariant: an error is reported in full once, nothing is acknowledged after a failed sync, and
//! no temporary file outlives the put that failed.

use device::{DeviceQueue, PacedDisk, Writes};
use media::SystemTicks;
use media::{Barrier, Blobs, DirBlobs, Disk, IoOrigin, MediaErrorKind as Kind, Put, Syncing};
use sim::{CrashPoint, Fault, Op, Plan, Seed, SimDisk, Walker};
use std::sync::Arc;

const THREADS: Syncing = Syncing::Threads {
    threads: 2,
    queue: 2,
};
const BOTH: [Syncing; 2] = [Syncing::Inline, THREADS];

fn blobs(disk: &Arc<SimDisk>, syncing: Syncing) -> DirBlobs {
    let disk: Arc<dyn Disk> = Arc::<SimDisk>::clone(disk);
    DirBlobs::new(disk, syncing)
}

fn unnamed(disk: &SimDisk) -> Vec<String> {
    disk.list("tmp")
        .unwrap()
        .into_iter()
        .map(|entry| entry.name)
        .collect()
}

fn barrier(blobs: &DirBlobs) -> Result<(), media::MediaError> {
    blobs.barrier(Barrier::ContainersBeforeRoot)
}

#[test]
fn a_full_disk_is_reported_and_leaves_nothing() {
    for syncing in BOTH {
        let disk = SimDisk::new();
        let blobs = blobs(&disk, syncing);
        blobs.put("dir/a", vec![1; 1000], Put::Replace).unwrap();
        barrier(&blobs).unwrap();
        disk.inject(Fault::NoSpaceAfter(500));
        let put = blobs.put("dir/b", vec![2; 1000], Put::Replace);
        let error = put.and_then(|()| barrier(&blobs)).unwrap_err();
        assert_eq!(error.kind, Kind::NoSpace);
        assert!(
            error
                .to_string()
                .starts_with("cannot write dir/b: no storage space"),
            "{error}"
        );
        assert!(unnamed(&disk).is_empty(), "{:?}", unnamed(&disk));
        assert_eq!(blobs.list("dir").unwrap(), ["a"]);
        disk.clear_faults();
        let again = blobs.put("dir/c", vec![3; 10], Put::Replace);
        match syncing {
            // The put itself was refused: nothing was promised.
            Syncing::Inline => again.and_then(|()| barrier(&blobs)).unwrap(),
            // The put had been accepted: this object must not be used any more.
            Syncing::Threads { .. } => {
                let again = again.unwrap_err();
                assert_eq!(again.kind, Kind::Poisoned);
                let reported = again.to_string();
                assert!(
                    reported.contains("no storage space"),
                    "the reason is lost: {reported}"
                );
            }
        }
    }
}

#[test]
fn a_full_disk_does_not_poison_a_commit() {
    let disk = SimDisk::new();
    let blobs = blobs(&disk, THREADS);
    disk.inject(Fault::NoSpaceAfter(0));
    let error = blobs
        .put("roots/1", vec![1; 10], Put::IfAbsent)
        .unwrap_err();
    assert_eq!(error.kind, Kind::NoSpace);
    disk.clear_faults();
    blobs.put("roots/1", vec![1; 10], Put::IfAbsent).unwrap();
    barrier(&blobs).unwrap();
}

#[test]
fn a_failed_sync_ends_everything() {
    for syncing in BOTH {
        for how in [Put::Replace, Put::IfAbsent] {
            // Top, top, file, directory of the name.
            for sync in 0..4 {
                let disk = SimDisk::new();
                let blobs = blobs(&disk, syncing);
                disk.inject(Fault::Sync {
                    after: sync,
                    sticky: false,
                });
                let put = blobs.put("dir/a", vec![1; 1000], how);
                let error = put.and_then(|()| barrier(&blobs)).unwrap_err();
                assert_eq!(error.kind, Kind::Io, "sync {sync}");
                let after = [
                    blobs.put("dir/b", vec![2], Put::Replace),
                    blobs.put("dir/b", vec![2], Put::IfAbsent),
                    blobs.delete("dir/a"),
                    barrier(&blobs),
                ];
                for result in after {
                    let later = result.unwrap_err();
                    assert_eq!(later.kind, Kind::Poisoned, "sync {sync}");
                    let reported = later.to_string();
                    assert!(
                        reported.contains("simulated failure"),
                        "sync {sync}: {reported}"
                    );
                }
            }
        }
    }
}

#[test]
fn every_other_error_is_reported_and_leaves_nothing() {
    for syncing in BOTH {
        for after in 0..6 {
            let disk = SimDisk::new();
            let blobs = blobs(&disk, syncing);
            disk.inject(Fault::Names { after });
            let put = blobs.put("dir/a", vec![1; 1000], Put::Replace);
            let result = put.and_then(|()| barrier(&blobs));
            // Two directories, the temporary file, the move; a fifth change is not needed.
            assert_eq!(result.is_err(), after < 4, "names {after}");
            assert!(
                disk.list("tmp").map_or(true, |entries| entries.is_empty()),
                "names {after}"
            );
        }
    }
}

#[test]
fn leftovers_are_swept_and_never_written_to() {
    let disk = SimDisk::new();
    let first = blobs(&disk, Syncing::Inline);
    first
        .put("dir/a", b"precious".to_vec(), Put::Replace)
        .unwrap();
    barrier(&first).unwrap();
    // After this power loss the temporary name may lead to the stored blob.
    let mut walker = Walker::new(&disk.recording());
    walker.advance(usize::MAX);
    let moved = disk
        .recording()
        .log
        .iter()
        .position(|e| matches!(e.op, Op::Rename { .. }));
    assert!(moved.is_some());
    let point = CrashPoint::new(&walker);
    let kept = (0..point.pending())
        .map(|unit| point.state(Plan::Only(unit)))
        .find(|image| image.contents("tmp/dir.a.0").is_some())
        .expect("a state with both names");
    let disk = SimDisk::on(kept);
    let second = blobs(&disk, Syncing::Inline);
    second
        .put("dir/a", b"other".to_vec(), Put::IfAbsent)
        .unwrap_err();
    assert_eq!(second.read("dir/a", 100).unwrap(), b"precious");
    disk.make_dir("tmp/foreign").unwrap();
    second.sweep().unwrap();
    assert_eq!(unnamed(&disk), ["foreign"]);
    assert_eq!(second.read("dir/a", 100).unwrap(), b"precious");
}

#[test]
fn two_processes_can_put_the_same_name() {
    let disk = SimDisk::new();
    let pair = [blobs(&disk, Syncing::Inline), blobs(&disk, Syncing::Inline)];
    for round in 0..50 {
        let name = format!("roots/{round}");
        let won: Vec<bool> = std::thread::scope(|scope| {
            let put = |number: usize| {
                let (blobs, name) = (&pair[number], &name);
                move || {
                    blobs
                        .put(name, vec![number as u8; 3000], Put::IfAbsent)
                        .is_ok()
                }
            };
            let threads = [scope.spawn(put(0)), scope.spawn(put(1))];
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert_ne!(won[0], won[1], "one wins round {round}");
        let winner = won.iter().position(|won| *won).unwrap() as u8;
        assert_eq!(pair[0].read(&name, 9999).unwrap(), vec![winner; 3000]);
    }
    assert!(unnamed(&disk).is_empty());
}

#[test]
fn a_blob_costs_what_it_must() {
    let disk = SimDisk::new();
    let blobs = blobs(&disk, Syncing::Inline);
    blobs.put("dir/a", vec![1; 100], Put::Replace).unwrap();
    barrier(&blobs).unwrap();
    let before = disk.counts();
    for name in ["dir/b", "dir/c"] {
        blobs.put(name, vec![2; 100], Put::Replace).unwrap();
    }
    barrier(&blobs).unwrap();
    let after = disk.counts();
    assert_eq!(after.file_syncs - before.file_syncs, 2, "one for each blob");
    assert_eq!(after.dir_syncs - before.dir_syncs, 1, "one for both names");
    assert_eq!(after.writes - before.writes, 2);
    let log = disk.recording().log;
    let order: Vec<String> = log
        .iter()
        .rev()
        .take(9)
        .rev()
        .map(|e| e.to_string())
        .collect();
    let expected = [
        "create tmp/dir.b.1",
        "write tmp/dir.b.1 0+100",
        "sync tmp/dir.b.1 BlobBeforeName Durable",
        "rename dir.b.1 to dir/b",
        "create tmp/dir.c.2",
        "write tmp/dir.c.2 0+100",
        "sync tmp/dir.c.2 BlobBeforeName Durable",
        "rename dir.c.2 to dir/c",
        "sync_dir dir ContainersBeforeRoot Durable",
    ];
    assert_eq!(order, expected);
}

/// The puts of a gc run, in pieces, on a disk that may leave out one barrier.
fn put_in_pieces(without: Option<Barrier>) -> Arc<SimDisk> {
    let disk = match without {
        Some(point) => SimDisk::new().without(point),
        None => SimDisk::new(),
    };
    let queue = DeviceQueue::new(Default::default(), Arc::new(SystemTicks::default()));
    let below: Arc<dyn Disk> = Arc::<SimDisk>::clone(&disk);
    let paced = PacedDisk::new(below, Arc::new(queue.unwrap()), Writes::WaitForGrants);
    let blobs = DirBlobs::new(Arc::new(paced), THREADS);
    let _io_origin = IoOrigin::of(units::Origin::Collect).begin();
    blobs.put("dir/a", vec![1; PIECES_BYTES], Put::New).unwrap();
    disk
}

const PIECES_BYTES: usize = (512 << 10) + 100;

/// New memory is zeroed page by page, so a thread that writes inline also leaves its buffer to the
/// next blob.
#[test]
fn memory_of_a_blob_that_was_written_inline_serves_the_next_one() {
    let blobs = blobs(&SimDisk::new(), THREADS);
    let mut bytes = Vec::with_capacity(1 << 20);
    bytes.push(1);
    blobs.put("a", bytes, Put::IfAbsent).unwrap();
    let next = blobs.buffer();
    assert!(next.is_empty() && next.capacity() >= 1 << 20);
}

/// Finds a crash state in which a name leads to anything but the complete blob.
fn torn(disk: &SimDisk) -> Option<String> {
    let recording = disk.recording();
    let mut seed = Seed::new(7);
    (0..=recording.log.len()).find_map(|position| {
        let mut walker = Walker::new(&recording);
        walker.advance(position);
        let point = CrashPoint::new(&walker);
        let plans = point.plans(200, &mut seed);
        let torn = plans.into_iter().find(|plan| {
            let found = point.state(*plan).contents("dir/a");
            found.is_some_and(|bytes| bytes != [1; PIECES_BYTES])
        });
        torn.map(|plan| format!("after {position}: {:?}", point.describe(plan)))
    })
}

#[test]
fn pieces_of_maintenance_are_a_blob_after_one_sync() {
    let disk = put_in_pieces(None);
    let log = disk.recording().log;
    let of_file = log.iter().map(|e| e.to_string());
    let of_file: Vec<String> = of_file.filter(|e| e.contains("dir.a")).collect();
    let expected = [
        "create tmp/dir.a.0",
        "write tmp/dir.a.0 0+262144",
        "write tmp/dir.a.0 262144+262144",
        "write tmp/dir.a.0 524288+100",
        "sync tmp/dir.a.0 BlobBeforeName Durable",
        "rename dir.a.0 to dir/a",
    ];
    assert_eq!(of_file, expected, "done when the put returned");
    assert_eq!(torn(&disk), None);
    let without = put_in_pieces(Some(Barrier::BlobBeforeName));
    assert!(torn(&without).is_some(), "nobody misses the sync");
}
