//! When gc runs begin, how urgently, and that they end.

use super::*;

const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const START_S: u64 = 1_000_000;

fn schedule() -> CollectSchedule {
    CollectSchedule::new(CollectLimits::default(), START_S, None)
}

/// A disk of a TiB with this much free, a day after the start.
fn space(free_bytes: u64, stored_bytes: u64) -> PoolSpace {
    PoolSpace {
        now_s: START_S + DAY_S,
        room: Some(Room {
            free_bytes,
            total_bytes: TIB,
            ..Room::default()
        }),
        journal_bytes: GIB,
        stored_bytes,
        trashed_s: None,
        trash_over_bytes: 0,
        purge_s: None,
    }
}

fn run(urgency: Urgency, gained_bytes: u64, space: &PoolSpace) -> CollectRun {
    CollectRun {
        ended_s: space.now_s,
        urgency,
        is_complete: true,
        gained_bytes,
        stored_bytes: space.stored_bytes.saturating_sub(gained_bytes),
    }
}

fn begins(schedule: &CollectSchedule, space: &PoolSpace) -> Option<Urgency> {
    match schedule.decide(space) {
        CollectDecision::Begin(urgency) => Some(urgency),
        CollectDecision::Wait(_) => None,
    }
}

#[test]
fn what_is_little_depends_on_the_disk_and_the_journal() {
    let limits = CollectLimits::default();
    let room = |total_bytes| Room {
        free_bytes: 0,
        total_bytes,
        ..Room::default()
    };
    let small_journal = 32 * MIB;
    assert_eq!(limits.low_bytes(room(100 * GIB), small_journal), 10 * GIB);
    assert_eq!(limits.low_bytes(room(TIB), small_journal), 16 * GIB);
    assert_eq!(limits.low_bytes(room(600 * MIB), small_journal), 225 * MIB);
    assert_eq!(
        limits.reserve_bytes(room(600 * MIB), small_journal),
        150 * MIB
    );
    // Gc leaves space for the journal.
    assert_eq!(limits.copy_floor_bytes(room(TIB), GIB), GIB + 64 * MIB);
    assert_eq!(limits.copy_floor_bytes(room(600 * MIB), GIB), 75 * MIB);
    // A large journal needs space, on a disk that has it.
    assert_eq!(limits.reserve_bytes(room(TIB), GIB), 2 * GIB + 128 * MIB);
    assert_eq!(limits.low_bytes(room(10 * GIB), GIB), 3264 * MIB);
    assert_eq!(limits.low_bytes(room(u64::MAX), GIB), 16 * GIB);
}

#[test]
fn a_disk_that_fills_is_urgent_and_a_roomy_one_is_not() {
    let known = CollectSchedule::new(
        CollectLimits::default(),
        START_S,
        Some(run(Urgency::WhenIdle, 90 * GIB, &space(TIB, 190 * GIB))),
    );
    assert_eq!(begins(&known, &space(500 * GIB, 100 * GIB)), None);
    assert_eq!(
        begins(&known, &space(15 * GIB, 100 * GIB)),
        Some(Urgency::Low)
    );
    assert_eq!(begins(&known, &space(GIB, 100 * GIB)), Some(Urgency::Full));
    let unknown_space = PoolSpace {
        room: None,
        ..space(0, 100 * GIB)
    };
    assert_eq!(begins(&known, &unknown_space), None);
    assert_eq!(known.keep_free_bytes(&unknown_space), 0);
}

/// A full disk without garbage: runs become rare, and no writer has to wait.
#[test]
fn urgent_runs_without_effect_become_rare() {
    let mut schedule = schedule();
    let full = space(GIB, 500 * GIB);
    assert!(schedule.keep_free_bytes(&full) > GIB);
    let (mut runs, mut now_s, mut longest) = (0, full.now_s, 0);
    while now_s < full.now_s + DAY_S {
        let at = PoolSpace { now_s, ..full };
        match schedule.decide(&at) {
            CollectDecision::Begin(urgency) => {
                runs += 1;
                schedule.ended(run(urgency, MIB, &at));
                assert_eq!(schedule.keep_free_bytes(&at), 0, "waiting would not help");
                now_s += 1;
            }
            CollectDecision::Wait(next) => {
                let until = next.at_s.expect("a time");
                longest = longest.max(until - now_s);
                now_s = until;
            }
        }
    }
    assert!((20..40).contains(&runs), "{runs} runs in a day");
    assert!(longest > HOUR_S);
    // Writes since then may have overwritten something.
    let written = PoolSpace {
        stored_bytes: full.stored_bytes + 200 * GIB,
        ..full
    };
    assert_eq!(begins(&schedule, &written), Some(Urgency::Full));
    schedule.ended(run(Urgency::Full, 50 * GIB, &written));
    assert_eq!(begins(&schedule, &full), Some(Urgency::Full), "it gave");
    assert!(schedule.keep_free_bytes(&full) > GIB);
}

/// A pool that only grows is searched without effect, less and less often.
#[test]
fn growth_that_is_needed_is_looked_at_ever_more_rarely() {
    let mut schedule = schedule();
    let (mut stored, mut runs) = (10 * GIB, Vec::new());
    let mut now_s = START_S;
    while stored < 300 * GIB {
        now_s += HOUR_S;
        stored += 100 * MIB;
        let at = PoolSpace {
            now_s,
            ..space(TIB / 2, stored)
        };
        if let Some(urgency) = begins(&schedule, &at) {
            assert_eq!(urgency, Urgency::WhenIdle);
            schedule.ended(run(urgency, 0, &at));
            runs.push(stored);
        }
    }
    assert!((2..=8).contains(&runs.len()), "{runs:?}");
}

#[test]
fn what_is_overwritten_is_given_back_at_a_fifth() {
    let mut schedule = schedule();
    schedule.ended(run(Urgency::WhenIdle, 30 * GIB, &space(TIB, 130 * GIB)));
    let later = |stored| PoolSpace {
        now_s: START_S + DAY_S + HOUR_S,
        ..space(TIB / 2, stored)
    };
    assert_eq!(begins(&schedule, &later(119 * GIB)), None);
    assert_eq!(
        begins(&schedule, &later(126 * GIB)),
        Some(Urgency::WhenIdle)
    );
    // Not directly after the last run.
    let soon = PoolSpace {
        now_s: START_S + DAY_S + 60,
        ..later(140 * GIB)
    };
    assert_eq!(begins(&schedule, &soon), None);
    // The trash counts.
    let trash = PoolSpace {
        trash_over_bytes: 10 * GIB,
        ..later(116 * GIB)
    };
    assert_eq!(begins(&schedule, &trash), Some(Urgency::WhenIdle));
}

#[test]
fn trash_whose_time_is_over_goes_once_a_day() {
    let mut schedule = schedule();
    let then = space(TIB / 2, 100 * GIB);
    schedule.ended(run(Urgency::WhenIdle, 10 * GIB, &then));
    let after = |hours| PoolSpace {
        now_s: then.now_s + hours * HOUR_S,
        stored_bytes: 90 * GIB,
        trashed_s: Some(then.now_s),
        ..then
    };
    let CollectDecision::Wait(next) = schedule.decide(&after(1)) else {
        panic!("too early");
    };
    assert_eq!(next.at_s, Some(then.now_s + DAY_S));
    assert_eq!(begins(&schedule, &after(23)), None);
    assert_eq!(begins(&schedule, &after(24)), Some(Urgency::WhenIdle));
    // A hold blocked the deletion: the next try is a day later.
    schedule.ended(run(Urgency::WhenIdle, 0, &after(24)));
    assert_eq!(begins(&schedule, &after(47)), None);
    assert_eq!(begins(&schedule, &after(49)), Some(Urgency::WhenIdle));
    let forgotten = PoolSpace {
        trashed_s: None,
        purge_s: Some(then.now_s),
        ..after(49)
    };
    assert_eq!(begins(&schedule, &forgotten), Some(Urgency::WhenIdle));
    let nothing = PoolSpace {
        trashed_s: None,
        ..after(49)
    };
    assert_eq!(begins(&schedule, &nothing), None);
}

/// A failed or interrupted run knows nothing about the pool, and is not repeated at once.
#[test]
fn a_run_that_failed_is_tried_again_later() {
    let mut schedule = schedule();
    let then = space(TIB / 2, 100 * GIB);
    assert_eq!(begins(&schedule, &then), Some(Urgency::WhenIdle));
    schedule.ended(CollectRun {
        is_complete: false,
        ..run(Urgency::WhenIdle, 0, &then)
    });
    assert_eq!(begins(&schedule, &then), None);
    let later = PoolSpace {
        now_s: then.now_s + 2 * HOUR_S,
        ..then
    };
    assert_eq!(begins(&schedule, &later), Some(Urgency::WhenIdle));
}

/// A run that fails for lack of space says little, if the one before it freed some: it is tried
/// again at once, and writers wait for it. It counts if it fails again.
#[test]
fn an_urgent_run_that_fails_after_an_effective_one_is_tried_again_at_once() {
    let mut schedule = schedule();
    let full = space(GIB, 450 * GIB);
    let failed = |gained| CollectRun {
        is_complete: false,
        ..run(Urgency::Full, gained, &full)
    };
    schedule.ended(run(Urgency::Full, 50 * GIB, &space(GIB, 500 * GIB)));
    schedule.ended(failed(0));
    assert_eq!(begins(&schedule, &full), Some(Urgency::Full));
    assert!(schedule.keep_free_bytes(&full) > GIB);
    schedule.ended(failed(0));
    assert_eq!(begins(&schedule, &full), None);
    assert_eq!(schedule.keep_free_bytes(&full), 0, "waiting would not help");
    // A run that deleted something before it failed counts as effective.
    schedule.ended(failed(50 * GIB));
    assert_eq!(begins(&schedule, &full), Some(Urgency::Full));
    assert!(schedule.keep_free_bytes(&full) > GIB);
    schedule.ended(failed(0));
    assert_eq!(begins(&schedule, &full), None);
    // Before the first complete run nothing is known.
    let mut schedule = self::schedule();
    schedule.ended(failed(0));
    assert_eq!(schedule.keep_free_bytes(&full), 0);
}

/// Containers trashed while space was low stay an hour for readers. A full disk does not wait for
/// that.
#[test]
fn a_full_disk_does_not_wait_for_what_a_low_one_waits_for() {
    let mut schedule = schedule();
    let low = space(10 * GIB, 500 * GIB);
    schedule.ended(run(Urgency::Low, 0, &low));
    assert_eq!(begins(&schedule, &low), None);
    let full = PoolSpace {
        room: space(GIB, 0).room,
        ..low
    };
    assert!(schedule.keep_free_bytes(&full) > GIB);
    assert_eq!(begins(&schedule, &full), Some(Urgency::Full));
    schedule.ended(run(Urgency::Full, 0, &full));
    assert_eq!(begins(&schedule, &full), None);
}

#[test]
fn a_clock_that_was_set_back_makes_no_caller_wait() {
    let mut schedule = schedule();
    let full = space(GIB, 500 * GIB);
    schedule.ended(run(Urgency::Full, 0, &full));
    let before = PoolSpace {
        now_s: full.now_s - HOUR_S,
        ..full
    };
    assert_eq!(begins(&schedule, &full), None);
    assert_eq!(begins(&schedule, &before), Some(Urgency::Full));
}

#[test]
fn a_small_pool_is_left_alone() {
    let at = space(TIB / 2, 40 * MIB);
    assert_eq!(begins(&schedule(), &at), None);
    // The same on a disk that other files have filled.
    let full = space(MIB, 40 * MIB);
    assert_eq!(begins(&schedule(), &full), None);
    assert_eq!(schedule().keep_free_bytes(&full), 0);
    assert_eq!(
        begins(&schedule(), &space(MIB, 2 * GIB)),
        Some(Urgency::Full)
    );
}

#[test]
fn scrubs_are_due_by_what_was_verified_first() {
    assert_eq!(scrub_due_s(300, None, 100, 30), Some(130));
    assert_eq!(scrub_due_s(300, Some(200), 100, 30), Some(230));
    assert_eq!(scrub_due_s(300, Some(200), 100, 0), None);
    // The clock was ahead when the last pass began, or when the pool was created.
    assert_eq!(scrub_due_s(300, Some(9000), 100, 30), Some(130));
    assert_eq!(scrub_due_s(300, Some(9000), 8000, 30), Some(30));
}
