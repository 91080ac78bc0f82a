//! Keeps many queues of frames in one pool of blocks. Policies call this.
//!
//! Invariant: a block is in one queue or free. A frame takes 4.4 bytes, however many queues there
//! are and however they grow and shrink; each queue has two blocks at most that are not full.

use super::FrameId;
use crate::table::{push_exactly, touched_bytes};

const NONE: u32 = u32::MAX;
/// Frames of a block: with them it takes two cache lines.
const BLOCK_FRAMES: usize = 29;

#[repr(align(128))]
struct Block {
    frames: [FrameId; BLOCK_FRAMES],
    /// Next block of its queue, or next free one.
    next: u32,
    /// Number of the push that began it.
    stamp: u64,
}

const _: () = assert!(size_of::<Block>() == 128);

/// The blocks of all queues.
pub(super) struct Blocks {
    blocks: Vec<Block>,
    free: u32,
    pushes: u64,
}

/// A queue. Its blocks are in the pool.
#[derive(Clone, Copy)]
pub(super) struct Queue {
    head: u32,
    tail: u32,
    /// First frame in the head block, and the end of those in the tail block.
    from: usize,
    until: usize,
    len: usize,
    /// Bytes of its frames.
    pub bytes: u64,
}

impl Queue {
    pub const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
        from: 0,
        until: 0,
        len: 0,
        bytes: 0,
    };

    pub fn len(&self) -> usize {
        self.len
    }
}

impl Blocks {
    /// Makes a pool with address space for that many frames.
    pub fn with_room(frames: usize) -> Self {
        Self {
            blocks: Vec::with_capacity(frames / BLOCK_FRAMES + 256),
            free: NONE,
            pushes: 0,
        }
    }

    pub fn memory_bytes(&self) -> usize {
        touched_bytes(&self.blocks)
    }

    fn block(&mut self, number: u32) -> Option<&mut Block> {
        self.blocks.get_mut(number as usize)
    }

    /// Returns an empty block.
    fn take(&mut self, first: FrameId) -> u32 {
        let block = Block {
            frames: [first; BLOCK_FRAMES],
            next: NONE,
            stamp: self.pushes,
        };
        let free = self.free;
        match self.block(free) {
            Some(slot) => {
                let next = std::mem::replace(slot, block).next;
                self.free = next;
                free
            }
            None => {
                push_exactly(&mut self.blocks, block);
                (self.blocks.len() - 1) as u32
            }
        }
    }

    /// Adds a frame of `bytes` as the newest.
    pub fn push(&mut self, queue: &mut Queue, frame: FrameId, bytes: u32) {
        if queue.tail == NONE || queue.until == BLOCK_FRAMES {
            let number = self.take(frame);
            match self.block(queue.tail) {
                Some(tail) => tail.next = number,
                None => (queue.head, queue.from) = (number, 0),
            }
            (queue.tail, queue.until) = (number, 0);
        }
        let at = queue.until;
        if let Some(slot) = self.block(queue.tail).and_then(|b| b.frames.get_mut(at)) {
            *slot = frame;
        }
        self.pushes += 1;
        queue.until += 1;
        queue.len += 1;
        queue.bytes += u64::from(bytes);
    }

    /// Removes the oldest frame. The caller takes its bytes from the queue's.
    pub fn pop(&mut self, queue: &mut Queue) -> Option<FrameId> {
        let (number, at, free) = (queue.head, queue.from, self.free);
        let block = self.block(number)?;
        let frame = *block.frames.get(at)?;
        queue.len -= 1;
        queue.from += 1;
        if queue.len == 0 || queue.from == BLOCK_FRAMES {
            let next = std::mem::replace(&mut block.next, free);
            self.free = number;
            (queue.head, queue.from) = (next, 0);
            if queue.len == 0 {
                (queue.head, queue.tail, queue.until) = (NONE, NONE, 0);
            }
        }
        Some(frame)
    }

    /// Returns about when the oldest frame came, in pushes to all queues. Exact while one queue is
    /// pushed to; with several it may be too early by a block of each.
    pub fn age(&self, queue: &Queue) -> u64 {
        let head = self.blocks.get(queue.head as usize);
        head.map_or(u64::MAX, |b| b.stamp + queue.from as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Compares with one deque for each queue. No block is lost.
    #[test]
    fn queues_agree_with_deques() {
        let mut blocks = Blocks::with_room(4000);
        let mut queues = [Queue::EMPTY; 5];
        let mut deques: [VecDeque<u32>; 5] = Default::default();
        let mut seed = 3u64;
        for n in 0..40_000u32 {
            seed = crate::mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15));
            let at = (seed % 5) as usize;
            // The queues grow for a while, then they shrink.
            let is_push = (seed >> 8) % 10 < if n / 2000 % 2 == 0 { 7 } else { 3 };
            if is_push {
                blocks.push(&mut queues[at], FrameId(n), 2048);
                deques[at].push_back(n);
            } else {
                let popped = blocks.pop(&mut queues[at]);
                assert_eq!(popped.map(|f| f.0), deques[at].pop_front());
            }
            assert_eq!(queues[at].len(), deques[at].len());
        }
        while let Some(at) = (0..5).find(|at| queues[*at].len() > 0) {
            let popped = blocks.pop(&mut queues[at]);
            assert_eq!(popped.map(|f| f.0), deques[at].pop_front());
        }
        let (mut free, mut number) = (0, blocks.free);
        while let Some(block) = blocks.blocks.get(number as usize) {
            (free, number) = (free + 1, block.next);
        }
        assert_eq!(free, blocks.blocks.len(), "every block is free again");
        assert!(free < 4000 / BLOCK_FRAMES + 20, "{free} blocks");
    }

    #[test]
    fn age_is_the_order_of_one_queue() {
        let mut blocks = Blocks::with_room(100);
        let (mut one, mut other) = (Queue::EMPTY, Queue::EMPTY);
        (0..100).for_each(|n| blocks.push(&mut one, FrameId(n), 1));
        blocks.push(&mut other, FrameId(1000), 1);
        for n in 0..100 {
            assert_eq!(blocks.age(&one), n);
            assert!(blocks.age(&one) < blocks.age(&other));
            blocks.pop(&mut one);
        }
        assert_eq!(blocks.age(&one), u64::MAX);
        assert_eq!(blocks.age(&other), 100);
    }
}
