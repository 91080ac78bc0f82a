//! Buffers of blobs that are stored: memory that is mapped and warm, for the next blobs.
//!
//! Invariant: no more are kept than threads give back at a time, and none that is small: the
//! allocator keeps those itself. Called by `dir_blobs`.

use parking_lot::Mutex;

/// The allocator returns larger ones to the kernel.
const BYTES_MIN: usize = 1 << 20;

/// See the module's head.
pub(super) struct SpareBuffers {
    buffers: Mutex<Vec<Vec<u8>>>,
    max: usize,
}

impl SpareBuffers {
    /// At most `max` are kept.
    pub(super) fn new(max: usize) -> Self {
        let buffers = Mutex::default();
        Self { buffers, max }
    }

    /// An empty buffer; the one that was given last, if any.
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
        let spare = SpareBuffers::new(2);
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
