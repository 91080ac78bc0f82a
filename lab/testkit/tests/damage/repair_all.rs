//! After the damage: a repair and a backup of the same sources make the pool complete again.

use super::places::Place;
use sim::SimDisk;
use sim::pool_histories::check_all;
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{CheckDepth, OpenMode, Pool};
use testkit::specimen::Specimen;

/// Repairs the damaged pool, backs up all sources of the specimen, and returns complaints unless
/// every listed snapshot is then complete.
pub fn repair_all(of: &Specimen, disk: &Arc<SimDisk>, seed: u64, place: Place) -> Vec<String> {
    try_repair(of, disk, seed, place)
        .err()
        .into_iter()
        .collect()
}

fn try_repair(of: &Specimen, disk: &Arc<SimDisk>, seed: u64, place: Place) -> Result<(), String> {
    let open = |n: u64, mode| {
        let opened = of.open(disk, seed + n, mode);
        opened.map_err(|e| format!("{place:?}: does not open: {e}"))
    };
    let pool = open(0, OpenMode::Write)?;
    let repair = pool
        .repair(
            CheckDepth::ALL,
            testkit::specimen::options(chunking::Compression::Zstd(1)),
            &mut |_, _| ControlFlow::Continue(()),
        )
        .map_err(|e| format!("repair fails: {e}"))?;
    // The next reader must find exactly the damage that the repair reports as remaining.
    let left = open(1, OpenMode::Read)?;
    let found = check(&left)?;
    let (reported, there) = (&repair.remaining.affected, &found.affected);
    if reported != there || repair.remaining.is_sound() != found.is_sound() {
        return Err(format!(
            "repair leaves {:?}, check finds {found:?}",
            repair.remaining
        ));
    }
    if repair.found.is_sound() && repair.quarantined > 0 {
        return Err("sets sound regions aside".to_owned());
    }
    // Every second time the process that repaired continues: neither memory nor index may be
    // outdated.
    let again = if seed.is_multiple_of(2) {
        of.store_again(&pool);
        pool
    } else {
        drop(pool);
        let pool = open(2, OpenMode::Write)?;
        of.store_again(&pool);
        pool
    };
    drop(again);
    if seed.is_multiple_of(3) {
        let _ = media::Disk::remove(&**disk, "cache/fpi");
    }
    let pool = open(3, OpenMode::Read)?;
    let report = check(&pool)?;
    if !report.is_sound() && place != Place::OtherSlot(super::places::Copies::Both) {
        return Err(format!(
            "not healed: {:?} {:?}",
            report.damage, report.affected
        ));
    }
    let listed = pool.snapshots().map_err(|e| e.to_string())?;
    for truth in of.truths.iter().filter(|t| listed.contains(&t.snapshot)) {
        let lost = truth.restore(&pool)?;
        if !lost.is_empty() {
            return Err(format!("{} is still not whole", truth.name()));
        }
    }
    Ok(())
}

fn check(pool: &Pool) -> Result<store::CheckReport, String> {
    check_all(pool).map_err(|e| format!("check fails: {e}"))
}
