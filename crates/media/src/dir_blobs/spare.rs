//! Keeps a pool of buffers from stored blobs: mapped and warm memory for the next blobs.
//! `dir_blobs` calls this.
//!
//! Invariant: the pool keeps no more buffers than threads return at a time, and no small ones,
//! because the allocator keeps those itself.

use parking_lot::Mutex;

/// Minimum size. The allocator returns larger buffers to the kernel.
const BYTES_MIN: usize = 1 << 20;

/// Buffer pool.
pub(super) struct BufferPool {
    buffers: Mutex<Vec<Vec<u8>>>,
    max: usize,
}

impl BufferPool {
    /// Makes a pool of at most `max` buffers.
    pub(super) fn new(max: usize) -> Self {
        let buffers = Mutex::default();
        Self { buffers, max }
    }

    /// Returns an empty buffer: the last one returned, if any.
    pub(super) fn take(&self) -> Vec<u8> {
        self.buffers.lock().pop().unwrap_or_default()
    }

    /// Keeps a buffer for later, or frees it.
    pub(super) fn give(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() < BYTES_MIN {
            return;
        }
        buffer.clear();
        let mut buffers = self.buffers.lock();
        if buffers.len() < self.max {
            buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_buffers_come_back_empty_and_few_are_kept() {
        let spare = BufferPool::new(2);
        spare.give(vec![1; 1000]);
        assert_eq!(spare.take().capacity(), 0);
        for _ in 0..3 {
            spare.give(vec![1; BYTES_MIN]);
        }
        for _ in 0..2 {
            let buffer = spare.take();
            assert!(buffer.is_empty() && buffer.capacity() >= BYTES_MIN);
        }
        assert_eq!(spare.take().capacity(), 0);
    }
}
