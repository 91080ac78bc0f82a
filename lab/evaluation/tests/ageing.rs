//! Ageing at a small scale: restores become slower, maintenance restores some speed, and the same
//! seed gives the same history.

use evaluation::ageing::page::{kept_speed, least_speed};
use evaluation::ageing::pool::{MaintenanceMode, Settings, run};

#[test]
fn maintenance_slows_ageing_down() {
    let of = |mode| run(&Settings::SHORT, mode).expect("a history");
    let (none, defragmented) = (of(MaintenanceMode::None), of(MaintenanceMode::Defragmented));
    assert!(kept_speed(&none) < 0.8, "{}", kept_speed(&none));
    let last = |all: &[evaluation::ageing::pool::Generation]| all.last().map_or(0.0, |g| g.speed());
    assert!(
        last(&defragmented) > last(&none),
        "{} of {}",
        last(&defragmented),
        last(&none)
    );
    let least = least_speed(&defragmented);
    // The page's history is larger and must reach 0.8.
    assert!(least >= 0.6, "{least}");
    let bytes = |all: &[evaluation::ageing::pool::Generation]| {
        let copied = all.iter().map(|g| g.copied.defragmented).sum::<u64>();
        copied / all.iter().map(|g| g.bytes / 100).sum::<u64>()
    };
    assert!(bytes(&defragmented) < 50, "{} %", bytes(&defragmented));
    let jumps: Vec<u64> = none.iter().map(|g| g.restore.jumps).collect();
    assert!(jumps.first() < jumps.last(), "{jumps:?}");
    let rewritten = of(MaintenanceMode::Rewritten);
    assert!(kept_speed(&rewritten) >= 0.8, "{}", kept_speed(&rewritten));
    let collected = of(MaintenanceMode::Collected);
    assert_eq!(of(MaintenanceMode::Collected), collected);
}

/// The same chunks are copied and stored; only their order differs (GCCDF).
#[test]
fn collections_by_owner_make_restores_jump_less() {
    let of = |mode| {
        let all = run(&Settings::SHORT, mode).expect("a history");
        let collected: u64 = all.iter().map(|g| g.copied.collected).sum();
        (*all.last().expect("generations"), collected)
    };
    let (planned, copied_planned) = of(MaintenanceMode::Collected);
    let (owned, copied) = of(MaintenanceMode::ByOwner);
    let reads = (owned.restore.reads, planned.restore.reads);
    assert!(reads.0 * 10 < reads.1 * 8, "{reads:?}");
    assert!(owned.restore.jumps < planned.restore.jumps);
    assert!(owned.restore.bytes < planned.restore.bytes);
    assert!(owned.stored_bytes * 1000 <= planned.stored_bytes * 1005);
    assert!(
        copied * 100 <= copied_planned * 105,
        "{copied}, {copied_planned}"
    );
}
