//! Gc takes chunks from memory (Duet, SOSP'15, table of tasks).

use crate::small_volumes;

use chunking::Compression;
use maintenance::{Collector, GcCounts, GcPolicy, GcStage};
use sim::SimDisk;
use small_volumes::{CONTEXT, is_sound, made, open, write};
use std::sync::Arc;
use store::{CachedChunks, GcStep, NothingCached};
use testkit::specimen::{noise, options};
use volume::Volume;
use volumes::Volumes;

const CHUNK: usize = 4096;
const CHUNKS: u64 = 256;

/// A volume of which three quarters were overwritten; the rest of the first writing has been read.
fn mostly_overwritten() -> (Arc<SimDisk>, Volumes) {
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
    let (disk, volumes) = mostly_overwritten();
    let (counts, read) = collect(&disk, &volumes, &volumes);
    let live = CHUNKS / 4 * CHUNK as u64;
    assert!(counts.copied_bytes >= live, "{counts:?}");
    assert!(counts.cached_bytes >= live * 9 / 10, "{counts:?}");

    let (disk, volumes) = mostly_overwritten();
    let (counts, read_without) = collect(&disk, &volumes, &NothingCached);
    assert!(counts.copied_bytes >= live, "{counts:?}");
    assert_eq!(counts.cached_bytes, 0);
    assert!(
        read_without - read >= live * 9 / 10,
        "{read} and {read_without} bytes read"
    );
}

fn collector(volumes: &Volumes) -> Collector {
    let policy = GcPolicy {
        unused_percent_max: 0,
        ..GcPolicy::with_trash_period(0)
    };
    let lane = options(Compression::None);
    Collector::new(volumes.pool(), policy, lane).expect("alone")
}

fn step(collector: &mut Collector, volumes: &Volumes) {
    let step = collector.step(volumes.pool(), Some(volumes), volumes, 10_000);
    step.expect("step");
}

/// The same pool in a new process: nothing is in memory.
fn reopened() -> (Arc<SimDisk>, Volumes) {
    let (disk, volumes) = mostly_overwritten();
    drop(volumes);
    let volumes = open(&disk, 3);
    (disk, volumes)
}

#[test]
fn containers_that_clients_read_meanwhile_are_copied_first_and_from_memory() {
    let (disk, volumes) = reopened();
    let volume = volumes.volume("v").expect("there");
    let mut collector = collector(&volumes);
    while collector.stage() != GcStage::Deleting {
        step(&mut collector, &volumes);
        if collector.stage() == GcStage::Marking {
            // The oldest container that is left: the plan has it last.
            let mut bytes = vec![0; CHUNK];
            for n in (0..CHUNKS / 8).step_by(4) {
                let at = n * CHUNK as u64;
                volume.read(CONTEXT, at, &mut bytes).expect("read");
            }
        }
    }
    while collector.stage() != GcStage::Copying {
        step(&mut collector, &volumes);
    }
    let mut in_memory = 0;
    while collector.counts().copied_bytes < 4 * CHUNK as u64 {
        let before = disk.counts().reads;
        let worked = collector.step_in_memory(volumes.pool(), &volumes, 10_000);
        match worked.expect("step") {
            true => {
                in_memory += 1;
                assert_eq!(disk.counts().reads, before, "without an I/O grant");
            }
            false => {
                let step = collector.step(volumes.pool(), Some(&volumes), &volumes, 1);
                step.expect("step");
            }
        }
    }
    let first = collector.counts();
    assert_eq!(first.cached_bytes, first.copied_bytes, "{first:?}");
    assert!(in_memory > 0);
    while collector.stage() != GcStage::Done {
        step(&mut collector, &volumes);
    }
    let all = collector.counts();
    assert!(all.copied_bytes > 2 * all.cached_bytes, "{all:?}");
    is_sound(&volumes);
}

#[test]
fn choosing_reads_nothing_to_learn_what_is_in_memory() {
    let mut reads = [0; 2];
    for (reads, has_read) in reads.iter_mut().zip([false, true]) {
        let (disk, volumes) = reopened();
        let volume = volumes.volume("v").expect("there");
        if has_read {
            let mut bytes = vec![0; CHUNK];
            volume.read(CONTEXT, 0, &mut bytes).expect("read");
        }
        let mut collector = collector(&volumes);
        while collector.stage() != GcStage::Choosing {
            step(&mut collector, &volumes);
        }
        let before = disk.counts().reads;
        step(&mut collector, &volumes);
        assert!(collector.stage() > GcStage::Choosing);
        *reads = disk.counts().reads - before;
    }
    assert!(reads[1] <= reads[0], "{reads:?}");
}
