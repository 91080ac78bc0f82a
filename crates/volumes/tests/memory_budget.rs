//! Heap of a pool and its volumes while a large volume is written and read at random. Counts bytes
//! requested from the allocator: everything that grows with the load stays within the budget.
//!
//! This test is a process of its own, because the count covers the whole process.

mod small_volumes;

use chunking::Compression;
use media::{DirBlobs, LocalDisk, Media, SeededRandom, Syncing, SystemClock};
use sim::pool_histories::init_options;
use std::alloc::{GlobalAlloc, Layout, System};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use store::{CheckDepth, LaneOptions, OpenMode, Pool};
use volume::{Durability, Volume};
use volumes::{
    AccessOptions, CheckpointStep, DirectLimits, JournalOptions, Thresholds, Volumes,
    VolumesOptions,
};

const POOL_BYTES: usize = 6 << 20;
const VOLUMES_BYTES: usize = 8 << 20;
const JOURNAL_BUFFER_BYTES: usize = 2 << 20;
const CONTAINER_BYTES: usize = 256 << 10;
/// Containers of each open session that lanes fill or that wait for the disk.
const CONTAINERS: usize = 8;
const BUDGET_BYTES: usize =
    POOL_BYTES + VOLUMES_BYTES + JOURNAL_BUFFER_BYTES + CONTAINERS * CONTAINER_BYTES;

const VOLUME_BYTES: u64 = 50 << 30;
const PAGE_BYTES: u64 = 4096;
const WRITES: u64 = 30_000;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn taken(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(live, Relaxed);
}

/// The system's allocator with a count of the bytes in use.
struct Counting;

// SAFETY: every call is passed to the system's allocator unchanged; counting touches none of its
// memory.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the caller's promises are those of `System::alloc`.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: passed on unchanged.
        unsafe { System.alloc(layout) }
    }
    // SAFETY: the caller's promises are those of `System::alloc_zeroed`.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: passed on unchanged.
        unsafe { System.alloc_zeroed(layout) }
    }
    // SAFETY: the caller's promises are those of `System::dealloc`.
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `at` came from the system's allocator, by one of the above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// A directory that is deleted with the test.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        let name = format!("quintet-memory-budget-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    fn media(&self) -> Media {
        let disk = LocalDisk::new(&self.0);
        disk.create_top().expect("directory");
        let disk: Arc<dyn media::Disk> = Arc::new(disk);
        let syncing = Syncing::Threads {
            threads: 2,
            queue: 3,
        };
        Media {
            blobs: Arc::new(DirBlobs::new(Arc::clone(&disk), syncing)),
            disk,
            clock: Arc::new(SystemClock),
            random: Arc::new(SeededRandom::new(1)),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn opened(place: &Place) -> Volumes {
    Pool::init(&place.media(), &init_options(&[])).expect("init");
    let pool = Pool::open(place.media(), None, OpenMode::Write, POOL_BYTES).expect("open");
    let options = VolumesOptions {
        journal: JournalOptions {
            bytes_max: 64 << 20,
            slot_bytes: 2 << 20,
            buffer_bytes: JOURNAL_BUFFER_BYTES,
        },
        memory_bytes: VOLUMES_BYTES as u64,
        thresholds: Thresholds::default(),
        lane: LaneOptions {
            compression: Compression::Default,
            region_bytes: 16 << 10,
            container_bytes: CONTAINER_BYTES,
        },
        direct: DirectLimits::default(),
        access: AccessOptions::default(),
    };
    Volumes::open(Arc::new(pool), &options).expect("volumes")
}

/// Returns a unique page that compresses to a third.
fn page(number: u64) -> [u8; PAGE_BYTES as usize] {
    let mut page = [b'q'; PAGE_BYTES as usize];
    media::Random::fill(&SeededRandom::new(number), &mut page[..1300]);
    page
}

/// SplitMix64: places all over the volume.
fn place_of(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (z ^ (z >> 27)) % (VOLUME_BYTES / PAGE_BYTES) * PAGE_BYTES
}

#[test]
fn a_hammered_volume_stays_within_the_budget() {
    let before = LIVE.load(Relaxed);
    let place = Place::new();
    let volumes = opened(&place);
    volumes.create("wide", VOLUME_BYTES, 12).expect("create");
    let wide = volumes.volume("wide").expect("wide");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Like the server's destager thread.
        scope.spawn(|| {
            while !over.load(Relaxed) {
                if !volumes.wait_for_work(Duration::from_millis(10)) {
                    continue;
                }
                while volumes.step(8 << 20).expect("step") == CheckpointStep::Working
                    || volumes.wants_checkpoint(true)
                {}
            }
        });
        let context = small_volumes::CONTEXT;
        for number in 0..WRITES {
            let data = page(number);
            let now = Durability::Volatile;
            wide.write(context, place_of(number), &data, now)
                .expect("write");
            // Small pieces: the journal has room for far more of them than memory.
            let hole = place_of(WRITES + number);
            wide.write_zeroes(context, hole, 512, false, now)
                .expect("zeroes");
            if number % 3 == 0 {
                let mut into = [0; PAGE_BYTES as usize];
                let at = place_of(number / 2);
                wide.read(context, at, &mut into).expect("read");
            }
        }
        over.store(true, Relaxed);
        volumes.wake();
    });
    let peak = PEAK.load(Relaxed) - before;
    let rounds = volumes.checkpoint_counts().rounds;
    println!(
        "{} KiB of {} KiB at most, {rounds} checkpoints",
        peak >> 10,
        BUDGET_BYTES >> 10
    );
    assert!(rounds > 2, "a load that fills nothing shows nothing");
    assert!(peak <= BUDGET_BYTES / 4 * 5, "{peak} bytes at most");
    assert!(
        peak >= BUDGET_BYTES / 2,
        "{peak} bytes: is anything counted?"
    );
    look_at_all(volumes.pool());
}

/// Check and `stats` use a few bits for each chunk, and bounded queues.
fn look_at_all(pool: &Pool) {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let go_on = &mut |_, _| ControlFlow::Continue(());
    let report = pool.check(CheckDepth::Structure, go_on).expect("check");
    let space = pool.space().expect("space");
    assert!(report.is_sound() && report.chunks > 20_000, "{report:?}");
    let peak = PEAK.load(Relaxed) - before;
    println!("{} KiB for {} chunks", peak >> 10, report.chunks);
    // A bit for each chunk, and two for those in containers of nodes and directories.
    let bits_max = (space.chunks / 4 + 24 * space.containers) / 8 * 8;
    assert!(
        report.mark_bytes > 0 && report.mark_bytes <= bits_max,
        "{} bytes",
        report.mark_bytes
    );
    assert!(
        space.mark_bytes > 0 && space.mark_bytes <= bits_max,
        "{} bytes",
        space.mark_bytes
    );
}
