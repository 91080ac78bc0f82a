//! The pool of the experiment: files in one volume, a log in another one, some files in fragments,
//! some in containers that are half garbage.
//!
//! The runs call this: the pool is built once, and each run begins with a copy.
//! Invariant: the same settings give the same bytes at the same places.

use super::medium::{ChargedBlobs, Medium, Places};
use super::settings::{CHUNK_LOG2, FILE_BYTES, LANE, Settings};
use crate::maintenance::files::Files;
use crate::rooms::machine::failed;
use device::{PacedDisk, RequestQueue, Writes};
use format::snapshot::Snapshot;
use media::{DirBlobs, FixedClock, Media, Random, SeededRandom, Syncing};
use sim::{Image, SimDisk};
use std::sync::Arc;
use store::{InitOptions, OpenMode, Pool, Result};
use units::UnixNanos;
use volume::{Durability, RequestContext, Volume};
use volumes::{AccessOptions, DirectLimits, JournalOptions, Thresholds, Volumes, VolumesOptions};

/// The volume with the files.
pub const FILES: &str = "files";
/// The volume that the web server writes its log to, a ring.
pub const LOG: &str = "log";
/// Size of the log's ring, bytes.
pub const LOG_RING_BYTES: u64 = 16 << 20;
/// Context of the web server's requests.
pub const CONTEXT: RequestContext = RequestContext::CLIENT;
/// A file in fragments: every other piece of this size lies elsewhere, and the first one is half as
/// long. So each window of the defragmentation has a break.
const FRAGMENT_BYTES: u64 = 128 << 10;
/// Minimum memory of the pool itself, bytes: index, directories, recipes.
const POOL_MEMORY_BYTES: usize = 16 << 20;

/// A built pool.
pub struct Base {
    image: Image,
    places: Places,
    /// The files: which place has which, which are hot.
    pub files: Files,
    /// The snapshot that is replicated.
    pub snapshot: Snapshot,
}

/// A copy of the pool that a run may change.
pub struct Machine {
    /// Its disk.
    pub medium: Arc<Medium>,
    /// The open pool and its volumes.
    pub volumes: Arc<Volumes>,
}

fn media(disk: &Arc<SimDisk>, medium: &Arc<Medium>, seed: u64) -> Media {
    let inner = DirBlobs::new(Arc::clone(disk) as _, Syncing::Inline);
    let queue: Arc<dyn RequestQueue> = Arc::clone(medium) as _;
    Media {
        blobs: Arc::new(ChargedBlobs {
            inner,
            medium: Arc::clone(medium),
        }),
        disk: Arc::new(PacedDisk::new(Arc::clone(disk) as _, queue, Writes::Pass)),
        clock: Arc::new(FixedClock::new(UnixNanos(
            seed as i64 * 1_000_000_000_000_000,
        ))),
        random: Arc::new(SeededRandom::new(seed)),
    }
}

fn options(settings: &Settings) -> VolumesOptions {
    VolumesOptions {
        journal: JournalOptions {
            bytes_max: 32 << 20,
            slot_bytes: 1 << 20,
            buffer_bytes: 4 << 20,
        },
        memory_bytes: settings.memory_bytes(),
        thresholds: Thresholds::default(),
        lane: LANE,
        direct: DirectLimits::default(),
        access: AccessOptions {
            // No thread of its own: requests must come in one order.
            fetch_threads: 0,
            ..AccessOptions::default()
        },
    }
}

fn open(
    disk: &Arc<SimDisk>,
    medium: &Arc<Medium>,
    settings: &Settings,
    seed: u64,
) -> Result<Arc<Volumes>> {
    let media = media(disk, medium, seed);
    // The server's plan gives pool and volumes six and eight sixteenths.
    let memory = settings.memory_bytes() as usize / 4 * 3;
    let memory = memory.max(POOL_MEMORY_BYTES);
    let pool = Pool::open(media, None, OpenMode::Write, memory)?;
    Volumes::open(Arc::new(pool), &options(settings)).map(Arc::new)
}

fn init(disk: &Arc<SimDisk>, medium: &Arc<Medium>, seed: u64) -> Result<()> {
    let init = InitOptions {
        secrets: &[],
        chunk_bytes_average: 16 << 10,
        parity_percent: 0,
    };
    Pool::init(&media(disk, medium, seed), &init)
}

/// Returns an empty pool on another machine, whose disk takes no time here.
pub fn receiver(seed: u64) -> Result<Arc<Pool>> {
    let disk = SimDisk::unrecorded(Image::new());
    let medium = Medium::new(Places::default());
    init(&disk, &medium, seed)?;
    let media = media(&disk, &medium, seed + 1);
    Pool::open(media, None, OpenMode::Write, POOL_MEMORY_BYTES).map(Arc::new)
}

struct Builder {
    volumes: Arc<Volumes>,
    noise: u64,
    bytes: Vec<u8>,
}

impl Builder {
    /// Writes bytes that are nowhere else.
    fn write(&mut self, volume: &dyn Volume, at: u64, bytes: u64) -> Result<()> {
        self.noise += 1;
        self.bytes.resize(bytes as usize, 0);
        SeededRandom::new(self.noise << 20).fill(&mut self.bytes);
        volume
            .write(CONTEXT, at, &self.bytes, Durability::Volatile)
            .map_err(failed)
    }
}

impl Base {
    /// Builds the pool.
    pub fn new(settings: &Settings) -> Result<Self> {
        let disk = SimDisk::unrecorded(Image::new());
        let medium = Medium::new(Places::default());
        init(&disk, &medium, 1)?;
        let files = Files::new(&settings.model());
        let mut builder = Builder {
            volumes: open(&disk, &medium, settings, 2)?,
            noise: 0,
            bytes: Vec::new(),
        };
        let volumes = Arc::clone(&builder.volumes);
        let all_bytes = settings.files * FILE_BYTES;
        let volume = volumes.create(FILES, all_bytes, CHUNK_LOG2)?;
        volumes.create(LOG, LOG_RING_BYTES, CHUNK_LOG2)?;
        let waste = volumes.create("waste", all_bytes, CHUNK_LOG2)?;
        for place in 0..settings.files {
            let at = place * FILE_BYTES;
            // Sparse containers lie together, as data does that was deleted together.
            let is_sparse = place * 100 / settings.files >= 100 - settings.sparse_percent;
            // Container by container, so that both halves share one.
            if place % if is_sparse { 2 } else { 4 } == 0 {
                volumes.checkpoint()?;
                medium.take();
            }
            builder.write(&volume, at, FILE_BYTES)?;
            if is_sparse {
                builder.write(&waste, at, FILE_BYTES)?;
            }
        }
        volumes.checkpoint()?;
        volumes.delete("waste")?;
        for place in 0..settings.files {
            let file = files.at_place(place);
            if file.is_some_and(|file| files.is_fragmented(file)) {
                for pair in 0..FILE_BYTES / FRAGMENT_BYTES / 2 {
                    let within = FRAGMENT_BYTES / 2 + pair * 2 * FRAGMENT_BYTES;
                    builder.write(&volume, place * FILE_BYTES + within, FRAGMENT_BYTES)?;
                }
            }
        }
        volumes.checkpoint()?;
        let snapshot = volumes.snapshot(FILES, "base")?;
        volumes.close()?;
        drop(volume);
        drop(waste);
        drop(volumes);
        drop(builder);
        Ok(Self {
            image: disk.image(),
            places: medium.places(),
            files,
            snapshot,
        })
    }

    /// Opens a copy.
    pub fn machine(&self, settings: &Settings) -> Result<Machine> {
        let disk = SimDisk::unrecorded(self.image.clone());
        let medium = Medium::new(self.places.clone());
        let volumes = open(&disk, &medium, settings, 3)?;
        medium.take();
        Ok(Machine { medium, volumes })
    }
}
