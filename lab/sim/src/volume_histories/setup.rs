//! Small volumes over a simulated disk. `process` and `examine` call this.
//!
//! Invariant: nothing depends on the machine or the time.

use super::model::{PAGE_BYTES, Page, SECTOR_BYTES, VolumeContents};
use crate::pool_histories::{MEMORY_BYTES, init_options_of, lane_options, media};
use crate::{SimDisk, Subdirectory};
use classes::{CLASSES, ClassSettings, Priority, Share};
use format::journal_place::JournalPlace;
use format::tier::BLOCK_BYTES_MIN;
use media::Disk;
use ssd_tier::{KindShares, TierOptions, TierSettings};
use std::sync::Arc;
use store::{NewSecret, OpenMode, Pool, SecretKey, StoreError};
use units::UnixNanos;
use volume::{RequestContext, Volume};
use volumes::{AccessOptions, DirectLimits, JournalOptions, JournalPlacement};
use volumes::{Thresholds, Volumes, VolumesOptions};

/// Room of the index's copy, bytes.
const INDEX_COPY_BYTES: u64 = 1 << 20;
/// Request context of histories.
pub const CONTEXT: RequestContext = RequestContext::CLIENT;

/// Odd seeds have encrypted pools.
fn secret(seed: u64) -> Option<SecretKey> {
    (seed & 1 == 1).then_some(SecretKey::Recovery([7; 32]))
}

fn options() -> VolumesOptions {
    VolumesOptions {
        journal: JournalOptions {
            bytes_max: 3 * (128 << 10),
            slot_bytes: 128 << 10,
            buffer_bytes: 256 << 10,
        },
        memory_bytes: 4 << 20,
        thresholds: Thresholds::default(),
        lane: lane_options(),
        direct: DirectLimits {
            bytes_min: 12 << 10,
            unflushed_bytes_min: 8 << 10,
        },
        access: AccessOptions {
            // One thread, so that the seed decides everything.
            fetch_threads: 0,
            ..AccessOptions::default()
        },
    }
}

/// Creates a pool.
pub fn init(disk: &Arc<SimDisk>, seed: u64) -> Result<(), StoreError> {
    let secret = secret(seed);
    let secrets: Vec<_> = secret
        .iter()
        .map(|secret| NewSecret {
            secret,
            label: "one",
        })
        .collect();
    Pool::init(
        &media(Arc::clone(disk) as _, seed << 8),
        &init_options_of(seed, &secrets),
    )
}

/// Directory of the fast device. Both devices are on one simulated disk, so that a crash takes both
/// at the same moment.
pub const FAST: &str = "fast";

/// Names and contents of files.
pub type Files = Vec<(String, Vec<u8>)>;

/// Returns what is on the fast device.
pub fn fast_files(disk: &SimDisk) -> Files {
    let image = disk.image();
    let files = image.files_below(FAST).into_iter();
    files
        .filter_map(|(path, _)| Some((path.clone(), image.contents(&path)?)))
        .collect()
}

/// Returns the device of a process, and where it wants the journal. `None`: it has no device.
pub fn placement(disk: &Arc<SimDisk>, wanted: Option<JournalPlace>) -> JournalPlacement {
    JournalPlacement {
        fast: wanted.map(|_| fast_disk(disk)),
        wanted,
        device_lost: false,
    }
}

/// Returns the fast device.
pub fn fast_disk(disk: &Arc<SimDisk>) -> Arc<dyn Disk> {
    Arc::new(Subdirectory::new(Arc::clone(disk) as _, FAST))
}

/// Opens the pool and its volumes in a new process.
pub fn open_placed(
    disk: &Arc<SimDisk>,
    seed: u64,
    salt: u64,
    placement: &JournalPlacement,
) -> Result<Volumes, StoreError> {
    let media = media(Arc::clone(disk) as _, salt);
    let secret = secret(seed);
    let pool = Pool::open(media, secret.as_ref(), OpenMode::Write, MEMORY_BYTES)?;
    if let Some(fast) = &placement.fast {
        use_caches(&pool, fast);
    }
    let volumes = Volumes::open_placed(&Arc::new(pool), &options(), placement)?;
    step_caches(&volumes);
    Ok(volumes)
}

/// Keeps chunks and the index on the fast device too. All data are important, so that everything
/// that is read or stored enters, and older blocks have to leave.
fn use_caches(pool: &Pool, fast: &Arc<dyn Disk>) {
    let block_bytes = BLOCK_BYTES_MIN;
    let options = TierOptions {
        capacity_bytes: 10 * u64::from(block_bytes),
        memory_bytes: 1 << 20,
        block_bytes,
        daily_writes_hundredths: u32::MAX,
        is_reading: false,
    };
    let important = ClassSettings {
        priority: Priority::Evictable(0),
        share: Share::ALL,
    };
    let settings = TierSettings::new(KindShares::ALONE).with_classes([important; CLASSES]);
    pool.use_fast_index(Arc::clone(fast), INDEX_COPY_BYTES);
    pool.use_fast_tier(Arc::clone(fast), options, settings);
}

/// Does what waits for the caches on the fast device, if there are any: opens them, writes what is
/// staged, copies the index.
pub fn step_caches(volumes: &Volumes) {
    let pool = volumes.pool();
    let Some(tier) = pool.fast_tier() else {
        return;
    };
    // The history has no clock. Blocks of one time leave in the order of their slots.
    let now = UnixNanos(1);
    while tier.step(now, u64::MAX).has_more {}
    tier.finish(now);
    while pool.step_fast_index(now, u64::MAX) {}
    pool.finish_fast_index(now);
}

/// Fills sectors with their tags.
pub fn bytes_of(tags: &[u64]) -> Vec<u8> {
    let sector = |tag: &u64| tag.to_le_bytes().repeat(SECTOR_BYTES / 8);
    tags.iter().flat_map(sector).collect()
}

/// Returns the tags of sectors; an error if a sector has several tags.
pub fn contents_of(bytes: &[u8]) -> Result<VolumeContents, String> {
    let mut contents = VolumeContents::zeroes(bytes.len() as u64);
    for (page, bytes) in contents.pages.iter_mut().zip(bytes.chunks(PAGE_BYTES)) {
        for (number, sector) in bytes.chunks_exact(SECTOR_BYTES).enumerate() {
            let mut words = sector.chunks_exact(8).map(|word| {
                let word: [u8; 8] = word.try_into().unwrap_or_default();
                u64::from_le_bytes(word)
            });
            let tag = words.next().unwrap_or(0);
            if words.any(|word| word != tag) {
                return Err(format!("a sector of several writes: {tag:x}"));
            }
            page[number] = tag;
        }
    }
    Ok(contents)
}

/// Reads all of a volume.
pub fn read_volume(volume: &dyn Volume) -> Result<VolumeContents, String> {
    let mut bytes = vec![0xaa; volume.size_bytes() as usize];
    volume
        .read(CONTEXT, 0, &mut bytes)
        .map_err(|e| e.to_string())?;
    contents_of(&bytes)
}

/// Returns the numbers and contents of the pages that a write of sectors changes.
pub fn pages_of(first: u64, tags: &[u64], contents: &VolumeContents) -> Vec<(usize, Page)> {
    let per_page = (PAGE_BYTES / SECTOR_BYTES) as u64;
    let mut out: Vec<(usize, Page)> = Vec::new();
    for (sector, tag) in (first..).zip(tags) {
        let number = (sector / per_page) as usize;
        if out.last().is_none_or(|(last, _)| *last != number) {
            out.push((number, contents.pages[number]));
        }
        if let Some((_, page)) = out.last_mut() {
            page[(sector % per_page) as usize] = *tag;
        }
    }
    out
}
