//! A small pool on a simulated disk, for unit tests here and in `volumes`.
//!
//! Invariant: nothing depends on the machine or the time. Keys are the same in every pool.

#![allow(dead_code)]

use chunking::Compression;
use media::Media;
use sim::SimDisk;
use std::sync::Arc;
use store::{InitOptions, LaneOptions, OpenMode, Pool};
use units::UnixNanos;

/// Regions and containers are small, so that small pools have several of each.
pub const LANE: LaneOptions = LaneOptions {
    compression: Compression::None,
    region_bytes: 8 << 10,
    container_bytes: 64 << 10,
};

/// Opens the pool on the disk, for writing.
pub fn open(disk: &Arc<SimDisk>) -> Pool {
    Pool::open(media(disk), None, OpenMode::Write, 32 << 20).expect("open")
}

/// Creates an empty pool and opens it.
pub fn make(disk: &Arc<SimDisk>) -> Pool {
    let init = InitOptions {
        secrets: &[],
        chunk_bytes_average: 4096,
        parity_percent: 0,
    };
    Pool::init(&media(disk), &init).expect("init");
    open(disk)
}

fn media(disk: &Arc<SimDisk>) -> Media {
    Media::seeded(Arc::clone(disk) as _, UnixNanos::default(), 5)
}
