//! Caches hot buckets in memory: a set-associative cache with a second chance within each set. The
//! table calls this.
//!
//! A lookup that misses reads the device without any lock. A concurrent write may make these bytes
//! torn or outdated. Therefore each set counts the writes that began (its epoch), and keeps the new
//! contents of a bucket from before its write begins until after it ends.
//!
//! Maintenance asks for nearly every bucket once. Buckets that it reads replace only buckets
//! without a second chance, and get none themselves.
//!
//! For buckets that are not here it has a filter, see `absence`.
//!
//! Invariant: a bucket in the cache equals the file's, or will when the write in flight ends. No
//! lock of a set is held across device I/O.

use super::absence::{Absence, Presence};
use format::index::{BUCKET_BYTES, Bucket};
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const WAYS: usize = 8;
/// Memory of a cached bucket, bytes.
const WAY_BYTES: usize = BUCKET_BYTES + size_of::<Way>();

/// Result of a look into the cache.
pub(super) enum Probe<R> {
    /// The result of the closure.
    Hit(R),
    /// The bucket is not in memory, and does not have the key.
    Absent,
    /// The bucket must be read from the device.
    Miss(Missed),
}

/// A look that found nothing in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missed {
    /// If it has changed after the read, a write began meanwhile.
    pub(super) epoch: u64,
    /// The bucket has no filter yet, and would get one.
    pub(super) lacks_filter: bool,
}

/// Selects whether the bucket is likely to be needed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReuseHint {
    /// Likely: clients and backups.
    Returns,
    /// Unlikely: maintenance, which visits all buckets.
    Passes,
}

/// The cache of one table.
pub(super) struct BucketCache {
    sets: Vec<Mutex<Set>>,
    absence: Absence,
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
    /// Creates a cache for a table of `buckets` buckets, in at most `bytes` bytes. Up to half of
    /// them are for filters if `filters` is true and the buckets do not all fit. Only the process
    /// that writes the file may have filters: nothing tells of another's writes.
    pub(super) fn new(bytes: usize, buckets: u64, filters: bool) -> Self {
        let useful = usize::try_from(buckets.div_ceil(WAYS as u64)).unwrap_or(usize::MAX);
        let per_set = WAYS * WAY_BYTES + size_of::<Mutex<Set>>();
        let absence = match filters && bytes / per_set < useful {
            true => Absence::new(bytes / 2, buckets),
            false => Absence::none(),
        };
        let left = bytes.saturating_sub(absence.bytes());
        let sets = (left / per_set).clamp(1, useful.max(1));
        Self {
            sets: (0..sets).map(|_| Mutex::default()).collect(),
            absence,
            cached: AtomicUsize::new(0),
        }
    }

    /// Returns the memory used, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.cached.load(Relaxed) * WAY_BYTES
            + self.sets.len() * size_of::<Mutex<Set>>()
            + self.absence.bytes()
    }

    /// Calls `look` with a bucket if it is in memory, and asks its filter for the key `rest` if
    /// not.
    pub(super) fn probe<R>(
        &self,
        (number, rest): (u64, u64),
        visit: ReuseHint,
        look: impl FnOnce(&Bucket) -> R,
    ) -> Probe<R> {
        let mut set = self.set(number);
        if let Some(way) = set.ways.iter_mut().find(|way| way.number == number) {
            way.referenced |= visit == ReuseHint::Returns;
            return Probe::Hit(look(&way.bucket));
        }
        if let Some(write) = set.in_flight.iter().find(|write| write.number == number) {
            return Probe::Hit(look(&write.bucket));
        }
        let lacks_filter = match self.absence.look(number, rest) {
            Presence::Absent => return Probe::Absent,
            Presence::Unknown => true,
            Presence::Possible | Presence::Uncovered => false,
        };
        Probe::Miss(Missed {
            epoch: set.epoch,
            lacks_filter,
        })
    }

    /// Returns the epoch of a bucket's set, or `None` while the bucket is being written.
    pub(super) fn epoch(&self, number: u64) -> Option<u64> {
        let set = self.set(number);
        let is_being_written = set.in_flight.iter().any(|write| write.number == number);
        (!is_being_written).then_some(set.epoch)
    }

    /// Makes the filter of a bucket that was read when its set had this epoch. Does nothing if a
    /// write to its set began since.
    pub(super) fn learn(&self, number: u64, epoch: u64, bucket: &Bucket) {
        let set = self.set(number);
        if set.epoch == epoch {
            self.absence.learn(number, bucket);
        }
    }

    /// Caches a bucket that was read after a miss with this epoch. Does nothing if a write to its
    /// set began since: the bytes may be older than that write.
    pub(super) fn admit(&self, number: u64, epoch: u64, visit: ReuseHint, bucket: Bucket) {
        let mut set = self.set(number);
        if set.epoch != epoch {
            return;
        }
        self.absence.learn(number, &bucket);
        if set.ways.iter().any(|way| way.number == number) {
            return;
        }
        match visit {
            ReuseHint::Returns => self.keep(&mut set, number, bucket, true),
            ReuseHint::Passes if set.ways.len() < WAYS => {
                self.keep(&mut set, number, bucket, false)
            }
            ReuseHint::Passes => {
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

    /// Begins the write of a bucket. From now on lookups see the new contents and the bucket cannot
    /// be evicted, so no lookup reads the device during the write.
    pub(super) fn begin_write(&self, number: u64, bucket: Bucket) {
        let mut set = self.set(number);
        set.epoch += 1;
        self.absence.learn(number, &bucket);
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

    /// Ends the write of a bucket. After a failed one the next lookup reads the device.
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
        // Two passes suffice: the first one takes the second chances.
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
