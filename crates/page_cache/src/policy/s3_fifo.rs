//! Implements S3-FIFO (Yang and others, SOSP'23): a small queue that most chunks leave soon, a main
//! queue for chunks that were demanded again, and a record of evicted contents. The clean side uses
//! it by default. Each class has its own two queues; classes that evict together are one S3-FIFO.
//!
//! Invariant: chunks that were read in passing are never hot. They enter the small queue and leave
//! it. They exceed the small queue's share only in memory that the main queue does not use. Sizes
//! are counted in bytes, because chunks differ. A chunk whose class has changed moves to the queues
//! of its class when its old queue would evict it.

use super::ghosts::Ghosts;
use super::queues::{Blocks, Queue};
use super::{EvictionPolicy, FrameHeat, FrameId, Heat};
use crate::Use;
use classes::{CLASSES, ClassSet};
use units::IoClass;

/// Inverse share of the small queue: a tenth.
const SMALL: u64 = 10;
/// Hits in the small queue that promote to the main queue. The paper asks for two, but counts every
/// read; here reads in one tick count once.
const PROMOTED_FROM: u8 = 1;

/// One queue for each class.
struct Queues {
    of: [Queue; CLASSES],
    /// Classes whose queue is not empty.
    filled: ClassSet,
}

impl Queues {
    const EMPTY: Self = Self {
        of: [Queue::EMPTY; CLASSES],
        filled: ClassSet::NONE,
    };

    fn push(&mut self, blocks: &mut Blocks, frame: FrameId, heat: &Heat) {
        if let Some(queue) = self.of.get_mut(usize::from(heat.class.0)) {
            blocks.push(queue, frame, heat.bytes);
            self.filled = self.filled.and(heat.class);
        }
    }

    /// Removes the oldest frame of these classes. Returns its queue's class too.
    fn pop(&mut self, blocks: &mut Blocks, classes: ClassSet) -> Option<(IoClass, FrameId)> {
        let filled = self.filled.both(classes);
        let age = |class: &IoClass| self.of.get(usize::from(class.0)).map(|q| blocks.age(q));
        let class = match filled.is_one() {
            true => filled.iter().next()?,
            false => filled.iter().min_by_key(age)?,
        };
        let queue = self.of.get_mut(usize::from(class.0))?;
        let frame = blocks.pop(queue)?;
        if queue.len() == 0 {
            self.filled = self.filled.without(class);
        }
        Some((class, frame))
    }

    fn take_bytes(&mut self, class: IoClass, bytes: u32) {
        if let Some(queue) = self.of.get_mut(usize::from(class.0)) {
            queue.bytes = queue.bytes.saturating_sub(u64::from(bytes));
        }
    }

    /// Returns the frames of these classes and their bytes.
    fn size(&self, classes: ClassSet) -> (usize, u64) {
        let queues = self.filled.both(classes).iter();
        let queues = queues.filter_map(|class| self.of.get(usize::from(class.0)));
        queues.fold((0, 0), |(frames, bytes), queue| {
            (frames + queue.len(), bytes + queue.bytes)
        })
    }
}

/// The queues and the ghosts.
pub struct S3Fifo {
    small: Queues,
    main: Queues,
    blocks: Blocks,
    ghosts: Ghosts,
}

impl S3Fifo {
    /// Makes a policy for a cache of `bytes_max`.
    pub fn new(bytes_max: u64) -> Self {
        Self {
            small: Queues::EMPTY,
            main: Queues::EMPTY,
            blocks: Blocks::with_room(bytes_max as usize / crate::extent::GRANULE_BYTES),
            ghosts: Ghosts::new(bytes_max / SMALL * (SMALL - 1)),
        }
    }

    fn take_from_small(
        &mut self,
        classes: ClassSet,
        frames: &mut dyn FrameHeat,
    ) -> Option<FrameId> {
        while let Some((class, frame)) = self.small.pop(&mut self.blocks, classes) {
            let heat = frames.cool(frame);
            self.small.take_bytes(class, heat.bytes);
            let is_hot = heat.hits >= PROMOTED_FROM;
            if !is_hot && classes.contains(heat.class) {
                self.ghosts.insert(heat.identity, heat.bytes);
                return Some(frame);
            }
            if heat.class != class {
                frames.moved(frame);
            }
            let to = match is_hot {
                true => &mut self.main,
                false => &mut self.small,
            };
            to.push(&mut self.blocks, frame, &heat);
        }
        None
    }

    /// Takes a victim from the main queue. Each round takes a hit from every frame. If three rounds
    /// find no cold frame, hits come faster than the hand moves, and any frame will do.
    fn take_from_main(&mut self, classes: ClassSet, frames: &mut dyn FrameHeat) -> Option<FrameId> {
        let (frames_of_classes, _) = self.main.size(classes);
        let others = frames_of_classes.saturating_sub(1);
        for round in 0.. {
            let (class, frame) = self.main.pop(&mut self.blocks, classes)?;
            let heat = frames.cool(frame);
            self.main.take_bytes(class, heat.bytes);
            let is_cold = heat.hits == 0 || round > 3 * others;
            if is_cold && classes.contains(heat.class) {
                return Some(frame);
            }
            if heat.class != class {
                frames.moved(frame);
            }
            self.main.push(&mut self.blocks, frame, &heat);
        }
        None
    }
}

impl EvictionPolicy for S3Fifo {
    fn inserted(&mut self, frame: FrameId, heat: Heat, for_use: Use) {
        // A chunk that a scan brings back was not missed by a client.
        let to = match for_use == Use::Demand && self.ghosts.take(heat.identity) {
            true => &mut self.main,
            false => &mut self.small,
        };
        to.push(&mut self.blocks, frame, &heat);
    }

    fn victim(&mut self, classes: ClassSet, frames: &mut dyn FrameHeat) -> Option<FrameId> {
        let (_, small_bytes) = self.small.size(classes);
        let (_, main_bytes) = self.main.size(classes);
        if small_bytes > (small_bytes + main_bytes) / SMALL {
            self.take_from_small(classes, frames)
                .or_else(|| self.take_from_main(classes, frames))
        } else {
            self.take_from_main(classes, frames)
                .or_else(|| self.take_from_small(classes, frames))
        }
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.blocks.memory_bytes() + self.ghosts.memory_bytes()
    }
}
