//! The map of NTFS: records of the master file table, and the runs of their attributes.
//! `file_system` attaches it.
//!
//! Invariant: unknown rather than wrong. Free clusters and attributes in lists of attributes are
//! unknown. Reads one block of records a step, or enters one of them; records end, because the
//! table does.

use super::budget::{Shed, tree_bytes};
use super::bytes::{byte, fingerprint, le16, le32, le64};
use super::dirty::Ranges;
use super::file_system::{FileSystem, Interest, Probed, Step};
use super::runs::{Claim, Entering, FIXED, NO_INODE, Runs};
use super::slices::Slices;
use super::source::Meter;
use crate::contents::Contents;
use std::collections::BTreeMap;
use std::ops::Range;

const DATA: u32 = 0x80;
const INDEX: u32 = 0xa0;
const BITMAP: u32 = 0xb0;
const LOG_FILE: u32 = 2;
const FIRST_USER_RECORD: u32 = 16;
const SECTOR: usize = 512;
const READ_BYTES: u64 = 64 << 10;
const RUNS_MAX: usize = 1 << 16;
/// Most extents of the table: a write is compared with each of them.
const TABLE_EXTENTS_MAX: usize = 4096;

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

/// A record that owns clusters.
struct Record {
    /// Of its data.
    used_for: Use,
    /// Of its attributes.
    fingerprint: u32,
    slices: Slices,
}

/// Memory of a record in the map of them, bytes.
const RECORD_BYTES: usize = size_of::<Record>() + size_of::<u32>();

/// A record whose runs are being entered: those of its data last.
struct Entered {
    number: u32,
    record: Record,
    claims: Vec<Entering>,
    slices: Vec<u32>,
}

/// See the module.
pub struct Ntfs {
    geometry: Geometry,
    runs: Runs,
    records: BTreeMap<u32, Record>,
    /// Memory of slices of records outside of the map, bytes.
    slices_bytes: usize,
    /// Extents of the master file table.
    table: Vec<Claim>,
    /// Records to be read again, by number.
    dirty: Ranges,
    /// Records that were read and not looked at yet: the first one's number, and their bytes.
    read: Option<(u64, Vec<u8>)>,
    entering: Option<Entered>,
    /// Records that are read one by one, because one of them cannot be.
    careful: Range<u64>,
    next: u64,
    is_table_known: bool,
    is_head_dirty: bool,
    memory_max: u64,
    /// Records that were left out for lack of memory.
    shed: Shed,
}

impl Ntfs {
    /// Looks at the boot sector of a part of `len_bytes`. Fails with the least memory that a map
    /// takes.
    pub fn probe(meter: &mut Meter<'_>, len_bytes: u64, memory_max: u64) -> Probed<Self> {
        let geometry = Geometry::decode(&meter.read(0, SECTOR)?, len_bytes)?;
        // Blocks of records are read whole.
        let least = READ_BYTES / 4;
        if least > memory_max / 2 {
            return Some(Err(least * 2));
        }
        let clusters = geometry.clusters;
        Some(Ok(Self {
            runs: Runs::new(clusters, Runs::slice_blocks(clusters, memory_max)),
            geometry,
            records: BTreeMap::new(),
            slices_bytes: 0,
            table: Vec::new(),
            dirty: Ranges::default(),
            read: None,
            entering: None,
            careful: 0..0,
            next: 0,
            is_table_known: false,
            is_head_dirty: false,
            memory_max,
            shed: Shed::default(),
        }))
    }

    /// Records of the table in a range of the part, as they are touched.
    fn touched(&self, offset_bytes: u64, len_bytes: u64) -> impl Iterator<Item = (u64, u64)> {
        let (size, record) = (self.geometry.cluster_bytes, self.geometry.record_bytes);
        let end = offset_bytes.saturating_add(len_bytes);
        self.table.iter().filter_map(move |extent| {
            let start = extent.block * size;
            let from = offset_bytes.max(start);
            let to = end.min(start + u64::from(extent.len) * size);
            let first = (u64::from(extent.logical) * size).saturating_add(from.checked_sub(start)?);
            let last = first.saturating_add(to.checked_sub(from + 1)?);
            Some((first / record, last / record + 1))
        })
    }

    fn step_part(&mut self, meter: &mut Meter<'_>) -> Step {
        if let Some(entered) = self.entering.take() {
            self.enter_some(entered);
        } else if let Some((first, bytes)) = self.read.take() {
            self.look_at_next(first, bytes);
        } else if self.is_head_dirty {
            self.is_head_dirty = false;
            let boot = meter.read(0, SECTOR);
            let geometry = boot.and_then(|boot| Geometry::decode(&boot, u64::MAX));
            if geometry != Some(self.geometry) {
                return Step::Lost;
            }
        } else if !self.is_table_known {
            self.is_table_known = true;
            return self.read_first(meter);
        } else if let Some(records) = self.dirty.first() {
            let most = match self.careful.contains(&records.start) {
                true => 1,
                false => self.block_records(),
            };
            let end = records.end.min(records.start + most);
            self.dirty.done(end);
            self.read_records(meter, records.start..end);
        } else if self.next < self.table_records() {
            let end = self.table_records().min(self.next + self.block_records());
            self.read_records(meter, self.next..end);
            self.next = end;
        } else {
            return Step::Idle;
        }
        Step::More
    }

    /// Records that are read in one step.
    fn block_records(&self) -> u64 {
        let bytes = READ_BYTES.min(self.memory_max / 8);
        (bytes / self.geometry.record_bytes).max(1)
    }

    fn table_records(&self) -> u64 {
        self.table_bytes() / self.geometry.record_bytes
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
            .claim(NO_INODE, claim, false, &mut Vec::new(), |_| true);
    }

    fn read_first(&mut self, meter: &mut Meter<'_>) -> Step {
        self.fix(0, 8192);
        self.fix(self.geometry.mirror, 4 * self.geometry.record_bytes);
        let at = self.geometry.table.checked_mul(self.geometry.cluster_bytes);
        let len = self.geometry.record_bytes as usize;
        match at.and_then(|at| meter.read(at, len)) {
            Some(bytes) => self.read = Some((0, bytes)),
            None => return Step::Unreadable(at.unwrap_or_default()),
        }
        Step::More
    }

    /// Reads records that follow each other, as far as they lie side by side.
    fn read_records(&mut self, meter: &mut Meter<'_>, records: Range<u64>) {
        let (size, record_bytes) = (self.geometry.cluster_bytes, self.geometry.record_bytes);
        let at = records.start * record_bytes;
        meter.spend(self.table.len() as u64 / 64);
        let extent = self.table.iter().find_map(|extent| {
            let inside = at.checked_sub(u64::from(extent.logical) * size)?;
            let left = (u64::from(extent.len) * size).checked_sub(inside)?;
            (left >= record_bytes).then_some((extent.block * size + inside, left))
        });
        let Some((place, left)) = extent else {
            // A record may begin in one extent and end in another: that one is left out.
            self.later(records.start + 1..records.end);
            return;
        };
        let count = (left / record_bytes).min(records.end - records.start);
        self.later(records.start + count..records.end);
        let those = records.start..records.start + count;
        match meter.read(place, (count * record_bytes) as usize) {
            Some(bytes) => self.read = Some((records.start, bytes)),
            None if count > 1 => {
                self.careful = those.clone();
                self.later(those);
            }
            None => {}
        }
    }

    fn later(&mut self, records: Range<u64>) {
        self.dirty.insert(records);
    }

    fn look_at_next(&mut self, first: u64, mut bytes: Vec<u8>) {
        let len = (self.geometry.record_bytes as usize).min(bytes.len());
        let rest = bytes.split_off(len);
        if let Ok(number) = u32::try_from(first)
            && self.look(number, bytes).is_none()
        {
            self.drop_record(number);
        }
        if !rest.is_empty() {
            self.read = Some((first + 1, rest));
        }
    }

    fn drop_record(&mut self, number: u32) {
        if let Some(record) = self.records.remove(&number) {
            self.slices_bytes -= record.slices.heap_bytes();
            let owners = [owner(number, false), owner(number, true)];
            for slice in record.slices.iter() {
                self.runs
                    .forget_in(slice, |run| owners.contains(&Some(run.owner)));
            }
        }
    }

    /// Looks at a record, and begins to enter its runs if they changed.
    fn look(&mut self, number: u32, mut bytes: Vec<u8>) -> Option<()> {
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
        let known = self.records.get(&number);
        if known.is_some_and(|known| known.fingerprint == fingerprint) {
            return Some(());
        }
        self.drop_record(number);
        let blocks: u64 = claims.iter().map(|(claim, _)| u64::from(claim.len)).sum();
        if blocks > self.geometry.clusters {
            // Runs that overlap: nothing in it is to be believed.
            return None;
        }
        let of = |is_data: bool| {
            let those = claims.iter().filter(|claim| claim.1 == is_data);
            those.map(|claim| claim.0).collect::<Vec<Claim>>()
        };
        let (others, data) = (of(false), of(true));
        if number == 0 {
            self.table = data.clone();
            self.table.truncate(TABLE_EXTENTS_MAX);
            self.table.shrink_to_fit();
        }
        if claims.is_empty() {
            return Some(());
        }
        if self.is_full() {
            self.shed.note(RECORD_BYTES * 2 + claims.len() * 16);
            return Some(());
        }
        self.entering = Some(Entered {
            number,
            record: Record {
                used_for,
                fingerprint,
                slices: Slices::new(Vec::new()),
            },
            claims: vec![
                Entering::new(owner(number, true)?, data),
                Entering::new(owner(number, false)?, others),
            ],
            slices: Vec::new(),
        });
        Some(())
    }

    /// Nothing more is entered: the last eighth is for what has begun.
    fn is_full(&self) -> bool {
        self.heap_bytes() >= self.memory_max / 8 * 7
    }

    /// Enters a part of a record's runs.
    fn enter_some(&mut self, mut of: Entered) {
        if let Some(entering) = of.claims.last_mut() {
            let slices = &mut of.slices;
            let is_done = self
                .runs
                .enter(entering, false, &mut Vec::new(), |slice, _| {
                    if slices.last() != Some(&slice) {
                        slices.push(slice);
                    }
                    true
                });
            if is_done {
                of.claims.pop();
            }
            self.entering = Some(of);
            return;
        }
        of.record.slices = Slices::new(of.slices);
        self.slices_bytes += of.record.slices.heap_bytes();
        self.records.insert(of.number, of.record);
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
}

impl FileSystem for Ntfs {
    fn at(&self, offset_bytes: u64) -> (Contents, u64) {
        let size = self.geometry.cluster_bytes;
        let (cluster, inside) = (offset_bytes / size, offset_bytes % size);
        let found = self.runs.find(cluster);
        let contents = match found.owner {
            Some((NO_INODE, _)) => Contents::Metadata,
            Some((owner, logical)) => {
                let is_data = owner % 2 == 0;
                let known = self.records.get(&((owner - 1) / 2)).map(|of| of.used_for);
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

    fn wrote(&mut self, offset_bytes: u64, len_bytes: u64, _bytes: Option<&[u8]>) {
        self.is_head_dirty |= offset_bytes < SECTOR as u64;
        let touched: Vec<(u64, u64)> = self.touched(offset_bytes, len_bytes).collect();
        for (first, end) in touched {
            self.dirty.insert(first..end);
        }
    }

    fn interest(&self, offset_bytes: u64, len_bytes: u64, _bytes: Option<&[u8]>) -> Interest {
        Interest::changed_if(
            offset_bytes < SECTOR as u64 || self.touched(offset_bytes, len_bytes).next().is_some(),
        )
    }

    fn step(&mut self, meter: &mut Meter<'_>) -> Step {
        let step = self.step_part(meter);
        meter.spend(self.runs.take_work());
        step
    }

    fn set_memory(&mut self, memory_max: u64) {
        self.memory_max = memory_max;
    }

    fn heap_bytes(&self) -> u64 {
        let entering = self.entering.as_ref().map_or(0, |of| {
            let claims: usize = of.claims.iter().map(Entering::memory_bytes).sum();
            claims + of.slices.capacity() * 4
        });
        let read = self.read.as_ref().map_or(0, |(_, bytes)| bytes.capacity());
        let bytes = self.runs.memory_bytes()
            + tree_bytes(self.records.len(), RECORD_BYTES)
            + self.slices_bytes
            + self.table.capacity() * size_of::<Claim>()
            + self.dirty.memory_bytes()
            + entering
            + read;
        bytes as u64
    }

    fn shed(&self) -> Shed {
        self.shed
    }

    fn known_bytes(&self) -> u64 {
        self.runs.known_blocks() * self.geometry.cluster_bytes
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
