//! Hot buckets in memory: a set-associative cache with a second chance within each set.
//!
//! A lookup that misses reads the device without any lock. What it read may be torn or outdated by
//! a write that ran meanwhile; each set therefore counts the writes that began (its epoch), and
//! holds the new contents of a bucket from before its write starts until after it ended.
//!
//! Maintenance asks for nearly every bucket, and not soon again: what it looks up takes the place of what
//! nobody asks for, and never that of what clients do.
//!
//! Invariant: a bucket in the cache is what the file holds, or will hold when the write in flight
//! ends; no lock of a set is held across device I/O. Called by the table.

use format::index::{BUCKET_BYTES, Bucket};
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const WAYS: usize = 8;
/// Bytes of memory of a cached bucket.
const WAY_BYTES: usize = BUCKET_BYTES + size_of::<Way>();

/// What a look into the cache gave.
pub(super) enum Probe<R> {
    /// What the closure made of the bucket.
    Hit(R),
    /// Read the device; a write began meanwhile if the epoch is another one then.
    Miss(u64),
}

/// Whether somebody may ask for the same bucket again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visit {
    /// As clients and backups do.
    Returns,
    /// Maintenance, which goes through all of them.
    Passes,
}

/// The cache of one table.
pub(super) struct BucketCache {
    sets: Vec<Mutex<Set>>,
    cached: AtomicUsize,
}

#[derive(Default)]
struct Set {
    ways: Vec<Way>,
    hand: usize,
    epoch: u64,
    in_flight: Vec<InFlight>,
}

struct InFlight {
    number: u64,
    hot: bool,
    bucket: Bucket,
}

struct Way {
    number: u64,
    referenced: bool,
    bucket: Bucket,
}

impl BucketCache {
    /// For a table of so many buckets, within so many bytes.
    pub(super) fn new(bytes: usize, buckets: u64) -> Self {
        let useful = usize::try_from(buckets.div_ceil(WAYS as u64)).unwrap_or(usize::MAX);
        let per_set = WAYS * WAY_BYTES + size_of::<Mutex<Set>>();
        let sets = (bytes / per_set).clamp(1, useful.max(1));
        Self {
            sets: (0..sets).map(|_| Mutex::default()).collect(),
            cached: AtomicUsize::new(0),
        }
    }

    /// Bytes of memory in use.
    pub(super) fn bytes(&self) -> usize {
        self.cached.load(Relaxed) * WAY_BYTES + self.sets.len() * size_of::<Mutex<Set>>()
    }

    /// Shows a bucket to `look` if it is in memory.
    pub(super) fn probe<R>(
        &self,
        number: u64,
        visit: Visit,
        look: impl FnOnce(&Bucket) -> R,
    ) -> Probe<R> {
        let mut set = self.set(number);
        if let Some(way) = set.ways.iter_mut().find(|way| way.number == number) {
            way.referenced |= visit == Visit::Returns;
            return Probe::Hit(look(&way.bucket));
        }
        match set.in_flight.iter().find(|write| write.number == number) {
            Some(write) => Probe::Hit(look(&write.bucket)),
            None => Probe::Miss(set.epoch),
        }
    }

    /// Keeps a bucket that was read after a miss with this epoch, unless a write to its set began
    /// since: the bytes may be older than that.
    pub(super) fn admit(&self, number: u64, epoch: u64, visit: Visit, bucket: Bucket) {
        let mut set = self.set(number);
        if set.epoch != epoch || set.ways.iter().any(|way| way.number == number) {
            return;
        }
        match visit {
            Visit::Returns => self.keep(&mut set, number, bucket, true),
            Visit::Passes if set.ways.len() < WAYS => self.keep(&mut set, number, bucket, false),
            Visit::Passes => {
                if let Some(victim) = set.ways.iter_mut().find(|way| !way.referenced) {
                    *victim = Way {
                        number,
                        referenced: false,
                        bucket,
                    };
                }
            }
        }
    }

    /// A bucket is about to be written: from now on lookups see the new contents, and it cannot be
    /// evicted, so nobody reads the device beneath the write.
    pub(super) fn begin_write(&self, number: u64, bucket: Bucket) {
        let mut set = self.set(number);
        set.epoch += 1;
        let cached = set.ways.iter().position(|way| way.number == number);
        if let Some(at) = cached {
            set.ways.swap_remove(at);
            self.cached.fetch_sub(1, Relaxed);
        }
        let hot = cached.is_some();
        set.in_flight.push(InFlight {
            number,
            hot,
            bucket,
        });
    }

    /// The write ended. After a failed one the device decides what the bucket is.
    pub(super) fn end_write(&self, number: u64, written: bool) {
        let mut set = self.set(number);
        if let Some(at) = set
            .in_flight
            .iter()
            .position(|write| write.number == number)
        {
            let InFlight { hot, bucket, .. } = set.in_flight.swap_remove(at);
            if written && (hot || set.ways.len() < WAYS) {
                self.keep(&mut set, number, bucket, hot);
            }
        }
    }

    fn keep(&self, set: &mut Set, number: u64, bucket: Bucket, referenced: bool) {
        let way = Way {
            number,
            referenced,
            bucket,
        };
        if set.ways.len() < WAYS {
            set.ways.push(way);
            self.cached.fetch_add(1, Relaxed);
            return;
        }
        // Two rounds suffice: the first takes the second chances away.
        for _ in 0..=2 * WAYS {
            set.hand = (set.hand + 1) % WAYS;
            let hand = set.hand;
            if let Some(victim) = set.ways.get_mut(hand)
                && !std::mem::take(&mut victim.referenced)
            {
                *victim = way;
                return;
            }
        }
    }

    fn set(&self, number: u64) -> MutexGuard<'_, Set> {
        let at = (number % self.sets.len() as u64) as usize;
        self.sets[at].lock()
    }
}
