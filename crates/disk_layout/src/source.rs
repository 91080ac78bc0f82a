//! Reads bytes of a volume for the classifiers. `Layout` is given a [`Source`] by its caller.
//!
//! Invariant: a [`Meter`] counts each read before it happens, so a step knows when to end.

use super::budget::Cost;
use std::ops::Range;

/// Bytes of a volume as they are now, with at least every write that was reported before.
pub trait VolumeSource {
    /// Fills `bytes` from `offset_bytes`, or reports that it cannot.
    fn read(&self, offset_bytes: u64, bytes: &mut [u8]) -> Result<(), Unreadable>;
}

/// The bytes could not be read: past the end, or an error of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreadable;

impl VolumeSource for [u8] {
    fn read(&self, offset_bytes: u64, bytes: &mut [u8]) -> Result<(), Unreadable> {
        let start = usize::try_from(offset_bytes).map_err(|_| Unreadable)?;
        let end = start.checked_add(bytes.len()).ok_or(Unreadable)?;
        bytes.copy_from_slice(self.get(start..end).ok_or(Unreadable)?);
        Ok(())
    }
}

/// A range of a volume that is a range of a part: a partition, or a segment of a logical volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Offset in the part, bytes.
    pub part_bytes: u64,
    /// Offset in the volume, bytes.
    pub volume_bytes: u64,
    /// Length, bytes.
    pub len_bytes: u64,
}

impl Segment {
    /// Offset in the volume of an offset in the part, and the bytes from there in the segment.
    pub fn locate(&self, part_bytes: u64) -> Option<(u64, u64)> {
        let inside = part_bytes.checked_sub(self.part_bytes)?;
        let left = self
            .len_bytes
            .checked_sub(inside)
            .filter(|left| *left > 0)?;
        Some((self.volume_bytes.checked_add(inside)?, left))
    }
}

/// A part of the volume, counted.
pub struct Meter<'a> {
    source: &'a dyn VolumeSource,
    segments: &'a [Segment],
    /// Reads and work so far.
    pub cost: Cost,
    /// Bytes read so far.
    pub read_bytes: u64,
    /// The part's bytes that the volume could not give; of many ranges, the first ones.
    pub unreadable: Vec<Range<u64>>,
}

/// Most ranges that could not be read, of a step and of a part.
pub const UNREADABLE_MAX: usize = 16;
/// Bytes that are decoded with a unit of work.
const BYTES_A_UNIT: u64 = 1024;

impl<'a> Meter<'a> {
    /// Reads of the part that consists of `segments`, sorted by their offset in it.
    pub fn new(source: &'a dyn VolumeSource, segments: &'a [Segment]) -> Self {
        Self {
            source,
            segments,
            cost: Cost::default(),
            read_bytes: 0,
            unreadable: Vec::new(),
        }
    }

    /// Counts work that is not reading.
    pub fn spend(&mut self, work: u64) {
        self.cost.work = self.cost.work.saturating_add(work);
    }

    fn failed(&mut self, offset_bytes: u64, len: usize) {
        if self.unreadable.len() < UNREADABLE_MAX {
            let end = offset_bytes.saturating_add(len as u64);
            self.unreadable.push(offset_bytes..end);
        }
    }

    /// Reads `len` bytes at `offset_bytes` of the part; `None` if that cannot be.
    pub fn read(&mut self, offset_bytes: u64, len: usize) -> Option<Vec<u8>> {
        self.cost.reads += 1;
        self.spend(1 + len as u64 / BYTES_A_UNIT);
        let mut at = offset_bytes;
        let mut bytes = vec![0; len];
        let mut rest = bytes.as_mut_slice();
        while !rest.is_empty() {
            let next = self.segments.partition_point(|s| s.part_bytes <= at);
            let segment = self.segments.get(next.checked_sub(1)?)?;
            let (place, left) = segment.locate(at)?;
            let here = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
            let (now, later) = rest.split_at_mut(here);
            if self.source.read(place, now).is_err() {
                self.failed(offset_bytes, len);
                return None;
            }
            at = at.checked_add(here as u64)?;
            rest = later;
        }
        self.read_bytes += len as u64;
        Some(bytes)
    }
}
