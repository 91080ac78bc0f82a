//! Remembers contents that left memory not long ago. Policies call this.
//!
//! Invariant: a content takes four bytes. It may be forgotten early or confused with another (one
//! in 30,000), because it only decides where a chunk is inserted.

/// Contents of one bucket, the newest first.
type Bucket = [u32; 8];
/// Bits of a word that store the time.
const TIME_BITS: u32 = 10;
/// Ticks in the time in which one span's worth of bytes leaves.
const TICKS: u64 = 64;

/// Contents that left, by tag and time.
pub(super) struct Ghosts {
    buckets: Vec<Bucket>,
    /// Bytes that leave before a content is forgotten.
    span_bytes: u64,
    left_bytes: u64,
}

impl Ghosts {
    /// Remembers contents among the last `span_bytes` that left. It is sized for chunks of 4 KiB.
    pub fn new(span_bytes: u64) -> Self {
        let buckets = (span_bytes / 4096 / 8).max(1) as usize;
        Self {
            buckets: vec![Bucket::default(); buckets],
            span_bytes: span_bytes.max(TICKS),
            left_bytes: 0,
        }
    }

    fn now(&self) -> u32 {
        let tick = self.left_bytes / (self.span_bytes / TICKS);
        (tick as u32) & ((1 << TIME_BITS) - 1)
    }

    /// Returns bucket and tag. A tag is never 0, which marks an empty word.
    fn place(&self, identity: u64) -> (usize, u32) {
        let bits = crate::mix(identity);
        let bucket = ((u128::from(bits) * self.buckets.len() as u128) >> 64) as usize;
        (bucket, (bits as u32 >> TIME_BITS).max(1))
    }

    /// Notes that a content of `bytes` left memory.
    pub fn insert(&mut self, identity: u64, bytes: u32) {
        self.left_bytes = self.left_bytes.wrapping_add(u64::from(bytes));
        let (bucket, tag) = self.place(identity);
        let word = tag << TIME_BITS | self.now();
        if let Some(bucket) = self.buckets.get_mut(bucket) {
            bucket.rotate_right(1);
            let [first, ..] = bucket;
            *first = word;
        }
    }

    /// Returns true if the content left not long ago, and forgets it.
    pub fn take(&mut self, identity: u64) -> bool {
        let (bucket, tag) = self.place(identity);
        let now = self.now();
        let age = |word: u32| now.wrapping_sub(word) & ((1 << TIME_BITS) - 1);
        let Some(bucket) = self.buckets.get_mut(bucket) else {
            return false;
        };
        let is_it = |w: &&mut u32| **w >> TIME_BITS == tag && u64::from(age(**w)) <= TICKS;
        let found = bucket.iter_mut().find(is_it);
        found.map(|word| *word = 0).is_some()
    }

    pub fn memory_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_a_span_and_no_more() {
        const CHUNKS: u64 = 4096;
        let mut ghosts = Ghosts::new(CHUNKS * 4096);
        for identity in 0..3 * CHUNKS {
            ghosts.insert(identity, 4096);
        }
        let recent = (2 * CHUNKS + CHUNKS / 2..3 * CHUNKS).filter(|i| ghosts.take(*i));
        let kept = recent.count() as u64;
        assert!(kept > CHUNKS / 2 * 9 / 10, "{kept} of {}", CHUNKS / 2);
        let old = (0..CHUNKS).filter(|i| ghosts.take(*i)).count();
        assert!(old <= 2, "{old} of {CHUNKS} that should be forgotten");
        assert!(!ghosts.take(3 * CHUNKS - 1), "taken once already");
    }

    #[test]
    fn large_chunks_are_forgotten_by_bytes() {
        const CHUNKS: u64 = 4096;
        let mut ghosts = Ghosts::new(CHUNKS * 4096);
        for identity in 0..CHUNKS {
            ghosts.insert(identity, 64 << 10);
        }
        let kept = (0..CHUNKS).filter(|i| ghosts.take(*i)).count() as u64;
        assert!((CHUNKS / 20..=CHUNKS / 14).contains(&kept), "{kept}");
    }
}
