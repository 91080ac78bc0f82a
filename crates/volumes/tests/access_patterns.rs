//! Costs of reads for each access pattern, in reads of the disk. Each switch changes these costs
//! and nothing else.

use crate::noise_volume;
use crate::small_volumes;

use noise_volume::*;
use sim::SimDisk;
use small_volumes::CONTEXT;
use std::sync::Arc;
use testkit::specimen::noise;
use units::Pattern;
use volume::{Durability, RequestContext, Volume};
use volumes::{Switches, Volumes};

/// Returns reads of the disk, regions, regions without directories, and directories for random
/// reads of pages. The first reads are not counted.
fn random_costs(disk: &Arc<SimDisk>, switches: Switches) -> (u64, u64, u64, u64) {
    const FIRST: usize = 1000;
    const COUNTED: usize = 1000;
    let volumes = open(disk, switches);
    let volume = volumes.volume("v").expect("volume");
    // Reads the recipe's nodes.
    volume
        .extents(CONTEXT, 0, SIZE, &mut |_| {
            std::ops::ControlFlow::Continue(())
        })
        .expect("extents");
    let pages = shuffled(1);
    let directories = || volumes.pool().lookup_counts().directory_reads;
    let directories_before = directories();
    pages[..FIRST].iter().for_each(|p| expect_page(&volume, *p));
    let (reads, before) = (disk.counts().reads, volumes.decision_counters());
    let counted = &pages[FIRST..FIRST + COUNTED];
    counted
        .iter()
        .for_each(|p| drop(read(&volume, p << 12, 4096)));
    let after = volumes.decision_counters();
    (
        disk.counts().reads - reads,
        after.region_reads - before.region_reads,
        after.direct_reads - before.direct_reads,
        directories() - directories_before,
    )
}

#[test]
fn a_cold_random_read_is_one_read_of_the_disk() {
    let disk = disk_with_a_volume();
    let (reads, regions, direct, directories) = random_costs(&disk, Switches::default());
    // The page cache has room, so pages beside an earlier read are in it: of four pages in a
    // region, the first costs a read. 1000 of 8192 pages were read before, so about a quarter of
    // the next thousand hit.
    assert!((700..=820).contains(&regions), "{regions} regions for 1000");
    // A few requests are near others by chance, and use a directory.
    assert!(reads <= regions + 30, "{reads} reads for {regions} regions");
    assert!(direct * 100 >= regions * 97, "{direct} of {regions} direct");
    assert!(directories <= 24, "{directories} directories read");
    let switches = without(|s| s.direct_regions = false);
    let (_, _, direct, directories) = random_costs(&disk, switches);
    assert_eq!(direct, 0);
    assert!(
        directories >= 60,
        "{directories} directories of 64 containers"
    );
}

#[test]
fn a_random_read_of_a_whole_region_is_one_read_too() {
    let disk = disk_with_a_volume();
    let volumes = open(&disk, Switches::default());
    let volume = volumes.volume("v").expect("volume");
    let places = shuffled(9);
    let mut places = places.iter().map(|page| (page << 12) & !(REGION_BYTES - 1));
    for at in places.by_ref().take(500) {
        read(&volume, at, REGION_BYTES);
    }
    let before = volumes.decision_counters();
    places
        .take(300)
        .for_each(|at| drop(read(&volume, at, REGION_BYTES)));
    let after = volumes.decision_counters();
    let regions = after.region_reads - before.region_reads;
    // Regions on the disk may begin elsewhere: then it takes two.
    assert!(regions <= 620, "{regions} regions for 300 requests");
}

#[test]
fn random_readers_have_nothing_fetched() {
    let disk = disk_with_a_volume();
    let volumes = open(&disk, Switches::default());
    let volume = volumes.volume("v").expect("volume");
    for page in &shuffled(3)[..2000] {
        read(&volume, page << 12, 4096);
        while volumes.fetch_step() {}
    }
    let counters = volumes.decision_counters();
    assert!(counters.judged_random > 1850, "{counters:?}");
    // One random request in 252 looks monotonic, and the rest of its 128 KiB is fetched.
    let most = (counters.judged_monotonic + 8) * (128 << 10);
    assert!(counters.fetch_planned_bytes <= most, "{counters:?}");
    assert!(counters.judged_monotonic < 25, "{counters:?}");
}

#[test]
fn a_request_that_was_judged_above_is_not_judged_again() {
    let disk = disk_with_a_volume();
    let volumes = open(&disk, Switches::default());
    let volume = volumes.volume("v").expect("volume");
    let context = RequestContext {
        pattern: Some(Pattern::Random),
        ..CONTEXT
    };
    for n in 0..1000 {
        let mut bytes = vec![0; 64 << 10];
        let at = n * (64 << 10) % SIZE;
        volume.read(context, at, &mut bytes).expect("read");
        while volumes.fetch_step() {}
    }
    let counters = volumes.decision_counters();
    assert!(counters.judged_random > 100, "{counters:?}");
    assert_eq!(counters.judged_sequential + counters.judged_monotonic, 0);
    assert_eq!(counters.fetch_planned_bytes, 0, "{counters:?}");
}

#[test]
fn short_random_writes_are_not_looked_up() {
    for (switches, unprobed) in [
        (Switches::default(), 300),
        (without(|s| s.unprobed_writes = false), 0),
    ] {
        let disk = disk_with_a_pool();
        let volumes = open(&disk, switches);
        let volume = volumes.create("v", SIZE, 12).expect("create");
        for n in 0..300 {
            // No two of them are neighbours.
            let page = noise(n, 4096);
            let done = volume.write(CONTEXT, n << 16, &page, Durability::Volatile);
            done.expect("write");
        }
        let probes = || volumes.pool().lookup_counts().index_probes;
        let before = probes();
        volumes.checkpoint().expect("checkpoint");
        assert_eq!(volumes.decision_counters().chunks_unprobed, unprobed);
        // Recipe nodes, and reads of the checkpoint, are looked up either way.
        let asked = probes() - before;
        match unprobed {
            0 => assert!(asked >= 300, "{asked} look-ups"),
            _ => assert!(asked < 150, "{asked} look-ups"),
        }
        // A long run is looked up.
        let run = noise(1000, 256 << 10);
        volume
            .write(CONTEXT, 32 << 20, &run, Durability::Volatile)
            .expect("write");
        volumes.checkpoint().expect("checkpoint");
        assert_eq!(volumes.decision_counters().chunks_unprobed, unprobed);
    }
}

/// Reads the whole volume in requests of `len`. Returns how many of them, after the first few,
/// missed the page cache.
fn sequential_misses(volumes: &Volumes, len: u64) -> u64 {
    let volume = volumes.volume("v").expect("volume");
    let mut misses = 0;
    for n in 0..SIZE / len {
        let cached = volume.capabilities().is_cached(CONTEXT, n * len, len);
        misses += u64::from(!cached && n > 4);
        let bytes = read(&volume, n * len, len);
        let within = (n * len % (1 << 20)) as usize;
        let megabyte = noise((n * len) >> 20, 1 << 20);
        assert!(bytes == megabyte[within..within + len as usize], "{n}");
        while volumes.fetch_step() {}
    }
    misses
}

#[test]
fn sequential_readers_find_everything_in_memory_and_nothing_is_read_twice() {
    let disk = disk_with_a_volume();
    for len in [4 << 10, 64 << 10] {
        let volumes = open(&disk, Switches::default());
        let reads = disk.counts().reads;
        assert_eq!(sequential_misses(&volumes, len), 0);
        let (reads, counters) = (disk.counts().reads - reads, volumes.decision_counters());
        let regions = SIZE / REGION_BYTES;
        // The recipe's regions are read too.
        let read = counters.region_reads;
        assert!((regions..regions + 20).contains(&read), "{counters:?}");
        // Header and directory of each container, and buckets of the index.
        let most = read + 64 * 3 + 200;
        assert!(reads <= most, "{reads} reads for {read} regions");
        // Nothing past the end is fetched.
        assert!(counters.fetch_planned_bytes <= SIZE, "{counters:?}");
        assert!(
            counters.fetch_planned_bytes >= SIZE - (1 << 20),
            "{counters:?}"
        );
        assert!(counters.fetched_regions * 10 >= regions * 9, "{counters:?}");
        assert_eq!(counters.judged_random + counters.judged_monotonic, 0);
        // Of the requests that hit, only those are judged at which a stream is due.
        assert!(
            counters.judged_sequential <= SIZE / (32 << 10) * 2 + 64,
            "{counters:?}"
        );
    }
}

#[test]
fn without_prefetch_readers_wait_for_each_region() {
    let disk = disk_with_a_volume();
    let volumes = open(&disk, without(|s| s.prefetch = false));
    let misses = sequential_misses(&volumes, 16 << 10);
    let counters = volumes.decision_counters();
    assert!(misses >= SIZE / (16 << 10) / 2, "{misses}: {counters:?}");
    assert_eq!(counters.fetch_planned_bytes + counters.fetched_regions, 0);
}
