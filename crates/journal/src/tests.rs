//! Tests of the journal on a simulated disk: what it returns, what it costs, and how it behaves
//! when it is full, damaged or failing.

mod cost;
mod damage;
mod failing;
mod mirror;
mod promises;
mod reach;
mod threads;
mod unreadable;

use super::*;
use media::Media;
use sim::SimDisk;
use units::{Fingerprint, UnixNanos, VolumeId};

pub(super) const POOL: PoolId = PoolId([3; 16]);
pub(super) const VOLUME: VolumeId = VolumeId([8; 16]);
pub(super) const SEALS: [Seal; 2] = [Seal::None, Seal::Aes256Gcm];
pub(super) const SMALL: JournalOptions = JournalOptions {
    bytes_max: 512 << 10,
    slot_bytes: 128 << 10,
    buffer_bytes: 0,
};

/// A record that owns its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owned {
    Write(u64, Vec<u8>),
    Zero(u64, u64),
    Chunks(u64, Vec<Fingerprint>),
}

impl Owned {
    pub(super) fn of(record: Record<'_>) -> Self {
        match record {
            Record::Write {
                offset_bytes, data, ..
            } => Self::Write(offset_bytes, data.to_vec()),
            Record::Zero {
                offset_bytes,
                len_bytes,
                ..
            } => Self::Zero(offset_bytes, len_bytes),
            Record::Chunks {
                chunk_first,
                fingerprints,
                ..
            } => Self::Chunks(chunk_first, fingerprints.to_vec()),
        }
    }

    pub(super) fn record(&self) -> Record<'_> {
        let volume = VOLUME;
        match self {
            Self::Write(offset_bytes, data) => Record::Write {
                volume,
                offset_bytes: *offset_bytes,
                data,
            },
            Self::Zero(offset_bytes, len_bytes) => Record::Zero {
                volume,
                offset_bytes: *offset_bytes,
                len_bytes: *len_bytes,
            },
            Self::Chunks(chunk_first, fingerprints) => Record::Chunks {
                volume,
                chunk_first: *chunk_first,
                fingerprints,
            },
        }
    }

    /// Returns the `n`-th record of a history, of any kind and length.
    pub(super) fn some(n: u64) -> Self {
        let len = match n % 7 {
            0 => 1,
            1 => 4096,
            2 => 64 << 10,
            3 => 512,
            4 => 9999,
            5 => return Self::Zero(n << 20, (n << 33) + 1),
            _ => {
                let prints = (1..=n % 40 + 1).map(|k| Fingerprint([(n + k) as u8; 32]));
                return Self::Chunks(n << 8, prints.collect());
            }
        };
        Self::write(n, len)
    }

    /// Returns the `n`-th write.
    pub(super) fn write(n: u64, len: usize) -> Self {
        let byte = |k: usize| (n as usize * 31 + k * 7 + (k >> 8)) as u8;
        Self::Write(n << 16, (0..len).map(byte).collect())
    }
}

/// A journal, its replayed records, and the damage it reported.
pub(super) struct Reopened {
    pub(super) journal: Journal,
    pub(super) replayed: Vec<(JournalPosition, Owned)>,
    pub(super) damage: Vec<JournalDamage>,
}

impl Reopened {
    pub(super) fn owned(&self) -> Vec<Owned> {
        self.replayed
            .iter()
            .map(|(_, owned)| owned.clone())
            .collect()
    }
}

pub(super) fn try_open(
    disk: &Arc<SimDisk>,
    seal: Seal,
    options: &JournalOptions,
    from: JournalPosition,
) -> Result<Reopened> {
    // Each process has another seed: salts never repeat.
    let seed = disk.position() as u64;
    open_with(Arc::clone(disk) as _, seed, seal, options, from)
}

pub(super) fn open_over(
    disk: Arc<dyn Disk>,
    seed: u64,
    seal: Seal,
    from: JournalPosition,
) -> Result<Reopened> {
    open_with(disk, seed, seal, &SMALL, from)
}

fn open_with(
    disk: Arc<dyn Disk>,
    seed: u64,
    seal: Seal,
    options: &JournalOptions,
    from: JournalPosition,
) -> Result<Reopened> {
    let mut replayed = Vec::new();
    let master = MasterKey::new([4; 32]);
    let media = Media::seeded(disk, UnixNanos::default(), seed);
    let mut take = |at, record: Record<'_>| {
        replayed.push((at, Owned::of(record)));
        Ok(())
    };
    let (journal, damage) = Journal::open(&media, POOL, &master, seal, options, from, &mut take)?;
    Ok(Reopened {
        journal,
        replayed,
        damage,
    })
}

pub(super) fn open(disk: &Arc<SimDisk>, seal: Seal, from: JournalPosition) -> Reopened {
    let opened = try_open(disk, seal, &SMALL, from).expect("open");
    assert_eq!(opened.damage, []);
    opened
}

const START: JournalPosition = JournalPosition(0);
