//! Streams of backup and restore beside random reads at a fixed rate.

use evaluation::ddfs::load::Clients;
use evaluation::ddfs::pool::{Base, CopyOptions};
use evaluation::ddfs::settings::Settings;
use evaluation::ddfs::streams::{Beside, StreamOutcome};
use evaluation::disk::SECOND;
use evaluation::rooms::pacing::Pacing;
use qos::Plan;
use volumes::Switches;

#[test]
fn streams_and_random_reads_share_the_disks_by_the_plan() {
    let settings = Settings {
        ordered: 2,
        ..Settings::SHORT
    };
    let base = Base::new(&settings).expect("a pool");
    let run = |beside: &Beside, in_flight_max: Option<u16>| -> StreamOutcome {
        let opening = CopyOptions {
            fast: None,
            switches: Switches::default(),
            pool_memory: settings.pool_memory,
            page_memory: settings.page_memory,
        };
        let opened = base.open(&opening, 4).expect("a copy");
        let mut clients = Clients::new(opened, &settings).expect("clients");
        if let Some(max) = in_flight_max {
            let plan = Plan {
                in_flight_max: Some(max),
                ..Plan::default()
            };
            clients
                .server
                .world
                .pace(Pacing::new(plan).expect("a plan"));
        }
        clients.run_streams(beside, SECOND / 2).expect("streams")
    };
    let both = Beside {
        restores: 6,
        backups: 2,
        images: 3,
        randoms: 400,
    };
    let alone = Beside { randoms: 0, ..both };
    let free = run(&both, None);
    assert!((free.randoms() - 400.0).abs() < 12.0, "{}", free.randoms());
    assert!(free.restored > 0 && free.stored > 0, "{free:?}");
    let again = run(&both, None);
    assert_eq!((free.restored, free.stored), (again.restored, again.stored));
    assert_eq!(free.latencies, again.latencies);
    assert!(run(&alone, None).latencies.is_empty());
    // Two requests at the disks at once are too few for all that is asked.
    let narrow = run(&both, Some(2));
    assert!(narrow.restored * 2 < free.restored, "{narrow:?}");
    assert!(narrow.randoms() < 350.0, "{}", narrow.randoms());
}
