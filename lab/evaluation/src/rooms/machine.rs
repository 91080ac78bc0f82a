//! The rooms of a server on two recorded disks, opened as `serve` opens them.
//!
//! The server of this module and the pages call this.
//! Invariant: memory is divided by the plan that ships, and every option that [`MachineSettings`]
//! does not name has its default. Two machines with the same settings do the same.

use super::recorder::{DeviceName, RecordedDisk, Recorder};
use chunking::Compression;
use classes::{Policy, Share};
use format::journal_place::JournalPlace;
use media::{DirBlobs, Disk, FixedClock, Media, SeededRandom, Syncing};
use server::fast_device;
use server::memory_plan::MemoryPlan;
use server::state::{VolumesWanted, volumes_options};
use sim::{Image, SimDisk};
use ssd_tier::{KindShares, Tier, TierOptions, TierSettings};
use std::sync::Arc;
use store::{InitOptions, OpenMode, Pool, Result, StoreError, StoreErrorKind};
use units::UnixNanos;
use volume::VolumeError;
use volumes::{JournalPlacement, Switches, Volumes};

/// How a server is started.
#[derive(Clone, Debug)]
pub struct MachineSettings {
    /// `--memory`, bytes.
    pub memory_bytes: usize,
    /// `--journal`, bytes.
    pub journal_bytes: u64,
    /// The fast device, if there is one.
    pub fast: Option<FastSettings>,
    /// `--policy`, if there is one.
    pub policy: Option<Arc<Policy>>,
    /// The decisions that `--without` leaves on.
    pub switches: Switches,
    /// `--compression`.
    pub compression: Compression,
}

/// `--fast`.
#[derive(Clone, Copy, Debug)]
pub struct FastSettings {
    /// `--fast-size`, bytes.
    pub bytes: u64,
    /// Part of the index of `--fast-shares`; `None`: no copy of it.
    pub index: Option<Share>,
    /// The other parts.
    pub kinds: KindShares,
    /// Capacities that may be written a day, hundredths; 300 ships.
    pub daily_writes_hundredths: u32,
    /// `--journal-on fast`.
    pub has_journal: bool,
}

impl FastSettings {
    /// The defaults for a device of that size.
    pub fn of(bytes: u64) -> Self {
        Self {
            bytes,
            index: Some(Share::percent::<50>()),
            kinds: KindShares {
                data: Share::percent::<35>(),
                recipes: Share::percent::<10>(),
                directories: Share::percent::<5>(),
            },
            daily_writes_hundredths: 300,
            has_journal: false,
        }
    }
}

/// The open rooms.
pub struct Machine {
    /// The requests of their code.
    pub recorder: Arc<Recorder>,
    /// Pool, volumes, journal, page cache.
    pub volumes: Arc<Volumes>,
    /// The fast tier, if there is one.
    pub tier: Option<Arc<Tier>>,
    /// How the memory is divided.
    pub plan: MemoryPlan,
}

/// Returns the error of the store below an error of a volume.
pub(crate) fn failed(error: VolumeError) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, error.to_string())
}

/// Time at which a run begins.
pub const BEGIN: UnixNanos = UnixNanos(1_700_000_000_000_000_000);

/// Returns the media of a pool. Other seeds are other processes.
pub(crate) fn media(disk: &Arc<dyn Disk>, seed: u64) -> Media {
    Media {
        blobs: Arc::new(DirBlobs::new(Arc::clone(disk), Syncing::Inline)),
        disk: Arc::clone(disk),
        clock: Arc::new(FixedClock::new(UnixNanos(BEGIN.0 + seed as i64))),
        random: Arc::new(SeededRandom::new(seed)),
    }
}

fn recorded(recorder: &Arc<Recorder>, device: DeviceName) -> Arc<dyn Disk> {
    Arc::new(RecordedDisk {
        below: SimDisk::unrecorded(Image::new()),
        device,
        recorder: Arc::clone(recorder),
    })
}

impl Machine {
    /// Makes a pool and opens it.
    pub fn new(settings: &MachineSettings) -> Result<Self> {
        let recorder = Arc::<Recorder>::default();
        let disk = recorded(&recorder, DeviceName::Pool);
        let init = InitOptions {
            secrets: &[],
            chunk_bytes_average: 32 << 10,
            parity_percent: 2,
        };
        Pool::init(&media(&disk, 1), &init)?;
        let fast_bytes = settings.fast.map_or(0, |fast| fast.bytes);
        let plan = MemoryPlan::with_tier(settings.memory_bytes, settings.journal_bytes, fast_bytes);
        let pool = Pool::open(media(&disk, 2), None, OpenMode::Write, plan.pool_bytes)?;
        let mut placement = JournalPlacement::default();
        let mut tier = None;
        if let Some(fast) = settings.fast {
            let device = recorded(&recorder, DeviceName::Fast);
            tier = Some(attach(&pool, &fast, &plan, &device));
            placement.fast = Some(device);
            placement.wanted = fast.has_journal.then_some(JournalPlace::Fast);
        }
        let wanted = VolumesWanted {
            journal_bytes: settings.journal_bytes,
            switches: settings.switches,
            placement,
        };
        let mut options = volumes_options(&plan, settings.compression, &wanted);
        // The server of this module fetches, so that requests come in one order.
        options.access.fetch_threads = 0;
        let volumes = Volumes::open_placed(&Arc::new(pool), &options, &wanted.placement)?;
        let machine = Self {
            recorder,
            volumes: Arc::new(volumes),
            tier,
            plan,
        };
        if let Some(policy) = &settings.policy {
            machine.obey(policy);
        }
        machine.recorder.take();
        Ok(machine)
    }

    /// Puts a policy in force, as a server does.
    pub fn obey(&self, policy: &Policy) {
        self.volumes.set_classes(policy.all_settings());
        if let Some(tier) = &self.tier {
            let of_kinds = tier.settings();
            tier.set_settings(of_kinds.with_classes(policy.all_fast_settings()));
            tier.forget_evidence();
        }
    }
}

/// Gives a pool the fast device, as `serve` does.
pub(crate) fn attach(
    pool: &Pool,
    fast: &FastSettings,
    plan: &MemoryPlan,
    device: &Arc<dyn Disk>,
) -> Arc<Tier> {
    let index_bytes = fast.index.map_or(0, |share| {
        fast_device::index_room(fast.bytes, share, pool.index_bytes())
    });
    let mut options = TierOptions::new(fast.bytes, plan.tier as u64).without(index_bytes);
    options.daily_writes_hundredths = fast.daily_writes_hundredths;
    if index_bytes > 0 {
        pool.use_fast_index(Arc::clone(device), index_bytes);
    }
    pool.use_fast_tier(Arc::clone(device), options, TierSettings::new(fast.kinds))
}
