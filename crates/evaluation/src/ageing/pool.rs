//! One pool through all generations, with one way of maintenance.
//!
//! Invariant: every restore is compared with what was backed up, byte by byte. Called by the page and a test.

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
use units::{SnapshotId, UnixNanos};

/// The store's memory while restoring: far less than a generation.
const MEMORY_BYTES: usize = 16 << 20;
/// Where it is done at all.
const REWRITTEN_EVERY: u64 = 7;
const LANE: LaneOptions = LaneOptions {
    compression: Compression::None,
    region_bytes: 128 << 10,
    container_bytes: 4 << 20,
};

/// What is done after each generation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Upkeep {
    /// Nothing; every generation is kept.
    None,
    /// The last seven generations are kept, the rest is forgotten and collected.
    Collected,
    /// The same, but before it the newest generation is defragmented where it lies in pieces.
    Defragmented,
    /// Collected, but before it every seventh generation is written anew as a whole.
    Rewritten,
}

/// A history.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Pieces of a generation.
    pub pieces: u64,
    /// How many there are.
    pub generations: u64,
    /// That many are kept.
    pub kept: usize,
    /// Everything random.
    pub seed: u64,
}

impl Settings {
    /// The page's.
    pub const FULL: Self = Self {
        pieces: 1024,
        generations: 42,
        kept: 7,
        seed: 2017,
    };
}

/// A generation when it was the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Its bytes.
    pub bytes: u64,
    /// What its restore read.
    pub restore: Toll,
    /// Bytes of all containers then.
    pub stored_bytes: u64,
    /// Plain bytes that maintenance has copied since the generation before.
    pub copied: Copied,
}

/// Plain bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// By defragmentation.
    pub defragmented: u64,
    /// By the collector.
    pub collected: u64,
}

impl Generation {
    /// MB a second.
    pub fn speed(&self) -> f64 {
        self.bytes as f64 / 1e6 / (self.restore.time.max(1) as f64 / 1e9)
    }
}

/// All generations of a history.
pub fn run(settings: &Settings, upkeep: Upkeep) -> Result<Vec<Generation>> {
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
        let open = |part: u64| {
            let pool = Pool::open(media(nth * 10 + part), None, OpenMode::Write, MEMORY_BYTES);
            pool.map(Arc::new)
        };
        let snapshot = store(&*open(1)?, &bytes)?;
        let root = snapshot.root;
        kept.push_back(snapshot);
        let pool = open(2)?;
        let copied = maintain(&pool, (upkeep, nth), settings, &mut kept, &root)?;
        drop(pool);
        // Nothing is in the store's memory when a restore begins.
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
        id: pool.new_snapshot_id(),
        taken: pool.now(),
        kind: SnapshotKind::Stream,
        root,
        name: "generation".to_owned(),
        host: "host".to_owned(),
        user: "user".to_owned(),
        program: "evaluation".to_owned(),
        paths: Vec::new(),
        tags: Vec::new(),
        files: 0,
        directories: 0,
        logical_bytes: root.len,
        added_bytes: 0,
        duration_ms: 0,
        parent: SnapshotId::default(),
        signature: Vec::new(),
        missed: Default::default(),
        previous: Default::default(),
    };
    pool.commit(session, std::slice::from_ref(&snapshot), &[])?;
    Ok(snapshot)
}

fn maintain(
    pool: &Arc<Pool>,
    (upkeep, nth): (Upkeep, u64),
    settings: &Settings,
    kept: &mut VecDeque<Snapshot>,
    newest: &ObjectRoot,
) -> Result<Copied> {
    if upkeep == Upkeep::None {
        return Ok(Copied::default());
    }
    let defragmented = match upkeep {
        Upkeep::Defragmented => defragment(pool, newest, false)?,
        Upkeep::Rewritten if nth % REWRITTEN_EVERY == 0 => defragment(pool, newest, true)?,
        _ => 0,
    };
    while kept.len() > settings.kept
        && let Some(oldest) = kept.pop_front()
    {
        pool.forget(&[oldest])?;
    }
    let mut collector = Collector::new(pool, GcPolicy::with_trash_period(0), LANE)?;
    while collector.step(pool, None, &NothingCached, 64 << 20)? == GcStep::Working {}
    Ok(Copied {
        defragmented,
        collected: collector.counts().copied_bytes,
    })
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
    Ok(run.report().moved.bytes)
}
