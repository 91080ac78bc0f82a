//! A volume with its parts: what [`Layout`] is to its callers.
//!
//! Invariant: ranges in the index do not overlap; bytes outside of all parts are unknown. Parts and
//! their segments are bounded, and all maps together take at most the memory that was given.

use super::budget::{Budget, Cost, GaveUp};
use super::file_system::{FileSystem, Interest};
use super::part::{Inside, Part, Stepped};
use super::partitions::PartitionTable;
use super::source::{Segment, VolumeSource};
use crate::contents::Contents;

/// Most parts of a volume, and segments of all parts, however much memory there is.
const PARTS_MAX: usize = 256;
const SEGMENTS_MAX: usize = 8192;
/// A part and its place in the index; a segment and its place in the index.
const PART_BYTES: usize = size_of::<Part>();
const SEGMENT_BYTES: usize = 2 * size_of::<Segment>() + size_of::<usize>();
/// Most ranges of the index that a write is compared with in the client's request.
const RANGES_LOOKED_AT: usize = 16;

/// Limits of a [`Layout`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Memory for all maps of the volume, bytes. Over it, maps become coarser.
    pub memory_bytes_max: u64,
}

/// Contents of a range of the volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Contents of its first byte; those of others follow from it.
    pub contents: Contents,
    /// Bytes from the first one that are alike.
    pub len_bytes: u64,
}

/// Whether a step is the last one for now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// More is to be read.
    More,
    /// Nothing is to be read until the next write.
    Idle,
}

/// Cost of the classification, and its result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Memory of the maps, bytes.
    pub memory_bytes: u64,
    /// Memory that the maps may take, bytes.
    pub memory_bytes_max: u64,
    /// Memory that maps would take, bytes, if nothing had been left out; an estimate.
    pub needed_bytes: u64,
    /// Reads of the volume so far.
    pub reads: u64,
    /// Bytes of those reads.
    pub read_bytes: u64,
    /// Units of work so far: a microsecond each, at most.
    pub work: u64,
    /// Times that something was left out or forgotten for lack of memory.
    pub sheds: u64,
    /// File systems, partition tables and logical volumes that were recognised.
    pub recognised: u64,
    /// Bytes of the volume whose contents are known.
    pub known_bytes: u64,
    /// Size of the volume, bytes.
    pub size_bytes: u64,
    /// Parts that were given up because they take too much memory or work.
    pub parts_too_large: u64,
    /// Parts with places that could not be read.
    pub parts_unreadable: u64,
}

impl Counters {
    /// Everything that can be known is: nothing was left out, given up or unreadable.
    pub fn is_whole(&self) -> bool {
        self.sheds + self.parts_too_large + self.parts_unreadable == 0
    }
}

/// See the module [the crate](crate).
pub struct Layout {
    size_bytes: u64,
    options: Options,
    parts: Vec<Part>,
    /// Ranges of the volume, sorted, and the parts that say what is in them.
    index: Vec<(Segment, usize)>,
    /// The part that the next step begins with.
    cursor: usize,
    /// Parts and segments that did not fit.
    left_out: u64,
    cost: Cost,
    read_bytes: u64,
}

impl Layout {
    /// Knows nothing yet of a volume of `size_bytes`.
    pub fn new(size_bytes: u64, options: Options) -> Self {
        let mut layout = Self {
            size_bytes,
            options,
            parts: Vec::new(),
            index: Vec::new(),
            cursor: 0,
            left_out: 0,
            cost: Cost::default(),
            read_bytes: 0,
        };
        layout.reset();
        layout
    }

    fn reset(&mut self) {
        let whole = Segment {
            part_bytes: 0,
            volume_bytes: 0,
            len_bytes: self.size_bytes,
        };
        self.parts = vec![Part::new(vec![whole], 0)];
        self.left_out = 0;
        self.reindex();
    }

    /// Memory for all maps, bytes.
    pub fn memory_bytes_max(&self) -> u64 {
        self.options.memory_bytes_max
    }

    /// Changes the memory for all maps. Those that have more already begin anew, and so does all
    /// if something was left out that may fit now.
    pub fn set_memory(&mut self, memory_bytes_max: u64) {
        let is_more = memory_bytes_max > self.options.memory_bytes_max;
        self.options.memory_bytes_max = memory_bytes_max;
        let counters = self.counters();
        let own = counters.memory_bytes - self.parts.iter().map(Part::map_bytes).sum::<u64>();
        // An eighth is for parts, and as much for segments and the index.
        let fits = own <= memory_bytes_max / 4 + PART_BYTES as u64;
        if !fits || (is_more && counters.sheds + counters.parts_too_large > 0) {
            self.reset();
        } else {
            self.share();
        }
    }

    /// An eighth of the memory is for parts and as much for segments.
    fn most(&self, bytes: usize, most: usize) -> usize {
        let memory = usize::try_from(self.options.memory_bytes_max / 8).unwrap_or(usize::MAX);
        most.min(memory / bytes)
    }

    fn reindex(&mut self) {
        let segments_max = self.most(SEGMENT_BYTES, SEGMENTS_MAX);
        let (mut placed, mut owners) = (Vec::new(), Vec::new());
        for (number, part) in self.parts.iter().enumerate() {
            match &part.inside {
                Inside::Table(table) => {
                    for own in &table.own {
                        let own = Segment {
                            part_bytes: own.start,
                            volume_bytes: own.start,
                            len_bytes: own.end.saturating_sub(own.start),
                        };
                        part.place(&own, &mut placed, 2 * segments_max);
                    }
                }
                _ => placed.extend(part.segments.iter().copied()),
            }
            owners.resize(placed.len(), number);
        }
        let mut ranges: Vec<(Segment, usize)> = placed.into_iter().zip(owners).collect();
        ranges.sort_unstable_by_key(|(segment, _)| segment.volume_bytes);
        let mut end = 0;
        // Of overlapping ranges, the first one counts.
        ranges.retain(|(segment, _)| {
            let is_apart = segment.volume_bytes >= end;
            if is_apart {
                end = segment.volume_bytes.saturating_add(segment.len_bytes);
            }
            is_apart
        });
        ranges.truncate(segments_max.max(1));
        ranges.shrink_to_fit();
        self.index = ranges;
    }

    /// Reads until nothing is left to read, or until `reads_max` reads, and a few more.
    pub fn step(&mut self, source: &dyn VolumeSource, reads_max: u64) -> Progress {
        self.step_within(source, &mut Budget::of_reads(reads_max))
    }

    /// Reads until nothing is left to read, or until the budget is spent, and a little more.
    pub fn step_within(&mut self, source: &dyn VolumeSource, budget: &mut Budget) -> Progress {
        let mut idle = 0;
        while idle < self.parts.len() {
            if budget.is_spent() {
                // No part keeps others waiting.
                self.cursor += 1;
                return Progress::More;
            }
            if self.cursor >= self.parts.len() {
                self.cursor = 0;
            }
            match self.step_part(source, budget) {
                Progress::More => idle = 0,
                Progress::Idle => {
                    idle += 1;
                    self.cursor += 1;
                }
            }
        }
        Progress::Idle
    }

    fn step_part(&mut self, source: &dyn VolumeSource, budget: &mut Budget) -> Progress {
        let is_open = |part: &Part| matches!(part.inside, Inside::Unseen | Inside::Plain);
        let may_build = !self.parts.iter().any(is_open);
        let (number, mut cost) = (self.cursor, Cost::default());
        let Some(part) = self.parts.get_mut(number) else {
            return Progress::Idle;
        };
        let (stepped, read_bytes) = part.step(source, may_build, &mut cost);
        self.cost.add(cost);
        self.read_bytes += read_bytes;
        budget.charge(cost);
        match stepped {
            Stepped::More => {}
            Stepped::Idle => return Progress::Idle,
            Stepped::Parts(table) => self.nest(number, table),
            Stepped::Changed => self.reset(),
            Stepped::Shares => self.share(),
        }
        Progress::More
    }

    /// Adds the parts that a table names.
    fn nest(&mut self, number: usize, mut table: PartitionTable) {
        let Some(part) = self.parts.get(number) else {
            return;
        };
        self.left_out += table.left_out;
        let taken: usize = self.parts.iter().map(|part| part.segments.len()).sum();
        let mut room = self.most(SEGMENT_BYTES, SEGMENTS_MAX).saturating_sub(taken);
        let parts_max = self.most(PART_BYTES, PARTS_MAX);
        let mut new = Vec::new();
        for segments in &table.parts {
            let mut placed = Vec::new();
            let fits = self.parts.len() + new.len() < parts_max
                && segments.iter().all(|s| part.place(s, &mut placed, room));
            if !fits {
                self.left_out += 1;
            } else if !placed.is_empty() {
                room -= placed.len();
                placed.shrink_to_fit();
                new.push(Part::new(placed, part.depth + 1));
            }
        }
        table.parts = Vec::new();
        if let Some(part) = self.parts.get_mut(number) {
            part.inside = Inside::Table(table);
        }
        self.parts.reserve_exact(new.len());
        self.parts.extend(new);
        self.reindex();
    }

    /// Divides the memory among the parts with file systems: half of it equally, half by size.
    fn share(&mut self) {
        let own: u64 = self.parts.iter().map(Part::own_bytes).sum();
        let index = self.index.capacity() * size_of::<(Segment, usize)>();
        let left = self.options.memory_bytes_max;
        let left = left.saturating_sub(own + index as u64);
        let takes = |part: &Part| {
            matches!(
                part.inside,
                Inside::System(_) | Inside::Candidate | Inside::GivenUp(_)
            )
        };
        let those = || self.parts.iter().filter(|part| takes(part));
        let (count, bytes) = (those().count() as u64, those().map(|p| p.len_bytes).sum());
        let (count, bytes): (u64, u64) = (count.max(1), std::cmp::max(bytes, 1));
        for part in self.parts.iter_mut().filter(|part| takes(part)) {
            let by_size = u128::from(left / 2) * u128::from(part.len_bytes) / u128::from(bytes);
            part.set_memory(left / 2 / count + by_size as u64);
        }
    }

    /// Learns from a write.
    pub fn wrote(&mut self, offset_bytes: u64, bytes: &[u8]) {
        self.note(offset_bytes, bytes.len() as u64, Some(bytes));
    }

    /// Learns of a change without its bytes: zeroed, discarded, or restored from elsewhere. Takes
    /// time in proportion to what is known there.
    pub fn changed(&mut self, offset_bytes: u64, len_bytes: u64) {
        self.note(offset_bytes, len_bytes, None);
    }

    /// Ranges of the index that a range of the volume touches.
    fn touched(&self, offset_bytes: u64, end: u64) -> impl Iterator<Item = (usize, u64, u64, u64)> {
        let first = self
            .index
            .partition_point(|(s, _)| s.volume_bytes.saturating_add(s.len_bytes) <= offset_bytes);
        let ranges = self.index.iter().skip(first).map(move |(segment, number)| {
            let from = offset_bytes.max(segment.volume_bytes);
            let to = end.min(segment.volume_bytes.saturating_add(segment.len_bytes));
            let at = segment
                .part_bytes
                .saturating_add(from - segment.volume_bytes);
            (*number, at, from, to)
        });
        ranges.take_while(|(_, _, from, to)| from < to)
    }

    fn note(&mut self, offset_bytes: u64, len_bytes: u64, bytes: Option<&[u8]>) {
        let end = offset_bytes.saturating_add(len_bytes).min(self.size_bytes);
        let inside = |at: u64| usize::try_from(at - offset_bytes).ok();
        let touched: Vec<_> = self.touched(offset_bytes, end).collect();
        for (number, at, from, to) in touched {
            let bytes = bytes.and_then(|bytes| bytes.get(inside(from)?..inside(to)?));
            if let Some(part) = self.parts.get_mut(number) {
                part.wrote(at, to - from, bytes);
            }
        }
    }

    /// Returns whether a write would change what is known. Takes little time, whatever the length:
    /// for requests of clients.
    pub fn interest(&self, offset_bytes: u64, len_bytes: u64, bytes: Option<&[u8]>) -> Interest {
        let end = offset_bytes.saturating_add(len_bytes).min(self.size_bytes);
        let inside = |at: u64| usize::try_from(at - offset_bytes).ok();
        let mut most = Interest::None;
        for (n, (number, at, from, to)) in self.touched(offset_bytes, end).enumerate() {
            if n >= RANGES_LOOKED_AT {
                return Interest::Changed;
            }
            let bytes = bytes.and_then(|bytes| bytes.get(inside(from)?..inside(to)?));
            if let Some(part) = self.parts.get(number) {
                let mut interest = part.interest(at, to - from, bytes);
                if let Interest::Journal { skip_bytes, .. } = &mut interest {
                    *skip_bytes += from - offset_bytes;
                }
                most = most.max(interest);
            }
        }
        most
    }

    /// Contents at an offset, and how far they go.
    pub fn at(&self, offset_bytes: u64) -> Piece {
        let next = self
            .index
            .partition_point(|(segment, _)| segment.volume_bytes <= offset_bytes);
        let range = next.checked_sub(1).and_then(|n| self.index.get(n));
        if let Some((segment, number)) = range
            && let Some(inside) = offset_bytes.checked_sub(segment.volume_bytes)
            && inside < segment.len_bytes
        {
            let at = segment.part_bytes.saturating_add(inside);
            let (contents, len) = match self.parts.get(*number).map(|part| &part.inside) {
                Some(Inside::System(system)) => system.at(at),
                Some(Inside::Table(_)) => (Contents::Metadata, u64::MAX),
                _ => (Contents::Unknown, u64::MAX),
            };
            return Piece {
                contents,
                len_bytes: len.min(segment.len_bytes - inside),
            };
        }
        let end = self
            .index
            .get(next)
            .map_or(u64::MAX, |(s, _)| s.volume_bytes);
        Piece {
            contents: Contents::Unknown,
            len_bytes: end - offset_bytes,
        }
    }

    fn systems(&self) -> impl Iterator<Item = &dyn FileSystem> {
        self.parts.iter().filter_map(|part| match &part.inside {
            Inside::System(system) => Some(system.as_ref()),
            _ => None,
        })
    }

    /// Bytes of tables of parts.
    fn table_bytes(&self) -> u64 {
        let is_table = |number: &usize| {
            let inside = self.parts.get(*number).map(|part| &part.inside);
            matches!(inside, Some(Inside::Table(_)))
        };
        let own = self.index.iter().filter(|(_, number)| is_table(number));
        own.map(|(segment, _)| segment.len_bytes).sum()
    }

    /// Cost and result so far.
    pub fn counters(&self) -> Counters {
        let is_table = |part: &&Part| matches!(part.inside, Inside::Table(_));
        let tables = self.parts.iter().filter(is_table).count();
        let given_up = |why: GaveUp| {
            let is_it = |part: &&Part| matches!(&part.inside, Inside::GivenUp(of) if *of == why);
            self.parts.iter().filter(is_it).count() as u64
        };
        let maps: u64 = self.parts.iter().map(Part::map_bytes).sum();
        let own: u64 = self.parts.iter().map(Part::own_bytes).sum();
        let index = (self.index.capacity() * size_of::<(Segment, usize)>()) as u64;
        let spare = (self.parts.capacity() - self.parts.len()) * size_of::<Part>();
        let memory_bytes = maps + own + index + spare as u64;
        let needed = |part: &Part| match &part.inside {
            Inside::System(system) => system.needed_bytes().saturating_sub(system.memory_bytes()),
            _ => part.needed_bytes,
        };
        let more: u64 = self.parts.iter().map(needed).fold(0, u64::saturating_add);
        let unreadable = self.parts.iter().filter(|part| !part.unreadable.is_empty());
        Counters {
            memory_bytes,
            memory_bytes_max: self.options.memory_bytes_max,
            needed_bytes: memory_bytes.saturating_add(more),
            reads: self.cost.reads,
            read_bytes: self.read_bytes,
            work: self.cost.work,
            sheds: self.systems().map(|s| s.shed().times).sum::<u64>() + self.left_out,
            recognised: (self.systems().count() + tables) as u64,
            known_bytes: self.systems().map(|s| s.known_bytes()).sum::<u64>() + self.table_bytes(),
            size_bytes: self.size_bytes,
            parts_too_large: given_up(GaveUp::TooLarge),
            parts_unreadable: unreadable.count() as u64,
        }
    }
}

#[cfg(test)]
mod tests;
