//! Front of an open volume or view: classifies its requests, and remembers where its streams are
//! due for another look.
//!
//! Reads call this.
//! Invariant: a hint that never changes what is read. A hit in the page cache costs a few loads and
//! no lock. A request that no layer above has judged is judged only if it misses, or if it reaches
//! a place where a stream is due (decision 23). A front takes at most 3 KiB.

use super::decisions::Meters;
use access_pattern::{Detector, Fetch, FetchLimits, Pattern, Prefetch, STREAMS, Threshold};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Consequences of a request.
pub(super) struct AccessHint {
    /// The request continues a stream: more of its region and container will be needed soon.
    pub follows: bool,
    /// Range to fetch.
    pub fetch: Option<Fetch>,
}

/// No stream is due.
const NOWHERE: u64 = u64::MAX;

struct StreamDetector {
    detector: Detector,
    prefetch: Prefetch,
    object_bytes: u64,
}

/// Front of one object. See the module's head.
pub(super) struct AccessTracker {
    /// Place at which each stream is due for another look.
    awaited: [AtomicU64; STREAMS],
    /// Bytes of the long requests in progress.
    long_bytes: AtomicU64,
    streams: Mutex<StreamDetector>,
}

/// Bytes that a client has in flight when it reads ahead itself: as many as two runs of regions.
/// Read-ahead would read the same regions once more.
const READS_AHEAD_BYTES: u64 = 2 << 20;

/// A long request in progress, until this is dropped.
pub(super) struct LongRequest<'a> {
    of_all: &'a AtomicU64,
    bytes: u64,
}

impl LongRequest<'_> {
    /// Returns true if the client keeps the device busy itself.
    pub fn client_reads_ahead(&self) -> bool {
        self.of_all.load(Ordering::Relaxed) >= READS_AHEAD_BYTES
    }
}

impl Drop for LongRequest<'_> {
    fn drop(&mut self) {
        self.of_all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

const _: () = assert!(size_of::<AccessTracker>() <= 3 << 10);

impl AccessTracker {
    pub fn new(object_bytes: u64) -> Self {
        Self {
            awaited: [const { AtomicU64::new(NOWHERE) }; STREAMS],
            long_bytes: AtomicU64::new(0),
            streams: Mutex::new(StreamDetector::new(object_bytes)),
        }
    }

    /// Counts a long request of that many bytes.
    pub fn begin_long(&self, bytes: u64) -> LongRequest<'_> {
        let of_all = &self.long_bytes;
        of_all.fetch_add(bytes, Ordering::Relaxed);
        LongRequest { of_all, bytes }
    }

    /// Returns true if a stream is due in `[offset, end)`, or up to [`AWAITED_BYTES`] before
    /// `offset`.
    pub fn awaits(&self, offset: u64, end: u64) -> bool {
        let due = |at: &AtomicU64| {
            let at = at.load(Ordering::Relaxed);
            end >= at && offset <= at.saturating_add(AWAITED_BYTES)
        };
        self.awaited.iter().any(due)
    }

    /// Plans for a request of an object whose size is now `object_bytes`. Judges it unless its
    /// pattern is known.
    pub fn observe(
        &self,
        meters: &Meters,
        object_bytes: u64,
        (offset, len): (u64, u64),
        known: Option<Pattern>,
    ) -> AccessHint {
        let mut streams = self.streams.lock();
        if streams.object_bytes != object_bytes {
            *streams = StreamDetector::new(object_bytes);
        }
        let pattern = known.unwrap_or_else(|| streams.detector.observe(offset, len));
        let fetch = streams.prefetch.plan(pattern, offset, len);
        if let Some(look) = streams.prefetch.next_look()
            && let Some(awaited) = self.awaited.get(look.stream)
        {
            awaited.store(look.at_bytes, Ordering::Relaxed);
        }
        let follows = streams.prefetch.follows_a_stream();
        drop(streams);
        let [sequential, monotonic, random] = &meters.judged;
        let judged = match pattern {
            Pattern::Sequential => sequential,
            Pattern::Monotonic => monotonic,
            Pattern::Random => random,
        };
        Meters::add(judged, 1);
        AccessHint { follows, fetch }
    }
}

/// A request up to this far after the place belongs to the stream that is due there.
const AWAITED_BYTES: u64 = 1 << 20;

impl StreamDetector {
    fn new(object_bytes: u64) -> Self {
        let threshold = Threshold::for_object(object_bytes);
        Self {
            detector: Detector::new(object_bytes, threshold),
            prefetch: Prefetch::new(object_bytes, threshold.bytes, FetchLimits::default()),
            object_bytes,
        }
    }
}
