//! Buffer pool of the container reader. Recently used memory is mapped and warm; the kernel zeroes
//! fresh memory page by page first.
//!
//! Invariant: the pool is bounded in buffers and bytes. A buffer is reused only for contents that
//! fill at least half of it, so that accounting by length stays close to the real memory.

use parking_lot::Mutex;

/// Maximum number of free buffers: enough for many threads that decode.
const SPARE_MAX: usize = 64;
/// Maximum size of the free buffers, bytes, so that only a few long ones stay.
const SPARE_BYTES_MAX: usize = 8 << 20;

#[derive(Default)]
struct Spare {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

/// See the module's head.
#[derive(Default)]
pub(super) struct BufferPool(Mutex<Spare>);

impl BufferPool {
    /// Returns a buffer with any contents and capacity for `len` bytes. It may be new and empty.
    pub fn take(&self, len: usize) -> Vec<u8> {
        let mut spare = self.0.lock();
        let fits = |buffer: &Vec<u8>| (len..=len.saturating_mul(2)).contains(&buffer.capacity());
        match spare.buffers.iter().rposition(fits) {
            Some(at) => {
                let buffer = spare.buffers.swap_remove(at);
                spare.bytes -= buffer.capacity();
                buffer
            }
            None => {
                drop(spare);
                Vec::with_capacity(len)
            }
        }
    }

    /// Takes a buffer into the pool. The oldest are dropped if there are too many.
    pub fn give(&self, buffer: Vec<u8>) {
        let mut spare = self.0.lock();
        spare.bytes += buffer.capacity();
        spare.buffers.push(buffer);
        let mut old = Vec::new();
        while spare.buffers.len() > SPARE_MAX
            || (spare.bytes > SPARE_BYTES_MAX && spare.buffers.len() > 1)
        {
            let buffer = spare.buffers.remove(0);
            spare.bytes -= buffer.capacity();
            old.push(buffer);
        }
        drop(spare);
        // Free them outside of the lock: freeing may call the kernel.
        drop(old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_to_what_fills_it() {
        let spare = BufferPool::default();
        spare.give(vec![1; 1000]);
        // A length of 0 means a new buffer.
        assert_eq!(spare.take(499).len(), 0);
        assert_eq!(spare.take(1001).len(), 0);
        assert_eq!(spare.take(500), [1; 1000]);
        assert_eq!(spare.take(500).len(), 0);
        (0..100).for_each(|_| spare.give(Vec::new()));
        assert_eq!(spare.0.lock().buffers.len(), SPARE_MAX);
        (0..9).for_each(|_| spare.give(vec![1; SPARE_BYTES_MAX / 4]));
        let kept = spare.0.lock();
        assert_eq!((kept.buffers.len(), kept.bytes), (4, SPARE_BYTES_MAX));
    }
}
