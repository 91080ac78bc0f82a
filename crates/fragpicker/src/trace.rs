//! Records which ranges are requested, and how often of late.
//!
//! The component that sees the requests calls this, from one thread at a time.
//! Invariant: a trace has at most `ranges_max` different ranges. Time is counted in requests.

use crate::analysis::{HotRange, merge};
use crate::{BLOCK_BYTES, WINDOW_BYTES};
use std::collections::BTreeMap;

/// Weight that one request adds. It is forgotten when it has halved eight times.
pub const REQUEST_WEIGHT: u64 = 1 << 8;

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TracedRequest {
    /// Object that is accessed.
    pub object: u64,
    /// First byte.
    pub offset: u64,
    /// Length, bytes.
    pub len: u64,
    /// The request bypasses the system's cache.
    pub is_direct: bool,
    /// The request is a write.
    pub is_write: bool,
}

/// Limits of a trace.
#[derive(Clone, Copy, Debug)]
pub struct TraceOptions {
    /// Maximum number of different ranges; each takes about 64 bytes.
    pub ranges_max: usize,
    /// Weights halve after this many requests.
    pub half_life: u64,
}

impl Default for TraceOptions {
    fn default() -> Self {
        Self {
            ranges_max: 1 << 18,
            half_life: 1 << 22,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    object: u64,
    start: u64,
    end: u64,
}

/// A weight as of an epoch. It has halved once for each epoch since.
#[derive(Clone, Copy)]
struct Weight {
    then: u32,
    epoch: u32,
}

impl Weight {
    fn now(self, epoch: u32) -> u64 {
        let halvings = epoch.saturating_sub(self.epoch);
        u64::from(self.then.checked_shr(halvings).unwrap_or(0))
    }
}

/// Sequential state of an object's reader.
#[derive(Clone, Copy, Default)]
struct Reader {
    /// End of the last request.
    end: u64,
    /// End of the window that was read ahead; 0 when there is none.
    window_end: u64,
}

/// Requested ranges and their weights, for several objects.
pub struct Trace {
    options: TraceOptions,
    ranges: BTreeMap<Key, Weight>,
    readers: BTreeMap<u64, Reader>,
    requests: u64,
    dropped: u64,
}

impl Trace {
    /// Makes an empty trace.
    pub fn new(options: TraceOptions) -> Self {
        Self {
            options,
            ranges: BTreeMap::new(),
            readers: BTreeMap::new(),
            requests: 0,
            dropped: 0,
        }
    }

    /// Records a request.
    pub fn record(&mut self, access: &TracedRequest) {
        if access.len == 0 {
            return;
        }
        self.requests += 1;
        let start = access.offset / BLOCK_BYTES * BLOCK_BYTES;
        let end = access.offset.saturating_add(access.len);
        let end = end.checked_next_multiple_of(BLOCK_BYTES).unwrap_or(end);
        let reader = self.readers.entry(access.object).or_default();
        let is_buffered_read = !access.is_direct && !access.is_write;
        let continues = is_buffered_read && access.offset == reader.end && access.offset > 0;
        reader.end = access.offset.saturating_add(access.len);
        if !continues {
            reader.window_end = 0;
            self.add(access.object, start, end);
            return;
        }
        if end <= reader.window_end {
            return;
        }
        // Bytes in the last window were read with it.
        let start = start.max(reader.window_end);
        let end = end.max(start.saturating_add(WINDOW_BYTES));
        reader.window_end = end;
        self.add(access.object, start, end);
    }

    fn add(&mut self, object: u64, start: u64, end: u64) {
        self.weigh(object, start, end, REQUEST_WEIGHT);
    }

    fn weigh(&mut self, object: u64, start: u64, end: u64, more: u64) {
        let key = Key { object, start, end };
        let epoch = self.epoch();
        if self.ranges.len() >= self.options.ranges_max && !self.ranges.contains_key(&key) {
            self.drop_the_coldest();
        }
        let nothing = Weight { then: 0, epoch };
        let weight = self.ranges.entry(key).or_insert(nothing);
        let now = weight.now(epoch).saturating_add(more);
        let then = u32::try_from(now).unwrap_or(u32::MAX);
        *weight = Weight { then, epoch };
    }

    fn epoch(&self) -> u32 {
        (self.requests / self.options.half_life.max(1)) as u32
    }

    /// Drops the coldest quarter of the ranges; among equals those of the last objects.
    fn drop_the_coldest(&mut self) {
        let epoch = self.epoch();
        let mut weights: Vec<u64> = self.ranges.values().map(|w| w.now(epoch)).collect();
        let quarter = weights.len() / 4;
        let (warmer, threshold, _) = weights.select_nth_unstable_by(quarter, |a, b| a.cmp(b));
        let threshold = *threshold;
        let colder = warmer.iter().filter(|w| **w < threshold).count();
        // Of the ranges of equal weight, drop as many as complete the quarter, at least one.
        let mut equals = (quarter - colder).max(1);
        let before = self.ranges.len();
        self.ranges.retain(|_, weight| {
            let now = weight.now(epoch);
            let goes = now < threshold || (now == threshold && equals > 0);
            equals -= usize::from(goes && now == threshold);
            !goes
        });
        self.dropped += (before - self.ranges.len()) as u64;
        let ranges = &self.ranges;
        let has_ranges = |object: u64| {
            let from = Key {
                object,
                start: 0,
                end: 0,
            };
            let mut next = ranges.range(from..);
            next.next().is_some_and(|(key, _)| key.object == object)
        };
        self.readers.retain(|object, _| has_ranges(*object));
    }

    /// Forgets a deleted object.
    pub fn forget(&mut self, object: u64) {
        self.ranges.retain(|key, _| key.object != object);
        self.readers.remove(&object);
    }

    /// Returns the ranges of an object of `size` bytes, ascending. Overlapping ones are joined and
    /// their weights added up.
    pub fn ranges(&self, object: u64, size: u64) -> Vec<HotRange> {
        let epoch = self.epoch();
        let first = Key {
            object,
            start: 0,
            end: 0,
        };
        let of_object = self.ranges.range(first..);
        let of_object = of_object.take_while(|(key, _)| key.object == object);
        merge(of_object.filter_map(|(key, weight)| {
            let range = HotRange {
                start: key.start,
                end: key.end.min(size),
                weight: weight.now(epoch),
            };
            (range.start < range.end && range.weight > 0).then_some(range)
        }))
    }

    /// Returns objects and the weight of all their requests, the hottest first.
    pub fn objects(&self) -> Vec<(u64, u64)> {
        let epoch = self.epoch();
        let mut objects: Vec<(u64, u64)> = Vec::new();
        for (key, weight) in &self.ranges {
            let weight = weight.now(epoch);
            match objects.last_mut() {
                Some((object, sum)) if *object == key.object => *sum += weight,
                _ => objects.push((key.object, weight)),
            }
        }
        objects.retain(|(_, weight)| *weight > 0);
        objects.sort_by_key(|(object, weight)| (std::cmp::Reverse(*weight), *object));
        objects
    }

    /// Yields everything that is remembered, for callers that store it: objects, and their ranges
    /// as requested.
    pub fn entries(&self) -> impl Iterator<Item = (u64, HotRange)> + '_ {
        let epoch = self.epoch();
        self.ranges.iter().filter_map(move |(key, weight)| {
            let range = HotRange {
                start: key.start,
                end: key.end,
                weight: weight.now(epoch),
            };
            (range.weight > 0).then_some((key.object, range))
        })
    }

    /// Adds a range from a stored trace to what is known of it.
    pub fn remember(&mut self, object: u64, range: HotRange) {
        if range.start < range.end && range.weight > 0 {
            self.weigh(object, range.start, range.end, range.weight);
        }
    }

    /// Adds the number of requests that a stored trace had recorded.
    pub fn remember_requests(&mut self, requests: u64) {
        self.requests = self.requests.saturating_add(requests);
    }

    /// Returns the number of recorded requests.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Returns the number of ranges that were dropped because the trace was full.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the number of different ranges.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns true if there are no ranges.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

#[cfg(test)]
mod tests;
