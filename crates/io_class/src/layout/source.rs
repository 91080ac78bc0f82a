//! Reads bytes of a volume for the classifiers. `Layout` is given a [`Source`] by its caller.
//!
//! Invariant: a [`Meter`] counts each read before it happens, so a step knows when to end.

/// Bytes of a volume as they are now, with at least every write that was reported before.
pub trait Source {
    /// Fills `bytes` from `offset_bytes`, or reports that it cannot.
    fn read(&self, offset_bytes: u64, bytes: &mut [u8]) -> Result<(), Unreadable>;
}

/// The bytes could not be read: past the end, or an error of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreadable;

impl Source for [u8] {
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
    source: &'a dyn Source,
    segments: &'a [Segment],
    /// Reads so far.
    pub reads: u64,
    /// Bytes read so far.
    pub read_bytes: u64,
}

impl<'a> Meter<'a> {
    /// Reads of the part that consists of `segments`, sorted by their offset in it.
    pub fn new(source: &'a dyn Source, segments: &'a [Segment]) -> Self {
        Self {
            source,
            segments,
            reads: 0,
            read_bytes: 0,
        }
    }

    /// Reads `len` bytes at `offset_bytes` of the part; `None` if that cannot be.
    pub fn read(&mut self, offset_bytes: u64, len: usize) -> Option<Vec<u8>> {
        self.reads += 1;
        let mut at = offset_bytes;
        let mut bytes = vec![0; len];
        let mut rest = bytes.as_mut_slice();
        while !rest.is_empty() {
            let next = self.segments.partition_point(|s| s.part_bytes <= at);
            let segment = self.segments.get(next.checked_sub(1)?)?;
            let (place, left) = segment.locate(at)?;
            let here = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
            let (now, later) = rest.split_at_mut(here);
            self.source.read(place, now).ok()?;
            at = at.checked_add(here as u64)?;
            rest = later;
        }
        self.read_bytes += len as u64;
        Some(bytes)
    }
}
