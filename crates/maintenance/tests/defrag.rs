//! Defragmentation of real volumes: what it moves, what it gains, and what stays.
//!
//! Invariant: whatever is moved, every byte reads as it was written.

use crate::fragmented;

use fragmented::*;
use maintenance::{
    DefragOptions, DefragReport, DefragSource, Defragmenter, Heat, MaintenanceTask, TaskStep, Toll,
};
use sim::SimDisk;
use std::sync::Arc;
use volume::Volume;

const BLOCKS: u64 = 32;

#[test]
fn bypass_moves_the_windows_that_lie_in_pieces() {
    let (disk, bytes) = made(BLOCKS);
    let (_, before) = read_costs(&disk, &bytes, &sequential(BLOCKS));
    let whole = SimDisk::unrecorded(disk.image());
    let volumes = open(&disk, 5);
    let report = defragment(&volumes, None, options());
    println!("{report:?}");
    assert_eq!(
        (
            report.counts.wanted,
            report.counts.failed,
            report.counts.unfair
        ),
        (BLOCKS, 0, 0)
    );
    assert_eq!(report.counts.moved.bytes, BLOCKS * BLOCK / 2);
    assert!(report.before.runs > 20 * BLOCKS && report.after.runs == 2 * BLOCKS);
    is_sound(&volumes);
    // Nothing is left to do.
    let again = defragment(&volumes, None, options());
    assert_eq!((again.counts.wanted, again.counts.moved.bytes), (0, 0));
    drop(volumes);
    let (after, reads) = read_costs(&disk, &bytes, &sequential(BLOCKS));

    let volumes = open(&whole, 6);
    let all = DefragOptions {
        rewrites_all: true,
        ..options()
    };
    let full = defragment(&volumes, None, all);
    drop(volumes);
    assert_eq!(full.counts.moved.bytes, BLOCKS * BLOCK);
    let best = read_cost(&whole, &bytes, &sequential(BLOCKS));
    println!("regions: after {after}, whole {best}; reads: before {before}, after {reads}");
    println!(
        "stored: {} of {}",
        report.counts.moved.stored_bytes, full.counts.moved.stored_bytes
    );
    assert!(after * 97 <= best * 100, "{after} regions, {best} at best");
    // Each region is read once before, too: the disk is asked more often for them.
    assert!(before * 10 > reads * 15, "{before} reads, {reads} after");
    assert!(report.counts.moved.stored_bytes * 2 <= full.counts.moved.stored_bytes + (64 << 10));
}

/// Reads through the engine, so that the trace sees it, with a cold cache for each pass.
fn traced(disk: &Arc<SimDisk>, reads: &[(u64, u64)], passes: u64) {
    for pass in 0..passes {
        let volumes = open(disk, 100 + pass);
        let volume = volumes.volume("disk").expect("there");
        for (offset, len) in reads {
            let mut into = vec![0; *len as usize];
            volume.read(CONTEXT, *offset, &mut into).expect("read");
        }
        volumes.store_trace().expect("stored");
    }
}

/// The goals of FragPicker (SOSP'21, section 5): the cost of reading after it and after rewriting
/// everything, and the bytes of each.
struct Against {
    report: DefragReport,
    after: u64,
    best: u64,
    copied: u64,
    rewritten: u64,
}

impl Against {
    fn is_as_fast(&self) {
        let Self { after, best, .. } = self;
        assert!(after * 97 <= best * 100, "{after} regions, {best} at best");
    }

    fn copies_at_most(&self, percent: u64) {
        let Self {
            copied, rewritten, ..
        } = self;
        assert!(
            copied * 100 <= rewritten * percent,
            "{copied} of {rewritten}"
        );
    }
}

fn against_rewriting(reads: &[(u64, u64)], hot_percent: u8, blocks: u64) -> Against {
    let (disk, bytes) = made(blocks);
    let before = read_cost(&disk, &bytes, reads);
    let whole = SimDisk::unrecorded(disk.image());
    traced(&disk, reads, 2);
    // Another process reads the trace from the pool.
    let volumes = open(&disk, 5);
    let heat = volumes.heat();
    let options = DefragOptions {
        hot_percent,
        ..options()
    };
    let report = defragment(&volumes, Some(heat), options);
    assert!(report.wish.is_traced && report.counts.failed == 0);
    is_sound(&volumes);
    drop(volumes);
    let after = read_cost(&disk, &bytes, reads);
    let volumes = open(&whole, 6);
    let all = DefragOptions {
        rewrites_all: true,
        ..options
    };
    let full = defragment(&volumes, None, all);
    drop(volumes);
    let best = read_cost(&whole, &bytes, reads);
    println!(
        "regions read: before {before}, after {after}, rewritten {best}; copied {} of {}; device reads {:.0} to {:.0}",
        report.counts.moved.bytes,
        full.counts.moved.bytes,
        report.before.reads(),
        report.after.reads()
    );
    Against {
        report,
        after,
        best,
        copied: report.counts.moved.bytes,
        rewritten: full.counts.moved.bytes,
    }
}

#[test]
fn sequential_reads_are_as_fast_for_half_of_the_writes() {
    let a = against_rewriting(&sequential(64), 100, 64);
    a.is_as_fast();
    a.copies_at_most(50);
}

#[test]
fn stride_reads_are_as_fast_for_less_than_a_third() {
    let a = against_rewriting(&stride(64), 100, 64);
    a.is_as_fast();
    a.copies_at_most(30);
}

/// YCSB-C: reads of 16 KiB by Zipf's law, scattered over the volume.
#[test]
fn of_a_load_by_zipf_only_what_is_hot_is_moved() {
    const READS: u64 = 64 * BLOCK / (16 * KIB);
    let places = shuffled(READS, 11);
    let mut seed = 9u64;
    let mut draw = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 11) as f64 / (1u64 << 53) as f64
    };
    // The inverse of the continuous law with exponent 0.99.
    let rank = |u: f64| {
        let top = (READS as f64).powf(0.01);
        ((u * (top - 1.0) + 1.0).powf(100.0) as u64).clamp(1, READS) - 1
    };
    let reads: Vec<_> = (0..3000)
        .map(|_| (places[rank(draw()) as usize] * 16 * KIB, 16 * KIB))
        .collect();
    let a = against_rewriting(&reads, 80, 64);
    a.copies_at_most(34);
    // Nearly one read for each request, after nearly three before.
    let (before, after) = (a.report.before.reads(), a.report.after.reads());
    let requests = a.report.after.requests();
    assert!(
        after <= 1.2 * requests,
        "{after} reads for {requests} requests"
    );
    assert!(before > 2.5 * after, "{before} and {after} reads");
}

/// A clone keeps data that was overwritten in the volume since: moving the volume's windows would
/// fragment its own.
#[test]
fn an_owner_that_is_hurt_keeps_the_place_unless_it_is_not_read() {
    let (disk, _) = made(4);
    let volumes = open(&disk, 5);
    // A volume whose windows are unfragmented, a clone of it, and then new pieces of the volume.
    let old = volumes.create("old", 4 * BLOCK, 12).expect("create");
    write(&old, 0, &noise(8, 4 * BLOCK));
    volumes.checkpoint().expect("checkpoint");
    volumes.clone_volume("clone", "old").expect("clone");
    for four in shuffled(4 * 32, 7).chunks(4) {
        for piece in four {
            // Every other page of each window's first half.
            let offset = piece / 32 * BLOCK + piece % 32 * 8 * KIB;
            write(&old, offset, &noise(100 + piece, 4 * KIB));
        }
        volumes.checkpoint().expect("checkpoint");
    }
    drop(old);
    let run = |heat: Option<Heat>, moves_shared| {
        let source = DefragSource::Volumes(Arc::clone(&volumes));
        let options = DefragOptions {
            moves_shared,
            dry_run: true,
            ..options()
        };
        finish(Defragmenter::new(source, &[key(&volumes, "old")], heat, options).expect("begin"))
    };
    let read = |names: &[(&str, u64)]| {
        let range = |n: u64, weight| fragpicker::HotRange {
            start: n * 128 * KIB,
            end: (n + 1) * 128 * KIB,
            weight,
        };
        let of = |weight| (0..8).map(|n| range(n, weight)).collect();
        let heat = names
            .iter()
            .map(|(name, weight)| (key(&volumes, name), of(*weight)));
        Some(heat.collect::<Heat>())
    };
    let alone = run(read(&[("old", 256)]), false);
    assert_eq!(
        (
            alone.counts.fragmented,
            alone.counts.unfair,
            alone.counts.wanted
        ),
        (8, 0, 8),
        "nobody reads the clone"
    );
    // A request for the clone lies in one run, and would lie in two or more.
    let busy = run(read(&[("old", 256), ("clone", 256 * 256)]), false);
    assert_eq!((busy.counts.unfair, busy.counts.wanted), (8, 0), "{busy:?}");
    let asked = run(read(&[("old", 256), ("clone", 256 * 256)]), true);
    assert_eq!((asked.counts.unfair, asked.counts.wanted), (0, 8));
    assert_eq!(
        volumes
            .pool()
            .record()
            .next_sequence
            .get(&units::WriterId(5)),
        None,
        "dry runs"
    );
}

/// Cached ranges are not read from the device, and go first.
#[test]
fn what_is_cached_goes_first_and_costs_no_read() {
    let (disk, bytes) = made(BLOCKS);
    let volumes = open(&disk, 5);
    let volume = volumes.volume("disk").expect("there");
    // The last windows.
    let warm = (BLOCKS - 4) * BLOCK;
    for offset in (warm..BLOCKS * BLOCK).step_by(128 << 10) {
        let mut into = vec![0; 128 << 10];
        volume.read(CONTEXT, offset, &mut into).expect("read");
        assert!(into == bytes[offset as usize..][..into.len()]);
    }
    let source = DefragSource::Volumes(Arc::clone(&volumes));
    let objects = [key(&volumes, "disk")];
    let mut run = Defragmenter::new(source, &objects, None, options()).expect("begin");
    // After the first four moves everything that is moved was in memory.
    while run.report().counts.moved.bytes < 4 * 128 * KIB {
        run.step(0, 1).expect("step");
    }
    let moved = run.report().counts.moved;
    assert_eq!(moved.cached_bytes, moved.bytes, "{moved:?}");
    run.settle().expect("commit");
    let report = finish(run);
    assert_eq!(report.counts.wanted, BLOCKS);
    is_sound(&volumes);
}

/// The cache files of defragmentation may be missing, torn, or old.
#[test]
fn lost_and_torn_caches_cost_heat_and_time_only() {
    let (disk, bytes) = made(8);
    traced(&disk, &sequential(8), 2);
    let volumes = open(&disk, 5);
    assert!(!volumes.heat().is_empty());
    let report = defragment(&volumes, None, options());
    drop(volumes);
    let best = read_cost(&disk, &bytes, &sequential(8));
    for path in ["cache/trace.0", "cache/trace.1", "cache/moved"] {
        let file = media::Disk::open(&*disk, path, false).expect("there");
        file.write_at(70, &[0xa5; 9]).expect("torn");
    }
    let volumes = open(&disk, 6);
    assert!(volumes.heat().is_empty());
    let again = defragment(&volumes, None, options());
    assert_eq!(
        (again.before.runs, again.counts.wanted),
        (report.after.runs, 0)
    );
    drop(volumes);
    assert_eq!(read_cost(&disk, &bytes, &sequential(8)), best);
}

/// Other users of the device wait for at most a step, whatever the step does.
#[test]
fn a_step_takes_of_the_device_what_it_may() {
    const BUDGET: u64 = 256 * KIB;
    let (disk, _) = made(BLOCKS);
    let volumes = open(&disk, 5);
    volumes.clone_volume("clone", "disk").expect("clone");
    let source = DefragSource::Volumes(Arc::clone(&volumes));
    let objects = [key(&volumes, "disk")];
    let mut run = Defragmenter::new(source, &objects, None, options()).expect("begin");
    // Index buckets, directories and regions, at their sizes here.
    let read_bytes = || {
        let (lookups, reads) = (volumes.pool().lookup_counts(), volumes.pool().read_counts());
        lookups.index_probes * 4 * KIB + (lookups.directory_reads + reads.region_reads) * 16 * KIB
    };
    let (mut most, mut all, mut copied) = (0, 0, 0);
    loop {
        let before = read_bytes();
        let step = run.step(0, BUDGET).expect("step");
        let read = read_bytes() - before;
        (most, all) = (most.max(read), all + read);
        match step {
            TaskStep::Worked { bytes } => copied = copied.max(bytes),
            TaskStep::Finished => break,
            other => panic!("{other:?}"),
        }
    }
    println!("{most} of {all} bytes in a step, {copied} copied");
    // The last looked-up chunk, and the buckets of a window's 32 chunks, which were read before.
    let last = (4 + 16) * KIB + 32 * 4 * KIB;
    assert!(most <= BUDGET + last, "{most}");
    assert!(copied <= BUDGET, "{copied}");
    assert!(all > 16 * (BUDGET + last), "{all}");
}
