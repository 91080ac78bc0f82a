//! Records reads of volumes and views for defragmentation: the trace of FragPicker (SOSP'21). All
//! requests feed it, from any number of threads.
//!
//! ```text
//! read ─> ring of its object (one word) ─ miss, half full ─> trace ─ store ─> cache/trace.N
//!                                                              └─> heat by object
//! ```
//!
//! A request stores one word in a ring of its object, which costs an addition and a store. A
//! request that misses waits for the device anyway, so it carries the ring over into the trace. If
//! all requests hit, the ring is not carried over and keeps the newest ones: a sample of reads that
//! need no device.
//!
//! Writes are not recorded: written data lies where its checkpoint put it.
//!
//! A random read that had to fetch a region, and needed little of it, is recorded a second time:
//! the bytes of the object that the region has (`fragpicker::Fetch`). Sequential reads and
//! read-ahead are not. So it is known which short requests cost the device more than they need.
//!
//! Reads call this, the driver of checkpoints stores the trace, and maintenance queries it.
//! Invariant: a hint; nothing that is read or stored depends on it. Memory is bounded.

use format::trace::{ENTRIES_MAX, TRACE_BYTES_MAX, TraceEntry, TraceRecord};
use fragpicker::{
    BLOCK_BYTES, HotRange, REQUEST_WEIGHT, Trace, TraceOptions, TracedRequest, is_short,
};
use media::MediaError;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use store::{Pool, RecordSlots};

/// Number of requests in a ring.
const RING: usize = 512;
/// Bits of a word that hold the number of blocks. The others hold the first block.
const COUNT_BITS: u32 = 20;
/// Memory of a range in the trace, bytes.
const RANGE_BYTES: u64 = 64;
/// Part of the memory that fetched regions get: they are longer than requests, and fewer.
const FETCHED_PART: usize = 4;
const SLOTS: RecordSlots = RecordSlots::new(["cache/trace.0", "cache/trace.1"], TRACE_BYTES_MAX);
const FETCHED_SLOTS: RecordSlots =
    RecordSlots::new(["cache/fetched.0", "cache/fetched.1"], TRACE_BYTES_MAX);

/// The last requests of one object.
pub(super) struct Recorder {
    is_on: Arc<AtomicBool>,
    key: u64,
    next: AtomicU64,
    /// Requests before this number are in the trace, or lost.
    carried: AtomicU64,
    ring: Box<[AtomicU64]>,
}

impl Recorder {
    /// Records a read.
    pub fn record(&self, offset: u64, len: u64) {
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        let first = offset / BLOCK_BYTES;
        let blocks = offset.saturating_add(len).div_ceil(BLOCK_BYTES) - first;
        let blocks = blocks.min((1 << COUNT_BITS) - 1);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if let Some(slot) = self.ring.get(number as usize % RING) {
            slot.store(first << COUNT_BITS | blocks, Ordering::Relaxed);
        }
    }

    /// Returns true if half of the ring is not carried over.
    fn is_due(&self) -> bool {
        let next = self.next.load(Ordering::Relaxed);
        next.wrapping_sub(self.carried.load(Ordering::Relaxed)) >= RING as u64 / 2
    }

    /// Moves the ring's words into the trace. The trace's lock serializes calls.
    fn carry(&self, trace: &mut Trace) {
        let next = self.next.load(Ordering::Relaxed);
        let oldest = next.saturating_sub(RING as u64);
        let from = self.carried.swap(next, Ordering::Relaxed).max(oldest);
        for number in from..next {
            let slot = self.ring.get(number as usize % RING);
            // Another request may not have stored its word yet. The word is lost, or found next
            // time.
            let word = slot.map_or(0, |slot| slot.swap(0, Ordering::Relaxed));
            let blocks = word & ((1 << COUNT_BITS) - 1);
            if blocks > 0 {
                trace.record(&TracedRequest {
                    object: self.key,
                    offset: (word >> COUNT_BITS) * BLOCK_BYTES,
                    len: blocks * BLOCK_BYTES,
                    is_direct: false,
                    is_write: false,
                });
            }
        }
    }
}

struct TraceState {
    trace: Trace,
    /// Regions that random reads fetched, and needed little of: their bytes of the object.
    fetched: Trace,
    recorders: Vec<Weak<Recorder>>,
    sequence: u64,
    /// The trace of an earlier process was loaded.
    is_loaded: bool,
    /// Number of requests when the trace was last stored.
    stored: u64,
}

/// The trace and its recorders. See the module's head.
pub(crate) struct Tracer {
    is_on: Arc<AtomicBool>,
    state: Mutex<TraceState>,
}

impl Tracer {
    /// Creates a tracer that uses at most `memory_bytes`.
    pub fn new(memory_bytes: u64) -> Self {
        let ranges = (memory_bytes / RANGE_BYTES).clamp(64, ENTRIES_MAX as u64);
        let fetched = ranges as usize / FETCHED_PART;
        let options = |ranges_max| TraceOptions {
            ranges_max,
            ..TraceOptions::default()
        };
        Self {
            is_on: Arc::new(AtomicBool::new(true)),
            state: Mutex::new(TraceState {
                trace: Trace::new(options(ranges as usize - fetched)),
                fetched: Trace::new(options(fetched)),
                recorders: Vec::new(),
                sequence: 0,
                is_loaded: false,
                stored: 0,
            }),
        }
    }

    /// Switches the recording of reads.
    pub fn switch(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Returns a recorder for the requests of one object.
    pub fn recorder(&self, key: u64) -> Arc<Recorder> {
        let recorder = Arc::new(Recorder {
            is_on: Arc::clone(&self.is_on),
            key,
            next: AtomicU64::new(0),
            carried: AtomicU64::new(0),
            ring: (0..RING).map(|_| AtomicU64::new(0)).collect(),
        });
        let mut state = self.state.lock();
        state.recorders.retain(|known| known.strong_count() > 0);
        state.recorders.push(Arc::downgrade(&recorder));
        recorder
    }

    /// Carries a ring over that is half full, unless another thread uses the trace.
    pub fn relieve(&self, recorder: &Recorder) {
        if recorder.is_due()
            && let Some(mut state) = self.state.try_lock()
        {
            recorder.carry(&mut state.trace);
        }
    }

    /// Records that a random read fetched a region that has these bytes of the object, and needed
    /// little of it. Does nothing while another thread uses the trace.
    pub fn fetched(&self, recorder: &Recorder, bytes: Range<u64>) {
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        let Some(mut state) = self.state.try_lock() else {
            return;
        };
        let TraceState { trace, fetched, .. } = &mut *state;
        // Both fade at the same pace.
        fetched.remember_requests(trace.requests().saturating_sub(fetched.requests()));
        let range = HotRange {
            start: bytes.start,
            end: bytes.end,
            weight: REQUEST_WEIGHT,
        };
        fetched.remember(recorder.key, range);
    }

    fn carry_all(&self, pool: &Pool) -> MutexGuard<'_, TraceState> {
        let mut state = self.state.lock();
        if !state.is_loaded {
            state.is_loaded = true;
            if let Some(record) = newest(&SLOTS, pool) {
                state.sequence = record.sequence;
                let trace = &mut state.trace;
                fill(trace, &record);
                state.stored = trace.requests();
            }
            if let Some(record) = newest(&FETCHED_SLOTS, pool) {
                fill(&mut state.fetched, &record);
            }
        }
        let TraceState {
            trace, recorders, ..
        } = &mut *state;
        for recorder in recorders.iter().filter_map(Weak::upgrade) {
            recorder.carry(trace);
        }
        state
    }

    /// Returns the recorded reads by object, ascending, with overlapping ranges merged.
    pub fn heat(&self, pool: &Pool) -> BTreeMap<u64, Vec<HotRange>> {
        heat_of(&self.carry_all(pool).trace)
    }

    /// Returns the short requests for what was fetched in regions that are large for them, by
    /// object.
    pub fn amplified(&self, pool: &Pool) -> BTreeMap<u64, Vec<HotRange>> {
        let state = self.carry_all(pool);
        amplified_of(&state.trace, &state.fetched)
    }

    /// Stores the trace if it has new requests.
    pub fn store(&self, pool: &Pool) -> std::result::Result<(), MediaError> {
        let (sequence, trace, fetched) = {
            let mut state = self.carry_all(pool);
            let requests = state.trace.requests();
            if requests == state.stored {
                return Ok(());
            }
            state.stored = requests;
            state.sequence = state.sequence.saturating_add(1);
            let of = |trace: &Trace| record_of(trace, state.sequence).encode(pool.config().pool);
            (state.sequence, of(&state.trace), of(&state.fetched))
        };
        SLOTS.write(pool.cache_files(), sequence, &trace)?;
        FETCHED_SLOTS.write(pool.cache_files(), sequence, &fetched)
    }
}

fn record_of(trace: &Trace, sequence: u64) -> TraceRecord {
    let entry = |(object, range): (u64, HotRange)| TraceEntry {
        object,
        start: range.start,
        end: range.end,
        weight: range.weight,
    };
    TraceRecord {
        sequence,
        requests: trace.requests(),
        entries: trace.entries().take(ENTRIES_MAX).map(entry).collect(),
    }
}

fn amplified_of(trace: &Trace, fetched: &Trace) -> BTreeMap<u64, Vec<HotRange>> {
    let regions = heat_of(fetched);
    let mut amplified: BTreeMap<u64, Vec<HotRange>> = BTreeMap::new();
    for (object, range) in trace.entries().filter(|(_, range)| is_short(range)) {
        let Some(regions) = regions.get(&object) else {
            continue;
        };
        let next = regions.partition_point(|region| region.end <= range.start);
        if regions.get(next).is_some_and(|r| r.start < range.end) {
            amplified.entry(object).or_default().push(range);
        }
    }
    amplified
}

fn heat_of(trace: &Trace) -> BTreeMap<u64, Vec<HotRange>> {
    let objects = trace.objects().into_iter();
    let ranges = objects.map(|(object, _)| (object, trace.ranges(object, u64::MAX)));
    ranges.collect()
}

fn fill(trace: &mut Trace, record: &TraceRecord) {
    trace.remember_requests(record.requests);
    for entry in &record.entries {
        let range = HotRange {
            start: entry.start,
            end: entry.end,
            weight: entry.weight,
        };
        trace.remember(entry.object, range);
    }
}

fn newest(slots: &RecordSlots, pool: &Pool) -> Option<TraceRecord> {
    slots.newest(pool.cache_files(), |bytes| {
        let record = TraceRecord::decode(bytes, pool.config().pool).ok()?;
        Some((record.sequence, record))
    })
}

/// Returns the stored reads of a pool's volumes and snapshots, by [`store::Fragmentable::key`]:
/// disjoint ranges in ascending order.
pub fn stored_heat(pool: &Pool) -> BTreeMap<u64, Vec<HotRange>> {
    heat_of(&stored(&SLOTS, pool))
}

/// Like [`crate::Volumes::amplified`], from the stored records.
pub fn stored_amplified(pool: &Pool) -> BTreeMap<u64, Vec<HotRange>> {
    amplified_of(&stored(&SLOTS, pool), &stored(&FETCHED_SLOTS, pool))
}

fn stored(slots: &RecordSlots, pool: &Pool) -> Trace {
    let mut trace = Trace::new(TraceOptions::default());
    if let Some(record) = newest(slots, pool) {
        fill(&mut trace, &record);
    }
    trace
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_keep_the_newest_and_lose_none_that_is_carried_over() {
        let tracer = Tracer::new(1 << 20);
        let recorder = tracer.recorder(7);
        for n in 0..10 * RING as u64 {
            recorder.record(n * 8192, 4096);
            tracer.relieve(&recorder);
        }
        assert_eq!(tracer.state.lock().trace.requests(), 10 * RING as u64);
        for n in 0..10 * RING as u64 {
            recorder.record(n * 8192, 1);
        }
        recorder.carry(&mut tracer.state.lock().trace);
        assert_eq!(tracer.state.lock().trace.requests(), 11 * RING as u64);
        tracer.switch(false);
        recorder.record(0, 4096);
        recorder.carry(&mut tracer.state.lock().trace);
        assert_eq!(tracer.state.lock().trace.requests(), 11 * RING as u64);
    }

    #[test]
    fn short_requests_in_fetched_regions_are_amplified_and_scans_are_not() {
        let tracer = Tracer::new(1 << 20);
        let recorder = tracer.recorder(7);
        const REGION: u64 = 128 << 10;
        tracer.fetched(&recorder, REGION..2 * REGION);
        tracer.fetched(&recorder, REGION..2 * REGION);
        // Before, across both borders, within, behind, and a long one.
        let reads = [
            (0, 4096),
            (REGION - 4096, 8192),
            (REGION + 8192, 4096),
            (2 * REGION, 4096),
            (0, 3 * REGION),
        ];
        for (offset, len) in reads {
            recorder.record(offset, len);
            recorder.carry(&mut tracer.state.lock().trace);
        }
        let state = tracer.state.lock();
        let amplified = amplified_of(&state.trace, &state.fetched);
        let starts: Vec<_> = amplified[&7].iter().map(|range| range.start).collect();
        assert_eq!(starts, [REGION - 4096, REGION + 8192]);
        assert_eq!(amplified.len(), 1);
    }
}
