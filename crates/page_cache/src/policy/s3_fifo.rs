//! Implements S3-FIFO (Yang and others, SOSP'23): a small queue that most chunks leave soon, a main
//! queue for chunks that were demanded again, and a record of evicted contents. The clean side uses
//! it by default.
//!
//! Invariant: chunks that were read in passing are never hot. They enter the small queue and leave
//! it. They exceed the small queue's share only in memory that the main queue does not use. Sizes
//! are counted in bytes, because chunks differ.

use super::ghosts::Ghosts;
use super::{EvictionPolicy, FrameHeat, FrameId, Heat};
use crate::Use;
use std::collections::VecDeque;

/// Inverse share of the small queue: a tenth.
const SMALL: u64 = 10;
/// Hits in the small queue that promote to the main queue. The paper asks for two, but counts every
/// read; here reads in one tick count once.
const PROMOTED_FROM: u8 = 1;

struct Queue {
    frames: VecDeque<FrameId>,
    bytes: u64,
}

impl Queue {
    /// Reserves all memory of a queue. Its ring writes all of it in time, and growing it later
    /// would leave holes.
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

/// The two queues and the ghosts.
pub struct S3Fifo {
    small: Queue,
    main: Queue,
    ghosts: Ghosts,
}

impl S3Fifo {
    /// Makes a policy for a cache of `bytes_max`.
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

    /// Takes a victim from the main queue. Each round takes a hit from every frame. If three rounds
    /// find no cold frame, hits come faster than the hand moves, and any frame will do.
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
        // A chunk that a scan brings back was not missed by a client.
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
