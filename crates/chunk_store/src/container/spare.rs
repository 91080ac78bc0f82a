//! Buffers that regions were in: memory that was used a moment ago is mapped and warm, fresh memory is
//! zeroed page by page first.
//!
//! Invariant: few bytes are kept, and a buffer serves only what fills at least half of it, so that what
//! is counted by length is not far from what it takes. Called by the container reader.

use parking_lot::Mutex;

/// Buffers that are kept: what many threads decode into and from ...
const SPARE_MAX: usize = 64;
/// ... and their bytes, so that of long ones a few are.
const SPARE_BYTES_MAX: usize = 8 << 20;

#[derive(Default)]
struct Spare {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

/// See the module's head.
#[derive(Default)]
pub(super) struct SpareBuffers(Mutex<Spare>);

impl SpareBuffers {
    /// A buffer with any contents that holds `len` bytes without moving; perhaps a new, empty one.
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

    /// Keeps a buffer for later; the oldest makes room.
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
        // Freeing may call the kernel.
        drop(old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_to_what_fills_it() {
        let spare = SpareBuffers::default();
        spare.give(vec![1; 1000]);
        // A new one is empty.
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
