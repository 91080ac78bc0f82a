//! What reads cost by how a volume is accessed, in reads of the disk; that each switch changes that
//! and nothing else; and that readers, writers, checkpoints and fetching ahead go on side by side.

mod specimen;

use chunking::Compression;
use media::{Blobs, MediaError, Put};
use sim::{Image, Seed, SimDisk};
use specimen::noise;
use specimen::volumes::CONTEXT;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;
use store::{
    AccessOptions, DirectLimits, InitOptions, JournalOptions, LaneOptions, OpenMode, Pool,
    Switches, Thresholds, Volumes, VolumesOptions,
};
use volume::{Durability, Volume};

const SIZE: u64 = 64 << 20;
const PAGES: u64 = SIZE >> 12;
const REGION_BYTES: u64 = 16 << 10;

fn options(switches: Switches, memory_bytes: u64) -> VolumesOptions {
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
            // What happens is what the test asks for.
            fetch_threads: 0,
            ..AccessOptions::default()
        },
    }
}

fn without(change: impl FnOnce(&mut Switches)) -> Switches {
    let mut switches = Switches::default();
    change(&mut switches);
    switches
}

fn open_with(media: media::Media, options: &VolumesOptions) -> Volumes {
    let pool = Pool::open(media, None, OpenMode::Write, 64 << 20).expect("pool");
    Volumes::open(Arc::new(pool), options).expect("volumes")
}

fn open(disk: &Arc<SimDisk>, switches: Switches) -> Volumes {
    open_with(specimen::media(disk, 2), &options(switches, 256 << 20))
}

/// A pool with a volume of noise, folded and closed.
fn disk_with_a_volume() -> Arc<SimDisk> {
    let disk = SimDisk::unrecorded(Image::new());
    let init = InitOptions {
        secrets: &[],
        chunk_bytes_average: 4096,
    };
    Pool::init(&specimen::media(&disk, 1), &init).expect("init");
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

fn read(volume: &dyn Volume, offset: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    volume.read(CONTEXT, offset, &mut bytes).expect("read");
    bytes
}

fn expect_page(volume: &dyn Volume, page: u64) {
    let bytes = read(volume, page << 12, 4096);
    let megabyte = noise(page >> 8, 1 << 20);
    let at = (page as usize & 255) << 12;
    assert!(bytes == megabyte[at..at + 4096], "page {page}");
}

/// Pages in an order that nobody can guess, none twice.
fn shuffled(seed: u64) -> Vec<u64> {
    let mut seed = Seed::new(seed);
    let mut pages: Vec<u64> = (0..PAGES).collect();
    for n in (1..pages.len()).rev() {
        pages.swap(n, seed.below(n as u64 + 1) as usize);
    }
    pages
}

/// Reads of the disk, regions, regions without directories, and directories, for so many random
/// reads of pages; the first ones are not counted.
fn random_costs(disk: &Arc<SimDisk>, switches: Switches) -> (u64, u64, u64, u64) {
    const FIRST: usize = 1000;
    const COUNTED: usize = 1000;
    let volumes = open(disk, switches);
    let volume = volumes.volume("v").expect("volume");
    // The recipe's nodes.
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
    // The memory has room, so pages beside one that was read before are there: of four in a region
    // the first costs a read. 1000 of 8192 were read before, so a quarter of a thousand is there.
    assert!((700..=820).contains(&regions), "{regions} regions for 1000");
    // A few requests are near others by chance, and ask a directory.
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
    // Regions of the disk may begin elsewhere: then it is two.
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

/// Reads all of the volume in requests of `len`; how many of them, after the first few, did not
/// find everything in memory.
fn sequential_misses(volumes: &Volumes, len: u64) -> u64 {
    let volume = volumes.volume("v").expect("volume");
    let mut misses = 0;
    for n in 0..SIZE / len {
        let cached = volume.is_cached(CONTEXT, n * len, len);
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
        // Besides them the recipe's regions.
        let read = counters.region_reads;
        assert!((regions..regions + 20).contains(&read), "{counters:?}");
        // Header and directory of each container, buckets of the index.
        let most = read + 64 * 3 + 200;
        assert!(reads <= most, "{reads} reads for {read} regions");
        // Past the end there is nothing to fetch.
        assert!(counters.fetch_planned_bytes <= SIZE, "{counters:?}");
        assert!(
            counters.fetch_planned_bytes >= SIZE - (1 << 20),
            "{counters:?}"
        );
        assert!(counters.fetched_regions * 10 >= regions * 9, "{counters:?}");
        assert_eq!(counters.judged_random + counters.judged_monotonic, 0);
        // Of requests that hit only those are judged at which there may be more to fetch.
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

#[test]
fn short_random_writes_are_not_looked_up() {
    for (switches, unprobed) in [
        (Switches::default(), 300),
        (without(|s| s.unprobed_writes = false), 0),
    ] {
        let disk = SimDisk::unrecorded(Image::new());
        let init = InitOptions {
            secrets: &[],
            chunk_bytes_average: 4096,
        };
        Pool::init(&specimen::media(&disk, 1), &init).expect("init");
        let volumes = open(&disk, switches);
        let volume = volumes.create("v", SIZE, 12).expect("create");
        for n in 0..300 {
            // No two of them neighbours.
            let page = noise(n, 4096);
            let done = volume.write(CONTEXT, n << 16, &page, Durability::Volatile);
            done.expect("write");
        }
        let probes = || volumes.pool().lookup_counts().index_probes;
        let before = probes();
        volumes.checkpoint().expect("checkpoint");
        assert_eq!(volumes.decision_counters().chunks_unprobed, unprobed);
        // Recipe nodes and what the fold reads are looked up either way.
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

/// Blobs whose reads wait, while that is asked for, until all who are to come have come.
struct Slow {
    inner: Arc<dyn Blobs>,
    slow: AtomicBool,
    coming: AtomicUsize,
    reads: AtomicU64,
}

impl Blobs for Slow {
    fn put(&self, name: &str, bytes: Vec<u8>, how: Put) -> Result<(), MediaError> {
        self.inner.put(name, bytes, how)
    }

    fn read_range(&self, name: &str, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        if self.slow.load(Ordering::SeqCst) {
            self.reads.fetch_add(1, Ordering::SeqCst);
            while self.coming.load(Ordering::SeqCst) > 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            // From their last word before the call to where they wait.
            std::thread::sleep(Duration::from_millis(300));
        }
        self.inner.read_range(name, offset, into)
    }

    fn len(&self, name: &str) -> Result<u64, MediaError> {
        self.inner.len(name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, MediaError> {
        self.inner.list(prefix)
    }

    fn delete(&self, name: &str) -> Result<(), MediaError> {
        self.inner.delete(name)
    }

    fn sweep(&self) -> Result<(), MediaError> {
        self.inner.sweep()
    }

    fn adopt(&self, name: &str) {
        self.inner.adopt(name);
    }

    fn barrier(&self, point: media::Barrier) -> Result<(), MediaError> {
        self.inner.barrier(point)
    }
}

/// Regions that are read when eight readers come for two pages of one region.
fn parallel_reads(disk: &Arc<SimDisk>, switches: Switches) -> u64 {
    let mut media = specimen::media(disk, 2);
    let slow = Arc::new(Slow {
        inner: Arc::clone(&media.blobs),
        slow: AtomicBool::new(false),
        coming: AtomicUsize::new(8),
        reads: AtomicU64::new(0),
    });
    media.blobs = Arc::clone(&slow) as _;
    let volumes = open_with(media, &options(switches, 256 << 20));
    let volume = volumes.volume("v").expect("volume");
    // Headers and directories of containers, nodes, and buckets of the index.
    let first = shuffled(5);
    let far = |page: &&u64| **page >= 64;
    let first = first.iter().filter(far).take(2000);
    first.for_each(|page| drop(read(&volume, page << 12, 4096)));
    let before = volumes.decision_counters();
    slow.slow.store(true, Ordering::SeqCst);
    let started = Barrier::new(8);
    std::thread::scope(|scope| {
        for reader in 0..8u64 {
            let (volume, slow, started) = (&volume, &slow, &started);
            scope.spawn(move || {
                started.wait();
                slow.coming.fetch_sub(1, Ordering::SeqCst);
                expect_page(volume, reader % 2);
            });
        }
    });
    let reads = slow.reads.load(Ordering::SeqCst);
    let after = volumes.decision_counters();
    let (shared, regions) = (
        after.shared_reads - before.shared_reads,
        after.region_reads - before.region_reads,
    );
    assert!(reads == regions, "{reads} reads for {regions} regions");
    match switches.shared_reads {
        true => assert!((1..=7).contains(&shared), "{shared} shared"),
        false => assert_eq!(shared, 0),
    }
    regions
}

#[test]
fn many_readers_of_one_region_are_one_read() {
    let disk = disk_with_a_volume();
    // All by one route: a random reader keeps but the page that it came for.
    let mut switches = without(|s| s.direct_regions = false);
    assert_eq!(parallel_reads(&disk, switches), 1);
    switches.shared_reads = false;
    let alone = parallel_reads(&disk, switches);
    assert!(
        alone >= 4,
        "{alone} regions read by eight readers who share nothing"
    );
}

#[test]
fn memory_stays_within_its_budget_while_much_is_fetched() {
    const MEMORY_BYTES: u64 = 6 << 20;
    let disk = disk_with_a_volume();
    let mut options = options(Switches::default(), MEMORY_BYTES);
    options.access.fetch_threads = 2;
    options.access.fetch_bytes_max = 1 << 30;
    let volumes = open_with(specimen::media(&disk, 2), &options);
    let volume = volumes.volume("v").expect("volume");
    for n in 0..SIZE >> 18 {
        let bytes = read(&volume, n << 18, 256 << 10);
        let at = (n as usize & 3) << 18;
        assert!(bytes == noise(n >> 2, 1 << 20)[at..at + (256 << 10)], "{n}");
        let resident = volumes.cache_counters().bytes_resident;
        assert!(resident <= MEMORY_BYTES, "{resident} bytes");
    }
    let counters = volumes.decision_counters();
    // What waits is limited to a sixteenth of the memory, whatever was asked for.
    assert!(counters.fetch_dropped_bytes > 0, "{counters:?}");
}

/// A page of the stress: its number and version, over and over.
fn stamped(page: u64, version: u64) -> Vec<u8> {
    let stamp = [page.to_le_bytes(), version.to_le_bytes()].concat();
    stamp.repeat(4096 / 16)
}

fn stamp_of(bytes: &[u8], page: u64) -> u64 {
    let (stamps, _) = bytes.as_chunks::<16>();
    let first = stamps.first().expect("a page");
    assert!(stamps.iter().all(|s| s == first), "page {page} is mixed");
    let (number, version) = first.split_at(8);
    let version = u64::from_le_bytes(version.try_into().expect("8"));
    let number = u64::from_le_bytes(number.try_into().expect("8"));
    assert!(number == page || version == 0, "page {number} at {page}");
    version
}

#[test]
fn readers_writers_checkpoints_and_fetching_go_side_by_side() {
    const PAGES: u64 = 4096;
    let disk = SimDisk::unrecorded(Image::new());
    let init = InitOptions {
        secrets: &[],
        chunk_bytes_average: 4096,
    };
    Pool::init(&specimen::media(&disk, 1), &init).expect("init");
    let mut options = options(Switches::default(), 5 << 20);
    options.access.fetch_threads = 2;
    let volumes = open_with(specimen::media(&disk, 2), &options);
    let volume = volumes.create("v", PAGES << 12, 12).expect("create");
    // What each page holds at least: written and acknowledged.
    let acknowledged: Vec<AtomicU64> = (0..PAGES).map(|_| AtomicU64::new(0)).collect();
    let writing = AtomicUsize::new(2);
    std::thread::scope(|scope| {
        for writer in 0..2u64 {
            let (volume, acknowledged, writing) = (&volume, &acknowledged, &writing);
            scope.spawn(move || {
                let mut seed = Seed::new(writer);
                for version in 1..4000 {
                    // Each writer has pages of its own, in runs, some of them long.
                    let run = if version % 40 == 0 { 64 } else { 1 };
                    let first = seed.below(PAGES / 128) * 128 + writer * 64;
                    let first = first + seed.below(64 / run);
                    let pages: Vec<u8> = (first..first + run)
                        .flat_map(|page| stamped(page, version))
                        .collect();
                    let done = volume.write(CONTEXT, first << 12, &pages, Durability::Volatile);
                    done.expect("write");
                    for page in first..first + run {
                        acknowledged[page as usize].store(version, Ordering::SeqCst);
                    }
                }
                writing.fetch_sub(1, Ordering::SeqCst);
            });
        }
        for reader in 0..3u64 {
            let (volume, acknowledged, writing) = (&volume, &acknowledged, &writing);
            scope.spawn(move || {
                let mut seed = Seed::new(100 + reader);
                let mut at = 0;
                while writing.load(Ordering::SeqCst) > 0 {
                    let count = if reader == 0 { 1 } else { 16 };
                    at = match reader {
                        0 => seed.below(PAGES),
                        _ => (at + 16) % (PAGES - 16),
                    };
                    let least: Vec<u64> = (at..at + count)
                        .map(|page| acknowledged[page as usize].load(Ordering::SeqCst))
                        .collect();
                    let bytes = read(volume, at << 12, count << 12);
                    for ((page, bytes), least) in (at..).zip(bytes.chunks(4096)).zip(least) {
                        let version = stamp_of(bytes, page);
                        assert!(version >= least, "page {page}: {version} after {least}");
                    }
                }
            });
        }
        scope.spawn(|| {
            while writing.load(Ordering::SeqCst) > 0 {
                volumes.step(64 << 10).expect("step");
            }
        });
    });
    volumes.checkpoint().expect("checkpoint");
    for page in 0..PAGES {
        let bytes = read(&volume, page << 12, 4096);
        let wanted = acknowledged[page as usize].load(Ordering::SeqCst);
        assert_eq!(stamp_of(&bytes, page), wanted, "page {page}");
    }
    specimen::volumes::is_sound(&volumes);
}
