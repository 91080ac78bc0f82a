//! One part of a volume: the whole of it, a partition, or a logical volume. `volume` keeps these,
//! steps them in turn, and passes them writes.
//!
//! Invariant: a part costs no more than [`Cost::allowed`] until all of it is known, or it is given
//! up; it begins anew when its first bytes, or those that could not be read, are written.

use super::budget::{Cost, GaveUp};
use super::file_system::{FileSystem, Interest, Step};
use super::lvm;
use super::partitions::{self, PartitionTable};
use super::probe::probe;
use super::source::{Meter, Segment, UNREADABLE_MAX, VolumeSource};
use std::ops::Range;

/// Tables within tables: a disk, a partition, a logical volume, and one more.
const DEPTH_MAX: u8 = 3;
/// A write to these first bytes of a part that is not known may have made a file system.
const HEAD_BYTES: u64 = 128 << 10;
/// A write here may make a partition table.
const TABLE_BYTES: u64 = 1024;

/// See [`Part::inside`].
pub enum Inside {
    /// Not looked at yet.
    Unseen,
    /// No table of parts. Whether there is a file system is not known yet.
    Plain,
    /// There is a file system: its share of the memory is known when all parts were looked at.
    Candidate,
    /// Other parts.
    Table(PartitionTable),
    /// Neither parts nor a file system that we know.
    Unknown,
    /// A file system.
    System(Box<dyn FileSystem>),
    /// Nothing is known, and nothing is read until it changes.
    GivenUp(GaveUp),
}

/// Result of a step of a part.
pub enum Stepped {
    /// There is more to do.
    More,
    /// Nothing to do until the next write.
    Idle,
    /// A table of parts was found.
    Parts(PartitionTable),
    /// A table of parts changed, so that all parts begin anew.
    Changed,
    /// There is a file system here now, or no more: memory is shared anew.
    Shares,
}

/// See the module.
pub struct Part {
    /// Where it is in the volume, sorted by offset in the part.
    pub segments: Vec<Segment>,
    /// Length, bytes.
    pub len_bytes: u64,
    /// Tables around it.
    pub depth: u8,
    /// Knowledge of its contents.
    pub inside: Inside,
    /// Bytes for the map.
    pub memory_max: u64,
    /// Bytes for the map that would suffice, if the part was given up for lack of them.
    pub needed_bytes: u64,
    /// Bytes that could not be read; of many ranges, the first ones.
    pub unreadable: Vec<Range<u64>>,
    /// The place of a partition table was written.
    is_table_dirty: bool,
    /// Since the last change after everything was known.
    cost: Cost,
    /// How often the file system was not the one that it was, without a write.
    losses: u32,
}

/// A file system that is lost this often contradicts itself: its log says that it is another one.
const LOSSES_MAX: u32 = 3;

impl Part {
    /// A part that consists of `segments`.
    pub fn new(segments: Vec<Segment>, depth: u8) -> Self {
        let ends = segments
            .iter()
            .map(|s| s.part_bytes.saturating_add(s.len_bytes));
        Self {
            len_bytes: ends.max().unwrap_or_default(),
            segments,
            depth,
            inside: Inside::Unseen,
            memory_max: 0,
            needed_bytes: 0,
            unreadable: Vec::new(),
            is_table_dirty: false,
            cost: Cost::default(),
            losses: 0,
        }
    }

    /// Memory of the map, bytes.
    pub fn map_bytes(&self) -> u64 {
        match &self.inside {
            Inside::System(system) => system.memory_bytes(),
            Inside::Table(table) => table.memory_bytes() as u64,
            _ => 0,
        }
    }

    /// Memory besides the map, bytes.
    pub fn own_bytes(&self) -> u64 {
        let ranges = self.unreadable.capacity() * size_of::<Range<u64>>();
        (size_of::<Self>() + self.segments.capacity() * size_of::<Segment>() + ranges) as u64
    }

    /// Begins anew.
    pub fn forget(&mut self) {
        self.inside = Inside::Unseen;
        self.unreadable = Vec::new();
        self.needed_bytes = 0;
    }

    /// Sets the memory for the map. A map that has more already begins anew.
    pub fn set_memory(&mut self, memory_max: u64) {
        let had_enough = self.needed_bytes == 0;
        let is_more = memory_max > self.memory_max;
        self.memory_max = memory_max;
        match &mut self.inside {
            Inside::System(system) if system.memory_bytes() <= memory_max => {
                system.set_memory(memory_max);
            }
            Inside::System(_) => self.inside = Inside::Plain,
            Inside::GivenUp(GaveUp::TooLarge) if is_more && !had_enough => {
                self.inside = Inside::Plain;
                self.cost = Cost::default();
            }
            _ => {}
        }
    }

    fn table(&self, meter: &mut Meter<'_>) -> Option<PartitionTable> {
        if self.depth >= DEPTH_MAX {
            return None;
        }
        let table = partitions::read(meter, self.len_bytes);
        table.or_else(|| lvm::read(meter, self.len_bytes))
    }

    /// Does a little. `may_build` when all parts were looked at.
    pub fn step(
        &mut self,
        source: &dyn VolumeSource,
        may_build: bool,
        all: &mut Cost,
    ) -> (Stepped, u64) {
        let segments = std::mem::take(&mut self.segments);
        let mut meter = Meter::new(source, &segments);
        let mut stepped = self.step_inside(&mut meter, may_build);
        // Looking costs too.
        meter.spend(1);
        let (cost, read_bytes) = (meter.cost, meter.read_bytes);
        for range in meter.unreadable {
            self.note_unreadable(range);
        }
        self.segments = segments;
        all.add(cost);
        self.cost.add(cost);
        if matches!(stepped, Stepped::Idle) {
            self.cost = Cost::default();
        } else if self.is_too_much() {
            self.give_up(GaveUp::TooLarge);
            stepped = Stepped::Shares;
        }
        (stepped, read_bytes)
    }

    fn note_unreadable(&mut self, range: Range<u64>) {
        if self.unreadable.len() < UNREADABLE_MAX && !self.unreadable.contains(&range) {
            self.unreadable.push(range);
        }
    }

    fn is_too_much(&self) -> bool {
        let Inside::System(system) = &self.inside else {
            return false;
        };
        let allowed = Cost::allowed(self.len_bytes, self.memory_max);
        // Systems stop before; what they have just begun may need a little more.
        let most = self.memory_max + self.memory_max / 8;
        self.cost.exceeds(&allowed) || system.memory_bytes() > most
    }

    fn give_up(&mut self, why: GaveUp) {
        if let Inside::System(system) = &self.inside {
            self.needed_bytes = system.needed_bytes().max(self.memory_max + 1);
        }
        self.inside = Inside::GivenUp(why);
        self.cost = Cost::default();
    }

    fn step_inside(&mut self, meter: &mut Meter<'_>, may_build: bool) -> Stepped {
        if std::mem::take(&mut self.is_table_dirty) && !matches!(self.inside, Inside::Unseen) {
            let found = self.table(meter);
            let known = match &self.inside {
                Inside::Table(table) => Some(table),
                _ => None,
            };
            return match (&found, known) {
                (Some(found), Some(known)) if found.is_same(known) => Stepped::More,
                (None, None) => Stepped::More,
                _ => Stepped::Changed,
            };
        }
        match &mut self.inside {
            Inside::Unseen => match self.table(meter) {
                Some(table) => return Stepped::Parts(table),
                None => self.inside = Inside::Plain,
            },
            Inside::Plain => {
                // The least map of any is above no bytes.
                if probe(meter, self.len_bytes, 0).is_none() {
                    self.inside = Inside::Unknown;
                    return Stepped::More;
                }
                self.inside = Inside::Candidate;
                return Stepped::Shares;
            }
            Inside::Candidate if may_build => {
                match probe(meter, self.len_bytes, self.memory_max) {
                    None => self.inside = Inside::Unknown,
                    Some(Ok(system)) => self.inside = Inside::System(system),
                    Some(Err(bytes)) => {
                        self.give_up(GaveUp::TooLarge);
                        self.needed_bytes = bytes;
                    }
                }
                return Stepped::Shares;
            }
            Inside::System(system) => match system.step(meter) {
                Step::Idle => return Stepped::Idle,
                Step::More => {}
                Step::Lost => {
                    self.losses += 1;
                    if self.losses >= LOSSES_MAX {
                        self.give_up(GaveUp::TooLarge);
                        return Stepped::Shares;
                    }
                    self.inside = Inside::Unseen;
                }
                Step::Unreadable(at) => {
                    self.note_unreadable(at..at.saturating_add(1));
                    self.give_up(GaveUp::Unreadable);
                    return Stepped::Shares;
                }
            },
            Inside::Candidate | Inside::Table(_) | Inside::Unknown | Inside::GivenUp(_) => {
                return Stepped::Idle;
            }
        }
        Stepped::More
    }

    fn is_retried(&self, at: u64, len: u64) -> bool {
        let end = at.saturating_add(len);
        let hits = |range: &Range<u64>| at < range.end && range.start < end;
        let is_unknown = matches!(self.inside, Inside::Unknown | Inside::GivenUp(_));
        (is_unknown && at < HEAD_BYTES) || self.unreadable.iter().any(hits)
    }

    /// Notes a write of `len` bytes at `at`; `None` if its bytes are not known.
    pub fn wrote(&mut self, at: u64, len: u64, bytes: Option<&[u8]>) {
        (self.cost, self.losses) = (Cost::default(), 0);
        if self.is_retried(at, len) {
            self.forget();
            return;
        }
        match &mut self.inside {
            Inside::Table(_) => self.is_table_dirty = true,
            Inside::Unseen => {}
            Inside::Plain | Inside::Candidate | Inside::Unknown | Inside::GivenUp(_) => {
                self.is_table_dirty |= at < TABLE_BYTES;
            }
            Inside::System(system) => {
                self.is_table_dirty |= at < TABLE_BYTES;
                system.wrote(at, len, bytes);
            }
        }
    }

    /// Returns whether [`Self::wrote`] would change anything.
    pub fn interest(&self, at: u64, len: u64, bytes: Option<&[u8]>) -> Interest {
        if at < TABLE_BYTES || self.is_retried(at, len) {
            return Interest::Changed;
        }
        match &self.inside {
            Inside::Table(_) => Interest::Changed,
            Inside::System(system) => system.interest(at, len, bytes),
            _ => Interest::None,
        }
    }

    /// Splits a range of this part into ranges of the volume, at most `room` of them. Returns false
    /// if there are more.
    pub fn place(&self, range: &Segment, placed: &mut Vec<Segment>, room: usize) -> bool {
        let end = range.volume_bytes.saturating_add(range.len_bytes);
        let next = self
            .segments
            .partition_point(|s| s.part_bytes.saturating_add(s.len_bytes) <= range.volume_bytes);
        for segment in self.segments.iter().skip(next) {
            let from = range.volume_bytes.max(segment.part_bytes);
            let to = end.min(segment.part_bytes.saturating_add(segment.len_bytes));
            if from >= to {
                return true;
            }
            if placed.len() >= room {
                return false;
            }
            if let Some((volume_bytes, _)) = segment.locate(from) {
                placed.push(Segment {
                    part_bytes: range.part_bytes.saturating_add(from - range.volume_bytes),
                    volume_bytes,
                    len_bytes: to - from,
                });
            }
        }
        true
    }
}
