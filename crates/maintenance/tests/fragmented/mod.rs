//! A real volume in which every 256 KiB are 32 pieces of 4 KiB, written at different times, and one
//! of 128 KiB (FragPicker, SOSP'21, section 5).
//!
//! Invariant: nothing depends on the machine or the time.

#![allow(dead_code, reason = "not every test uses all of it")]

use chunking::Compression;
use maintenance::{
    DefragOptions, DefragReport, DefragSource, Defragmenter, Heat, MaintenanceTask, TaskStep,
};
use media::{Media, SeededRandom};
use sim::pool_histories::{check_all, init_options};
use sim::{Image, SimDisk};
use std::sync::Arc;
use store::{LaneOptions, OpenMode, Pool};
use units::UnixNanos;
use volume::{Durability, RequestContext, Volume};
use volumes::{
    AccessOptions, DirectLimits, JournalOptions, Switches, Thresholds, Volumes, VolumesOptions,
};

pub const KIB: u64 = 1 << 10;
/// Blocks of 256 KiB.
pub const BLOCK: u64 = 256 * KIB;
pub const CONTEXT: RequestContext = RequestContext::CLIENT;

pub fn lane() -> LaneOptions {
    LaneOptions {
        compression: Compression::None,
        region_bytes: 16 << 10,
        container_bytes: 2 << 20,
    }
}

pub fn media(disk: &Arc<SimDisk>, seed: u64) -> Media {
    let now = UnixNanos(seed as i64 * 1_000_000_000_000);
    Media::seeded(
        Arc::clone(disk) as _,
        now,
        seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
    )
}

pub fn open(disk: &Arc<SimDisk>, seed: u64) -> Arc<Volumes> {
    let pool = Pool::open(media(disk, seed), None, OpenMode::Write, 8 << 20).expect("open");
    let options = VolumesOptions {
        journal: JournalOptions {
            bytes_max: 16 << 20,
            slot_bytes: 1 << 20,
            buffer_bytes: 2 << 20,
        },
        memory_bytes: 4 << 20,
        thresholds: Thresholds::default(),
        lane: lane(),
        direct: DirectLimits::default(),
        access: AccessOptions {
            switches: Switches {
                prefetch: false,
                ..Switches::default()
            },
            fetch_threads: 0,
            ..AccessOptions::default()
        },
    };
    Arc::new(Volumes::open(Arc::new(pool), &options).expect("volumes"))
}

pub fn noise(seed: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    media::Random::fill(&SeededRandom::new(seed), &mut bytes);
    bytes
}

/// Numbers below `count`, shuffled.
pub fn shuffled(count: u64, mut seed: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).collect();
    for at in (1..numbers.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        numbers.swap(at, (seed >> 33) as usize % (at + 1));
    }
    numbers
}

pub fn write(volume: &dyn Volume, offset: u64, bytes: &[u8]) {
    volume
        .write(CONTEXT, offset, bytes, Durability::Volatile)
        .expect("write");
}

/// The pool, and the contents of the volume `disk`.
pub fn made(blocks: u64) -> (Arc<SimDisk>, Vec<u8>) {
    let disk = SimDisk::unrecorded(Image::new());
    let bytes = make(&disk, blocks);
    (disk, bytes)
}

/// The same on a disk of the caller; returns the contents of the volume `disk`.
pub fn make(disk: &Arc<SimDisk>, blocks: u64) -> Vec<u8> {
    Pool::init(&media(disk, 1), &init_options(&[])).expect("init");
    let volumes = open(disk, 2);
    let bytes = noise(3, blocks * BLOCK);
    let volume = volumes.create("disk", blocks * BLOCK, 12).expect("create");
    let part = |offset: u64, len: u64| &bytes[offset as usize..(offset + len) as usize];
    // Four pieces a checkpoint: a region of 16 KiB, of pieces that are far apart.
    for four in shuffled(blocks * 32, 5).chunks(4) {
        for piece in four {
            let offset = piece / 32 * BLOCK + piece % 32 * 4 * KIB;
            write(&volume, offset, part(offset, 4 * KIB));
        }
        volumes.checkpoint().expect("checkpoint");
    }
    for block in 0..blocks {
        let offset = block * BLOCK + 128 * KIB;
        write(&volume, offset, part(offset, 128 * KIB));
        if block % 8 == 7 {
            volumes.checkpoint().expect("checkpoint");
        }
    }
    volumes.checkpoint().expect("checkpoint");
    drop((volume, volumes));
    bytes
}

pub fn options() -> DefragOptions {
    DefragOptions {
        hot_percent: 100,
        moves_shared: false,
        rewrites_all: false,
        dry_run: false,
        bytes_per_s: None,
        lane: lane(),
    }
}

/// The key of an object.
pub fn key(volumes: &Volumes, name: &str) -> u64 {
    let all = volumes.fragmentables().expect("objects");
    all.iter().find(|one| one.name == name).expect("there").key
}

pub fn finish(mut run: Defragmenter) -> DefragReport {
    loop {
        match run.step(0, 1 << 20).expect("step") {
            TaskStep::Finished => return run.report(),
            TaskStep::Worked { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Defragments the volume `disk`.
pub fn defragment(
    volumes: &Arc<Volumes>,
    heat: Option<Heat>,
    options: DefragOptions,
) -> DefragReport {
    let objects = [key(volumes, "disk")];
    let source = DefragSource::Volumes(Arc::clone(volumes));
    finish(Defragmenter::new(source, &objects, heat, options).expect("begin"))
}

/// Returns a description of missing or wrong data.
pub fn damage(volumes: &Volumes) -> Option<String> {
    match check_all(volumes.pool()) {
        Ok(report) if report.is_sound() => None,
        Ok(report) => Some(format!("{report:?}")),
        Err(e) => Some(e.to_string()),
    }
}

/// Asserts that nothing is missing or wrong.
pub fn is_sound(volumes: &Volumes) {
    assert_eq!(damage(volumes), None);
}

/// Reads ranges with a cold cache. Returns the number of regions that were read.
pub fn read_cost(disk: &Arc<SimDisk>, bytes: &[u8], ranges: &[(u64, u64)]) -> u64 {
    read_costs(disk, bytes, ranges).0
}

/// Does the same. Returns the number of regions, and of reads of the disk.
pub fn read_costs(disk: &Arc<SimDisk>, bytes: &[u8], ranges: &[(u64, u64)]) -> (u64, u64) {
    let volumes = open(disk, 77);
    let volume = volumes.volume("disk").expect("there");
    let counts = || {
        (
            volumes.pool().read_counts().region_reads,
            disk.counts().reads,
        )
    };
    let before = counts();
    for (offset, len) in ranges {
        let mut into = vec![0; *len as usize];
        volume.read(CONTEXT, *offset, &mut into).expect("read");
        let expected = &bytes[*offset as usize..(offset + len) as usize];
        assert!(into == expected, "at {offset}");
    }
    let after = counts();
    (after.0 - before.0, after.1 - before.1)
}

/// Reads of 128 KiB from the start to the end.
pub fn sequential(blocks: u64) -> Vec<(u64, u64)> {
    let reads = (0..blocks * 2).map(|n| (n * 128 * KIB, 128 * KIB));
    reads.collect()
}

/// Reads of 128 KiB, 288 KiB apart.
pub fn stride(blocks: u64) -> Vec<(u64, u64)> {
    let reads = (0..).map(|n| (n * 416 * KIB, 128 * KIB));
    reads
        .take_while(|(at, len)| at + len <= blocks * BLOCK)
        .collect()
}
