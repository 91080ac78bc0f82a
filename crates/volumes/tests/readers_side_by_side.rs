//! Readers, writers, checkpoints and read-ahead run at the same time. A region that several need is
//! read once, memory stays within its budget, and every byte is right.

use crate::noise_volume;
use crate::small_volumes;

use media::{Blobs, MediaError, Put};
use noise_volume::*;
use parking_lot::Mutex;
use sim::{Seed, SimDisk};
use small_volumes::CONTEXT;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use testkit::specimen::noise;
use volume::{Durability, Volume};
use volumes::Switches;

/// Blobs whose reads wait at a gate, on request.
struct Gated {
    inner: Arc<dyn Blobs>,
    is_shut: AtomicBool,
    reads: AtomicU64,
    announced: Mutex<Vec<(String, u64, u64)>>,
    /// Ranges that were read.
    ranges: Mutex<Vec<(String, u64, u64)>>,
}

impl Gated {
    fn new(inner: Arc<dyn Blobs>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            is_shut: AtomicBool::new(false),
            reads: AtomicU64::new(0),
            announced: Mutex::default(),
            ranges: Mutex::default(),
        })
    }
}

impl Blobs for Gated {
    fn announce_read(&self, name: &str, offset: u64, len: u64) -> bool {
        self.announced.lock().push((name.to_owned(), offset, len));
        true
    }

    fn put(&self, name: &str, bytes: Vec<u8>, how: Put) -> Result<(), MediaError> {
        self.inner.put(name, bytes, how)
    }

    fn read_range(&self, name: &str, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        if self.is_shut.load(Ordering::SeqCst) {
            self.reads.fetch_add(1, Ordering::SeqCst);
            while self.is_shut.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let range = (name.to_owned(), offset, into.len() as u64);
        self.ranges.lock().push(range);
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

/// Returns the number of regions that are read when eight readers need two pages of one region.
/// None of them gets it before each of them reads it or waits for a reader.
fn parallel_reads(disk: &Arc<SimDisk>, switches: Switches) -> u64 {
    let mut media = testkit::specimen::media(disk, 2);
    let gated = Gated::new(Arc::clone(&media.blobs));
    media.blobs = Arc::clone(&gated) as _;
    let volumes = open_with(media, &options(switches, 256 << 20));
    let volume = volumes.volume("v").expect("volume");
    // Read headers and directories of containers, nodes, and buckets of the index.
    let first = shuffled(5);
    let far = |page: &&u64| **page >= 64;
    let first = first.iter().filter(far).take(2000);
    first.for_each(|page| drop(read(&volume, page << 12, 4096)));
    let before = volumes.decision_counters();
    let arrived = || {
        let waits = volumes.decision_counters().shared_waits - before.shared_waits;
        gated.reads.load(Ordering::SeqCst) + waits
    };
    gated.is_shut.store(true, Ordering::SeqCst);
    let all_arrived = std::thread::scope(|scope| {
        for reader in 0..8u64 {
            let volume = &volume;
            scope.spawn(move || expect_page(volume, reader % 2));
        }
        let since = Instant::now();
        while arrived() < 8 && since.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let arrived = arrived();
        gated.is_shut.store(false, Ordering::SeqCst);
        arrived
    });
    assert_eq!(all_arrived, 8, "readers that read or wait");
    let reads = gated.reads.load(Ordering::SeqCst);
    let after = volumes.decision_counters();
    let (shared, regions) = (
        after.shared_reads - before.shared_reads,
        after.region_reads - before.region_reads,
    );
    assert!(reads == regions, "{reads} reads for {regions} regions");
    assert_eq!(shared, 8 - regions);
    regions
}

#[test]
fn many_readers_of_one_region_are_one_read() {
    let disk = disk_with_a_volume();
    // All readers use one route: a random reader keeps only its own page.
    let mut switches = without(|s| s.direct_regions = false);
    assert_eq!(parallel_reads(&disk, switches), 1);
    switches.shared_reads = false;
    assert_eq!(parallel_reads(&disk, switches), 8, "they share nothing");
}

#[test]
fn memory_stays_within_its_budget_while_much_is_fetched() {
    const MEMORY_BYTES: u64 = 6 << 20;
    let disk = disk_with_a_volume();
    let mut options = options(Switches::default(), MEMORY_BYTES);
    options.access.fetch_threads = 2;
    options.access.fetch_bytes_max = 1 << 30;
    let volumes = open_with(testkit::specimen::media(&disk, 2), &options);
    let volume = volumes.volume("v").expect("volume");
    for n in 0..SIZE >> 18 {
        let bytes = read(&volume, n << 18, 256 << 10);
        let at = (n as usize & 3) << 18;
        assert!(bytes == noise(n >> 2, 1 << 20)[at..at + (256 << 10)], "{n}");
        let resident = volumes.cache_counters().bytes_resident;
        assert!(resident <= MEMORY_BYTES, "{resident} bytes");
    }
    let counters = volumes.decision_counters();
    // Queued fetches are limited to a sixteenth of the memory, whatever the options say.
    assert!(counters.fetch_dropped_bytes > 0, "{counters:?}");
}

/// Returns a page of the stress test: its number and version, repeated.
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
    let disk = disk_with_a_pool();
    let mut options = options(Switches::default(), 5 << 20);
    options.access.fetch_threads = 2;
    let volumes = open_with(testkit::specimen::media(&disk, 2), &options);
    let volume = volumes.create("v", PAGES << 12, 12).expect("create");
    // Minimum version of each page: written and acknowledged.
    let acknowledged: Vec<AtomicU64> = (0..PAGES).map(|_| AtomicU64::new(0)).collect();
    let writing = AtomicUsize::new(2);
    std::thread::scope(|scope| {
        for writer in 0..2u64 {
            let (volume, acknowledged, writing) = (&volume, &acknowledged, &writing);
            scope.spawn(move || {
                let mut seed = Seed::new(writer);
                for version in 1..4000 {
                    // Each writer has its own pages, in runs, some of them long.
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
    small_volumes::is_sound(&volumes);
}

/// The device must begin with exactly what the read will ask for, and with nothing else.
#[test]
fn an_announced_read_is_the_read_that_follows() {
    let disk = disk_with_a_volume();
    let mut media = testkit::specimen::media(&disk, 2);
    let gated = Gated::new(Arc::clone(&media.blobs));
    media.blobs = Arc::clone(&gated) as _;
    let volumes = open_with(media, &options(Switches::default(), 256 << 20));
    let volume = volumes.volume("v").expect("volume");
    let pages = shuffled(5);
    let announce = |at: u64, len: u64| volume.capabilities().announce(CONTEXT, at, len);
    assert!(
        !announce(pages[0] << 12, 4096),
        "its recipe is not in memory"
    );
    pages[..2000]
        .iter()
        .for_each(|page| expect_page(&volume, *page));
    gated.announced.lock().clear();
    let mut begun = 0;
    for page in &pages[2000..2200] {
        gated.ranges.lock().clear();
        let is_announced = announce(page << 12, 4096);
        let announced = std::mem::take(&mut *gated.announced.lock());
        expect_page(&volume, *page);
        let ranges = gated.ranges.lock().clone();
        if is_announced && !ranges.is_empty() {
            begun += 1;
            assert_eq!(announced, ranges);
        }
        assert!(is_announced || announced.is_empty());
    }
    assert!(begun > 100, "{begun} of 200");
    // None of these is one read of the device.
    let page = pages[2200] << 12;
    assert!(!announce(page & !8191, 8192), "two chunks");
    let written = volume.write(CONTEXT, page, &[7; 4096], Durability::Volatile);
    written.expect("write");
    assert!(!announce(page, 4096), "the journal has it");
    assert!(!announce(volume.size_bytes(), 4096), "behind the end");
    assert!(gated.announced.lock().is_empty());
}
