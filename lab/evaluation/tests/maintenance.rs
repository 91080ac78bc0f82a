//! Duet's experiment: idle time of the disk at full scale, and the table's shape at a fiftieth of
//! it.

use evaluation::maintenance::grid::{Grid, Tasks, highest, run, run_due};
use evaluation::maintenance::page::IDLE_RATES;
use evaluation::maintenance::settings::{Kind, Load, Order, Picks, Settings};
use evaluation::maintenance::world::World;

fn load(utilisation: u64) -> Load {
    Load {
        utilisation,
        overlap: 25,
        picks: Picks::InRotation,
    }
}

/// The published cells imply how much idle time is worth beside a web server.
#[test]
fn idle_time_is_worth_what_the_published_table_implies() {
    let settings = Settings::PUBLISHED;
    let busy = World::new(settings, load(100), 0).web_cost();
    let mut last = f64::INFINITY;
    for (utilisation, least, below) in IDLE_RATES {
        let outcome =
            World::new(settings, load(utilisation), busy).experiment(&[Kind::Backup], false);
        let rate = outcome.maintenance_rate() / 1e6;
        assert!(
            (least..below).contains(&rate),
            "{utilisation} %: {rate} MB/s, not {least} to {below}"
        );
        // Falls faster than idle time: gaps are short, and the head has to return.
        let per_idle = rate / (100 - utilisation) as f64;
        assert!(per_idle < last, "{utilisation} %: {per_idle}");
        last = per_idle;
        let (web_busy, of) = outcome.web_busy;
        let is = web_busy * 100 / of;
        assert!(
            is.abs_diff(utilisation) <= 1,
            "the web server has {is} %, {utilisation} wanted"
        );
    }
}

fn small() -> Grid {
    let variants = [
        (Tasks::Backup, false),
        (Tasks::Backup, true),
        (Tasks::Three, false),
        (Tasks::Three, true),
    ];
    run(&Settings::SMALL, Picks::InRotation, &variants, 2)
}

#[test]
fn a_task_that_hears_of_pages_ends_earlier_and_reads_less() {
    let grid = small();
    let at = |tasks, has_events, overlap| highest(&grid, (tasks, has_events), overlap);
    for tasks in [Tasks::Backup, Tasks::Three] {
        let mut before = None;
        for overlap in [25, 50, 75, 100] {
            let (with, without) = (at(tasks, true, overlap), at(tasks, false, overlap));
            assert!(
                with >= without,
                "{tasks:?}, {overlap} %: {with:?}, {without:?} without"
            );
            // With so few requests, chance decides one step at the lowest overlap.
            let is_ahead = with > without || (tasks == Tasks::Backup && overlap == 25);
            assert!(
                is_ahead,
                "{tasks:?}, {overlap} %: {with:?}, {without:?} without"
            );
            assert!(
                with >= before,
                "{tasks:?}: {overlap} % ends at {with:?}, less at {before:?}"
            );
            before = with;
        }
    }
    assert!(at(Tasks::Backup, true, 100) > at(Tasks::Backup, true, 25));
    for ((variant, overlap, utilisation), outcome) in &grid {
        let saves = outcome.saved();
        let what = format!("{variant:?}, {overlap} %, {utilisation} %: {saves}");
        match variant {
            (Tasks::Three, true) => assert!(saves >= 0.48, "{what}"),
            (_, false) if *utilisation < 100 => assert!(saves < 0.25, "{what}"),
            _ => {}
        }
        if *utilisation == 100 {
            assert_eq!(
                outcome.maintenance_bytes, 0,
                "{what}: the disk was never idle"
            );
        }
    }
    assert_eq!(small(), grid, "the same seed gives the same results");
}

/// With the product's scheduler, events help too, and the web server is hardly delayed.
#[test]
fn the_scheduler_that_ships_bounds_what_the_web_server_notices() {
    let settings = Settings {
        order: Order::Product,
        ..Settings::SMALL
    };
    let variants = [
        (Tasks::Nothing, false),
        (Tasks::Three, false),
        (Tasks::Three, true),
    ];
    let grid = run(&settings, Picks::InRotation, &variants, 2);
    for overlap in [25, 50, 75, 100] {
        let at = |has_events| highest(&grid, (Tasks::Three, has_events), overlap);
        assert!(
            at(true) > at(false),
            "{overlap} %: {:?}, {:?} without",
            at(true),
            at(false)
        );
        for utilisation in [20, 50, 70] {
            let p99 = |variant| grid[&(variant, overlap, utilisation)].web_p99 as f64;
            let harm = p99((Tasks::Three, true)) / p99((Tasks::Nothing, false));
            println!("{overlap} %, {utilisation} %: {harm:.2}");
            assert!(harm <= 1.2, "{overlap} %, {utilisation} %: {harm:.2}");
        }
    }
}

/// One task reads because of its deadline; the others take that from memory before it leaves.
#[test]
fn tasks_with_deadlines_read_together_what_each_would_read_alone() {
    let grid = run_due(&Settings::SMALL, 2);
    let all_bytes = Settings::SMALL.files << 20;
    for overlap in [25, 75] {
        for count in 2..=4 {
            let idle = &grid[&(overlap, 0, count, true)];
            assert_eq!(
                idle.read_bytes, all_bytes,
                "{count} tasks read all files once"
            );
            let apart = &grid[&(overlap, 0, count, false)];
            assert!(apart.read_bytes >= apart.work_bytes * 9 / 10, "{apart:?}");
            for busy in [20, 40, 60] {
                let [apart, together] =
                    [false, true].map(|shares| grid[&(overlap, busy, count, shares)]);
                let what = format!("{overlap} %, {busy} %, {count} tasks: {apart:?}, {together:?}");
                assert!(together.met.0 >= apart.met.0, "{what}");
                assert!(
                    together.read_bytes < all_bytes,
                    "clients read some of it: {what}"
                );
            }
        }
    }
}
