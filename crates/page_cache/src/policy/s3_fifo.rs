//! S3-FIFO (Yang and others, SOSP'23): a small queue that most chunks leave soon, a main queue for
//! what was wanted again, and the memory of what left.
//!
//! Invariant: what was read in passing is never hot: it enters the small queue and leaves it, and
//! takes more than the small queue's share only of memory that the main queue does not use. Sizes
//! are counted in bytes, as chunks differ.

use super::ghosts::Ghosts;
use super::{EvictionPolicy, FrameHeat, FrameId, Heat};
use crate::Use;
use std::collections::VecDeque;

/// Share of the small queue: a tenth.
const SMALL: u64 = 10;
/// Hits in the small queue that lead to the main queue. The paper asks for two; but it counts every
/// read, and here those of one tick count once.
const PROMOTED_FROM: u8 = 1;

struct Queue {
    frames: VecDeque<FrameId>,
    bytes: u64,
}

impl Queue {
    /// All of a queue's room is written, round and round; growing later would leave holes.
    fn new(bytes_max: u64) -> Self {
        Self {
            frames: VecDeque::with_capacity(bytes_max as usize / crate::PAGE_BYTES),
            bytes: 0,
        }
    }

    fn push(&mut self, frame: FrameId, bytes: u32) {
        self.frames.push_back(frame);
        self.bytes += u64::from(bytes);
    }
}

/// See the module's head.
pub struct S3Fifo {
    small: Queue,
    main: Queue,
    ghosts: Ghosts,
}

impl S3Fifo {
    /// For a cache of `bytes_max`.
    pub fn new(bytes_max: u64) -> Self {
        Self {
            small: Queue::new(bytes_max),
            main: Queue::new(bytes_max),
            ghosts: Ghosts::new(bytes_max / SMALL * (SMALL - 1)),
        }
    }

    fn take_from_small(&mut self, frames: &mut dyn FrameHeat) -> Option<FrameId> {
        while let Some(frame) = self.small.frames.pop_front() {
            let heat = frames.cool(frame);
            self.small.bytes = self.small.bytes.saturating_sub(u64::from(heat.bytes));
            if heat.hits < PROMOTED_FROM {
                self.ghosts.insert(heat.identity, heat.bytes);
                return Some(frame);
            }
            self.main.push(frame, heat.bytes);
        }
        None
    }

    /// A round takes a hit from every frame; after three that do not find a cold one, others hit
    /// faster than the hand turns, and any will do.
    fn take_from_main(&mut self, frames: &mut dyn FrameHeat) -> Option<FrameId> {
        for round in 0.. {
            let frame = self.main.frames.pop_front()?;
            let heat = frames.cool(frame);
            if heat.hits == 0 || round > 3 * self.main.frames.len() {
                self.main.bytes = self.main.bytes.saturating_sub(u64::from(heat.bytes));
                return Some(frame);
            }
            self.main.frames.push_back(frame);
        }
        None
    }
}

impl EvictionPolicy for S3Fifo {
    fn inserted(&mut self, frame: FrameId, heat: Heat, for_use: Use) {
        // What a scan brings back was not missed by anybody.
        if for_use == Use::Demand && self.ghosts.take(heat.identity) {
            self.main.push(frame, heat.bytes);
        } else {
            self.small.push(frame, heat.bytes);
        }
    }

    fn victim(&mut self, frames: &mut dyn FrameHeat) -> Option<FrameId> {
        let share = (self.small.bytes + self.main.bytes) / SMALL;
        if self.small.bytes > share {
            self.take_from_small(frames)
                .or_else(|| self.take_from_main(frames))
        } else {
            self.take_from_main(frames)
                .or_else(|| self.take_from_small(frames))
        }
    }

    fn memory_bytes(&self) -> usize {
        let slots = self.small.frames.capacity() + self.main.frames.capacity();
        slots * size_of::<FrameId>() + self.ghosts.memory_bytes()
    }
}
