//! The front of an open volume or view: how it is accessed, and where its streams are looked at
//! again.
//!
//! Invariant: a hint; nothing here changes what is read. A request that the page cache answers
//! costs a few loads and no lock: only requests that miss are judged, and of those that hit the
//! one that reaches the place where a stream is due (decision 23). At most 3 KiB an object.
//! Called by who reads.

use super::decisions::Meters;
use access_pattern::{
    Detector, Fetch, FetchInto, FetchLimits, Pattern, Prefetch, STREAMS, Threshold,
};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is to be done for a request.
pub(super) struct Judgement {
    /// It goes on with a stream: more of the same region, and of its container, is asked for soon.
    pub follows: bool,
    /// What to fetch into memory.
    pub fetch: Option<Fetch>,
}

/// No stream is awaited.
const NOWHERE: u64 = u64::MAX;

struct Judge {
    detector: Detector,
    prefetch: Prefetch,
    object_bytes: u64,
}

/// See the module's head.
pub(super) struct Front {
    /// Where each stream is looked at again.
    awaited: [AtomicU64; STREAMS],
    judge: Mutex<Judge>,
}

const _: () = assert!(size_of::<Front>() <= 3 << 10);

impl Front {
    pub fn new(object_bytes: u64) -> Self {
        Self {
            awaited: [const { AtomicU64::new(NOWHERE) }; STREAMS],
            judge: Mutex::new(Judge::new(object_bytes)),
        }
    }

    /// True if a stream is looked at again where `[offset, end)` is. The streams' places were
    /// armed within reach of the requests that follow them: `near` of what follows.
    pub fn awaits(&self, offset: u64, end: u64) -> bool {
        let due = |at: &AtomicU64| {
            let at = at.load(Ordering::Relaxed);
            end >= at && offset <= at.saturating_add(AWAITED_BYTES)
        };
        self.awaited.iter().any(due)
    }

    /// Judges a request of an object that has `object_bytes` now.
    pub fn observe(
        &self,
        meters: &Meters,
        object_bytes: u64,
        (offset, len): (u64, u64),
    ) -> Judgement {
        let mut judge = self.judge.lock();
        if judge.object_bytes != object_bytes {
            *judge = Judge::new(object_bytes);
        }
        let pattern = judge.detector.observe(offset, len);
        let fetch = judge.prefetch.plan(pattern, offset, len);
        if let Some(look) = judge.prefetch.next_look()
            && let Some(awaited) = self.awaited.get(look.stream)
        {
            awaited.store(look.at_bytes, Ordering::Relaxed);
        }
        let follows = judge.prefetch.follows_a_stream();
        drop(judge);
        let [sequential, monotonic, random] = &meters.judged;
        let judged = match pattern {
            Pattern::Sequential => sequential,
            Pattern::Monotonic => monotonic,
            Pattern::Random => random,
        };
        Meters::add(judged, 1);
        Judgement {
            follows,
            // There is no fast tier yet.
            fetch: fetch.filter(|f| f.into == FetchInto::Memory),
        }
    }
}

/// A request this far behind the place, or less, is of the stream that is awaited there.
const AWAITED_BYTES: u64 = 1 << 20;

impl Judge {
    fn new(object_bytes: u64) -> Self {
        let threshold = Threshold::for_object(object_bytes);
        Self {
            detector: Detector::new(object_bytes, threshold),
            prefetch: Prefetch::new(object_bytes, threshold.bytes, FetchLimits::default()),
            object_bytes,
        }
    }
}
