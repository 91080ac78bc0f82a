//! A volume of noise in a pool on a simulated disk, checkpointed and closed; and its readers.
//!
//! Invariant: a reader panics if a page differs from what was written.

#![allow(dead_code)] // No test uses all of it.

use super::small_volumes::CONTEXT;
use chunking::Compression;
use sim::pool_histories::init_options;
use sim::{Image, Seed, SimDisk};
use std::sync::Arc;
use store::{LaneOptions, OpenMode, Pool};
use testkit::specimen::noise;
use volume::{Durability, Volume};
use volumes::{
    AccessOptions, DirectLimits, JournalOptions, Switches, Thresholds, Volumes, VolumesOptions,
};

pub const SIZE: u64 = 64 << 20;
pub const PAGES: u64 = SIZE >> 12;
pub const REGION_BYTES: u64 = 16 << 10;

pub fn options(switches: Switches, memory_bytes: u64) -> VolumesOptions {
    VolumesOptions {
        journal: JournalOptions {
            bytes_max: 8 << 20,
            slot_bytes: 1 << 20,
            buffer_bytes: 256 << 10,
        },
        memory_bytes,
        thresholds: Thresholds::default(),
        lane: LaneOptions {
            compression: Compression::Lz4,
            region_bytes: REGION_BYTES as usize,
            container_bytes: 1 << 20,
        },
        direct: DirectLimits::default(),
        access: AccessOptions {
            switches,
            // Only the test decides what is fetched.
            fetch_threads: 0,
            ..AccessOptions::default()
        },
    }
}

pub fn without(change: impl FnOnce(&mut Switches)) -> Switches {
    let mut switches = Switches::default();
    change(&mut switches);
    switches
}

pub fn open_with(media: media::Media, options: &VolumesOptions) -> Volumes {
    let pool = Pool::open(media, None, OpenMode::Write, 64 << 20).expect("pool");
    Volumes::open(Arc::new(pool), options).expect("volumes")
}

pub fn open(disk: &Arc<SimDisk>, switches: Switches) -> Volumes {
    open_with(
        testkit::specimen::media(disk, 2),
        &options(switches, 256 << 20),
    )
}

/// Returns a disk with an empty pool.
pub fn disk_with_a_pool() -> Arc<SimDisk> {
    let disk = SimDisk::unrecorded(Image::new());
    Pool::init(&testkit::specimen::media(&disk, 1), &init_options(&[])).expect("init");
    disk
}

/// Returns a disk with a pool that has a volume of noise, checkpointed and closed.
pub fn disk_with_a_volume() -> Arc<SimDisk> {
    let disk = disk_with_a_pool();
    let volumes = open(&disk, Switches::default());
    let volume = volumes.create("v", SIZE, 12).expect("create");
    for n in 0..SIZE >> 20 {
        let bytes = noise(n, 1 << 20);
        volume
            .write(CONTEXT, n << 20, &bytes, Durability::Volatile)
            .expect("write");
    }
    volumes.checkpoint().expect("checkpoint");
    drop(volumes);
    disk
}

pub fn read(volume: &dyn Volume, offset: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    volume.read(CONTEXT, offset, &mut bytes).expect("read");
    bytes
}

pub fn expect_page(volume: &dyn Volume, page: u64) {
    let bytes = read(volume, page << 12, 4096);
    let megabyte = noise(page >> 8, 1 << 20);
    let at = (page as usize & 255) << 12;
    assert!(bytes == megabyte[at..at + 4096], "page {page}");
}

/// Returns all pages in random order.
pub fn shuffled(seed: u64) -> Vec<u64> {
    let mut seed = Seed::new(seed);
    let mut pages: Vec<u64> = (0..PAGES).collect();
    for n in (1..pages.len()).rev() {
        pages.swap(n, seed.below(n as u64 + 1) as usize);
    }
    pages
}
