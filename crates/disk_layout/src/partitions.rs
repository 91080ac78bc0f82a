//! Partition tables: MBR with logical partitions, and GPT. `volume` looks for them before it looks
//! for file systems, because old superblocks outlive a partitioning.
//!
//! Invariant: parts lie within the volume and are few; a chain of tables ends.

use super::bytes::{byte, fingerprint, le16, le32, le64};
use super::source::{Meter, Segment};
use std::ops::Range;

/// Most parts of one table.
pub const PARTS_MAX: usize = 128;
const SECTOR: u64 = 512;
const MBR_ENTRIES: usize = 446;
const PROTECTIVE: u8 = 0xee;
const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];
const GPT_HEADER_BYTES: usize = 92;
/// Most bytes of entries: eight times as many as tools make.
const ENTRIES_BYTES_MAX: u32 = 128 << 10;

/// The parts of a volume, each with its segments, in bytes of that volume.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PartitionTable {
    /// Segments of each part.
    pub parts: Vec<Vec<Segment>>,
    /// Where the table itself is.
    pub own: Vec<Range<u64>>,
    /// Changes when the table does.
    pub fingerprint: u32,
    /// Parts that did not fit, or made no sense.
    pub left_out: u64,
}

impl PartitionTable {
    /// Returns true for the same table, whose parts may be with the volume by now.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.own, self.fingerprint) == (&other.own, other.fingerprint)
    }

    /// Memory that this uses, bytes.
    pub fn memory_bytes(&self) -> usize {
        let segments: usize = self.parts.iter().map(Vec::capacity).sum();
        self.own.capacity() * size_of::<Range<u64>>()
            + self.parts.capacity() * size_of::<Vec<Segment>>()
            + segments * size_of::<Segment>()
    }

    /// Adds a part of one piece, if it lies in the volume.
    fn add(&mut self, start: u64, len: u64, volume_bytes: u64) {
        let end = start.checked_add(len);
        if len == 0 || end.is_none_or(|end| end > volume_bytes) {
            return;
        }
        if self.parts.len() >= PARTS_MAX {
            self.left_out += 1;
        } else {
            self.parts.push(vec![Segment {
                part_bytes: 0,
                volume_bytes: start,
                len_bytes: len,
            }]);
        }
    }
}

/// Reads the partition table of a volume, if it has one.
pub fn read(meter: &mut Meter<'_>, volume_bytes: u64) -> Option<PartitionTable> {
    let sector = meter.read(0, SECTOR as usize)?;
    if le16(&sector, 510)? != 0xaa55 {
        return None;
    }
    let entries: Vec<Entry> = (0..4).filter_map(|n| Entry::decode(&sector, n)).collect();
    if entries.iter().any(|entry| entry.kind == PROTECTIVE) {
        let last = volume_bytes.checked_sub(SECTOR)?;
        let places = [(SECTOR, SECTOR), (4096, 4096), (last, SECTOR)];
        return places
            .into_iter()
            .find_map(|(at, sector)| gpt(meter, at, sector, volume_bytes));
    }
    mbr(meter, &sector, volume_bytes)
}

struct Entry {
    kind: u8,
    start: u64,
    len: u64,
    is_sound: bool,
}

impl Entry {
    fn decode(sector: &[u8], n: usize) -> Option<Self> {
        let at = MBR_ENTRIES + n * 16;
        Some(Self {
            kind: byte(sector, at + 4)?,
            start: u64::from(le32(sector, at + 8)?) * SECTOR,
            len: u64::from(le32(sector, at + 12)?) * SECTOR,
            is_sound: matches!(byte(sector, at)?, 0 | 0x80),
        })
    }

    fn is_used(&self) -> bool {
        self.kind != 0 && self.len > 0
    }
}

fn mbr(meter: &mut Meter<'_>, sector: &[u8], volume_bytes: u64) -> Option<PartitionTable> {
    let entries: Vec<Entry> = (0..4).filter_map(|n| Entry::decode(sector, n)).collect();
    // Boot sectors of file systems have the signature too, and code where entries would be.
    let fits = |entry: &Entry| entry.start >= SECTOR && entry.start < volume_bytes;
    let is_table = entries.iter().all(|entry| entry.is_sound)
        && entries.iter().any(Entry::is_used)
        && entries.iter().filter(|e| e.is_used()).all(fits);
    if !is_table {
        return None;
    }
    let mut table = PartitionTable {
        own: std::iter::once(0..SECTOR).collect(),
        fingerprint: fingerprint(&[sector.get(MBR_ENTRIES..)?]),
        ..PartitionTable::default()
    };
    for entry in entries.iter().filter(|entry| entry.is_used()) {
        if EXTENDED.contains(&entry.kind) {
            logical(meter, entry.start, &mut table, volume_bytes);
        } else {
            table.add(entry.start, entry.len, volume_bytes);
        }
    }
    Some(table)
}

/// Follows the chain of an extended partition.
fn logical(meter: &mut Meter<'_>, first: u64, table: &mut PartitionTable, volume_bytes: u64) {
    let mut at = first;
    for _ in 0..PARTS_MAX {
        let Some(sector) = meter.read(at, SECTOR as usize) else {
            return;
        };
        if le16(&sector, 510) != Some(0xaa55) {
            return;
        }
        table.own.push(at..at + SECTOR);
        table.fingerprint ^= fingerprint(&[sector.get(MBR_ENTRIES..).unwrap_or_default()]);
        let (part, next) = (Entry::decode(&sector, 0), Entry::decode(&sector, 1));
        if let Some(part) = part.filter(Entry::is_used)
            && let Some(start) = at.checked_add(part.start)
        {
            table.add(start, part.len, volume_bytes);
        }
        let Some(next) = next.filter(Entry::is_used) else {
            return;
        };
        let next = first.saturating_add(next.start);
        // Sound chains go upwards.
        if next <= at {
            return;
        }
        at = next;
    }
}

fn gpt(meter: &mut Meter<'_>, at: u64, sector: u64, volume_bytes: u64) -> Option<PartitionTable> {
    let header = meter.read(at, GPT_HEADER_BYTES)?;
    if header.get(..8)? != b"EFI PART" {
        return None;
    }
    let entries_at = le64(&header, 72)?.checked_mul(sector)?;
    let (count, size) = (le32(&header, 80)?, le32(&header, 84)?);
    let len = count.checked_mul(size)?;
    if count > 1024 || !(128..=1024).contains(&size) || len > ENTRIES_BYTES_MAX {
        return None;
    }
    let entries = meter.read(entries_at, len as usize)?;
    let mut table = PartitionTable {
        own: vec![
            0..SECTOR,
            at..at + sector,
            entries_at..entries_at.checked_add(entries.len() as u64)?,
        ],
        fingerprint: fingerprint(&[&entries]),
        ..PartitionTable::default()
    };
    for entry in entries.chunks_exact(size as usize) {
        let is_used = entry.get(..16)?.iter().any(|byte| *byte != 0);
        let (first, last) = (le64(entry, 32)?, le64(entry, 40)?);
        if is_used
            && last >= first
            && let Some(start) = first.checked_mul(sector)
            && let Some(len) = (last - first).checked_add(1)?.checked_mul(sector)
        {
            table.add(start, len, volume_bytes);
        }
    }
    Some(table)
}
