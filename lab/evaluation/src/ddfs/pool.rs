//! The pool of the experiment: images that were written in random order, several times, and copies
//! of it that a run may change.
//!
//! The rows call this.
//! Invariant: the same settings give the same bytes at the same places.

use super::settings::{CHUNK_LOG2, REQUEST_BYTES, Settings};
use crate::rooms::machine::{BEGIN, FastSettings, Machine, attach, failed, media};
use crate::rooms::recorder::{DeviceName, RecordedDisk, Recorder};
use chunking::Compression;
use format::journal_place::JournalPlace;
use media::{Disk, Random, SeededRandom};
use server::memory_plan::MemoryPlan;
use server::state::{VolumesWanted, volumes_options};
use sim::{Image, Seed, SimDisk};
use std::sync::Arc;
use store::{InitOptions, OpenMode, Pool, Result, StoreError, StoreErrorKind};
use units::UnixNanos;
use volume::{Durability, RequestContext, Volume};
use volumes::{JournalPlacement, Switches, Volumes};

/// Size of the journal, bytes.
const JOURNAL_BYTES: u64 = 32 << 20;
/// Memory while the pool is built, bytes.
const BUILDING_BYTES: usize = 256 << 20;
/// Bytes of one write while the pool is built.
const PIECE_BYTES: u64 = 64 << 10;

/// Options with which a row opens the pool.
#[derive(Clone, Debug)]
pub struct CopyOptions {
    /// The fast device, if there is one.
    pub fast: Option<FastSettings>,
    /// Switches that `--without` leaves on.
    pub switches: Switches,
    /// Memory of the pool, bytes.
    pub pool_memory: usize,
    /// Memory of the volumes, bytes.
    pub page_memory: u64,
}

/// Both disks at one moment, and where the files lie on them.
pub struct Base {
    pool: Image,
    fast: Image,
    recorder: Recorder,
    /// Size of the index's file, bytes.
    pub index_bytes: u64,
}

/// An open copy, and its disks.
pub struct PoolCopy {
    /// The rooms.
    pub machine: Machine,
    disks: [Arc<SimDisk>; 2],
}

/// Returns the name of an image.
pub fn name(image: u64) -> String {
    format!("image{image}")
}

fn plan(pool_memory: usize, page_memory: u64, tier: usize) -> MemoryPlan {
    MemoryPlan {
        all: BUILDING_BYTES,
        pool_bytes: pool_memory,
        volumes_bytes: page_memory,
        journal: 4 << 20,
        tier,
        ..MemoryPlan::default()
    }
}

impl Base {
    /// Writes the images.
    pub fn new(settings: &Settings) -> Result<Self> {
        let disk = SimDisk::unrecorded(Image::new());
        let recorder = Arc::<Recorder>::default();
        let recorded: Arc<dyn Disk> = Arc::new(RecordedDisk {
            below: Arc::clone(&disk),
            device: DeviceName::Pool,
            recorder: Arc::clone(&recorder),
        });
        let init = InitOptions {
            secrets: &[],
            chunk_bytes_average: 32 << 10,
            parity_percent: 0,
        };
        Pool::init(&media(&recorded, 1), &init)?;
        let empty = Self {
            pool: disk.image(),
            fast: Image::new(),
            recorder: recorder.copy(),
            index_bytes: 0,
        };
        let opening = CopyOptions {
            fast: None,
            switches: Switches::default(),
            pool_memory: BUILDING_BYTES / 4,
            page_memory: BUILDING_BYTES as u64 / 2,
        };
        let opened = empty.open(&opening, 2)?;
        let volumes = Arc::clone(&opened.machine.volumes);
        for image in 0..settings.images + settings.ordered {
            volumes.create(&name(image), settings.image_bytes, CHUNK_LOG2)?;
        }
        let mut writer = Writer {
            volumes: &volumes,
            recorder: &opened.machine.recorder,
            noise: settings.seed << 32,
            bytes: Vec::new(),
        };
        writer.images(settings)?;
        volumes.checkpoint()?;
        opened.saved()
    }

    /// Opens a copy. Other seeds are other processes.
    pub fn open(&self, opening: &CopyOptions, seed: u64) -> Result<PoolCopy> {
        let recorder = Arc::new(self.recorder.copy());
        let disks = [&self.pool, &self.fast].map(|image| SimDisk::unrecorded(image.clone()));
        let recorded = |device| -> Arc<dyn Disk> {
            let [pool, fast] = &disks;
            Arc::new(RecordedDisk {
                below: Arc::clone(if device == DeviceName::Pool {
                    pool
                } else {
                    fast
                }),
                device,
                recorder: Arc::clone(&recorder),
            })
        };
        let fast_bytes = opening.fast.map_or(0, |fast| fast.bytes);
        let tier_memory = MemoryPlan::tier_of(1 << 30, fast_bytes);
        let plan = plan(opening.pool_memory, opening.page_memory, tier_memory);
        let pool = Pool::open(
            media(&recorded(DeviceName::Pool), seed),
            None,
            OpenMode::Write,
            plan.pool_bytes,
        )?;
        let tier = opening
            .fast
            .map(|fast| attach(&pool, &fast, &plan, &recorded(DeviceName::Fast)));
        let mut placement = JournalPlacement::default();
        if opening.fast.is_some_and(|fast| fast.has_journal) {
            placement.fast = Some(recorded(DeviceName::Fast));
            placement.wanted = Some(JournalPlace::Fast);
        }
        let wanted = VolumesWanted {
            journal_bytes: JOURNAL_BYTES,
            placement,
            switches: opening.switches,
        };
        let mut options = volumes_options(&plan, Compression::None, &wanted);
        options.access.fetch_threads = 0;
        let volumes = Volumes::open_placed(&Arc::new(pool), &options, &wanted.placement)?;
        let machine = Machine {
            recorder,
            volumes: Arc::new(volumes),
            tier,
            plan,
        };
        machine.recorder.take();
        Ok(PoolCopy { machine, disks })
    }
}

impl PoolCopy {
    /// Takes the copy apart.
    pub fn into_parts(self) -> (Machine, [Arc<SimDisk>; 2]) {
        (self.machine, self.disks)
    }

    /// Puts a copy together.
    pub fn from_parts(machine: Machine, disks: [Arc<SimDisk>; 2]) -> Self {
        Self { machine, disks }
    }

    /// Closes the copy as a server does, and keeps its disks.
    pub fn saved(self) -> Result<Base> {
        let Self { machine, disks } = self;
        let now = UnixNanos(BEGIN.0 + 1);
        if let Some(tier) = &machine.tier {
            tier.finish(now);
        }
        machine.volumes.close()?;
        let pool = machine.volumes.pool();
        pool.finish_fast_index(now);
        let index_bytes = pool.index_bytes();
        let recorder = Arc::clone(&machine.recorder);
        drop(machine);
        recorder.take();
        let [pool, fast] = disks.map(|disk| disk.image());
        Ok(Base {
            pool,
            fast,
            recorder: recorder.copy(),
            index_bytes,
        })
    }
}

/// Writes bytes that are nowhere else.
struct Writer<'a> {
    volumes: &'a Volumes,
    recorder: &'a Recorder,
    noise: u64,
    bytes: Vec<u8>,
}

impl Writer<'_> {
    /// Writes every image in random order several times, then single chunks of them again.
    fn images(&mut self, settings: &Settings) -> Result<()> {
        let mut seed = Seed::new(settings.seed);
        let pieces = settings.image_bytes / PIECE_BYTES;
        for _ in 0..settings.rounds {
            let mut all: Vec<u64> = (0..settings.images * pieces).collect();
            seed.shuffle(&mut all);
            for piece in all {
                self.write(
                    piece % settings.images,
                    piece / settings.images * PIECE_BYTES,
                    PIECE_BYTES,
                )?;
            }
        }
        let chunks = settings.images * settings.image_bytes / REQUEST_BYTES;
        for _ in 0..chunks / 8 {
            let chunk = seed.below(chunks);
            let at = chunk / settings.images * REQUEST_BYTES;
            self.write(chunk % settings.images, at, REQUEST_BYTES)?;
        }
        for image in settings.images..settings.images + settings.ordered {
            (0..pieces).try_for_each(|n| self.write(image, n * PIECE_BYTES, PIECE_BYTES))?;
        }
        Ok(())
    }

    fn write(&mut self, image: u64, at: u64, bytes: u64) -> Result<()> {
        let Some(volume) = self.volumes.volume(&name(image)) else {
            return Err(StoreError::new(StoreErrorKind::Invalid, "no such image"));
        };
        self.noise += 1;
        self.bytes.resize(bytes as usize, 0);
        SeededRandom::new(self.noise).fill(&mut self.bytes);
        volume
            .write(
                RequestContext::CLIENT,
                at,
                &self.bytes,
                Durability::Volatile,
            )
            .map_err(failed)?;
        while self.volumes.wants_checkpoint(true) {
            self.volumes.step(8 << 20)?;
        }
        self.recorder.take();
        Ok(())
    }
}
