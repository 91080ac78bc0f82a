//! Hot chunks of images are copied into small regions: how much a cold read of them fetches before
//! and after, what it costs to write, and what a scan pays for it.
//!
//! Invariant: every byte reads as it was stored, and at most three percent of the image is written.

use crate::fragmented::{CONTEXT, finish, is_sound, media, shuffled};
use chunking::Compression;
use format::recipe::Layout;
use format::snapshot::{Snapshot, SnapshotKind};
use maintenance::{
    Collector, DefragOptions, DefragReport, DefragSource, Defragmenter, FetchCost, GcPolicy,
    MaintenanceTask, RecordedDefrag, TaskStep, Toll,
};
use sim::pool_histories::{finish_gc, for_any_gain, init_options};
use sim::{Image, SimDisk};
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{IMAGE_REGION_BYTES, LaneOptions, ObjectBuilder, OpenMode, Pool};
use volume::Volume;
use volumes::{
    AccessOptions, DirectLimits, JournalOptions, Switches, Thresholds, Volumes, VolumesOptions,
};

const KIB: u64 = 1 << 10;
const CHUNK_LOG2: u8 = 14;
pub const CHUNK: u64 = 1 << CHUNK_LOG2;
/// Chunks of the image: 32 MiB.
pub const CHUNKS: u64 = 2048;
/// Two percent of them are hot.
pub const HOT: u64 = CHUNKS / 50;
/// Region sizes of old pools, and of images by default.
const OLD: usize = 1536 << 10;

pub fn lane(region_bytes: usize) -> LaneOptions {
    LaneOptions {
        compression: Compression::Zstd(1),
        region_bytes,
        container_bytes: 8 << 20,
    }
}

pub fn open(disk: &Arc<SimDisk>, seed: u64) -> Arc<Volumes> {
    let pool = Pool::open(media(disk, seed), None, OpenMode::Write, 8 << 20).expect("open");
    let options = VolumesOptions {
        journal: JournalOptions {
            bytes_max: 16 << 20,
            slot_bytes: 1 << 20,
            buffer_bytes: 2 << 20,
        },
        memory_bytes: 8 << 20,
        thresholds: Thresholds::default(),
        lane: lane(16 << 10),
        direct: DirectLimits::default(),
        access: AccessOptions {
            switches: Switches::default(),
            fetch_threads: 0,
            ..AccessOptions::default()
        },
    };
    Arc::new(Volumes::open(Arc::new(pool), &options).expect("volumes"))
}

/// A pool on a disk, and an image in it that compresses to about a half.
pub struct Served {
    pub disk: Arc<SimDisk>,
    image: Snapshot,
    pub bytes: Vec<u8>,
    pub hot: Vec<u64>,
}

impl Served {
    pub fn new(region_bytes: usize) -> Self {
        Self::on(&SimDisk::unrecorded(Image::new()), CHUNKS, region_bytes)
    }

    /// Makes the pool on this disk, with an image of so many chunks. Two percent of them are hot.
    pub fn on(disk: &Arc<SimDisk>, chunks: u64, region_bytes: usize) -> Self {
        let disk = Arc::clone(disk);
        Pool::init(&media(&disk, 1), &init_options(&[])).expect("init");
        let mut bytes = testkit::specimen::noise(2, (chunks * CHUNK) as usize);
        bytes.iter_mut().for_each(|byte| *byte &= 0x0f);
        let pool = Pool::open(media(&disk, 2), None, OpenMode::Write, 8 << 20).expect("open");
        let mut session = pool.begin(lane(region_bytes)).expect("session");
        let main = session.main();
        let mut builder = ObjectBuilder::new(Layout::Fixed(CHUNK_LOG2));
        for chunk in bytes.chunks(CHUNK as usize) {
            let name = main.store_chunk(chunk).expect("store");
            let node = &mut |node: &[u8]| main.store_node(node);
            builder.push(name, CHUNK, node).expect("push");
        }
        let root = builder.finish(&mut |n| main.store_node(n)).expect("root");
        let image = testkit::specimen::snapshot(&pool, SnapshotKind::Image, "image", root);
        let added = std::slice::from_ref(&image);
        pool.commit(session, added, &[]).expect("commit");
        let mut hot = shuffled(chunks, 77);
        hot.truncate(chunks as usize / 50);
        Self {
            disk,
            image,
            bytes,
            hot,
        }
    }

    /// The clone on which the database runs.
    pub fn cloned(&self) {
        let volumes = open(&self.disk, 3);
        volumes.clone_snapshot("db", &self.image).expect("clone");
    }

    fn read(&self, volume: &dyn Volume, offset: u64, len: u64) {
        let mut into = vec![0; len as usize];
        volume.read(CONTEXT, offset, &mut into).expect("read");
        let expected = &self.bytes[offset as usize..(offset + len) as usize];
        assert!(into == expected, "at {offset}");
    }

    /// Reads 4 KiB of each hot chunk of the clone, in random order, and returns the bytes read from
    /// the disk for each. The recipe is in memory.
    pub fn read_hot(&self, seed: u64) -> u64 {
        let volumes = open(&self.disk, seed);
        let volume = volumes.volume("db").expect("there");
        let mut all = |_| ControlFlow::Continue(());
        volume
            .extents(CONTEXT, 0, self.bytes.len() as u64, &mut all)
            .expect("extents");
        let before = self.disk.counts().read_bytes;
        for nth in shuffled(self.hot.len() as u64, seed) {
            let block = (nth + seed) % 4;
            self.read(
                &volume,
                self.hot[nth as usize] * CHUNK + block * 4 * KIB,
                4 * KIB,
            );
        }
        let read = self.disk.counts().read_bytes - before;
        volumes.store_trace().expect("stored");
        read / self.hot.len() as u64
    }

    /// Reads all of the clone in order; returns the number of reads of the disk, and their bytes.
    fn scan(&self, seed: u64) -> (u64, u64) {
        let volumes = open(&self.disk, seed);
        let volume = volumes.volume("db").expect("there");
        let before = self.disk.counts();
        for offset in (0..CHUNKS * CHUNK).step_by(128 << 10) {
            self.read(&volume, offset, 128 * KIB);
            while volumes.fetch_step() {}
        }
        let after = self.disk.counts();
        (
            after.reads - before.reads,
            after.read_bytes - before.read_bytes,
        )
    }

    /// Restores the image; returns the number of reads of the disk.
    fn restore(&self, seed: u64) -> u64 {
        let pool = Pool::open(media(&self.disk, seed), None, OpenMode::Write, 32 << 20);
        let pool = pool.expect("open");
        let before = self.disk.counts().reads;
        let visit = &mut |offset: u64, len: u64, chunk: units::Fingerprint| {
            let chunk = pool.reader().chunk(&chunk)?;
            assert!(*chunk == self.bytes[offset as usize..(offset + len) as usize]);
            Ok(ControlFlow::Continue(()))
        };
        pool.reader()
            .visit_pieces_forward(&self.image.root, 0, CHUNKS * CHUNK, visit)
            .expect("restore");
        self.disk.counts().reads - before
    }

    pub fn defragment(&self, seed: u64) -> DefragReport {
        let volumes = open(&self.disk, seed);
        let report = finish(begin(&volumes));
        is_sound(&volumes);
        report
    }
}

/// Begins a run over all objects.
pub fn begin(volumes: &Arc<Volumes>) -> Defragmenter {
    let source = DefragSource::Volumes(Arc::clone(volumes));
    let all = source.fragmentables().expect("objects");
    let keys: Vec<_> = all.iter().map(|one| one.key).collect();
    let heat = Some(source.heat());
    Defragmenter::new(source, &keys, heat, options()).expect("begin")
}

/// Resumes a run.
pub fn resumed(volumes: &Arc<Volumes>, recorded: RecordedDefrag) -> Defragmenter {
    let source = DefragSource::Volumes(Arc::clone(volumes));
    Defragmenter::resume(source, recorded, lane(16 << 10)).expect("resume")
}

fn options() -> DefragOptions {
    DefragOptions {
        hot_percent: 50,
        moves_shared: false,
        rewrites_all: false,
        dry_run: false,
        bytes_per_s: None,
        lane: lane(16 << 10),
    }
}

fn small_regions_serve_hot_chunks(region_bytes: usize, before_min: u64) {
    let served = Served::new(region_bytes);
    served.cloned();
    let scan_before = served.scan(20);
    let restore_before = served.restore(23);
    let before = served.read_hot(4);
    for pass in 5..8 {
        served.read_hot(pass);
    }
    let report = served.defragment(9);
    let small = report.counts.small;
    println!("{small:?}");
    // Each request takes one read, as before.
    let reads = |toll: &format::defrag::DefragToll| toll.reads() / toll.requests();
    assert_eq!((reads(&report.before), reads(&report.after)), (1.0, 1.0));
    let after = served.read_hot(10);
    let scan_after = served.scan(21);
    let restore_after = served.restore(24);
    println!("cold 4 KiB: {before} bytes before, {after} after");
    println!("scan, reads and bytes: {scan_before:?} before, {scan_after:?} after");
    assert!(before >= before_min, "{before}");
    assert!(after <= 16 * KIB, "{after}");
    // The report says so.
    assert_eq!(small.bytes, HOT * CHUNK);
    assert_eq!(small.bytes, report.counts.moved.bytes);
    let bytes = CHUNKS * CHUNK;
    assert!(small.bytes * 100 <= 3 * bytes && small.stored_bytes * 100 <= 3 * bytes);
    assert!(small.before.bytes_each() >= before_min as f64 / 2.0);
    assert!(small.after.bytes_each() <= (12 * KIB) as f64);
    println!("restore, reads: {restore_before} before, {restore_after} after");
    // Four segments of 8 MiB: one more read of neighbours for each, or little more.
    assert!(restore_after <= restore_before + 4 * 4, "{restore_after}");
    // The scan reads few more times, and few more bytes.
    assert!(scan_after.0 * 100 <= scan_before.0 * 110, "{scan_after:?}");
    assert!(scan_after.1 * 100 <= scan_before.1 * 110, "{scan_after:?}");
    // Nothing is left to do.
    let again = served.defragment(11).counts;
    assert_eq!((again.moved.bytes, again.small.amplified), (0, 0));
    // gc keeps them small.
    let volumes = open(&served.disk, 12);
    let policy = GcPolicy {
        merge_ratio_min: 0,
        ..for_any_gain()
    };
    let mut gc = Collector::new(volumes.pool(), policy, lane(OLD)).expect("alone");
    finish_gc(volumes.pool(), Some(&volumes), &mut gc, 1 << 20).expect("gc");
    drop(gc);
    is_sound(&volumes);
    drop(volumes);
    let collected = served.read_hot(13);
    let scan_collected = served.scan(22);
    let restore_collected = served.restore(25);
    println!("after gc: {collected}, scan {scan_collected:?}, restore {restore_collected}");
    // gc has deleted the old copies, and packed what it knows for an image in regions of images:
    // the scan reads each of them.
    let regions = CHUNKS * CHUNK / store::IMAGE_REGION_BYTES as u64;
    assert!(
        scan_collected.0 <= scan_before.0.max(regions) + HOT,
        "{scan_collected:?}"
    );
    assert!(
        restore_collected <= restore_before + HOT,
        "{restore_collected}"
    );
    assert!(
        scan_collected.1 * 100 <= scan_before.1 * 110,
        "{scan_collected:?}"
    );
    assert!(collected <= 16 * KIB, "{collected}");
    let again = served.defragment(14).counts;
    assert_eq!((again.moved.bytes, again.small.amplified), (0, 0));
    served.scan(15);
}

#[test]
fn hot_chunks_of_an_image_by_default() {
    small_regions_serve_hot_chunks(IMAGE_REGION_BYTES, 48 * KIB);
}

#[test]
fn hot_chunks_of_an_image_of_an_old_pool() {
    small_regions_serve_hot_chunks(OLD, 256 * KIB);
}

/// Everything is read at random, and scanned: the hottest three percent are copied, no more.
#[test]
fn a_bound_limits_what_is_written() {
    let mut served = Served::new(IMAGE_REGION_BYTES);
    served.cloned();
    served.hot = (0..CHUNKS).collect();
    let volumes = open(&served.disk, 30);
    let volume = volumes.volume("db").expect("there");
    for pass in 0..2 {
        for nth in shuffled(CHUNKS, 31 + pass) {
            served.read(&volume, nth * CHUNK, 4 * KIB);
        }
    }
    let report = finish(begin(&volumes));
    let small = report.counts.small;
    assert!(
        small.bytes > 0 && small.bytes * 100 <= 3 * CHUNKS * CHUNK,
        "{small:?}"
    );
    is_sound(&volumes);
}

/// Reads from begin to end, whatever their size, are no reason to copy anything.
#[test]
fn scans_alone_change_nothing() {
    let served = Served::new(OLD);
    served.cloned();
    for pass in 0..3 {
        let volumes = open(&served.disk, 40 + pass);
        let volume = volumes.volume("db").expect("there");
        for offset in (0..CHUNKS * CHUNK).step_by(4 << 10) {
            served.read(&volume, offset, 4 * KIB);
            while volumes.fetch_step() {}
        }
        volumes.store_trace().expect("stored");
    }
    let report = served.defragment(50);
    // The first read of each scan follows nothing yet.
    assert!(report.counts.small.ranges <= 1, "{:?}", report.counts);
    assert!(report.counts.moved.bytes <= CHUNK);
}

/// A process that ends in the middle leaves the rest to the next one, which copies nothing again.
#[test]
fn a_run_goes_on_after_its_process() {
    let served = Served::new(IMAGE_REGION_BYTES);
    served.cloned();
    for pass in 60..63 {
        served.read_hot(pass);
    }
    let volumes = open(&served.disk, 64);
    let mut run = begin(&volumes);
    while run.report().counts.small.bytes < HOT * CHUNK / 2 {
        run.settle_soon();
        let step = run.step(0, 32 << 10).expect("step");
        assert!(matches!(step, TaskStep::Worked { .. }), "{step:?}");
        run.record().expect("record");
    }
    drop((run, volumes));
    let volumes = open(&served.disk, 65);
    let recorded = RecordedDefrag::unfinished(volumes.pool()).expect("a record");
    let committed = recorded.report().counts.small.bytes;
    assert!(committed > 0 && committed < HOT * CHUNK, "{committed}");
    let report = finish(resumed(&volumes, recorded));
    assert_eq!(report.counts.small.bytes, HOT * CHUNK);
    assert!(report.counts.small.after.bytes_each() <= (12 * KIB) as f64);
    is_sound(&volumes);
    drop(volumes);
    assert!(served.read_hot(66) <= 16 * KIB);
}

/// Windows that are scanned lack their hot chunks afterwards. That is no reason to move them: with
/// the trace of the hot reads, without one, and for other owners.
#[test]
fn small_regions_do_not_make_windows_fragmented() {
    let served = Served::new(OLD);
    served.cloned();
    for pass in 70..73 {
        served.read_hot(pass);
    }
    let written = served.defragment(74).counts.moved.bytes;
    assert_eq!(written, HOT * CHUNK);
    let read_all = |seed| {
        let volumes = open(&served.disk, seed);
        let view = volumes.view_state(&served.image, String::new(), Arc::default());
        let volume = volumes.volume("db").expect("there");
        for offset in (0..CHUNKS * CHUNK).step_by(128 << 10) {
            served.read(&volume, offset, 128 * KIB);
            served.read(&view, offset, 128 * KIB);
            while volumes.fetch_step() {}
        }
        volumes.store_trace().expect("stored");
    };
    read_all(75);
    let counts = served.defragment(76).counts;
    assert!(counts.moved.bytes <= 2 * CHUNK, "{counts:?}");
    // Without the record of amplified reads.
    for slot in ["cache/fetched.0", "cache/fetched.1"] {
        let file = media::Disk::open(&*served.disk, slot, false).expect("there");
        file.write_at(70, &[0xa5; 9]).expect("torn");
    }
    read_all(78);
    let counts = served.defragment(79).counts;
    assert!(counts.moved.bytes <= 2 * CHUNK, "{counts:?}");
}
