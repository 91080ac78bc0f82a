//! Meters of client requests by export: counts, bytes, latencies, errors. The server's exports
//! write them; `top`, `status` and the metrics read them.
//!
//! Invariant: measuring does not change an answer and takes no lock while writes succeed. Counts
//! never decrease. Each exported name has one meter, whichever client opens it.

use crate::failures::LastFailure;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use volume::{
    Capabilities, FastPath, Layer, Operation, RequestContext, Volume, VolumeError, VolumeErrorKind,
    VolumeRequest,
};
use volumes::CacheMeter;

/// Number of buckets of a latency histogram: four for each doubling, from 1 us to a minute.
pub const BUCKETS: usize = 104;

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Flush.
    Flush,
    /// Discard, write zeroes, extents.
    Other,
}

impl Asked {
    /// All kinds, with their names in metrics.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Read, "read"),
        (Self::Write, "write"),
        (Self::Flush, "flush"),
        (Self::Other, "other"),
    ];
}

/// Counters of one kind of request.
struct Kind {
    count: AtomicU64,
    bytes: AtomicU64,
    busy_us: AtomicU64,
    latency: [AtomicU64; BUCKETS],
}

impl Default for Kind {
    fn default() -> Self {
        Self {
            count: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            busy_us: AtomicU64::new(0),
            latency: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }
}

/// Meter of an export. See the module's head.
#[derive(Default)]
pub struct Meter {
    kinds: [Kind; Asked::ALL.len()],
    errors: AtomicU64,
    in_flight: AtomicU64,
    /// Cache counters of snapshots. Volumes have their own.
    pub cache: Arc<CacheMeter>,
    /// Records requests that the store failed or had no space for, until a flush succeeds.
    last_failure: Arc<LastFailure>,
}

/// Reading of one kind of request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindReading {
    /// Requests that ended, including failed ones.
    pub count: u64,
    /// Bytes of these requests.
    pub bytes: u64,
    /// Sum of their durations, microseconds.
    pub busy_us: u64,
    /// Number of requests by duration. See [`bucket_limit_us`].
    pub latency: [u64; BUCKETS],
}

impl Default for KindReading {
    fn default() -> Self {
        Self {
            count: 0,
            bytes: 0,
            busy_us: 0,
            latency: [0; BUCKETS],
        }
    }
}

/// Reading of a meter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Readings in the order of [`Asked::ALL`].
    pub kinds: [KindReading; Asked::ALL.len()],
    /// Number of requests that failed.
    pub errors: u64,
    /// Number of requests in flight.
    pub in_flight: u64,
}

impl Meter {
    /// Makes a meter that records failures of the store in `last_failure`.
    pub fn telling(last_failure: &Arc<LastFailure>) -> Self {
        Self {
            last_failure: Arc::clone(last_failure),
            ..Self::default()
        }
    }

    /// Returns the number of reads that ended.
    pub fn reads(&self) -> u64 {
        let [reads, ..] = &self.kinds;
        reads.count.load(Relaxed)
    }

    /// Returns the present reading.
    pub fn read(&self) -> Reading {
        let kind = |kind: &Kind| KindReading {
            count: kind.count.load(Relaxed),
            bytes: kind.bytes.load(Relaxed),
            busy_us: kind.busy_us.load(Relaxed),
            latency: kind.latency.each_ref().map(|bucket| bucket.load(Relaxed)),
        };
        Reading {
            kinds: self.kinds.each_ref().map(kind),
            errors: self.errors.load(Relaxed),
            in_flight: self.in_flight.load(Relaxed),
        }
    }

    fn begin(&self) -> Instant {
        self.in_flight.fetch_add(1, Relaxed);
        Instant::now()
    }

    fn end<T>(&self, asked: Asked, bytes: u64, since: Instant, done: &Result<T, VolumeError>) {
        let us = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
        let [read, write, flush, other] = &self.kinds;
        let kind = match asked {
            Asked::Read => read,
            Asked::Write => write,
            Asked::Flush => flush,
            Asked::Other => other,
        };
        kind.count.fetch_add(1, Relaxed);
        kind.bytes.fetch_add(bytes, Relaxed);
        kind.busy_us.fetch_add(us, Relaxed);
        if let Some(bucket) = kind.latency.get(bucket(us)) {
            bucket.fetch_add(1, Relaxed);
        }
        match done {
            Ok(_) if asked == Asked::Flush => self.last_failure.clear(),
            Ok(_) => {}
            Err(e) => {
                self.errors.fetch_add(1, Relaxed);
                if matches!(e.kind, VolumeErrorKind::Failed | VolumeErrorKind::NoSpace) {
                    self.last_failure.note(e.to_string());
                }
            }
        }
        self.in_flight.fetch_sub(1, Relaxed);
    }
}

/// Returns the bucket of a duration, microseconds.
fn bucket(us: u64) -> usize {
    if us < 4 {
        return us as usize;
    }
    let octave = us.ilog2();
    let quarter = (us >> (octave - 2)) & 3;
    ((octave as usize - 1) * 4 + quarter as usize).min(BUCKETS - 1)
}

/// Returns the upper limit of a bucket, microseconds, exclusive.
pub fn bucket_limit_us(bucket: usize) -> u64 {
    match bucket {
        0..4 => bucket as u64 + 1,
        _ => {
            let (octave, quarter) = (bucket / 4 + 1, bucket as u64 % 4);
            (5 + quarter) << (octave - 2)
        }
    }
}

impl KindReading {
    /// Returns the difference to an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut latency = self.latency;
        for (now, then) in latency.iter_mut().zip(earlier.latency) {
            *now = now.saturating_sub(then);
        }
        Self {
            count: self.count.saturating_sub(earlier.count),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            busy_us: self.busy_us.saturating_sub(earlier.busy_us),
            latency,
        }
    }

    /// Returns the sum.
    pub fn and(&self, other: &Self) -> Self {
        let mut latency = self.latency;
        for (sum, more) in latency.iter_mut().zip(other.latency) {
            *sum += more;
        }
        Self {
            count: self.count + other.count,
            bytes: self.bytes + other.bytes,
            busy_us: self.busy_us + other.busy_us,
            latency,
        }
    }

    /// Returns the mean duration, microseconds. 0 without requests.
    pub fn mean_us(&self) -> f64 {
        self.busy_us as f64 / self.count.max(1) as f64
    }

    /// Returns the duration that this many thousandths of the requests stay below, microseconds.
    /// The result is rounded up by at most a quarter.
    pub fn quantile_us(&self, thousandths: u64) -> u64 {
        let counted: u64 = self.latency.iter().sum();
        let wanted = (counted * thousandths).div_ceil(1000);
        let mut seen = 0;
        for (bucket, count) in self.latency.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return bucket_limit_us(bucket);
            }
        }
        0
    }
}

impl Reading {
    /// Returns the difference to an earlier reading. Requests in flight are the present ones.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut kinds = self.kinds.clone();
        for (now, then) in kinds.iter_mut().zip(&earlier.kinds) {
            *now = now.since(then);
        }
        Self {
            kinds,
            errors: self.errors.saturating_sub(earlier.errors),
            in_flight: self.in_flight,
        }
    }

    /// Returns the sum of all kinds.
    pub fn all(&self) -> KindReading {
        let none = KindReading::default();
        self.kinds.iter().fold(none, |sum, kind| sum.and(kind))
    }
}

/// Measures every request to the volume below.
pub struct Metered<V> {
    inner: V,
    meter: Arc<Meter>,
}

impl<V: Volume> Metered<V> {
    /// Adds requests of `inner` to `meter`.
    pub fn new(inner: V, meter: Arc<Meter>) -> Self {
        Self { inner, meter }
    }
}

impl<V: Volume> Layer for Metered<V> {
    type Inner = V;

    fn below(&self) -> &V {
        &self.inner
    }

    fn around(
        &self,
        request: VolumeRequest,
        go: impl FnOnce(&V) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        let (asked, bytes) = match request.operation {
            Operation::Read => (Asked::Read, request.len_bytes),
            Operation::Write => (Asked::Write, request.len_bytes),
            Operation::Flush => (Asked::Flush, 0),
            Operation::Discard | Operation::WriteZeroes | Operation::Extents => (Asked::Other, 0),
        };
        let since = self.meter.begin();
        let result = go(&self.inner);
        self.meter.end(asked, bytes, since, &result);
        result
    }

    fn capabilities<'a>(&'a self, below: Capabilities<'a>) -> Capabilities<'a> {
        Capabilities {
            fast_path: below.fast_path.map(|_| self as &dyn FastPath),
            ..below
        }
    }
}

impl<V: Volume> FastPath for Metered<V> {
    fn is_cached(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
        let below = self.inner.capabilities();
        below.is_cached(context, offset_bytes, len_bytes)
    }

    /// Counts a write that was done here. Otherwise the caller repeats it as an ordinary write,
    /// which is counted there.
    fn write_now(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        data: &[u8],
    ) -> Result<bool, VolumeError> {
        let since = self.meter.begin();
        let below = self.inner.capabilities();
        let result = below.write_now(context, offset_bytes, data);
        match &result {
            Ok(false) => {
                self.meter.in_flight.fetch_sub(1, Relaxed);
            }
            done => {
                let bytes = data.len() as u64;
                self.meter.end(Asked::Write, bytes, since, done);
            }
        }
        result
    }
}

/// One meter for every export name that a client ever opened.
pub struct ExportMeters {
    failures: Arc<LastFailure>,
    meters: Mutex<BTreeMap<String, Arc<Meter>>>,
}

impl ExportMeters {
    /// Failed requests are recorded in `failures`.
    pub fn new(failures: &Arc<LastFailure>) -> Self {
        Self {
            failures: Arc::clone(failures),
            meters: Mutex::default(),
        }
    }

    /// Returns the meter of an export's requests.
    pub fn of(&self, export: &str) -> Arc<Meter> {
        let mut meters = self.meters.lock();
        let new = || Arc::new(Meter::telling(&self.failures));
        Arc::clone(meters.entry(export.to_owned()).or_insert_with(new))
    }

    /// Calls `each` with every name and its meter.
    pub fn for_each(&self, mut each: impl FnMut(&str, &Meter)) {
        for (name, meter) in self.meters.lock().iter() {
            each(name, meter);
        }
    }

    /// Returns the number of client reads since the server began.
    pub fn reads(&self) -> u64 {
        self.meters.lock().values().map(|meter| meter.reads()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Arc, BUCKETS, KindReading, Meter, Metered, Relaxed, RequestContext, Volume, bucket,
        bucket_limit_us,
    };
    use testkit::conformance::volume::abilities_suite;
    use volume::{Durability, MemoryVolume};

    #[test]
    fn buckets_follow_each_other() {
        let mut last = 0;
        for us in 0..100_000u64 {
            let bucket = bucket(us);
            assert!(bucket == last || bucket == last + 1, "{us}");
            assert!(us < bucket_limit_us(bucket));
            assert!(bucket == 0 || us >= bucket_limit_us(bucket - 1), "{us}");
            last = bucket;
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_come_from_above() {
        let meter = Meter::default();
        let [read, ..] = &meter.kinds;
        for us in 1..=1000u64 {
            read.latency[bucket(us)].fetch_add(1, Relaxed);
        }
        let [read, ..] = meter.read().kinds;
        for (thousandths, us) in [(500, 500.0), (990, 990.0)] {
            let found = read.quantile_us(thousandths) as f64;
            assert!(found >= us && found <= us * 1.25, "{found}");
        }
        assert_eq!(KindReading::default().quantile_us(990), 0);
    }

    #[test]
    fn every_request_is_measured_once() {
        let meter = Arc::new(Meter::default());
        let volume = Metered::new(MemoryVolume::new(1 << 20), Arc::clone(&meter));
        let context = RequestContext::default();
        volume.read(context, 0, &mut [0; 300]).unwrap();
        let before = meter.read();
        volume.read(context, 0, &mut [0; 200]).unwrap();
        volume
            .write(context, 0, &[1; 200], Durability::Durable)
            .unwrap();
        let now = volume.capabilities().write_now(context, 0, &[1; 50]);
        let now = now.unwrap();
        volume.flush(context).unwrap();
        volume.discard(context, 0, 1).unwrap();
        let since = meter.read().since(&before);
        let counts = since.kinds.each_ref().map(|kind| (kind.count, kind.bytes));
        let written = 200 + 50 * u64::from(now);
        let writes = (1 + u64::from(now), written);
        assert_eq!(counts, [(1, 200), writes, (1, 0), (1, 0)]);
        assert_eq!((since.errors, since.in_flight), (0, 0));
        assert_eq!(since.all().count, 4 + u64::from(now));
    }

    #[test]
    fn abilities_stay() {
        abilities_suite(
            &|volume| Box::new(Metered::new(volume, Arc::default())),
            &[],
        );
    }
}
