//! A volume with its parts: what [`Layout`] is to its callers.
//!
//! Invariant: parts do not overlap; bytes outside of all parts are unknown.

use super::ext::Step;
use super::file_system::FileSystem;
use super::source::{Meter, Segment, Source};
use crate::facts::Contents;

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
}

struct Part {
    segments: Vec<Segment>,
    len_bytes: u64,
    file_system: FileSystem,
}

/// See the module [`crate::layout`].
pub struct Layout {
    size_bytes: u64,
    options: Options,
    parts: Vec<Part>,
    counters: Counters,
}

impl Layout {
    /// Knows nothing yet of a volume of `size_bytes`.
    pub fn new(size_bytes: u64, options: Options) -> Self {
        let whole = Segment {
            part_bytes: 0,
            volume_bytes: 0,
            len_bytes: size_bytes,
        };
        Self {
            size_bytes,
            options,
            parts: vec![Part {
                segments: vec![whole],
                len_bytes: size_bytes,
                file_system: FileSystem::Unseen,
            }],
            counters: Counters::default(),
        }
    }

    /// Reads until nothing is left to read, or until `reads_max` reads, and a few more.
    pub fn step(&mut self, source: &dyn Source, reads_max: u64) -> Progress {
        let memory_max = self.options.memory_bytes_max / self.parts.len().max(1) as u64;
        let mut left = reads_max;
        for part in &mut self.parts {
            let mut meter = Meter::new(source, &part.segments);
            // Steps without reads count too: they take time.
            let mut steps = 0;
            let is_done = loop {
                if steps >= left.max(1) || meter.reads >= left {
                    break false;
                }
                steps += 1;
                match part
                    .file_system
                    .step(&mut meter, part.len_bytes, memory_max)
                {
                    Step::Idle => break true,
                    Step::More | Step::Lost => {}
                }
            };
            self.counters.reads += meter.reads;
            self.counters.read_bytes += meter.read_bytes;
            if !is_done {
                return Progress::More;
            }
            left = left.saturating_sub(meter.reads);
        }
        Progress::Idle
    }

    /// Learns from a write.
    pub fn wrote(&mut self, offset_bytes: u64, bytes: &[u8]) {
        self.changed_by(offset_bytes, bytes.len() as u64, Some(bytes));
    }

    /// Learns of a change without its bytes: zeroed, discarded, or restored from elsewhere.
    pub fn changed(&mut self, offset_bytes: u64, len_bytes: u64) {
        self.changed_by(offset_bytes, len_bytes, None);
    }

    fn changed_by(&mut self, offset_bytes: u64, len_bytes: u64, bytes: Option<&[u8]>) {
        let end = offset_bytes.saturating_add(len_bytes).min(self.size_bytes);
        for part in &mut self.parts {
            for segment in &part.segments {
                let from = offset_bytes.max(segment.volume_bytes);
                let to = end.min(segment.volume_bytes.saturating_add(segment.len_bytes));
                if from >= to {
                    continue;
                }
                let inside = |at: u64| usize::try_from(at - offset_bytes).ok();
                let bytes = bytes.and_then(|bytes| bytes.get(inside(from)?..inside(to)?));
                let at = segment
                    .part_bytes
                    .saturating_add(from - segment.volume_bytes);
                part.file_system.wrote(at, to - from, bytes);
            }
        }
    }

    /// Contents at an offset, and how far they go.
    pub fn at(&self, offset_bytes: u64) -> Piece {
        for part in &self.parts {
            for segment in &part.segments {
                let Some(inside) = offset_bytes.checked_sub(segment.volume_bytes) else {
                    continue;
                };
                if inside >= segment.len_bytes {
                    continue;
                }
                let at = segment.part_bytes.saturating_add(inside);
                let (contents, len) = part.file_system.at(at);
                return Piece {
                    contents,
                    len_bytes: len.min(segment.len_bytes - inside),
                };
            }
        }
        Piece {
            contents: Contents::Unknown,
            len_bytes: 1,
        }
    }

    /// Cost so far.
    pub fn counters(&self) -> Counters {
        let systems = || self.parts.iter().map(|part| &part.file_system);
        Counters {
            memory_bytes: systems().map(FileSystem::memory_bytes).sum(),
            sheds: systems().map(FileSystem::sheds).sum(),
            ..self.counters
        }
    }
}
