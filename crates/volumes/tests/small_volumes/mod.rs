//! A pool on a simulated disk with open volumes. Limits are so small that tests reach all of them.

#![allow(dead_code)] // No test uses all of it.

use chunking::Compression;
use sim::pool_histories::{check_all, init_options};
use sim::{Image, SimDisk};
use std::sync::Arc;
use store::{OpenMode, Pool};
use testkit::specimen::options;
use volume::{Durability, RequestContext, Volume};
use volumes::{AccessOptions, DirectLimits, JournalOptions, Thresholds, Volumes, VolumesOptions};

/// Context of an ordinary client.
pub const CONTEXT: RequestContext = RequestContext::CLIENT;

/// Limits that a test of seconds reaches.
pub fn small() -> VolumesOptions {
    VolumesOptions {
        journal: JournalOptions {
            bytes_max: 1 << 20,
            slot_bytes: 128 << 10,
            buffer_bytes: 256 << 10,
        },
        memory_bytes: 8 << 20,
        thresholds: Thresholds::default(),
        lane: options(Compression::Lz4),
        direct: DirectLimits {
            bytes_min: 100_000,
            unflushed_bytes_min: 200_000,
        },
        access: AccessOptions::default(),
    }
}

/// Returns a disk with an empty pool.
pub fn made() -> Arc<SimDisk> {
    let disk = SimDisk::unrecorded(Image::new());
    Pool::init(&testkit::specimen::media(&disk, 1), &init_options(&[])).expect("init");
    disk
}

/// Opens the volumes of the pool; `seed` is for names and the page cache.
pub fn open(disk: &Arc<SimDisk>, seed: u64) -> Volumes {
    let pool = testkit::specimen::open(disk, seed, None, OpenMode::Write).expect("open");
    Volumes::open(Arc::new(pool), &small()).expect("volumes")
}

/// Reads all bytes.
pub fn read(volume: &dyn Volume) -> Vec<u8> {
    let mut bytes = vec![0xee; volume.size_bytes() as usize];
    volume.read(CONTEXT, 0, &mut bytes).expect("read");
    bytes
}

/// Writes without waiting for durability.
pub fn write(volume: &dyn Volume, offset: u64, data: &[u8]) {
    volume
        .write(CONTEXT, offset, data, Durability::Volatile)
        .expect("write");
}

/// Checks that every byte of the pool is right.
pub fn is_sound(volumes: &Volumes) {
    let report = check_all(volumes.pool()).expect("check");
    assert!(report.is_sound(), "{report:?}");
}
