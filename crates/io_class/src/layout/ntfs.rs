//! The classifier for NTFS: records of the master file table, and the runs of their attributes.
//! `file_system` attaches it.
//!
//! Invariant: unknown rather than wrong. Free clusters and attributes in lists of attributes are
//! unknown. Reads one block of records a step; records end, because the table does.

use super::bytes::{byte, fingerprint, le16, le32, le64};
use super::ext::Step;
use super::runs::{Claim, FIXED, NOBODY, Runs};
use super::source::Meter;
use crate::facts::Contents;
use std::collections::{BTreeMap, BTreeSet};

const DATA: u32 = 0x80;
const INDEX: u32 = 0xa0;
const BITMAP: u32 = 0xb0;
const LOG_FILE: u32 = 2;
const FIRST_USER_RECORD: u32 = 16;
const SECTOR: usize = 512;
const SLICE_CLUSTERS: u32 = 1 << 15;
const READ_BYTES: u64 = 64 << 10;
const RUNS_MAX: usize = 1 << 16;
const MEMORY_A_RECORD: u64 = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Geometry {
    cluster_bytes: u64,
    clusters: u64,
    table: u64,
    mirror: u64,
    record_bytes: u64,
    serial: u64,
}

impl Geometry {
    fn decode(boot: &[u8], volume_bytes: u64) -> Option<Self> {
        let sector = u64::from(le16(boot, 11)?);
        let cluster_sectors = match byte(boot, 13)? {
            n @ 0..=0x80 => u64::from(n),
            n => 1_u64.checked_shl(u32::from(n.wrapping_neg()))?,
        };
        let cluster_bytes = sector.checked_mul(cluster_sectors)?;
        let record_bytes = match byte(boot, 64)? {
            n @ 0..=0x7f => u64::from(n).checked_mul(cluster_bytes)?,
            n => 1_u64.checked_shl(u32::from(n.wrapping_neg()))?,
        };
        let is_sound = boot.get(3..11)? == b"NTFS    "
            && (256..=4096).contains(&sector)
            && cluster_bytes.is_power_of_two()
            && (512..=2 << 20).contains(&cluster_bytes)
            && record_bytes.is_power_of_two()
            && (512..=65536).contains(&record_bytes);
        if !is_sound {
            return None;
        }
        let bytes = le64(boot, 40)?.checked_mul(sector)?;
        let geometry = Self {
            cluster_bytes,
            clusters: bytes / cluster_bytes,
            table: le64(boot, 48)?,
            mirror: le64(boot, 56)?,
            record_bytes,
            serial: le64(boot, 72)?,
        };
        (bytes <= volume_bytes && geometry.table < geometry.clusters).then_some(geometry)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    File(u64),
    Metadata,
    Journal,
}

/// Owners of runs: a record has one for its data, and one for everything else in it.
fn owner(record: u32, is_data: bool) -> Option<u32> {
    record.checked_mul(2)?.checked_add(1 + u32::from(is_data))
}

/// See the module.
pub struct Ntfs {
    geometry: Geometry,
    runs: Runs,
    /// By record: use of its data, and a fingerprint.
    records: BTreeMap<u32, (Use, u32)>,
    /// Extents of the master file table.
    table: Vec<Claim>,
    /// Blocks of records to be read, by their number in the table.
    dirty: BTreeSet<u64>,
    next: u64,
    is_table_known: bool,
    is_head_dirty: bool,
    memory_max: u64,
    /// Records that were left out for lack of memory.
    pub sheds: u64,
}

impl Ntfs {
    /// Looks at the boot sector of a part of `len_bytes`.
    pub fn probe(meter: &mut Meter<'_>, len_bytes: u64, memory_max: u64) -> Option<Self> {
        let geometry = Geometry::decode(&meter.read(0, SECTOR)?, len_bytes)?;
        if geometry.clusters / u64::from(SLICE_CLUSTERS) * 48 > memory_max / 2 {
            return None;
        }
        Some(Self {
            runs: Runs::new(geometry.clusters, SLICE_CLUSTERS),
            geometry,
            records: BTreeMap::new(),
            table: Vec::new(),
            dirty: BTreeSet::new(),
            next: 0,
            is_table_known: false,
            is_head_dirty: false,
            memory_max,
            sheds: 0,
        })
    }

    /// Contents at an offset, and the bytes from there that are alike.
    pub fn at(&self, offset_bytes: u64) -> (Contents, u64) {
        let size = self.geometry.cluster_bytes;
        let (cluster, inside) = (offset_bytes / size, offset_bytes % size);
        let found = self.runs.find(cluster);
        let contents = match found.owner {
            Some((NOBODY, _)) => Contents::Metadata,
            Some((owner, logical)) => {
                let is_data = owner % 2 == 0;
                let known = self.records.get(&((owner - 1) / 2)).map(|known| known.0);
                match known {
                    None => Contents::Unknown,
                    Some(Use::Journal) => Contents::Journal,
                    Some(Use::Metadata) => Contents::Metadata,
                    Some(Use::File(size_bytes)) if is_data => Contents::File {
                        size_bytes,
                        offset_bytes: u64::from(logical) * size + inside,
                    },
                    Some(Use::File(_)) => Contents::Directory,
                }
            }
            None => Contents::Unknown,
        };
        (contents, found.len.saturating_mul(size) - inside)
    }

    /// Notes a write.
    pub fn wrote(&mut self, offset_bytes: u64, len_bytes: u64) {
        let end = offset_bytes.saturating_add(len_bytes);
        self.is_head_dirty |= offset_bytes < SECTOR as u64;
        let size = self.geometry.cluster_bytes;
        for extent in &self.table {
            let start = extent.block * size;
            let from = offset_bytes.max(start);
            let to = end.min(start + u64::from(extent.len) * size);
            if from < to {
                let first = u64::from(extent.logical) * size + from - start;
                let last = first + (to - from - 1);
                self.dirty.extend(first / READ_BYTES..=last / READ_BYTES);
            }
        }
    }

    /// Reads a little.
    pub fn step(&mut self, meter: &mut Meter<'_>) -> Step {
        if self.is_head_dirty {
            self.is_head_dirty = false;
            let boot = meter.read(0, SECTOR);
            let geometry = boot.and_then(|boot| Geometry::decode(&boot, u64::MAX));
            if geometry != Some(self.geometry) {
                return Step::Lost;
            }
        } else if !self.is_table_known {
            self.is_table_known = true;
            let _ = self.read_first(meter);
        } else if let Some(block) = self.dirty.pop_first() {
            let _ = self.read_records(meter, block);
        } else if self.next * READ_BYTES < self.table_bytes() {
            let block = self.next;
            self.next += 1;
            let _ = self.read_records(meter, block);
        } else {
            return Step::Idle;
        }
        Step::More
    }

    fn table_bytes(&self) -> u64 {
        let clusters: u64 = self.table.iter().map(|extent| u64::from(extent.len)).sum();
        // A damaged table may name the same clusters again and again.
        clusters.min(self.geometry.clusters) * self.geometry.cluster_bytes
    }

    fn fix(&mut self, block: u64, bytes: u64) {
        let len = bytes.div_ceil(self.geometry.cluster_bytes).min(1 << 16) as u32;
        let claim = Claim {
            block,
            len,
            logical: FIXED,
        };
        self.runs
            .claim(NOBODY, claim, false, &mut Vec::new(), |_| true);
    }

    fn read_first(&mut self, meter: &mut Meter<'_>) -> Option<()> {
        self.fix(0, 8192);
        self.fix(self.geometry.mirror, 4 * self.geometry.record_bytes);
        let at = self
            .geometry
            .table
            .checked_mul(self.geometry.cluster_bytes)?;
        let bytes = meter.read(at, self.geometry.record_bytes as usize)?;
        self.enter(0, bytes)
    }

    fn read_records(&mut self, meter: &mut Meter<'_>, block: u64) -> Option<()> {
        let (from, size) = (block * READ_BYTES, self.geometry.cluster_bytes);
        let record_bytes = self.geometry.record_bytes;
        let len = READ_BYTES.min(self.table_bytes().checked_sub(from)?);
        for n in 0..len / record_bytes {
            let at = from + n * record_bytes;
            let extent = self.table.iter().find(|extent| {
                let start = u64::from(extent.logical) * size;
                at >= start && at < start + u64::from(extent.len) * size
            });
            let inside = extent.map(|e| e.block * size + at - u64::from(e.logical) * size);
            if let Some(place) = inside
                && let Some(bytes) = meter.read(place, record_bytes as usize)
            {
                let number = u32::try_from(at / record_bytes).ok()?;
                if self.enter(number, bytes).is_none() {
                    self.drop_record(number);
                }
            }
        }
        Some(())
    }

    fn drop_record(&mut self, number: u32) {
        if self.records.remove(&number).is_some() {
            let owners = [owner(number, false), owner(number, true)];
            for slice in 0..self.runs.slices() {
                self.runs
                    .forget_in(slice, |run| owners.contains(&Some(run.owner)));
            }
        }
    }

    fn enter(&mut self, number: u32, mut bytes: Vec<u8>) -> Option<()> {
        repair_sectors(&mut bytes)?;
        let is_base = le64(&bytes, 32)? == 0;
        if bytes.get(..4)? != b"FILE" || le16(&bytes, 22)? & 1 == 0 || !is_base {
            return None;
        }
        let mut used_for = Use::File(0);
        let (mut claims, mut at) = (Vec::new(), usize::from(le16(&bytes, 20)?));
        while let Some(kind) = le32(&bytes, at).filter(|kind| *kind != u32::MAX) {
            let len = le32(&bytes, at + 4)? as usize;
            let attribute = bytes.get(at..at.checked_add(len).filter(|_| len >= 16)?)?;
            if byte(attribute, 8)? == 1 {
                let is_main = kind == DATA && byte(attribute, 9)? == 0;
                if is_main && le64(attribute, 16)? == 0 {
                    used_for = Use::File(le64(attribute, 48)?);
                }
                if is_main || kind == INDEX || (kind == BITMAP && number < FIRST_USER_RECORD) {
                    self.decode_runs(attribute, is_main, &mut claims);
                }
            }
            at += len;
        }
        used_for = match number {
            LOG_FILE => Use::Journal,
            // The root directory is record 5.
            0..FIRST_USER_RECORD if number != 5 => Use::Metadata,
            _ => used_for,
        };
        let attributes = bytes.get(usize::from(le16(&bytes, 20)?)..)?;
        let fingerprint = fingerprint(&[attributes]);
        if self
            .records
            .get(&number)
            .is_some_and(|known| known.1 == fingerprint)
        {
            return Some(());
        }
        self.drop_record(number);
        if number == 0 {
            self.table = claims.iter().map(|(claim, _)| *claim).collect();
        }
        if claims.is_empty() {
            return Some(());
        }
        if self.memory_bytes() >= self.memory_max {
            self.sheds += 1;
            return Some(());
        }
        self.records.insert(number, (used_for, fingerprint));
        for (claim, is_data) in claims {
            let owner = owner(number, is_data)?;
            self.runs
                .claim(owner, claim, false, &mut Vec::new(), |_| true);
        }
        Some(())
    }

    /// Decodes runs: lengths and signed distances of as many bytes as a nibble says.
    fn decode_runs(
        &self,
        attribute: &[u8],
        is_data: bool,
        claims: &mut Vec<(Claim, bool)>,
    ) -> Option<()> {
        let mut logical = le64(attribute, 16)?;
        let mut at = usize::from(le16(attribute, 32)?);
        let mut cluster = 0_i64;
        while let Some(sizes) = byte(attribute, at).filter(|sizes| *sizes != 0) {
            let (len_bytes, distance_bytes) = (usize::from(sizes & 15), usize::from(sizes >> 4));
            let len = little(attribute.get(at + 1..at + 1 + len_bytes)?)?;
            let from = at + 1 + len_bytes;
            let distance = little(attribute.get(from..from + distance_bytes)?)?;
            at = from + distance_bytes;
            let len = u64::try_from(len).ok()?;
            if distance_bytes > 0 {
                cluster = cluster.checked_add(distance)?;
                let block = u64::try_from(cluster).ok()?;
                let fits = block.checked_add(len)? <= self.geometry.clusters;
                if fits && claims.len() < RUNS_MAX {
                    let claim = Claim {
                        block,
                        len: u32::try_from(len).ok()?,
                        logical: u32::try_from(logical).ok()?,
                    };
                    claims.push((claim, is_data));
                }
            }
            logical = logical.checked_add(len)?;
        }
        Some(())
    }

    /// Memory that this uses, bytes.
    pub fn memory_bytes(&self) -> u64 {
        let entries = (self.records.len() + self.dirty.len() + self.table.len()) as u64;
        self.runs.memory_bytes() as u64 + entries * MEMORY_A_RECORD
    }
}

/// A signed number of up to eight bytes.
fn little(bytes: &[u8]) -> Option<i64> {
    if bytes.len() > 8 {
        return None;
    }
    let is_negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut whole = if is_negative { [0xff; 8] } else { [0; 8] };
    whole.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i64::from_le_bytes(whole))
}

/// Puts the last two bytes of each sector back, which the update sequence holds.
fn repair_sectors(bytes: &mut [u8]) -> Option<()> {
    let (at, count) = (usize::from(le16(bytes, 4)?), usize::from(le16(bytes, 6)?));
    let number = le16(bytes, at)?;
    for n in 1..count.min(bytes.len() / SECTOR + 1) {
        let [low, high] = le16(bytes, at + 2 * n)?.to_le_bytes();
        let end = n * SECTOR - 2;
        if le16(bytes, end)? != number {
            return None;
        }
        bytes.get_mut(end..end + 2)?.copy_from_slice(&[low, high]);
    }
    Some(())
}
