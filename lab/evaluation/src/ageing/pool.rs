//! One pool through all generations, with one kind of maintenance.
//!
//! The page calls this; so does a test.
//! Invariant: every restore is compared with its backup, byte by byte.

use super::history::History;
use super::placed::{PlacedBlobs, Toll};
use crate::disk::DiskModel;
use chunking::Compression;
use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
use maintenance::{
    Collector, DefragOptions, DefragSource, Defragmenter, GcPolicy, MaintenanceTask, TaskStep,
};
use media::{DirBlobs, FixedClock, Media, SeededRandom, Syncing};
use sim::{Image, SimDisk};
use std::collections::VecDeque;
use std::sync::Arc;
use store::{GcStep, InitOptions, LaneOptions, NothingCached, OpenMode, Pool, Result};
use units::UnixNanos;

/// Memory of the store during a restore, bytes: far less than a generation.
const MEMORY_BYTES: usize = 16 << 20;
/// Memory of the store during maintenance that may use more, bytes.
const MEMORY_BYTES_LARGE: usize = 64 << 20;
/// Interval of complete rewrites, generations.
const REWRITTEN_EVERY: u64 = 7;
const LANE: LaneOptions = LaneOptions {
    compression: Compression::None,
    region_bytes: 128 << 10,
    container_bytes: 4 << 20,
};

/// Maintenance after each generation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MaintenanceMode {
    /// None; every generation is kept.
    None,
    /// The last seven generations are kept. Older ones are forgotten, and garbage collection runs,
    /// in its planned order.
    Collected,
    /// The same, but garbage collection orders copies by owner, as the product does.
    ByOwner,
    /// The same with four times the memory for garbage collection.
    ByOwnerLarge,
    /// The same as `ByOwner`, after the newest generation is defragmented where it is fragmented.
    Defragmented,
    /// The same as `ByOwner`, after every seventh generation is rewritten as a whole.
    Rewritten,
}

/// Parameters of a history.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Number of pieces in a generation.
    pub pieces: u64,
    /// Number of generations.
    pub generations: u64,
    /// Number of generations that are kept.
    pub kept: usize,
    /// Seed of everything random.
    pub seed: u64,
}

impl Settings {
    /// The parameters of the page.
    pub const FULL: Self = Self {
        pieces: 1024,
        generations: 42,
        kept: 7,
        seed: 2017,
    };

    /// Seconds instead of minutes. The last generation is rewritten.
    pub const SHORT: Self = Self {
        pieces: 300,
        generations: 7,
        kept: 2,
        ..Self::FULL
    };
}

/// A generation at the time when it was the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Its size, bytes.
    pub bytes: u64,
    /// Costs of its restore.
    pub restore: Toll,
    /// Size of all containers at that time, bytes.
    pub stored_bytes: u64,
    /// Uncompressed bytes that maintenance has copied since the previous generation.
    pub copied: Copied,
}

/// Uncompressed bytes that maintenance copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Bytes copied by defragmentation.
    pub defragmented: u64,
    /// Bytes copied by garbage collection.
    pub collected: u64,
    /// Stored bytes that garbage collection has read from containers.
    pub read_to_collect: u64,
}

impl Generation {
    /// Returns the restore speed, MB/s.
    pub fn speed(&self) -> f64 {
        self.bytes as f64 / 1e6 / (self.restore.time.max(1) as f64 / 1e9)
    }
}

/// Runs all generations of a history.
pub fn run(settings: &Settings, mode: MaintenanceMode) -> Result<Vec<Generation>> {
    let disk = SimDisk::unrecorded(Image::new());
    let files: Arc<dyn media::Disk> = Arc::clone(&disk) as _;
    let inner = DirBlobs::new(Arc::clone(&files), Syncing::Inline);
    let blobs = Arc::new(PlacedBlobs::new(inner, DiskModel::SERVER));
    let media = |seed: u64| Media {
        blobs: Arc::clone(&blobs) as _,
        disk: Arc::clone(&files),
        clock: Arc::new(FixedClock::new(UnixNanos(seed as i64 * 1_000_000_000_000))),
        random: Arc::new(SeededRandom::new(settings.seed * 1000 + seed)),
    };
    let init = InitOptions {
        secrets: &[],
        chunk_bytes_average: 16 << 10,
        parity_percent: 0,
    };
    Pool::init(&media(0), &init)?;
    let mut history = History::new(settings.pieces, settings.seed);
    let mut kept: VecDeque<Snapshot> = VecDeque::new();
    let mut generations = Vec::new();
    for nth in 1..=settings.generations {
        let bytes = history.bytes();
        let open_with = |part: u64, memory_bytes: usize| {
            let pool = Pool::open(media(nth * 10 + part), None, OpenMode::Write, memory_bytes);
            pool.map(Arc::new)
        };
        let open = |part: u64| open_with(part, MEMORY_BYTES);
        let snapshot = store(&*open(1)?, &bytes)?;
        let root = snapshot.root;
        kept.push_back(snapshot);
        let pool = match mode {
            MaintenanceMode::ByOwnerLarge => open_with(2, MEMORY_BYTES_LARGE)?,
            _ => open(2)?,
        };
        let mut copied = Copied {
            defragmented: defragmented(&pool, (mode, nth), &root)?,
            ..Copied::default()
        };
        if mode != MaintenanceMode::None {
            forget_old(&pool, settings, &mut kept)?;
            blobs.take_toll();
            copied.collected = collect(&pool, mode)?;
            copied.read_to_collect = blobs.take_toll().bytes;
        }
        drop(pool);
        // Each restore begins with an empty memory.
        let pool = open(3)?;
        blobs.take_toll();
        let restored = pool.reader().read_whole(&root, 1 << 32)?;
        let restore = blobs.take_toll();
        assert!(
            restored == bytes,
            "generation {nth} is not what was backed up"
        );
        generations.push(Generation {
            bytes: bytes.len() as u64,
            restore,
            stored_bytes: pool.record().stored_bytes,
            copied,
        });
        history.age();
    }
    Ok(generations)
}

fn store(pool: &Pool, bytes: &[u8]) -> Result<Snapshot> {
    let mut session = pool.begin(LANE)?;
    let root = session.main().store_object(bytes, false)?;
    let snapshot = Snapshot {
        name: "generation".to_owned(),
        host: "host".to_owned(),
        user: "user".to_owned(),
        program: "evaluation".to_owned(),
        ..Snapshot::new(
            pool.new_snapshot_id(),
            pool.now(),
            SnapshotKind::Stream,
            root,
        )
    };
    pool.commit(session, std::slice::from_ref(&snapshot), &[])?;
    Ok(snapshot)
}

/// Defragments the newest generation if this maintenance does. Returns the bytes copied.
fn defragmented(
    pool: &Arc<Pool>,
    (mode, nth): (MaintenanceMode, u64),
    newest: &ObjectRoot,
) -> Result<u64> {
    match mode {
        MaintenanceMode::Defragmented => defragment(pool, newest, false),
        MaintenanceMode::Rewritten if nth % REWRITTEN_EVERY == 0 => defragment(pool, newest, true),
        _ => Ok(0),
    }
}

fn forget_old(pool: &Pool, settings: &Settings, kept: &mut VecDeque<Snapshot>) -> Result<()> {
    while kept.len() > settings.kept
        && let Some(oldest) = kept.pop_front()
    {
        pool.forget(&[oldest])?;
    }
    Ok(())
}

/// Collects garbage. Returns the bytes copied.
fn collect(pool: &Pool, mode: MaintenanceMode) -> Result<u64> {
    let mut policy = GcPolicy::with_trash_period(0);
    if mode == MaintenanceMode::Collected {
        policy.by_owner_percent_min = None;
    }
    let mut collector = Collector::new(pool, policy, LANE)?;
    while collector.step(pool, None, &NothingCached, 64 << 20)? == GcStep::Working {}
    Ok(collector.counts().copied_bytes)
}

fn defragment(pool: &Arc<Pool>, newest: &ObjectRoot, rewrites_all: bool) -> Result<u64> {
    let source = DefragSource::Pool(Arc::clone(pool));
    let all = source.fragmentables()?;
    let objects: Vec<u64> = all
        .iter()
        .filter(|one| one.root == *newest)
        .map(|one| one.key)
        .collect();
    let options = DefragOptions {
        hot_percent: 100,
        moves_shared: true,
        rewrites_all,
        dry_run: false,
        bytes_per_s: None,
        lane: LANE,
    };
    let mut run = Defragmenter::new(source, &objects, None, options)?;
    while !matches!(run.step(0, 64 << 20)?, TaskStep::Finished) {}
    Ok(run.report().counts.moved.bytes)
}
