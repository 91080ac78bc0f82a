//! Measures what each class would gain by another share of the tier: a sample of what clients ask
//! for, whether it is cached or not (SHARDS, FAST'15). `tier` calls this for its reader.
//!
//! A chunk is in the sample if its keyed hash is below the threshold of its class. The sampled
//! chunks of a class are a list in the order of last use, so what lies behind one, divided by the
//! part that is sampled, is the space in which a LRU would still have had it.
//!
//! Invariant: memory is fixed, however many chunks there are: a full list lowers its threshold, and
//! what is too old for any share leaves. An access outside the sample costs a hash, a load and a
//! comparison. Counts halve with time in use, so that they are of now; idle time does not count.

use crate::class::CacheClass;
use classes::{CLASSES, CURVE_BINS, ClassEvidence, Curve, Evidence, known};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use units::{Fingerprint, IoClass, UnixNanos};

/// Sampled chunks of all classes, and of one at least and at most.
const CHUNKS: usize = 8192;
const CHUNKS_OF_CLASS: (usize, usize) = (128, 1024);
/// After this time in use, older evidence counts half.
const HALF_LIFE_NS: u64 = 600_000_000_000;
/// A longer time between two steps with accesses is idle time.
const STEP_NS_MAX: u64 = 10_000_000_000;
/// A threshold that so few accesses are below in this time is raised.
const IDLE_NS: u64 = 600_000_000_000;
const IDLE_BELOW: u64 = 4;
/// So is one whose sample has this part of a full list in as many accesses as a full list has.
const FEW: usize = 8;

const _: () = assert!(CHUNKS / CLASSES >= CHUNKS_OF_CLASS.0);

/// A read of a client that reached the tier.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Access {
    /// Length of the chunk.
    pub bytes: u32,
    /// The request followed no stream.
    pub is_random: bool,
    /// The tier had the chunk.
    pub is_hit: bool,
    /// Time until the chunk was in memory, nanoseconds.
    pub ns: u64,
}

/// A chunk of the sample.
struct Sampled {
    hash: u64,
    bytes: u32,
    /// Its last use is older than a change of the threshold: what lies behind it was sampled in
    /// another way, so its distance is unknown.
    is_old: bool,
    /// A random read asked for it since it came.
    was_random: bool,
    /// It was used since the threshold was looked at.
    is_recent: bool,
}

/// Times of reads, and their number.
#[derive(Clone, Copy, Default)]
struct Time {
    ns: f64,
    reads: f64,
}

impl Time {
    fn add(&mut self, ns: u64) {
        self.ns += ns as f64;
        self.reads += 1.0;
    }

    fn mean(self) -> Option<f64> {
        (self.reads > 0.0).then(|| self.ns / self.reads)
    }
}

#[derive(Default)]
struct Ghost {
    is_used: bool,
    /// By last use, the last one at the end.
    chunks: VecDeque<Sampled>,
    bytes: u64,
    evidence: ClassEvidence,
    of_pool: Time,
    of_tier: Time,
    /// Sampled accesses when the threshold was looked at last: by time, and by a full list's worth.
    sampled_before: u64,
    looked_at: u64,
}

#[derive(Default)]
struct Times {
    last: Option<UnixNanos>,
    observed_ns: u64,
    window_ns: u64,
    since_half_ns: u64,
    since_raise_ns: u64,
    sampled: u64,
}

/// See the module's head.
pub(crate) struct Ghosts {
    salt: u64,
    /// Hashes below it are in the sample, by class.
    thresholds: Vec<AtomicU64>,
    ghosts: Vec<Mutex<Ghost>>,
    used: AtomicU32,
    /// A hundredth of the data chunks' share, bytes.
    bin_bytes: AtomicU64,
    times: Mutex<Times>,
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Returns the part of all hashes below a threshold.
fn part(threshold: u64) -> f64 {
    threshold as f64 / u64::MAX as f64
}

const _: () = assert!(Ghosts::MEMORY_BYTES <= 256 << 10);

impl Ghosts {
    /// Memory of the lists and curves, bytes.
    pub const MEMORY_BYTES: u64 =
        ((CHUNKS + CLASSES) * size_of::<Sampled>() + CLASSES * size_of::<Mutex<Ghost>>()) as u64;

    pub fn new(salt: u64) -> Self {
        Self {
            salt,
            thresholds: (0..CLASSES).map(|_| AtomicU64::new(u64::MAX)).collect(),
            ghosts: (0..CLASSES).map(|_| Mutex::default()).collect(),
            used: AtomicU32::new(0),
            bin_bytes: AtomicU64::new(u64::MAX),
            times: Mutex::default(),
        }
    }

    /// Sets the space that all data chunks have by their share, bytes.
    pub fn set_capacity(&self, bytes: u64) {
        self.bin_bytes.store((bytes / 100).max(1), Relaxed);
    }

    fn hash(&self, fingerprint: &Fingerprint) -> u64 {
        mix(fingerprint.bucket_bits() ^ self.salt)
    }

    /// Returns true if accesses to the chunk are to be noted.
    #[inline]
    pub fn samples(&self, fingerprint: &Fingerprint, class: IoClass) -> bool {
        let threshold = self.thresholds.get(usize::from(known(class).0));
        threshold.is_some_and(|at| self.hash(fingerprint) <= at.load(Relaxed))
    }

    fn chunks_max(&self) -> usize {
        let classes = self.used.load(Relaxed).max(1) as usize;
        (CHUNKS / classes).clamp(CHUNKS_OF_CLASS.0, CHUNKS_OF_CLASS.1)
    }

    /// Notes a read of a client that memory did not answer.
    pub fn note_read(&self, fingerprint: &Fingerprint, class: IoClass, access: &Access) {
        self.note(fingerprint, class, access.bytes, Some(access));
    }

    /// Notes that a chunk was stored: if its class is important, it enters.
    pub fn note_stored(&self, fingerprint: &Fingerprint, class: IoClass, bytes: u32) {
        self.note(fingerprint, class, bytes, None);
    }

    fn note(&self, fingerprint: &Fingerprint, class: IoClass, bytes: u32, read: Option<&Access>) {
        let number = usize::from(known(class).0);
        let (Some(ghost), Some(at)) = (self.ghosts.get(number), self.thresholds.get(number)) else {
            return;
        };
        let hash = self.hash(fingerprint);
        let mut ghost = ghost.lock();
        if !ghost.is_used {
            ghost.is_used = true;
            drop(ghost);
            self.share_again();
            return;
        }
        let threshold = at.load(Relaxed);
        if hash > threshold {
            return;
        }
        let sampled = part(threshold);
        let found = ghost.take(hash);
        if let Some(read) = read {
            ghost.count(read, 1.0 / sampled);
            if let Some((chunk, behind)) = found.as_ref().filter(|(chunk, _)| !chunk.is_old) {
                let space = (behind + u64::from(bytes)) as f64 / sampled;
                let bin = (space / self.bin_bytes.load(Relaxed) as f64) as usize;
                let evidence = &mut ghost.evidence;
                let curve = match chunk.was_random {
                    true => &mut evidence.by_pattern,
                    false => &mut evidence.otherwise,
                };
                curve.add(bin, (1.0 / sampled) as f32);
            }
        }
        let was_random = found.is_some_and(|(chunk, _)| chunk.was_random);
        let chunk = Sampled {
            hash,
            bytes,
            is_old: false,
            was_random: was_random || read.is_some_and(|read| read.is_random),
            is_recent: true,
        };
        let chunks_max = self.chunks_max();
        ghost.push(chunk, chunks_max);
        // Twice the longest distance that counts.
        let limit = self.bin_bytes.load(Relaxed) as f64 * sampled * (2 * CURVE_BINS) as f64;
        ghost.drop_older(limit as u64);
        let lower = ghost.shrink(chunks_max);
        let moved = lower.or_else(|| ghost.raised_if_few(threshold, chunks_max));
        if let Some(moved) = moved {
            at.store(moved, Relaxed);
        }
    }

    /// Divides the memory once more: another class came.
    fn share_again(&self) {
        self.used.fetch_add(1, Relaxed);
        let chunks_max = self.chunks_max();
        for (ghost, at) in self.ghosts.iter().zip(&self.thresholds) {
            let mut ghost = ghost.lock();
            if let Some(lower) = ghost.shrink(chunks_max) {
                at.store(lower, Relaxed);
            }
            ghost.chunks.shrink_to(chunks_max + 1);
        }
    }

    /// Lets time pass: counts fade, and thresholds rise that nothing is below.
    pub fn step(&self, now: UnixNanos) {
        let mut times = self.times.lock();
        let passed = times.last.map_or(0, |last| now.0.saturating_sub(last.0));
        times.last = Some(now);
        let sampled: u64 = self
            .ghosts
            .iter()
            .map(|one| one.lock().evidence.sampled)
            .sum();
        // A clock that jumps counts as idle time.
        let passed = u64::try_from(passed).unwrap_or(0).min(STEP_NS_MAX);
        if sampled == 0 {
            return;
        }
        let is_in_use = std::mem::replace(&mut times.sampled, sampled) != sampled;
        times.since_raise_ns += passed;
        if is_in_use {
            times.observed_ns += passed;
            times.window_ns += passed;
            times.since_half_ns += passed;
        }
        let (halve, raise) = (
            times.since_half_ns >= HALF_LIFE_NS,
            times.since_raise_ns >= IDLE_NS,
        );
        if halve {
            times.since_half_ns = 0;
            times.window_ns /= 2;
        }
        if raise {
            times.since_raise_ns = 0;
        }
        drop(times);
        for (ghost, at) in self.ghosts.iter().zip(&self.thresholds) {
            if halve {
                ghost.lock().halve();
            }
            if raise {
                let mut ghost = ghost.lock();
                if let Some(higher) = ghost.raised_if_idle(at.load(Relaxed)) {
                    at.store(higher, Relaxed);
                }
            }
        }
    }

    /// Returns the evidence; with `is_decision`, what is recent begins anew. `held` returns the
    /// space that a class has, in hundredths.
    pub fn evidence(&self, is_decision: bool, held: impl Fn(CacheClass) -> f64) -> Evidence {
        let mut of_tier = Time::default();
        let of_class = |(class, ghost): (IoClass, &Mutex<Ghost>)| {
            let mut ghost = ghost.lock();
            let mut evidence = ghost.evidence.clone();
            if is_decision {
                ghost.evidence.recent = (0.0, 0.0);
            }
            evidence.pool_ns = ghost.of_pool.mean();
            evidence.held_hundredths = held(CacheClass::new(crate::Kind::Data, class));
            of_tier.ns += ghost.of_tier.ns;
            of_tier.reads += ghost.of_tier.reads;
            evidence
        };
        let classes = (0..).map(IoClass).zip(&self.ghosts).map(of_class).collect();
        let times = self.times.lock();
        Evidence {
            classes,
            room_hundredths: 100,
            tier_ns: of_tier.mean(),
            observed_ns: times.observed_ns,
            window_ns: times.window_ns,
        }
    }

    /// Forgets everything: the classes are others now.
    pub fn clear(&self) {
        for (ghost, at) in self.ghosts.iter().zip(&self.thresholds) {
            let mut ghost = ghost.lock();
            *ghost = Ghost::default();
            at.store(u64::MAX, Relaxed);
        }
        self.used.store(0, Relaxed);
        *self.times.lock() = Times::default();
    }
}

impl Ghost {
    /// Takes a chunk out of the list, with the bytes behind it.
    fn take(&mut self, hash: u64) -> Option<(Sampled, u64)> {
        let mut behind = 0;
        let mut at = self.chunks.len();
        for chunk in self.chunks.iter().rev() {
            at -= 1;
            if chunk.hash == hash {
                let taken = self.chunks.remove(at)?;
                self.bytes -= u64::from(taken.bytes);
                return Some((taken, behind));
            }
            behind += u64::from(chunk.bytes);
        }
        None
    }

    fn push(&mut self, chunk: Sampled, chunks_max: usize) {
        // A list that grows by itself doubles.
        let spare = (chunks_max + 1).saturating_sub(self.chunks.len());
        self.chunks.reserve_exact(spare);
        self.bytes += u64::from(chunk.bytes);
        self.chunks.push_back(chunk);
    }

    fn drop_older(&mut self, bytes_max: u64) {
        while let Some(oldest) = self.chunks.front()
            && self.bytes - u64::from(oldest.bytes) > bytes_max
        {
            self.bytes -= u64::from(oldest.bytes);
            self.chunks.pop_front();
        }
    }

    /// Drops the chunks with the highest hashes until so many are left. Returns the new threshold.
    fn shrink(&mut self, chunks_max: usize) -> Option<u64> {
        let mut threshold = None;
        while self.chunks.len() > chunks_max {
            let hashes = self.chunks.iter().map(|chunk| chunk.hash);
            let (at, highest) = hashes.enumerate().max_by_key(|(_, hash)| *hash)?;
            let dropped = self.chunks.remove(at)?;
            self.bytes -= u64::from(dropped.bytes);
            threshold = highest.checked_sub(1);
        }
        threshold
    }

    /// Returns a higher threshold if the class had hardly any accesses in the sample of late.
    fn raised_if_idle(&mut self, threshold: u64) -> Option<u64> {
        let sampled = self.evidence.sampled;
        let before = std::mem::replace(&mut self.sampled_before, sampled);
        match threshold == u64::MAX || sampled - before >= IDLE_BELOW {
            true => None,
            false => Some(self.raise(threshold, 0)),
        }
    }

    /// Returns a higher threshold if the accesses in the sample are for few chunks.
    fn raised_if_few(&mut self, threshold: u64, chunks_max: usize) -> Option<u64> {
        let sampled = self.evidence.sampled;
        if threshold == u64::MAX || sampled - self.looked_at < chunks_max as u64 {
            return None;
        }
        self.looked_at = sampled;
        let chunks = self.chunks.iter_mut();
        let recent = chunks.filter_map(|one| std::mem::take(&mut one.is_recent).then_some(()));
        let recent = recent.count();
        (recent < chunks_max / FEW).then(|| self.raise(threshold, recent))
    }

    /// Raises the threshold. The last `recent` chunks stay, or the list would be full again at
    /// once. Distances across the change are unknown.
    fn raise(&mut self, threshold: u64, recent: usize) -> u64 {
        let older = self.chunks.len().saturating_sub(recent);
        let dropped: u64 = self
            .chunks
            .drain(..older)
            .map(|one| u64::from(one.bytes))
            .sum();
        self.bytes -= dropped;
        self.chunks.iter_mut().for_each(|chunk| chunk.is_old = true);
        threshold.saturating_mul(2)
    }

    fn count(&mut self, read: &Access, weight: f64) {
        let evidence = &mut self.evidence;
        evidence.sampled += 1;
        evidence.accesses += weight;
        evidence.recent.0 += weight;
        if read.is_hit {
            evidence.hits += weight;
            evidence.recent.1 += weight;
            self.of_tier.add(read.ns);
        } else {
            self.of_pool.add(read.ns);
        }
    }

    fn halve(&mut self) {
        let evidence = &mut self.evidence;
        evidence.accesses /= 2.0;
        evidence.hits /= 2.0;
        for curve in [&mut evidence.by_pattern, &mut evidence.otherwise] {
            Curve::halve(curve);
        }
        for time in [&mut self.of_pool, &mut self.of_tier] {
            time.ns /= 2.0;
            time.reads /= 2.0;
        }
    }
}

#[cfg(test)]
mod tests;
