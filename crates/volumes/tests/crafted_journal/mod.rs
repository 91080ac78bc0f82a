//! Journal slots that steps build. Every checksum is valid; the contents need not make sense.
//!
//! `crafted_journals.rs` uses this, and so does the fuzz target, which includes this file.
//! Invariant: for any steps, a journal opens or fails with an error, replays only what can be read
//! again, and can be used.

use format::bytes::Reader;
use format::config::Seal;
use format::journal::{BatchHeader, RecordHeader, RecordKind, Seed, SlotHeader};
use media::Media;
use sim::SimDisk;
use std::sync::Arc;
use store::{MasterKey, StoreErrorKind};
use units::{JournalPosition, PoolId, UnixNanos, VolumeId};
use volumes::{Journal, JournalOptions, Record};

const POOL: PoolId = PoolId([5; 16]);
const OPTIONS: JournalOptions = JournalOptions {
    bytes_max: 512 << 10,
    slot_bytes: 128 << 10,
    buffer_bytes: 0,
};
const BLOCK: u64 = 4096;
const SLOTS: usize = 4;
/// Number of a slot's blocks to which steps write.
const BLOCKS: u64 = 48;

/// A slot that is being built.
struct Slot {
    bytes: Vec<u8>,
    header: SlotHeader,
    /// Offset of the next record in the file.
    cursor: u64,
    /// Offset and header of the batch that receives records.
    batch: Option<(u64, BatchHeader)>,
}

/// Slots that are being built.
struct Builder<'a> {
    steps: Reader<'a>,
    slots: [Slot; SLOTS],
}

/// Builds slots from `data`, opens the journal and uses it. Returns the number of replayed records
/// and of reported damages.
pub fn exercise(data: &[u8]) -> (usize, usize) {
    let slots = [0, 1, 2, 3].map(|slot| Slot {
        bytes: Vec::new(),
        header: SlotHeader {
            pool: POOL,
            slot,
            seal: Seal::None,
            first: JournalPosition((u64::from(slot) + 1) << 37),
            slot_bytes: OPTIONS.slot_bytes,
            previous: JournalPosition(0),
            continues_from: JournalPosition(0),
            salt: [slot as u8; 32],
            tag: [0; 16],
        },
        cursor: BLOCK,
        batch: None,
    });
    let mut builder = Builder {
        steps: Reader::new("steps", data),
        slots,
    };
    let from = builder.position().unwrap_or_default();
    while builder.step().is_some() {}
    let disk = SimDisk::unrecorded(sim::Image::new());
    for (number, slot) in builder.slots.iter().enumerate() {
        disk.plant(&format!("journal/{number:02}"), &slot.bytes);
    }
    open_and_use(&disk, from)
}

impl Builder<'_> {
    fn byte(&mut self) -> Option<u64> {
        self.steps.u8().ok().map(u64::from)
    }

    /// Returns a position that is relevant to some slot, or any position.
    fn position(&mut self) -> Option<JournalPosition> {
        let at = match self.byte()? {
            0 => 0,
            kind @ 1..=200 => ((kind % 5) << 37) + (self.byte()? % BLOCKS) * BLOCK,
            kind @ 201..=230 => ((kind % 5) << 37) + u64::from(self.steps.u16().ok()?) * 16,
            _ => self.steps.u64().ok()?,
        };
        Some(JournalPosition(at))
    }

    fn step(&mut self) -> Option<()> {
        let kind = self.byte()?;
        let slot = (kind >> 4) as usize % SLOTS;
        match kind % 16 {
            0 | 1 => self.header(slot),
            2..=4 => self.batch(slot),
            5..=13 => self.record(slot),
            14 => {
                let offset = self.byte()? % BLOCKS * BLOCK + self.byte()? * 16;
                let raw = self.steps.array::<16>().ok()?;
                self.slots[slot].put(offset, &raw);
                Some(())
            }
            _ => {
                let len = self.byte()? * 1024;
                self.slots[slot].bytes.truncate(len as usize);
                Some(())
            }
        }
    }

    fn header(&mut self, slot: usize) -> Option<()> {
        let before = slot.checked_sub(1).map(|before| &self.slots[before]);
        let natural = before.map(|b| (b.header.first, b.at(b.cursor.next_multiple_of(BLOCK))));
        let mut header = self.slots[slot].header.clone();
        match self.byte()? {
            0..=160 => (header.previous, header.continues_from) = natural.unwrap_or_default(),
            _ => {
                (header.first, header.previous) = (self.position()?, self.position()?);
                header.continues_from = self.position()?;
                header.slot_bytes = match self.byte()? {
                    0..=200 => OPTIONS.slot_bytes,
                    201..=230 => 1 << 20,
                    _ => self.steps.u64().ok()?,
                };
            }
        }
        let page = header.encode_page();
        self.slots[slot].put(0, &page);
        self.slots[slot].header = header;
        Some(())
    }

    fn batch(&mut self, slot: usize) -> Option<()> {
        let offset = match self.byte()? {
            0..=220 => self.slots[slot].cursor.next_multiple_of(BLOCK),
            other => BLOCK + other % BLOCKS * BLOCK,
        };
        let at = self.slots[slot].at(offset);
        let used_bytes = match self.byte()? {
            0..=220 => None,
            _ => Some(u32::from(self.steps.u16().ok()?) * 16),
        };
        let durable = match self.byte()? {
            back @ 0..=220 => JournalPosition(at.0.saturating_sub(back % BLOCKS * BLOCK)),
            _ => self.position()?,
        };
        let header = BatchHeader {
            used_bytes: used_bytes.unwrap_or(64),
            at,
            durable,
        };
        let slot = &mut self.slots[slot];
        let bytes = header.encode(slot.seed());
        slot.put(offset, &bytes);
        slot.cursor = offset + 64;
        slot.batch = used_bytes.is_none().then_some((offset, header));
        Some(())
    }

    fn record(&mut self, slot: usize) -> Option<()> {
        let offset = match self.byte()? {
            0..=230 => self.slots[slot].cursor,
            other => BLOCK + other % BLOCKS * BLOCK + (self.byte()? + 4) * 16,
        };
        let (kind, len) = match self.byte()? % 3 {
            0 => (RecordKind::Write, u64::from(self.steps.u16().ok()?)),
            1 => (RecordKind::Zero, self.steps.u64().ok()?),
            _ => (RecordKind::Chunks, self.byte()? * 9),
        };
        let data_bytes = match kind {
            RecordKind::Write => len as usize,
            RecordKind::Zero => 0,
            RecordKind::Chunks => 32 * len as usize,
        };
        let is_sound = self.byte()? < 230;
        let data = vec![self.byte()? as u8; data_bytes];
        let header = RecordHeader {
            kind,
            data_bytes: data_bytes as u32,
            volume: VolumeId([1; 16]),
            start: u64::from(self.steps.u16().ok()?) << 47,
            len,
            data_checksum: RecordHeader::checksum_data(&data) ^ u64::from(!is_sound),
        };
        let slot = &mut self.slots[slot];
        let bytes = header.encode(slot.seed(), slot.at(offset));
        slot.put(offset, &[&bytes, data.as_slice()].concat());
        slot.cursor = offset + header.record_bytes(Seal::None) as u64;
        if let Some((start, mut batch)) = slot.batch {
            batch.used_bytes = slot.cursor.saturating_sub(start) as u32;
            let bytes = batch.encode(slot.seed());
            slot.put(start, &bytes);
        }
        Some(())
    }
}

impl Slot {
    fn put(&mut self, offset: u64, bytes: &[u8]) {
        let start = (offset % (BLOCKS * 2 * BLOCK)) as usize;
        let end = start + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[start..end].copy_from_slice(bytes);
    }

    fn seed(&self) -> Seed {
        Seed::new(&POOL, &self.header.salt)
    }

    fn at(&self, offset: u64) -> JournalPosition {
        let first = self.header.first.0;
        JournalPosition(first.wrapping_add(offset).wrapping_sub(BLOCK))
    }
}

/// Position of each record and, for writes, the data.
type Replayed = Vec<(JournalPosition, Option<Vec<u8>>)>;

fn open(disk: &Arc<SimDisk>, from: JournalPosition) -> Option<(Journal, Replayed, usize)> {
    let media = Media::seeded(Arc::clone(disk) as _, UnixNanos(0), disk.counts().reads);
    let mut replayed = Replayed::new();
    let mut take = |at, record: Record<'_>| {
        let data = match record {
            Record::Write { data, .. } => Some(data.to_vec()),
            _ => None,
        };
        replayed.push((at, data));
        Ok(())
    };
    let master = MasterKey::new([1; 32]);
    let opened = Journal::open(&media, POOL, &master, Seal::None, &OPTIONS, from, &mut take);
    match opened {
        Ok((journal, damage)) => Some((journal, replayed, damage.len())),
        // Positions at the end of the number range.
        Err(e) => {
            assert_eq!(e.kind, StoreErrorKind::Invalid, "{e}");
            None
        }
    }
}

fn open_and_use(disk: &Arc<SimDisk>, from: JournalPosition) -> (usize, usize) {
    let Some((journal, mut replayed, damage)) = open(disk, from) else {
        return (0, 0);
    };
    let found = (replayed.len(), damage);
    assert!(replayed.is_sorted_by(|a, b| a.0 < b.0), "{replayed:?}");
    assert!(replayed.first().is_none_or(|(at, _)| *at >= from));
    for (at, data) in &replayed {
        assert!(*at < journal.head());
        let Some(data) = data else { continue };
        let mut into = vec![0; data.len()];
        journal.read(*at, 0, &mut into).expect("what was replayed");
        assert_eq!(into, *data);
    }
    let data = vec![9; 100];
    let record = Record::Write {
        volume: VolumeId([2; 16]),
        offset_bytes: 0,
        data: &data,
    };
    match journal.append(&record) {
        Ok(at) => replayed.push((at, Some(data))),
        Err(e) => assert_eq!(e.kind, StoreErrorKind::JournalFull),
    }
    journal.flush().expect("a healthy disk");
    drop(journal);
    let (_, again, _) = open(disk, from).expect("what was opened and used");
    assert_eq!(again, replayed);
    found
}
