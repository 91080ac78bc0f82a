//! Copies between pools on simulated disks, for tests of replication and of repairs.

#![allow(dead_code)]

use chunking::Compression;
use format::snapshot::Snapshot;
use maintenance::{
    CopiedSnapshot, CopyError, CopyLimits, CopyNews, CopyOptions, MaintenanceTask, Replication,
    TaskStep,
};
use sim::pool_histories::init_options;
use sim::{Image, SimDisk};
use std::sync::Arc;
use store::{OpenMode, Pool};
use testkit::specimen::options;

pub fn copy_options() -> CopyOptions {
    CopyOptions {
        lane: options(Compression::Zstd(1)),
        bytes_per_s: None,
        limits: CopyLimits {
            // So small that a test has many of them.
            piece_bytes: 20_000,
            pieces_ahead: 6,
            ..CopyLimits::default()
        },
        volumes: None,
    }
}

/// An empty pool with its own keys.
pub fn receiver(seed: u64) -> Arc<SimDisk> {
    let disk = SimDisk::unrecorded(Image::new());
    Pool::init(&testkit::specimen::media(&disk, seed), &init_options(&[])).unwrap();
    disk
}

pub fn open_receiver(disk: &Arc<SimDisk>, seed: u64) -> Arc<Pool> {
    Arc::new(testkit::specimen::open(disk, seed, None, OpenMode::Write).unwrap())
}

pub fn replication(from: &Arc<Pool>, to: &Arc<Pool>) -> Replication {
    let all = from.snapshots().unwrap();
    Replication::new(Arc::clone(from), all, Arc::clone(to), copy_options()).unwrap()
}

pub fn copy(run: &mut Replication, snapshot: &Snapshot) -> Result<CopiedSnapshot, CopyError> {
    run.begin(snapshot)?;
    for _ in 0..1_000_000 {
        match run.step(0, 10_000)? {
            TaskStep::Worked { .. } | TaskStep::News(CopyNews::Sent(_)) => {}
            TaskStep::News(CopyNews::Copied(copied)) => return Ok(*copied),
            other => panic!("{other:?}"),
        }
    }
    panic!("no end");
}

pub fn copy_all(from: &Arc<Pool>, to: &Arc<Pool>) -> Vec<CopiedSnapshot> {
    let mut run = replication(from, to);
    let all = from.snapshots().unwrap();
    let missing: Vec<_> = all.into_iter().filter(|s| !run.is_there(s)).collect();
    let copied = missing.iter().map(|s| copy(&mut run, s).unwrap());
    copied.collect()
}
