//! Failing disks: full, read-only, broken, at every operation of every kind of change.
//!
//! Invariant: the caller gets an error kind that names the cause. The pool is intact for the next
//! process and after a power loss. The same process continues unless a sync failed.

use media::MediaErrorKind;
use sim::pool_histories::{Model, PoolOp, Process, What, examine, examine_and_weigh};
use sim::{CrashPoint, Fault, History, Plan, SimDisk, Walker};
use std::sync::Arc;
use store::{StoreError, StoreErrorKind};

const SEED: u64 = 5;

/// Operations while the disk fails.
fn ops() -> Vec<PoolOp> {
    vec![
        PoolOp::Backup(What::Tree, 0),
        PoolOp::Backup(What::Image, 2),
        PoolOp::AddKey,
        PoolOp::ChangeKey,
        PoolOp::Forget(1),
        PoolOp::Reopen,
    ]
}

/// A pool with some snapshots and keys, all durable.
fn pool() -> (sim::Image, Model) {
    let disk = SimDisk::new();
    let history = History::new(Arc::clone(&disk));
    let mut process = Process::new(&disk, &history, SEED);
    for op in [
        PoolOp::Init(2),
        PoolOp::Backup(What::Tree, 0),
        PoolOp::Backup(What::Image, 0),
        PoolOp::Reopen,
    ] {
        process.run(&op).expect("a healthy disk");
    }
    let model = process.allowed().remove(0);
    (disk.image(), model)
}

/// Runs `op` under the faults of `make` for 0, 1, 2 ... until it succeeds; returns the number of
/// failures.
fn each(name: &str, op: &PoolOp, make: impl Fn(u64) -> Fault, kinds: &[MediaErrorKind]) -> u64 {
    let (image, model) = pool();
    for number in 0..1000 {
        let fault = make(number);
        let disk = SimDisk::on(image.clone());
        let history = History::new(Arc::clone(&disk));
        let process = Process::on(&disk, &history, SEED + 1 + number, model.clone());
        let mut process = process.expect("opens");
        disk.inject(fault);
        let result = process.run(op);
        let reported = format!("{name} {op:?} {fault:?}: {result:?}");
        let failed = result.is_err();
        if let Err(e) = result {
            let kind = e.downcast_ref::<StoreError>().map(|e| e.kind);
            let allowed = kinds
                .iter()
                .any(|k| kind == Some(StoreErrorKind::Media(*k)));
            assert!(allowed || matches!(op, PoolOp::Reopen), "{reported}");
        }
        disk.clear_faults();
        let allowed = process.allowed();
        let sync = matches!(fault, Fault::Sync { .. });
        if failed && !sync && !matches!(op, PoolOp::Reopen) {
            let again = process.run(&PoolOp::Backup(What::Stream, 0));
            assert!(again.is_ok(), "{reported}: then {again:?}");
            continue;
        }
        drop(process);
        let wrong = power_losses(&disk, &allowed).err();
        assert_eq!(wrong, None, "{reported}");
        let found = examine(&disk.kill(), &allowed, SEED);
        assert_eq!(found, Ok(()), "{reported}");
        if !failed {
            return number;
        }
    }
    panic!("{name} {op:?} never succeeds");
}

/// Checks the pool after a power loss now, with none and with all of the pending changes.
fn power_losses(disk: &SimDisk, allowed: &[Model]) -> Result<(), String> {
    let recording = disk.recording();
    let mut walker = Walker::new(&recording);
    walker.advance(recording.log.len());
    let point = CrashPoint::new(&walker);
    for plan in [Plan::Nothing, Plan::Everything, Plan::Random(1)] {
        let disk = SimDisk::unrecorded(point.state(plan));
        examine(&disk, allowed, SEED).map_err(|why| format!("{plan:?}: {why}"))?;
    }
    Ok(())
}

fn all(name: &str, make: impl Fn(u64) -> Fault + Copy, kinds: &[MediaErrorKind]) {
    let failures: u64 = ops().iter().map(|op| each(name, op, make, kinds)).sum();
    assert!(failures > 10, "{name}: {failures}");
}

#[test]
fn the_disk_is_full_at_every_write() {
    all(
        "full",
        |n| Fault::NoSpaceAfter(n * 700),
        &[MediaErrorKind::NoSpace],
    );
}

#[test]
fn every_write_fails_once() {
    all(
        "write",
        |n| Fault::Write { after: n },
        &[MediaErrorKind::Io],
    );
}

#[test]
fn every_name_fails_once() {
    all("name", |n| Fault::Names { after: n }, &[MediaErrorKind::Io]);
}

#[test]
fn every_sync_fails_once() {
    let fault = |after| Fault::Sync {
        after,
        sticky: false,
    };
    all(
        "sync",
        fault,
        &[MediaErrorKind::Io, MediaErrorKind::Poisoned],
    );
}

#[test]
fn syncs_fail_from_some_on() {
    let fault = |after| Fault::Sync {
        after,
        sticky: true,
    };
    all(
        "syncs",
        fault,
        &[MediaErrorKind::Io, MediaErrorKind::Poisoned],
    );
}

#[test]
fn reads_fail_from_some_on() {
    let (image, model) = pool();
    for op in ops() {
        for after in 0..60 {
            let disk = SimDisk::on(image.clone());
            let history = History::new(Arc::clone(&disk));
            let process = Process::on(&disk, &history, SEED + after, model.clone());
            let mut process = process.expect("opens");
            disk.inject(Fault::Read { after });
            let result = process.run(&op);
            disk.clear_faults();
            // An unreadable index costs space, never data.
            let found = examine_and_weigh(&disk.kill(), &process.allowed(), SEED);
            assert!(found.is_ok(), "{op:?} {after}: {result:?}: {found:?}");
        }
    }
}

#[test]
fn after_a_failed_sync_nothing_is_accepted_until_reopened() {
    let (image, model) = pool();
    let disk = SimDisk::on(image);
    let history = History::new(Arc::clone(&disk));
    let mut process = Process::on(&disk, &history, SEED + 1, model).expect("opens");
    disk.inject(Fault::Sync {
        after: 0,
        sticky: false,
    });
    let backup = PoolOp::Backup(What::Tree, 0);
    assert!(process.run(&backup).is_err());
    disk.clear_faults();
    let poisoned = StoreErrorKind::Media(MediaErrorKind::Poisoned);
    for _ in 0..3 {
        let refused = process.run(&backup).expect_err("poisoned");
        let kind = refused.downcast_ref::<StoreError>().map(|e| e.kind);
        assert_eq!(kind, Some(poisoned), "{refused}");
    }
    process.run(&PoolOp::Reopen).expect("opens again");
    process.run(&backup).expect("works again");
}

#[test]
fn a_disk_that_cannot_be_written_is_read() {
    let (image, model) = pool();
    let disk = SimDisk::on(image);
    disk.inject(Fault::ReadOnly);
    let history = History::new(Arc::clone(&disk));
    let refused = Process::on(&disk, &history, SEED, model.clone());
    let why = refused.err().map(|e| e.to_string()).unwrap_or_default();
    assert!(why.contains("read-only filesystem"), "{why}");
    let open = |mode| sim::pool_histories::FoundPool::open(&disk, 9, mode, &[&model]);
    let found = open(store::OpenMode::Read).expect("opens to read");
    assert!(found.is(&model));
    disk.clear_faults();
    assert_eq!(examine(&disk, &[model], SEED), Ok(()));
}
