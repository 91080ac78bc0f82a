//! Which contents were in memory not long ago.
//!
//! Invariant: four bytes a content; what is remembered may be forgotten early or confused with
//! another (one in 30,000): it only decides where a chunk is inserted. Called by policies.

/// Contents of one bucket; the newest stands first.
type Bucket = [u32; 8];
/// Of a word, how many bits tell the time.
const TIME_BITS: u32 = 10;
/// So many ticks pass while one span's worth of bytes leaves.
const TICKS: u64 = 64;

/// See the module's head.
pub(super) struct Ghosts {
    buckets: Vec<Bucket>,
    /// Bytes that leave until a content is forgotten.
    span_bytes: u64,
    left_bytes: u64,
}

impl Ghosts {
    /// Remembers what left among the last `span_bytes`, in room for chunks of 4 KiB.
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

    /// Bucket and tag; a tag is never 0, which stands for nothing.
    fn place(&self, identity: u64) -> (usize, u32) {
        let bits = crate::mix(identity);
        let bucket = ((u128::from(bits) * self.buckets.len() as u128) >> 64) as usize;
        (bucket, (bits as u32 >> TIME_BITS).max(1))
    }

    /// A content of `bytes` left memory.
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

    /// Whether it left not long ago; it is forgotten then.
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
