//! A volume with its parts: what [`Layout`] is to its callers.
//!
//! Invariant: ranges in the index do not overlap; bytes outside of all parts are unknown. Parts
//! nest at most [`DEPTH_MAX`] deep.

use super::ext::Step;
use super::file_system::FileSystem;
use super::lvm;
use super::partitions::{self, Table};
use super::source::{Meter, Segment, Source};
use crate::facts::Contents;

/// Tables within tables: a disk, a partition, a logical volume, and one more.
const DEPTH_MAX: u8 = 3;
/// Most parts of a volume, and segments of all parts.
const PARTS_MAX: usize = 256;
const SEGMENTS_MAX: usize = 8192;
/// A write here may make a partition table.
const TABLE_BYTES: u64 = 1024;

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

/// Cost of the classification.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Memory of the maps, bytes.
    pub memory_bytes: u64,
    /// Reads of the volume so far.
    pub reads: u64,
    /// Bytes of those reads.
    pub read_bytes: u64,
    /// Times that a map was made coarser for lack of memory.
    pub sheds: u64,
    /// File systems, partition tables and logical volumes that were recognised.
    pub recognised: u64,
}

enum Inside {
    /// Not looked at yet.
    Unseen,
    /// Other parts.
    Table(Table),
    /// A file system, or nothing that we know.
    System(FileSystem),
}

struct Part {
    segments: Vec<Segment>,
    len_bytes: u64,
    depth: u8,
    inside: Inside,
    /// The place of a partition table was written.
    is_table_dirty: bool,
}

impl Part {
    fn new(segments: Vec<Segment>, depth: u8) -> Self {
        let ends = segments
            .iter()
            .map(|s| s.part_bytes.saturating_add(s.len_bytes));
        Self {
            len_bytes: ends.max().unwrap_or_default(),
            segments,
            depth,
            inside: Inside::Unseen,
            is_table_dirty: false,
        }
    }

    fn table(&self, meter: &mut Meter<'_>) -> Option<Table> {
        if self.depth >= DEPTH_MAX {
            return None;
        }
        let table = partitions::read(meter, self.len_bytes);
        table.or_else(|| lvm::read(meter, self.len_bytes))
    }

    /// Splits a range of this part into ranges of the volume.
    fn place(&self, range: &Segment) -> Vec<Segment> {
        let mut placed = Vec::new();
        let end = range.volume_bytes.saturating_add(range.len_bytes);
        for segment in &self.segments {
            let from = range.volume_bytes.max(segment.part_bytes);
            let to = end.min(segment.part_bytes.saturating_add(segment.len_bytes));
            if let Some((volume_bytes, _)) = segment.locate(from).filter(|_| from < to) {
                placed.push(Segment {
                    part_bytes: range.part_bytes.saturating_add(from - range.volume_bytes),
                    volume_bytes,
                    len_bytes: to - from,
                });
            }
        }
        placed
    }
}

/// See the module [`crate::layout`].
pub struct Layout {
    size_bytes: u64,
    options: Options,
    parts: Vec<Part>,
    /// Ranges of the volume, sorted, and the parts that say what is in them.
    index: Vec<(Segment, usize)>,
    counters: Counters,
}

impl Layout {
    /// Knows nothing yet of a volume of `size_bytes`.
    pub fn new(size_bytes: u64, options: Options) -> Self {
        let mut layout = Self {
            size_bytes,
            options,
            parts: Vec::new(),
            index: Vec::new(),
            counters: Counters::default(),
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
        self.reindex();
    }

    fn reindex(&mut self) {
        let mut ranges: Vec<(Segment, usize)> = Vec::new();
        for (number, part) in self.parts.iter().enumerate() {
            match &part.inside {
                Inside::Table(table) => {
                    for own in &table.own {
                        let own = Segment {
                            part_bytes: own.start,
                            volume_bytes: own.start,
                            len_bytes: own.end.saturating_sub(own.start),
                        };
                        ranges.extend(part.place(&own).into_iter().map(|s| (s, number)));
                    }
                }
                _ => ranges.extend(part.segments.iter().map(|s| (*s, number))),
            }
        }
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
        ranges.truncate(SEGMENTS_MAX);
        self.index = ranges;
    }

    /// Reads until nothing is left to read, or until `reads_max` reads, and a few more.
    pub fn step(&mut self, source: &dyn Source, reads_max: u64) -> Progress {
        let mut left = reads_max.max(1);
        let mut number = 0;
        while number < self.parts.len() {
            let progress = self.step_part(source, number, &mut left);
            if progress == Progress::More && left == 0 {
                return Progress::More;
            }
            // A changed table makes all parts new ones.
            number = match progress {
                Progress::More => 0,
                Progress::Idle => number + 1,
            };
        }
        Progress::Idle
    }

    /// Steps without reads count too: they take time.
    fn step_part(&mut self, source: &dyn Source, number: usize, left: &mut u64) -> Progress {
        let systems = self
            .parts
            .iter()
            .filter(|part| !matches!(part.inside, Inside::Table(_)));
        let memory_max = self.options.memory_bytes_max / systems.count().max(1) as u64;
        let Some(part) = self.parts.get_mut(number) else {
            return Progress::Idle;
        };
        let segments = std::mem::take(&mut part.segments);
        let mut meter = Meter::new(source, &segments);
        let mut found = None;
        let mut is_changed = false;
        let mut progress = Progress::More;
        if matches!(part.inside, Inside::Unseen) || part.is_table_dirty {
            part.is_table_dirty = false;
            found = part.table(&mut meter);
            let known = match &part.inside {
                Inside::Table(table) => Some(table),
                _ => None,
            };
            is_changed = !matches!(part.inside, Inside::Unseen) && found.as_ref() != known;
            if matches!(part.inside, Inside::Unseen) && found.is_none() {
                let system = FileSystem::probe(&mut meter, part.len_bytes, memory_max);
                part.inside = Inside::System(system);
            }
            *left = left.saturating_sub(1 + meter.reads);
        } else if let Inside::System(system) = &mut part.inside {
            while *left > 0 && progress == Progress::More {
                let before = meter.reads;
                match system.step(&mut meter) {
                    Step::Idle => progress = Progress::Idle,
                    Step::More => {}
                    Step::Lost => {
                        part.inside = Inside::Unseen;
                        *left = left.saturating_sub(1);
                        break;
                    }
                }
                *left = left.saturating_sub((meter.reads - before).max(1));
            }
        } else {
            progress = Progress::Idle;
        }
        self.counters.reads += meter.reads;
        self.counters.read_bytes += meter.read_bytes;
        part.segments = segments;
        if is_changed {
            self.reset();
        } else if let Some(table) = found
            && matches!(part.inside, Inside::Unseen)
        {
            self.nest(number, table);
        }
        progress
    }

    /// Adds the parts that a table names.
    fn nest(&mut self, number: usize, table: Table) {
        let Some(part) = self.parts.get_mut(number) else {
            return;
        };
        let mut new = Vec::new();
        for segments in &table.parts {
            let placed: Vec<Segment> = segments.iter().flat_map(|s| part.place(s)).collect();
            if !placed.is_empty() {
                new.push(Part::new(placed, part.depth + 1));
            }
        }
        part.inside = Inside::Table(table);
        let room = PARTS_MAX.saturating_sub(self.parts.len());
        self.parts.extend(new.into_iter().take(room));
        self.reindex();
    }

    /// Learns from a write.
    pub fn wrote(&mut self, offset_bytes: u64, bytes: &[u8]) {
        self.note(offset_bytes, bytes.len() as u64, Some(bytes));
    }

    /// Learns of a change without its bytes: zeroed, discarded, or restored from elsewhere.
    pub fn changed(&mut self, offset_bytes: u64, len_bytes: u64) {
        self.note(offset_bytes, len_bytes, None);
    }

    fn note(&mut self, offset_bytes: u64, len_bytes: u64, bytes: Option<&[u8]>) {
        let end = offset_bytes.saturating_add(len_bytes).min(self.size_bytes);
        let first = self
            .index
            .partition_point(|(s, _)| s.volume_bytes.saturating_add(s.len_bytes) <= offset_bytes);
        for (segment, number) in self.index.iter().skip(first) {
            let from = offset_bytes.max(segment.volume_bytes);
            let to = end.min(segment.volume_bytes.saturating_add(segment.len_bytes));
            if from >= to {
                break;
            }
            let Some(part) = self.parts.get_mut(*number) else {
                continue;
            };
            let inside = |at: u64| usize::try_from(at - offset_bytes).ok();
            let bytes = bytes.and_then(|bytes| bytes.get(inside(from)?..inside(to)?));
            let at = segment
                .part_bytes
                .saturating_add(from - segment.volume_bytes);
            match &mut part.inside {
                Inside::Table(_) => part.is_table_dirty = true,
                Inside::Unseen => {}
                Inside::System(system) => {
                    part.is_table_dirty |= at < TABLE_BYTES;
                    if system.wrote(at, to - from, bytes) {
                        part.inside = Inside::Unseen;
                    }
                }
            }
        }
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
                Some(Inside::Unseen) | None => (Contents::Unknown, u64::MAX),
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

    /// Cost so far.
    pub fn counters(&self) -> Counters {
        let systems = || {
            self.parts.iter().filter_map(|part| match &part.inside {
                Inside::System(system) => Some(system),
                _ => None,
            })
        };
        let tables = self
            .parts
            .iter()
            .filter(|p| matches!(p.inside, Inside::Table(_)));
        let index = self.index.len() * size_of::<(Segment, usize)>();
        let parts: usize = self
            .parts
            .iter()
            .map(|part| size_of::<Part>() + part.segments.len() * size_of::<Segment>())
            .sum();
        Counters {
            memory_bytes: systems().map(FileSystem::memory_bytes).sum::<u64>()
                + (index + parts) as u64,
            sheds: systems().map(FileSystem::sheds).sum(),
            recognised: systems().filter(|s| s.is_known()).count() as u64 + tables.count() as u64,
            ..self.counters
        }
    }
}
