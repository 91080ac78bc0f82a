//! Garbage collection on an almost full disk, while chunks of large writes are in open containers.
//!
//! Invariant: gc, reads and flushes put those containers. Copies leave the space for that, and gc
//! may take some of the reserve for it, because it frees space afterwards.

use crate::small_volumes;

use chunking::Compression;
use maintenance::{CollectLimits, Collector, GcCounts, GcPolicy, GcStage, Urgency};
use media::{Disk, Need};
use sim::SimDisk;
use sim::pool_histories::{finish_gc, for_any_gain};
use small_volumes::{CONTEXT, is_sound, made, write};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{OpenMode, Pool};
use testkit::specimen::{noise, options, store_image};
use volume::{Durability, Volume, VolumeErrorKind};
use volumes::{VolumeHandle, Volumes};

const CHUNK: usize = 4096;
/// Length of the snapshots, of which gc keeps half.
const IMAGE_BYTES: usize = 8 << 20;
const DISK_BYTES: u64 = 24 << 20;
/// Length of a large write: its chunks fit into one open container.
const WRITE_BYTES: usize = 2 << 20;
/// More than that container needs on the disk, with its directory and the commit that lists it.
const OPEN_BYTES: u64 = (WRITE_BYTES + WRITE_BYTES / 4) as u64;

/// A disk whose containers are half garbage, with a volume that was not written yet.
fn half_garbage() -> (Arc<SimDisk>, Volumes, VolumeHandle) {
    let disk = made();
    let pool = open_pool(&disk, 2);
    let bytes = noise(5, IMAGE_BYTES);
    let all = store_image(&pool, "all", &bytes, Compression::None);
    let chunks = bytes.chunks(CHUNK).step_by(2);
    let kept: Vec<u8> = chunks.flatten().copied().collect();
    store_image(&pool, "kept", &kept, Compression::None);
    pool.forget(&[all.snapshot]).expect("forget");
    drop(pool);
    disk.set_capacity(Some(DISK_BYTES));
    let mut wanted = small_volumes::small();
    wanted.lane.container_bytes = 4 << 20;
    wanted.direct.unflushed_bytes_min = 0;
    // Pages of a large write leave the cache soon.
    wanted.memory_bytes = 1 << 20;
    let volumes = Volumes::open(Arc::new(open_pool(&disk, 3)), &wanted).expect("volumes");
    let size = (2 * WRITE_BYTES) as u64;
    let volume = volumes.create("v", size, 12).expect("create");
    volumes.pool().keep_reserve();
    (disk, volumes, volume)
}

fn open_pool(disk: &Arc<SimDisk>, seed: u64) -> Pool {
    testkit::specimen::open(disk, seed, None, OpenMode::Write).expect("open")
}

/// Makes a large write whose chunks stay in an open container.
fn write_directly(volumes: &Volumes, volume: &VolumeHandle) -> Vec<u8> {
    let (before, content) = (volumes.direct_bytes(), noise(7, WRITE_BYTES));
    write(volume, 0, &content);
    assert_eq!(
        volumes.direct_bytes() - before,
        WRITE_BYTES as u64,
        "past the journal"
    );
    content
}

/// Fills the disk with other files until `need` has `left` bytes.
fn fill(disk: &SimDisk, pool: &Pool, need: Need, left: u64) {
    let has = pool.reserved().expect("known").for_need(need);
    let foreign = disk.create_new("foreign").expect("a file");
    let bytes = usize::try_from(has - left).expect("small");
    foreign.write_at(0, &vec![7; bytes]).expect("room");
    let reserved = pool.reserved().expect("known");
    assert_eq!(reserved.for_need(need), left, "{reserved:?}");
}

fn begin(volumes: &Volumes) -> Collector {
    // As if space is short.
    let policy = GcPolicy {
        by_owner_percent_min: None,
        ..for_any_gain()
    };
    Collector::new(volumes.pool(), policy, options(Compression::None)).expect("alone")
}

fn finish(volumes: &Volumes, mut run: Collector) -> GcCounts {
    finish_gc(volumes.pool(), Some(volumes), &mut run, 64 << 10).expect("a run on a full disk")
}

/// Steps the run until this stage.
fn step_until(volumes: &Volumes, run: &mut Collector, stage: GcStage) {
    while run.stage() < stage {
        run.step(volumes.pool(), Some(volumes), volumes, 64 << 10)
            .expect("step");
    }
}

fn has(volume: &VolumeHandle, content: &[u8]) {
    let mut back = vec![0; content.len()];
    volume.read(CONTEXT, 0, &mut back).expect("read");
    assert!(back == content);
}

/// The chunks are written after the run's mark, which would have stored them, and before or after
/// the run chooses containers.
#[test]
fn copies_leave_the_space_for_open_containers() {
    for stage in [GcStage::Choosing, GcStage::Copying] {
        let (disk, volumes, volume) = half_garbage();
        let pool = volumes.pool();
        let mut run = begin(&volumes);
        step_until(&volumes, &mut run, stage);
        let content = write_directly(&volumes, &volume);
        fill(&disk, pool, Need::Acknowledged, OPEN_BYTES);
        let limits = CollectLimits::default();
        let room = limits.copy_room(pool, &volumes, Urgency::Full);
        let copies = pool.reserved().expect("known").for_copies();
        assert!(room.is_some_and(|room| room < copies - WRITE_BYTES as u64));
        let counts = finish(&volumes, run);
        assert!(counts.copied_bytes > 0 && counts.containers_without_room > 0);
        let left = pool.reserved().expect("known");
        assert!(
            left.for_need(Need::Deletion) > WRITE_BYTES as u64,
            "{left:?}"
        );
        // The next run stores them, and deletes what this one has moved to the trash.
        let counts = finish(&volumes, begin(&volumes));
        assert!(counts.deleted_bytes > 0);
        has(&volume, &content);
        is_sound(&volumes);
    }
}

/// A mark needs the chunks of large writes durable, and a full disk needs the mark.
#[test]
fn a_mark_may_take_some_of_the_reserve_for_open_containers() {
    let (disk, volumes, volume) = half_garbage();
    finish(&volumes, begin(&volumes));
    let content = write_directly(&volumes, &volume);
    fill(&disk, volumes.pool(), Need::Deletion, OPEN_BYTES);
    let refused = volume.flush(CONTEXT).expect_err("no client may take that");
    assert_eq!(refused.kind, VolumeErrorKind::NoSpace);
    let counts = finish(&volumes, begin(&volumes));
    assert!(counts.deleted_bytes > 0);
    volume.flush(CONTEXT).expect("flush");
    has(&volume, &content);
    is_sound(&volumes);
}

/// A read whose chunks have left the page cache needs their container.
#[test]
fn a_read_may_take_some_of_the_reserve_for_open_containers() {
    let (disk, volumes, volume) = half_garbage();
    let content = write_directly(&volumes, &volume);
    fill(&disk, volumes.pool(), Need::Deletion, OPEN_BYTES);
    has(&volume, &content);
    is_sound(&volumes);
}

/// A client's flush waits for gc, as writes do, and fails only if nobody frees space.
#[test]
fn a_clients_flush_waits_while_gc_frees_space() {
    for durability in [Durability::Volatile, Durability::Durable] {
        let (disk, volumes, volume) = half_garbage();
        let content = write_directly(&volumes, &volume);
        fill(&disk, volumes.pool(), Need::Deletion, OPEN_BYTES);
        let flush = || match durability {
            Durability::Volatile => volume.flush(CONTEXT),
            Durability::Durable => {
                volume.write_zeroes(CONTEXT, WRITE_BYTES as u64, 4096, false, durability)
            }
        };
        let refused = flush().expect_err("nobody frees space");
        assert_eq!(refused.kind, VolumeErrorKind::NoSpace);
        volumes.keep_free(DISK_BYTES / 4);
        std::thread::scope(|scope| {
            let flushing = scope.spawn(flush);
            let since = Instant::now();
            while volumes.writer_wait_counts().waits == 0 && !flushing.is_finished() {
                assert!(since.elapsed() < Duration::from_secs(60), "waited in vain");
                std::thread::sleep(Duration::from_millis(1));
            }
            disk.remove("foreign").expect("remove");
            flushing.join().expect("no panic").expect("there is space");
        });
        // Waiting does not help any more.
        volumes.keep_free(0);
        has(&volume, &content);
        is_sound(&volumes);
    }
}
