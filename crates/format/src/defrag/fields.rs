//! Encodes the parts of a defragmentation's record. All numbers are eight bytes unless stated
//! otherwise. The record calls this.
//!
//! Invariant: fixed width. Decoded values encode to the same bytes.

use crate::bytes::{Reader, Result, Writer};
use crate::stored::{Stored, stored};
use std::ops::Range;

stored! {
    /// Stages of a run. Each round does them in order.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub enum DefragStage: "stage" {
        /// Counts the bytes of the objects; once.
        #[default]
        Sizing = 0 => "sizing",
        /// Searches for fragmented ranges.
        Examining = 1 => "examining",
        /// Checks which other owners a move would harm.
        Estimating = 2 => "judging",
        /// Copies.
        Moving = 3 => "copying",
        /// Measures the result; once, after the last round.
        Measuring = 4 => "measuring",
        /// Finished.
        Done = 5 => "done",
    }
}

stored! {
    /// Counts of copies.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct MoveCounts {
        /// Chunks copied.
        pub chunks: u64,
        /// Their length, bytes.
        pub bytes: u64,
        /// Part of `bytes` that was in memory.
        pub cached_bytes: u64,
        /// Size of the containers that the commit added, bytes.
        pub stored_bytes: u64,
    }
}

stored! {
    /// Counts of found and moved ranges.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct DefragCounts {
        /// Number of objects.
        pub objects: u64,
        /// Number of ranges in the load.
        pub ranges: u64,
        /// Bytes of the objects, without holes.
        pub mapped_bytes: u64,
        /// Number of ranges among those that are read most.
        pub hot: u64,
        /// Number of these that lie in more pieces than necessary.
        pub fragmented: u64,
        /// Number of these that stay because moving them harms others more than it helps.
        pub unfair: u64,
        /// Number of these that are moved.
        pub wanted: u64,
        /// Number of these that cannot be read.
        pub failed: u64,
        /// Bytes of all moves that were found fair.
        pub wanted_bytes: u64,
        /// Copies; in a record, those that were committed.
        pub moved: MoveCounts,
        /// Part of all this: hot ranges that are copied into small regions.
        pub small: SmallCounts,
    }
}

stored! {
    /// Counts of hot ranges of which a random read fetches much more than it needs.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct SmallCounts {
        /// Number of such ranges in the load.
        pub ranges: u64,
        /// Number of these that lie in regions that are large for them.
        pub amplified: u64,
        /// Number of these that exceed the bound of what may be rewritten.
        pub over: u64,
        /// Bytes to copy.
        pub wanted_bytes: u64,
        /// Bytes copied; in a record, those that were committed.
        pub bytes: u64,
        /// Size of the containers that contain the copies, bytes.
        pub stored_bytes: u64,
        /// Cost of random reads of the ranges before the run.
        pub before: FetchToll,
        /// The same after the run, as far as it was measured.
        pub after: FetchToll,
    }
}

stored! {
    /// Cost of reads of single chunks that are not in memory.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct FetchToll {
        /// Weight of the requests.
        pub weight: u128,
        /// Weighted number of bytes that they read from the device.
        pub bytes_weighed: u128,
    }
}

stored! {
    /// Cost of a load. First requests and device reads for them, weighted (16 bytes each, the low
    /// half first). Then bytes, regions and runs of its ranges, each range counted once.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct DefragToll {
        /// Weight of the requests.
        pub weight: u128,
        /// Weighted number of runs that contain them.
        pub runs_weighed: u128,
        /// Bytes, without holes.
        pub bytes: u64,
        /// Number of regions.
        pub regions: u64,
        /// Number of runs of adjacent regions.
        pub runs: u64,
    }
}

stored! {
    /// An object of a run, as of the start of the run.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct DefragObject {
        /// The first eight bytes of the id of a volume or a snapshot.
        pub key: u64,
        /// Its size, bytes.
        pub bytes: u64,
        /// Bytes that are read at once where no trace says otherwise.
        pub read_at_once: u64,
    }
}

/// A range that was in the trace at the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DefragRange {
    /// Key of its object.
    pub object: u64,
    /// First byte.
    pub start: u64,
    /// First byte after it.
    pub end: u64,
    /// Weight of its requests.
    pub weight: u64,
    /// True for a range among those that are read most. Stored as bit 1.
    pub is_hot: bool,
    /// True for a range that belongs into small regions: whole chunks. Stored as bit 2.
    pub is_small: bool,
}

impl Stored for DefragRange {
    fn put(&self, w: &mut Writer) {
        w.u64(self.object)
            .u64(self.start)
            .u64(self.end)
            .u64(self.weight)
            .u64(u64::from(self.is_hot) | u64::from(self.is_small) << 1);
    }

    fn take(r: &mut Reader<'_>) -> Result<Self> {
        let (object, start, end, weight) = (r.u64()?, r.u64()?, r.u64()?, r.u64()?);
        let bits = r.u64()?;
        if bits > 3 {
            return r.invalid("heat");
        }
        Ok(Self {
            object,
            start,
            end,
            weight,
            is_hot: bits & 1 != 0,
            is_small: bits & 2 != 0,
        })
    }
}

/// Parts of an object to move to one place.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DefragMove {
    /// Key of its object.
    pub object: u64,
    /// Byte ranges. Their number is stored here (4 bytes), the ranges after all moves.
    pub parts: Vec<Range<u64>>,
    /// True for a move into small regions. Stored as 1 or 0 (4 bytes).
    pub is_small: bool,
    /// Weight of the requests for them.
    pub weight: u64,
    /// Number of runs of regions that contained them.
    pub runs: u64,
    /// Weight of other owners' requests that the move harms, as far as these were examined.
    pub hurts: u64,
}

impl DefragMove {
    pub(super) fn encode(&self, w: &mut Writer) {
        w.u64(self.object)
            .u32(u32::try_from(self.parts.len()).unwrap_or(u32::MAX))
            .u32(self.is_small.into())
            .u64(self.weight)
            .u64(self.runs)
            .u64(self.hurts);
    }

    /// Decodes a move without its parts, and returns their number.
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<(Self, u32)> {
        let (object, parts, small) = (r.u64()?, r.u32()?, r.u32()?);
        if small > 1 {
            return r.invalid("move");
        }
        let one = Self {
            object,
            parts: Vec::new(),
            is_small: small == 1,
            weight: r.u64()?,
            runs: r.u64()?,
            hurts: r.u64()?,
        };
        Ok((one, parts))
    }
}
