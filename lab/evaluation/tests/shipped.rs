//! The tasks that ship, on a small machine: runs are repeatable, and nothing fails.

use evaluation::shipped::runs::{Experiment, Tasks};
use evaluation::shipped::settings::Settings;

/// Threads of tasks take turns: the same run gives the same result, whatever else the machine does.
/// All tasks run beside the web server, and a task that failed is an error.
#[test]
fn the_same_run_gives_the_same_result() {
    let settings = Settings {
        files: 24,
        scale: 1800,
        ..Settings::SHORT
    };
    let experiment = Experiment::new(settings, &[100], 2).expect("pool");
    let cell = (Tasks::Four, true, 100, 20);
    let first = experiment.run(cell).expect("tasks");
    assert!(
        first.maintenance_bytes > 0 && first.web_served > 0,
        "{first:?}"
    );
    assert_eq!(experiment.run(cell).expect("tasks"), first);
}

/// Reads cost time: on an idle disk it ends later the more there is to do.
#[test]
fn an_idle_disk_takes_its_time() {
    let settings = Settings {
        files: 24,
        scale: 180,
        ..Settings::SHORT
    };
    let experiment = Experiment::new(settings, &[100], 2).expect("pool");
    let run = |tasks| experiment.run((tasks, false, 100, 0)).expect("tasks");
    let (one, three) = (run(Tasks::Backup), run(Tasks::Three));
    assert!(one.is_complete && three.is_complete);
    assert!(three.maintenance_time > one.maintenance_time);
    // 125 MB/s is the disk's rate.
    let least = one.maintenance_bytes * 8;
    assert!(one.maintenance_time > least, "{one:?}");
    assert!(one.maintenance_bytes >= settings.files << 20);
}
