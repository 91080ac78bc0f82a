//! Readers in other processes, and gc that does not wait for the trash.
//!
//! Invariant: while a reader lives, everything that the commit it opened reaches can be read. Once
//! it has ended, in whatever way, nothing of it protects anything.

use chunking::Compression;
use maintenance::{Collector, GcCounts};
use sim::SimDisk;
use sim::pool_histories::{check_all, finish_gc, for_any_gain};
use std::sync::Arc;
use store::{OpenMode, Pool};
use testkit::specimen::{Specimen, options};

const MEMORY_BYTES: usize = 8 << 20;

fn collect(pool: &Pool) -> GcCounts {
    let mut counts = GcCounts::default();
    for _ in 0..4 {
        let run = Collector::new(pool, for_any_gain(), options(Compression::Lz4));
        let done = finish_gc(pool, None, &mut run.expect("alone"), 10_000);
        counts = counts.followed_by(done.expect("step"));
    }
    counts
}

fn reads(disk: &Arc<SimDisk>, seed: u64) -> Pool {
    let media = testkit::specimen::media(disk, seed);
    let unlocked = Pool::unlock(&media, None).expect("unlock");
    Pool::open_holding(media, unlocked, MEMORY_BYTES, "a test").expect("open for reading")
}

fn files(disk: &SimDisk) -> usize {
    disk.image().files_below("readers").len()
}

fn is_whole(pool: &Pool, specimen: &Specimen) {
    assert!(check_all(pool).expect("check").is_sound());
    for truth in &specimen.truths {
        assert_eq!(truth.restore(pool).expect("as stored"), [].into());
    }
}

#[test]
fn a_reader_outlives_trash_and_collection() {
    let specimen = Specimen::new(7, false);
    let disk = specimen.disk();
    let reader = reads(&disk, 2);
    assert_eq!(reader.holders().unheld(), None);
    let writer = specimen.open(&disk, 1, OpenMode::Write).expect("open");
    let all: Vec<_> = specimen.truths.iter().map(|t| t.snapshot.clone()).collect();
    writer.forget(&all).expect("forget");
    let counts = collect(&writer);
    assert_eq!((counts.snapshots_purged, counts.deleted_containers), (0, 0));
    let held = writer.holders().held_back().expect("trash");
    assert_eq!(held.len(), 1);
    assert_eq!(held[0].reader.label, "a test");
    assert_eq!(held[0].reader.generation, reader.generation());
    assert_eq!(held[0].snapshots, all.len() as u64);
    is_whole(&reader, &specimen);
    // A reader that opens now needs nothing of the forgotten snapshots.
    let late = reads(&disk, 3);
    drop(reader);
    let counts = collect(&writer);
    assert_eq!(counts.snapshots_purged, all.len() as u64);
    let held = writer.holders().held_back().expect("trash");
    assert!(
        held.iter()
            .all(|h| h.reader.generation == late.generation())
    );
    drop(late);
    assert!(collect(&writer).deleted_containers > 0);
    assert_eq!((writer.holders().readers(), files(&disk)), (Vec::new(), 0));
}

/// The same with a reader without a hold: it loses what it reads. This proves that the test above
/// can fail.
#[test]
fn a_reader_without_a_hold_loses_what_it_reads() {
    let specimen = Specimen::new(7, false);
    let disk = specimen.disk();
    let reader = specimen.open(&disk, 2, OpenMode::Read).expect("open");
    let writer = specimen.open(&disk, 1, OpenMode::Write).expect("open");
    let all: Vec<_> = specimen.truths.iter().map(|t| t.snapshot.clone()).collect();
    writer.forget(&all).expect("forget");
    assert!(collect(&writer).deleted_containers > 0);
    let report = check_all(&reader);
    assert!(report.is_err() || !report.unwrap().is_sound());
}

/// Its file exists but is not locked: after a kill, and in a copy of a pool.
#[test]
fn what_a_dead_reader_leaves_holds_nothing() {
    let specimen = Specimen::new(7, false);
    let disk = specimen.disk();
    let reader = reads(&disk, 2);
    assert_eq!(files(&disk), 1);
    let copied = SimDisk::unrecorded(disk.image());
    let writer = specimen.open(&copied, 1, OpenMode::Write).expect("open");
    assert_eq!(writer.holders().readers(), Vec::new());
    assert_eq!(files(&copied), 0);
    drop(reader);
    assert_eq!(files(&disk), 0);
}
