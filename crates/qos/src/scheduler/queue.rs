//! Requests of one flow: reads precede writes.
//!
//! The scheduler calls this.
//! Invariant: reads keep their order, and so do writes. At most eight reads overtake the first
//! write.

use super::{DeviceRequest, Direction};
use std::collections::VecDeque;

/// Maximum number of reads that overtake a waiting write.
const READS_MAX: u8 = 8;

#[derive(Default)]
pub(super) struct Queue {
    reads: VecDeque<DeviceRequest>,
    writes: VecDeque<DeviceRequest>,
    /// Number of reads that were handed out while a write waited.
    overtaken: u8,
}

impl Queue {
    pub fn push(&mut self, request: DeviceRequest) {
        match request.direction {
            Direction::Read => self.reads.push_back(request),
            Direction::Write => self.writes.push_back(request),
        }
    }

    pub fn pop(&mut self) -> Option<DeviceRequest> {
        let is_writes_turn = self.is_writes_turn();
        if let Some(read) = self.reads.pop_front_if(|_| !is_writes_turn) {
            self.overtaken = match self.writes.is_empty() {
                true => 0,
                false => self.overtaken + 1,
            };
            return Some(read);
        }
        self.overtaken = 0;
        self.writes.pop_front()
    }

    /// Removes a request. Returns `None` if it is not queued.
    pub fn remove(&mut self, id: u64) -> Option<DeviceRequest> {
        let queues = [&mut self.reads, &mut self.writes].into_iter();
        queues.fold(None, |found, queue| {
            let at = queue.iter().position(|request| request.id == id);
            found.or_else(|| queue.remove(at?))
        })
    }

    /// Returns true if the next request begins where the one before it ended.
    pub fn is_in_order(&self) -> bool {
        let is_writes_turn = self.reads.is_empty() || self.is_writes_turn();
        let next = match is_writes_turn {
            true => self.writes.front(),
            false => self.reads.front(),
        };
        next.is_some_and(|next| next.is_sequential)
    }

    fn is_writes_turn(&self) -> bool {
        self.overtaken >= READS_MAX && !self.writes.is_empty()
    }

    pub fn len(&self) -> usize {
        self.reads.len() + self.writes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Flow;

    #[test]
    fn reads_go_first_and_writes_do_not_starve() {
        let mut queue = Queue::default();
        let request = |id, direction| DeviceRequest {
            id,
            flow: Flow::Backup,
            direction,
            is_sequential: true,
            bytes: 1,
        };
        (0..3).for_each(|id| queue.push(request(100 + id, Direction::Write)));
        (0..20).for_each(|id| queue.push(request(id, Direction::Read)));
        let order: Vec<u64> = std::iter::from_fn(|| queue.pop()).map(|r| r.id).collect();
        let expected: Vec<u64> = (0..8)
            .chain([100])
            .chain(8..16)
            .chain([101])
            .chain(16..20)
            .chain([102])
            .collect();
        assert_eq!(order, expected);
        assert!(queue.is_empty());
        (0..3).for_each(|id| queue.push(request(id, Direction::Write)));
        assert!(queue.remove(1).is_some() && queue.remove(1).is_none());
        let order: Vec<u64> = std::iter::from_fn(|| queue.pop()).map(|r| r.id).collect();
        assert_eq!(order, [0, 2]);
    }
}
