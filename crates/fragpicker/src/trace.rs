//! Which ranges are requested, and how often of late.
//!
//! Invariant: there are at most `ranges_max` different ranges. Time is counted in requests. Called
//! by whoever sees the requests, one thread at a time.

use crate::analysis::{HotRange, merge};
use crate::{BLOCK_BYTES, WINDOW_BYTES};
use std::collections::BTreeMap;

/// What one request adds to a count; it is forgotten when it has halved eight times.
pub const REQUEST_WEIGHT: u64 = 1 << 8;

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Of which object.
    pub object: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// Past the system's cache.
    pub is_direct: bool,
    /// A write.
    pub is_write: bool,
}

/// Limits of a trace.
#[derive(Clone, Copy, Debug)]
pub struct TraceOptions {
    /// Different ranges, at most; each takes about 64 bytes.
    pub ranges_max: usize,
    /// Counts halve after so many requests.
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

/// A weight as it was in an epoch; it has halved once for each epoch since.
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

/// How an object is read.
#[derive(Clone, Copy, Default)]
struct Reader {
    /// Where the last request ended.
    end: u64,
    /// Where the window ends that was read ahead; 0 when there is none.
    window_end: u64,
}

/// See the module's head.
pub struct Trace {
    options: TraceOptions,
    ranges: BTreeMap<Key, Weight>,
    readers: BTreeMap<u64, Reader>,
    requests: u64,
    dropped: u64,
}

impl Trace {
    /// Empty.
    pub fn new(options: TraceOptions) -> Self {
        Self {
            options,
            ranges: BTreeMap::new(),
            readers: BTreeMap::new(),
            requests: 0,
            dropped: 0,
        }
    }

    /// A request was seen.
    pub fn record(&mut self, access: &Access) {
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
        // What lies in the last window was read with it.
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

    /// A quarter of the ranges goes, the coldest; among equals those of the last objects.
    fn drop_the_coldest(&mut self) {
        let epoch = self.epoch();
        let mut weights: Vec<u64> = self.ranges.values().map(|w| w.now(epoch)).collect();
        let quarter = weights.len() / 4;
        let (warmer, threshold, _) = weights.select_nth_unstable_by(quarter, |a, b| a.cmp(b));
        let threshold = *threshold;
        let colder = warmer.iter().filter(|w| **w < threshold).count();
        // Of those that are just as cold, so many that it is a quarter in all, and one at least.
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

    /// An object is gone.
    pub fn forget(&mut self, object: u64) {
        self.ranges.retain(|key, _| key.object != object);
        self.readers.remove(&object);
    }

    /// The ranges of an object of `size` bytes, ascending: overlapping ones joined, their counts
    /// added up.
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

    /// Objects and the weight of all their requests, the hottest first.
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

    /// Everything that is remembered, for who stores it: objects, and their ranges as they were
    /// requested.
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

    /// What was stored of an earlier trace: adds to what is known of the range.
    pub fn remember(&mut self, object: u64, range: HotRange) {
        if range.start < range.end && range.weight > 0 {
            self.weigh(object, range.start, range.end, range.weight);
        }
    }

    /// Requests that an earlier trace had seen.
    pub fn remember_requests(&mut self, requests: u64) {
        self.requests = self.requests.saturating_add(requests);
    }

    /// Requests that were recorded.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Ranges that were dropped for want of room.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Different ranges that are remembered.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

#[cfg(test)]
mod tests;
