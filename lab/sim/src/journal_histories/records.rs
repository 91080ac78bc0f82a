//! Records that know their number, and the journal that takes them. `process`, `examine` and tests
//! use them.
//!
//! Invariant: the record of a number is a function of number and size; two numbers never give the
//! same record.

use crate::{Seed, SimDisk};
use format::config::Seal;
use media::Media;
use std::sync::Arc;
use store::MasterKey;
use units::{Fingerprint, JournalPosition, PoolId, UnixNanos, VolumeId};
use volumes::{Journal, JournalDamage, JournalOptions, Record};

const POOL: PoolId = PoolId([6; 16]);
const VOLUME: VolumeId = VolumeId([7; 16]);
/// Four slots of the smallest size.
const OPTIONS: JournalOptions = JournalOptions {
    bytes_max: 512 << 10,
    slot_bytes: 128 << 10,
    buffer_bytes: 0,
};

/// Size of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// A write of less than a sector.
    Small,
    /// A write of some blocks.
    Middle,
    /// The largest write.
    Large,
    /// Zeroes; no data.
    Zero,
    /// Fingerprints of chunks.
    Chunks,
}

/// Result of opening the journal.
pub struct Replayed {
    /// The journal, ready for more records.
    pub journal: Journal,
    /// Number and position of each record.
    pub records: Vec<(u64, JournalPosition)>,
    /// Damage that the journal reported.
    pub damage: Vec<JournalDamage>,
}

/// Opens the journal on `disk` and checks each record.
pub fn open(disk: &Arc<SimDisk>, seal: Seal, from: JournalPosition) -> Result<Replayed, String> {
    let salt = disk.image().hash() ^ disk.position() as u64;
    let seed = Seed::new(salt).draw();
    let media = Media::seeded(Arc::clone(disk) as _, UnixNanos(0), seed);
    let mut records: Vec<(u64, JournalPosition)> = Vec::new();
    let mut wrong = None;
    let mut take = |at: JournalPosition, record: Record<'_>| {
        match number_of(&record) {
            Some(number) => records.push((number, at)),
            None => wrong = Some(format!("at {at}: nobody appended {record:?}")),
        }
        Ok(())
    };
    let master = MasterKey::new([9; 32]);
    let opened = Journal::open(&media, POOL, &master, seal, &OPTIONS, from, &mut take);
    let (journal, damage) = opened.map_err(|e| format!("the journal does not open: {e}"))?;
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    let ascends = records.windows(2).all(|pair| pair[0].1 < pair[1].1);
    if !ascends || records.first().is_some_and(|(_, at)| *at < from) {
        return Err(format!("from {from}, positions in disorder: {records:?}"));
    }
    Ok(Replayed {
        journal,
        records,
        damage,
    })
}

/// Returns the position below which everything is recorded to have been durable.
pub(super) fn reached(disk: &Arc<SimDisk>, seal: Seal) -> Result<JournalPosition, String> {
    let media = Media::seeded(Arc::clone(disk) as _, UnixNanos(0), 1);
    let master = MasterKey::new([9; 32]);
    let from = JournalPosition(0);
    let found = Journal::inspect(&media, POOL, &master, seal, from);
    found.map(|found| found.reached).map_err(|e| e.to_string())
}

/// Calls `with` with the record of a number.
pub(super) fn with_record<T>(number: u64, size: Size, with: impl FnOnce(&Record<'_>) -> T) -> T {
    let (volume, place) = (VOLUME, number << 20);
    let len = match size {
        Size::Small => 100 + number as usize % 300,
        Size::Middle => 3000 + number as usize % 9000,
        Size::Large => Record::DATA_BYTES_MAX,
        Size::Zero => {
            return with(&Record::Zero {
                volume,
                offset_bytes: place,
                len_bytes: number + 1,
            });
        }
        Size::Chunks => {
            let count = 1 + number as usize % 300;
            return with(&Record::Chunks {
                volume,
                chunk_first: place,
                fingerprints: &vec![fingerprint(number); count],
            });
        }
    };
    with(&Record::Write {
        volume,
        offset_bytes: place,
        data: &data(number, len),
    })
}

/// Returns the number of a record that is unchanged since its append.
fn number_of(record: &Record<'_>) -> Option<u64> {
    let (place, sound) = match *record {
        Record::Write {
            volume,
            offset_bytes,
            data: found,
        } => {
            let number = offset_bytes >> 20;
            let sound = found == data(number, found.len());
            (offset_bytes, sound && volume == VOLUME)
        }
        Record::Zero {
            volume,
            offset_bytes,
            len_bytes,
        } => {
            let number = offset_bytes >> 20;
            (offset_bytes, len_bytes == number + 1 && volume == VOLUME)
        }
        Record::Chunks {
            volume,
            chunk_first,
            fingerprints,
        } => {
            let expected = fingerprint(chunk_first >> 20);
            let sound = fingerprints.iter().all(|f| *f == expected);
            (chunk_first, sound && volume == VOLUME)
        }
    };
    (sound && place % (1 << 20) == 0).then_some(place >> 20)
}

fn data(number: u64, len: usize) -> Vec<u8> {
    let mut seed = Seed::new(number);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&seed.draw().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

fn fingerprint(number: u64) -> Fingerprint {
    let mut print = [1; 32];
    print[..8].copy_from_slice(&number.to_le_bytes());
    Fingerprint(print)
}
