//! Clocks that jump while the trash is in use: its contents stay at least as long as promised, and
//! not for years.
//!
//! Invariant: each process has its own clock. The next run gets what the last one saw, as in the
//! program.

use chunking::Compression;
use maintenance::{Collector, GcCounts, GcPolicy};
use media::Media;
use sim::SimDisk;
use sim::pool_histories::finish_gc;
use std::sync::Arc;
use store::{Discarded, OpenMode, Pool};
use testkit::specimen::{new_pool, noise, options, store_image};
use units::UnixNanos;

const DAY_NS: i64 = 86_400 * 1_000_000_000;
/// The day that a right clock shows.
const TODAY: i64 = 20_000;
const YEARS: i64 = 10 * 365;

/// A process whose clock shows this day.
fn on(disk: &Arc<SimDisk>, day: i64) -> Pool {
    let seed = day as u64 + 3;
    let media = Media::seeded(Arc::clone(disk) as _, UnixNanos(day * DAY_NS), seed);
    Pool::open(media, None, OpenMode::Write, 16 << 20).expect("open")
}

/// A pool of two images, of which the first is forgotten on that day.
fn forgotten_on(day: i64) -> Arc<SimDisk> {
    let (disk, pool) = new_pool();
    for (name, seed) in [("first", 1), ("second", 2)] {
        store_image(&pool, name, &noise(seed, 100_000), Compression::Lz4);
    }
    drop(pool);
    forget(&disk, day);
    disk
}

fn forget(disk: &Arc<SimDisk>, day: i64) {
    let pool = on(disk, day);
    let oldest = pool.snapshots().expect("snapshots").remove(0);
    pool.forget(&[oldest]).expect("forget");
}

/// A run that knows what the last one saw.
fn collect(
    disk: &Arc<SimDisk>,
    day: i64,
    policy: GcPolicy,
    seen: &mut Option<Discarded>,
) -> GcCounts {
    let pool = on(disk, day);
    let policy = GcPolicy {
        ahead: *seen,
        ..policy
    };
    let mut collector = Collector::new(&pool, policy, options(Compression::Lz4)).expect("alone");
    let counts = finish_gc(&pool, None, &mut collector, 1 << 20).expect("step");
    let at = UnixNanos(day * DAY_NS);
    *seen = match (counts.ahead_by, *seen) {
        (None, _) => None,
        (Some(by), Some(before)) if by <= before.by => Some(before),
        (Some(by), _) => Some(Discarded { by, at }),
    };
    counts
}

fn purged(disk: &Arc<SimDisk>, day: i64, seen: &mut Option<Discarded>) -> u64 {
    collect(disk, day, GcPolicy::default(), seen).snapshots_purged
}

#[test]
fn a_clock_that_was_ahead_keeps_nothing_for_years() {
    let disk = forgotten_on(TODAY + YEARS);
    let mut seen = None;
    assert_eq!(purged(&disk, TODAY, &mut seen), 0);
    assert!(seen.is_some());
    assert_eq!(
        purged(&disk, TODAY + 6, &mut seen),
        0,
        "seven days from then"
    );
    assert_eq!(purged(&disk, TODAY + 8, &mut seen), 1);
    // Its containers came into the trash while the clock was right.
    let one_day = collect(&disk, TODAY + 10, GcPolicy::default(), &mut seen);
    assert!(one_day.deleted_containers > 0, "{one_day:?}");
    assert_eq!(seen, None);
}

/// Containers that a run with such a clock moves to the trash are deleted a day after they were
/// seen.
#[test]
fn containers_do_not_stay_for_years_either() {
    let disk = forgotten_on(TODAY + YEARS);
    let mut seen = None;
    let first = collect(&disk, TODAY + YEARS + 8, GcPolicy::default(), &mut seen);
    assert!(first.snapshots_purged == 1 && first.discarded_containers > 0);
    let then = collect(&disk, TODAY, GcPolicy::default(), &mut seen);
    assert!(then.deleted_containers == 0 && then.trash_containers > 0);
    let next_day = collect(&disk, TODAY + 2, GcPolicy::default(), &mut seen);
    assert!(next_day.deleted_containers >= first.discarded_containers);
}

/// A machine that boots with the clock of 1970 before it has set the time.
#[test]
fn a_clock_that_is_behind_for_a_while_deletes_nothing_early() {
    let disk = forgotten_on(TODAY);
    let mut seen = None;
    assert_eq!(purged(&disk, 1, &mut seen), 0);
    assert!(seen.is_some(), "of a time that is not here yet");
    assert_eq!(purged(&disk, TODAY + 1, &mut seen), 0, "it is a day");
    assert_eq!(purged(&disk, 2, &mut seen), 0);
    assert_eq!(purged(&disk, TODAY + 6, &mut seen), 0);
    assert_eq!(purged(&disk, TODAY + 8, &mut seen), 1);
}

#[test]
fn what_was_seen_of_older_entries_says_nothing_of_newer_ones() {
    let disk = forgotten_on(TODAY + YEARS);
    let mut seen = None;
    assert_eq!(purged(&disk, TODAY, &mut seen), 0);
    // The clock jumps once more.
    forget(&disk, TODAY + YEARS);
    assert_eq!(purged(&disk, TODAY + 6, &mut seen), 0);
    let all_anew = seen;
    assert_eq!(
        purged(&disk, TODAY + 8, &mut seen),
        0,
        "both wait from the sixth day on"
    );
    assert_eq!(seen, all_anew);
    assert_eq!(purged(&disk, TODAY + 14, &mut seen), 2);
}

#[test]
fn a_caller_that_waits_for_nothing_gets_it_at_once() {
    let disk = forgotten_on(TODAY + YEARS);
    let at_once = GcPolicy::with_trash_period(0);
    let counts = collect(&disk, TODAY, at_once, &mut None);
    assert_eq!(counts.snapshots_purged, 1);
}
