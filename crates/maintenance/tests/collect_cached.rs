//! Gc takes chunks from memory (Duet, SOSP'15, table of tasks).

#[path = "../../volumes/tests/small_volumes/mod.rs"]
mod small_volumes;
#[path = "../../store/tests/specimen/mod.rs"]
mod specimen;

use chunking::Compression;
use maintenance::{Collector, GcCounts, GcPolicy};
use sim::SimDisk;
use small_volumes::{CONTEXT, is_sound, made, open, write};
use specimen::{noise, options};
use std::sync::Arc;
use store::{CachedChunks, GcStep, NothingCached};
use volume::Volume;
use volumes::Volumes;

const CHUNK: usize = 4096;
const CHUNKS: u64 = 256;

/// A volume of which three quarters were overwritten; the rest of the first writing has been read.
fn mostly_gone() -> (Arc<SimDisk>, Volumes) {
    let disk = made();
    let volumes = open(&disk, 2);
    let size = CHUNKS * CHUNK as u64;
    let volume = volumes.create("v", size, 12).expect("create");
    write(&volume, 0, &noise(1, size as usize));
    volumes.checkpoint().expect("checkpoint");
    for n in (0..CHUNKS).filter(|n| n % 4 != 0) {
        write(&volume, n * CHUNK as u64, &noise(2 + n, CHUNK));
    }
    volumes.checkpoint().expect("checkpoint");
    let mut bytes = vec![0; CHUNK];
    for n in (0..CHUNKS).step_by(4) {
        let at = n * CHUNK as u64;
        volume.read(CONTEXT, at, &mut bytes).expect("read");
    }
    (disk, volumes)
}

/// Returns the totals, and the bytes read from the device.
fn collect(disk: &SimDisk, volumes: &Volumes, cached: &dyn CachedChunks) -> (GcCounts, u64) {
    let pool = volumes.pool();
    let policy = GcPolicy {
        unused_percent_max: 0,
        ..GcPolicy::with_trash_period(0)
    };
    let mut collector = Collector::new(pool, policy, options(Compression::None)).expect("alone");
    let before = disk.counts().read_bytes;
    while collector
        .step(pool, Some(volumes), cached, 10_000)
        .expect("step")
        == GcStep::Working
    {}
    let read = disk.counts().read_bytes - before;
    is_sound(volumes);
    (collector.counts(), read)
}

#[test]
fn what_is_in_memory_is_not_read_to_be_copied() {
    let (disk, volumes) = mostly_gone();
    let (counts, read) = collect(&disk, &volumes, &volumes);
    let live = CHUNKS / 4 * CHUNK as u64;
    assert!(counts.copied_bytes >= live, "{counts:?}");
    assert!(counts.cached_bytes >= live * 9 / 10, "{counts:?}");

    let (disk, volumes) = mostly_gone();
    let (counts, read_without) = collect(&disk, &volumes, &NothingCached);
    assert!(counts.copied_bytes >= live, "{counts:?}");
    assert_eq!(counts.cached_bytes, 0);
    assert!(
        read_without - read >= live * 9 / 10,
        "{read} and {read_without} bytes read"
    );
}
