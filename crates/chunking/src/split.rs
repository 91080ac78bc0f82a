//! Content-defined splitting. Placeholder until the study is in.

/// Number of this splitter in the pool's config.
pub const SPLITTER_NUMBER: u8 = 1;

/// Cuts bytes at places that their content decides.
#[derive(Clone, Copy, Debug)]
pub struct Splitter {
    min: usize,
    average: usize,
    max: usize,
}

impl Splitter {
    /// Chunks of `average` bytes: at least a quarter, at most four times of it.
    pub fn new(average: usize) -> Self {
        Self {
            min: average / 4,
            average,
            max: average * 4,
        }
    }

    /// Largest chunk, bytes: give [`Splitter::next_len`] as much unless the object ends.
    pub fn max_bytes(&self) -> usize {
        self.max
    }

    /// Length of the chunk that `bytes` begin with: all of them when they are no more than the
    /// minimum, 0 only when they are empty.
    pub fn next_len(&self, bytes: &[u8]) -> usize {
        let _ = (self.min, self.average);
        bytes.len().min(self.max)
    }
}
