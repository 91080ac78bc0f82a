//! Canaries of the explorer on a toy store: it finds what it must find, and nothing else.
//! `cargo test -p sim` runs it.
//!
//! Invariant: every mistake and every missing barrier that matters gives a failure; the correct toy
//! gives none.

use crate::register;

use media::{Barrier, Disk};
use register::{Counting, Mistake};
use sim::{Expected, Explorer, History, Report, Scenario, SimDisk};
use std::sync::Arc;

fn counting(seed: u64, mistake: Mistake) -> Counting {
    Counting {
        seed,
        puts: 12,
        mistake,
        kills: true,
    }
}

fn explore(mistake: Mistake, without: Option<Barrier>) -> Report {
    let mut report = Report::default();
    for seed in 0..4 {
        let mut explorer = Explorer::new(seed, 4000);
        explorer.without = without;
        explorer.threads = 2;
        report += explorer.explore(&counting(seed, mistake));
    }
    report
}

#[test]
fn the_correct_order_survives_everything() {
    let report = explore(Mistake::None, None);
    report.expect_none();
    assert!(report.states > 5000, "{report:?}");
}

#[test]
fn a_missing_barrier_is_noticed() {
    for barrier in [
        Barrier::BlobBeforeName,
        Barrier::DirectoryBeforeNames,
        Barrier::ContainersBeforeRoot,
        Barrier::RootBeforeAck,
    ] {
        let report = explore(Mistake::None, Some(barrier));
        assert!(!report.failures.is_empty(), "nobody misses {barrier:?}");
    }
    // The toy has no index.
    explore(Mistake::None, Some(Barrier::IndexBeforeClean)).expect_none();
}

#[test]
fn a_wrong_order_is_found() {
    for mistake in [
        Mistake::RootFirst,
        Mistake::OneBarrier,
        Mistake::NoAdoption,
        Mistake::RemovesEarly,
    ] {
        let report = explore(mistake, None);
        assert!(!report.failures.is_empty(), "{mistake:?} is not found");
    }
}

#[test]
fn recovery_is_explored_too() {
    let mut explorer = Explorer::new(1, 1500);
    explorer.recovery_depth = 2;
    explorer.recovery_every = 2;
    let report = explorer.explore(&counting(1, Mistake::None));
    report.expect_none();
    assert!(report.recovery_states > 1000, "{report:?}");
}

#[test]
fn a_failure_is_reproduced() {
    let explorer = Explorer::new(3, 2000);
    let scenario = Counting {
        kills: false,
        ..counting(3, Mistake::RootFirst)
    };
    let report = explorer.explore(&scenario);
    let failure = &report.failures[0];
    let (image, result) = explorer.replay(&scenario, &failure.steps);
    assert_eq!(result.as_ref(), Err(&failure.message), "{failure}");
    assert!(!image.files().is_empty());
}

#[test]
fn threads_change_nothing() {
    let mut explorer = Explorer::new(5, 2000);
    explorer.recovery_depth = 1;
    let alone = explorer.explore(&counting(5, Mistake::None));
    explorer.threads = 3;
    let together = explorer.explore(&counting(5, Mistake::None));
    assert_eq!(format!("{alone:?}"), format!("{together:?}"));
}

#[test]
fn the_budget_is_kept() {
    for states_max in [1, 10, 100, 1000] {
        let report = Explorer::new(9, states_max).explore(&counting(9, Mistake::None));
        assert!(report.states <= states_max, "{states_max}: {report:?}");
        assert!(
            report.states >= states_max.min(500) / 2,
            "{states_max}: {report:?}"
        );
    }
}

#[test]
fn a_panic_is_a_failure() {
    struct Panics;

    impl Scenario for Panics {
        type Op = ();
        type Model = ();

        fn apply(&self, (): &mut (), (): &()) {}

        fn run(&self, disk: &Arc<SimDisk>, _: &History<()>) -> Result<(), String> {
            disk.open("file", true)
                .map(|_| ())
                .map_err(|e| e.to_string())
        }

        fn check(&self, disk: &Arc<SimDisk>, _: &Expected<Self>) -> Result<(), String> {
            assert!(disk.image().files().is_empty(), "on purpose");
            Ok(())
        }
    }

    let report = Explorer::new(0, 100).explore(&Panics);
    assert_eq!(report.failures.len(), 1);
    assert_eq!(report.failures[0].message, "panicked: on purpose");
}
