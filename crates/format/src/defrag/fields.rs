//! The parts of a defragmentation's record; all numbers are eight bytes unless the parts say otherwise.
//!
//! Invariant: fixed width; what is decoded encodes to the same bytes. Called by the record.

use crate::bytes::{Reader, Result, Writer};
use std::ops::Range;

/// What a run does, in each round one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum DefragStage {
    /// Counting what the objects hold; once.
    #[default]
    Sizing = 0,
    /// Looking for ranges that lie in pieces.
    Examining = 1,
    /// Asking whom moving them would hurt.
    Judging = 2,
    /// Copying.
    Moving = 3,
    /// Looking what it has brought; once, after the last round.
    Measuring = 4,
    /// Over.
    Done = 5,
}

impl DefragStage {
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(match r.u8()? {
            0 => Self::Sizing,
            1 => Self::Examining,
            2 => Self::Judging,
            3 => Self::Moving,
            4 => Self::Measuring,
            5 => Self::Done,
            _ => return r.invalid("stage"),
        })
    }
}

/// What was found and done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DefragCounts {
    /// Objects.
    pub objects: u64,
    /// Ranges of the load.
    pub ranges: u64,
    /// Bytes of the objects, without holes.
    pub mapped_bytes: u64,
    /// Ranges that are among those that are read most,
    pub hot: u64,
    /// ... that lie in more pieces than they need,
    pub fragmented: u64,
    /// ... that stay because moving them hurts others more than it helps,
    pub unfair: u64,
    /// ... that are moved,
    pub wanted: u64,
    /// ... that cannot be read.
    pub failed: u64,
    /// Bytes of all moves that were found fair.
    pub wanted_bytes: u64,
    /// Chunks that were copied, by commits,
    pub chunks: u64,
    /// ... their plain bytes,
    pub bytes: u64,
    /// ... of them, those that were in memory,
    pub cached_bytes: u64,
    /// ... and what they take.
    pub stored_bytes: u64,
}

impl DefragCounts {
    pub(super) fn encode(&self, w: &mut Writer) {
        w.u64(self.objects)
            .u64(self.ranges)
            .u64(self.mapped_bytes)
            .u64(self.hot)
            .u64(self.fragmented)
            .u64(self.unfair)
            .u64(self.wanted)
            .u64(self.failed)
            .u64(self.wanted_bytes)
            .u64(self.chunks)
            .u64(self.bytes)
            .u64(self.cached_bytes)
            .u64(self.stored_bytes);
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            objects: r.u64()?,
            ranges: r.u64()?,
            mapped_bytes: r.u64()?,
            hot: r.u64()?,
            fragmented: r.u64()?,
            unfair: r.u64()?,
            wanted: r.u64()?,
            failed: r.u64()?,
            wanted_bytes: r.u64()?,
            chunks: r.u64()?,
            bytes: r.u64()?,
            cached_bytes: r.u64()?,
            stored_bytes: r.u64()?,
        })
    }
}

/// What a load costs: requests and device reads for them, weighed (16 bytes each, the low half first), then bytes,
/// regions and runs of its ranges, each range once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DefragToll {
    /// Requests.
    pub weight: u128,
    /// Runs that they lie in.
    pub runs_weighed: u128,
    /// Bytes, without holes.
    pub bytes: u64,
    /// Regions.
    pub regions: u64,
    /// Runs of adjacent regions.
    pub runs: u64,
}

impl DefragToll {
    pub(super) fn encode(&self, w: &mut Writer) {
        for wide in [self.weight, self.runs_weighed] {
            w.u64(wide as u64).u64((wide >> 64) as u64);
        }
        w.u64(self.bytes).u64(self.regions).u64(self.runs);
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut wide = || {
            let (low, high) = (r.u64()?, r.u64()?);
            Ok(u128::from(low) | u128::from(high) << 64)
        };
        Ok(Self {
            weight: wide()?,
            runs_weighed: wide()?,
            bytes: r.u64()?,
            regions: r.u64()?,
            runs: r.u64()?,
        })
    }
}

/// An object of a run, as it was when the run began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DefragObject {
    /// The first eight bytes of the id of a volume or a snapshot.
    pub key: u64,
    /// Its size.
    pub bytes: u64,
    /// So many of its bytes are read at once where no trace says otherwise.
    pub read_at_once: u64,
}

impl DefragObject {
    pub(super) const BYTES: u64 = 24;

    pub(super) fn encode(&self, w: &mut Writer) {
        w.u64(self.key).u64(self.bytes).u64(self.read_at_once);
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            key: r.u64()?,
            bytes: r.u64()?,
            read_at_once: r.u64()?,
        })
    }
}

/// A range that the trace knew when the run began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DefragRange {
    /// Of which object: its key.
    pub object: u64,
    /// First byte.
    pub start: u64,
    /// First byte after it.
    pub end: u64,
    /// Weight of its requests.
    pub weight: u64,
    /// It is among those that are read most: 1, else 0.
    pub is_hot: bool,
}

impl DefragRange {
    pub(super) const BYTES: u64 = 40;

    pub(super) fn encode(&self, w: &mut Writer) {
        w.u64(self.object)
            .u64(self.start)
            .u64(self.end)
            .u64(self.weight)
            .u64(self.is_hot.into());
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            object: r.u64()?,
            start: r.u64()?,
            end: r.u64()?,
            weight: r.u64()?,
            is_hot: match r.u64()? {
                0 => false,
                1 => true,
                _ => return r.invalid("heat"),
            },
        })
    }
}

/// What is to be moved to one place.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DefragMove {
    /// Of which object: its key.
    pub object: u64,
    /// Bytes of it. Their count is stored here (4 bytes, then 4 of zeroes), they themselves behind all moves.
    pub parts: Vec<Range<u64>>,
    /// Weight of the requests for them.
    pub weight: u64,
    /// Runs of regions that they lay in.
    pub runs: u64,
    /// Weight of other owners' requests that it hurts, as far as they were asked.
    pub hurts: u64,
}

impl DefragMove {
    pub(super) const BYTES: u64 = 40;

    pub(super) fn encode(&self, w: &mut Writer) {
        w.u64(self.object)
            .u32(u32::try_from(self.parts.len()).unwrap_or(u32::MAX))
            .u32(0)
            .u64(self.weight)
            .u64(self.runs)
            .u64(self.hurts);
    }

    /// Without its parts, of which there are so many.
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<(Self, u32)> {
        let (object, parts, zero) = (r.u64()?, r.u32()?, r.u32()?);
        if zero != 0 {
            return r.invalid("move");
        }
        let one = Self {
            object,
            parts: Vec::new(),
            weight: r.u64()?,
            runs: r.u64()?,
            hurts: r.u64()?,
        };
        Ok((one, parts))
    }
}
