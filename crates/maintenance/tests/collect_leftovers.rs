//! Leftovers of a session that did not commit: the next gc run finds them, in the same process and
//! in another one. Freeing their space takes no later backup.

use chunking::Compression;
use maintenance::Collector;
use sim::SimDisk;
use sim::pool_histories::{check_all, finish_gc, for_any_gain};
use std::sync::atomic::{AtomicUsize, Ordering};
use store::{OpenMode, Pool};
use testkit::specimen::{Specimen, noise, options, put_image};

/// As many runs as one `gc` makes.
fn collect(pool: &Pool) {
    for _ in 0..3 {
        let run = Collector::new(pool, for_any_gain(), options(Compression::Lz4));
        finish_gc(pool, None, &mut run.expect("alone"), 10_000).expect("step");
    }
}

fn stored(disk: &SimDisk) -> u64 {
    let containers = disk.image().files_below("containers").into_iter();
    containers.map(|(_, bytes)| bytes).sum()
}

/// Stores 3 MB that no commit names.
fn fail_a_backup(pool: &Pool) {
    let mut session = pool.begin(options(Compression::None)).expect("begin");
    put_image(&mut session, &noise(99, 3_000_000));
    session.abandon().expect("abandon");
}

#[test]
fn of_a_session_of_this_process() {
    let specimen = Specimen::new(7, true);
    let disk = specimen.disk();
    let pool = specimen.open(&disk, 1, OpenMode::Write).expect("open");
    collect(&pool);
    let before = stored(&disk);
    fail_a_backup(&pool);
    assert!(stored(&disk) > before + 2_000_000);
    collect(&pool);
    let after = stored(&disk);
    assert!(after < before + 500_000, "{before} before, {after} after");
}

#[test]
fn of_a_process_that_has_ended() {
    let specimen = Specimen::new(8, true);
    let disk = specimen.disk();
    let pool = specimen.open(&disk, 1, OpenMode::Write).expect("open");
    collect(&pool);
    let before = stored(&disk);
    fail_a_backup(&pool);
    drop(pool);
    let pool = specimen.open(&disk, 2, OpenMode::Write).expect("open");
    assert!(!pool.adopted().is_empty());
    collect(&pool);
    let after = stored(&disk);
    assert!(after < before + 500_000, "{before} before, {after} after");
    for truth in &specimen.truths {
        assert_eq!(truth.restore(&pool).expect("as stored"), [].into());
    }
}

#[test]
fn what_an_open_session_has_stored_stays() {
    let specimen = Specimen::new(9, true);
    let disk = specimen.disk();
    let pool = specimen.open(&disk, 1, OpenMode::Write).expect("open");
    fail_a_backup(&pool);
    let mut session = pool.begin(options(Compression::None)).expect("begin");
    let root = put_image(&mut session, &noise(98, 2_000_000));
    collect(&pool);
    let kind = format::snapshot::SnapshotKind::Image;
    let snapshot = testkit::specimen::snapshot(&pool, kind, "late", root);
    pool.commit(session, std::slice::from_ref(&snapshot), &[])
        .expect("commit");
    collect(&pool);
    assert!(check_all(&pool).expect("check").is_sound());
}

/// Entering leftovers takes sessions of its own: a writer waits for them and gets no error that
/// another session is open.
#[test]
fn a_writer_is_not_refused_while_they_are_entered() {
    let specimen = Specimen::new(9, true);
    let disk = specimen.disk();
    let pool = &specimen.open(&disk, 1, OpenMode::Write).expect("open");
    const RUNS: usize = 2_000;
    let runs = &AtomicUsize::new(0);
    std::thread::scope(|threads| {
        threads.spawn(move || {
            for _ in 0..RUNS {
                collect(pool);
                runs.fetch_add(1, Ordering::Relaxed);
            }
        });
        while runs.load(Ordering::Relaxed) < RUNS {
            // The next run enters what this session leaves.
            pool.begin(options(Compression::None)).expect("begin");
        }
    });
}
