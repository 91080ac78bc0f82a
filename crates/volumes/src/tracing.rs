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
//! Reads call this, the driver of checkpoints stores the trace, and maintenance queries it.
//! Invariant: a hint; nothing that is read or stored depends on it. Memory is bounded.

use format::trace::{ENTRIES_MAX, TRACE_BYTES_MAX, TraceEntry, TraceRecord};
use fragpicker::{Access, BLOCK_BYTES, HotRange, Trace, TraceOptions};
use media::MediaError;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use store::{Pool, RecordSlots};

/// Number of requests in a ring.
const RING: usize = 512;
/// Bits of a word that hold the number of blocks. The others hold the first block.
const COUNT_BITS: u32 = 20;
/// Memory of a range in the trace, bytes.
const RANGE_BYTES: u64 = 64;
const SLOTS: RecordSlots = RecordSlots::new(["cache/trace.0", "cache/trace.1"], TRACE_BYTES_MAX);

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
                trace.record(&Access {
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

struct State {
    trace: Trace,
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
    state: Mutex<State>,
}

impl Tracer {
    /// Creates a tracer that uses at most `memory_bytes`.
    pub fn new(is_on: bool, memory_bytes: u64) -> Self {
        let ranges = (memory_bytes / RANGE_BYTES).clamp(64, ENTRIES_MAX as u64);
        let options = TraceOptions {
            ranges_max: ranges as usize,
            ..TraceOptions::default()
        };
        Self {
            is_on: Arc::new(AtomicBool::new(is_on)),
            state: Mutex::new(State {
                trace: Trace::new(options),
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

    fn carry_all(&self, pool: &Pool) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        if !state.is_loaded {
            state.is_loaded = true;
            if let Some(record) = newest(pool) {
                state.sequence = record.sequence;
                let trace = &mut state.trace;
                fill(trace, &record);
                state.stored = trace.requests();
            }
        }
        let State {
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

    /// Stores the trace if it has new requests.
    pub fn store(&self, pool: &Pool) -> std::result::Result<(), MediaError> {
        let (sequence, bytes) = {
            let mut state = self.carry_all(pool);
            let requests = state.trace.requests();
            if requests == state.stored {
                return Ok(());
            }
            state.stored = requests;
            state.sequence = state.sequence.saturating_add(1);
            let entries = state.trace.entries().take(ENTRIES_MAX);
            let entry = |(object, range): (u64, HotRange)| TraceEntry {
                object,
                start: range.start,
                end: range.end,
                weight: range.weight,
            };
            let record = TraceRecord {
                sequence: state.sequence,
                requests,
                entries: entries.map(entry).collect(),
            };
            (record.sequence, record.encode(pool.config().pool))
        };
        SLOTS.write(pool.cache_files(), sequence, &bytes)
    }
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

fn newest(pool: &Pool) -> Option<TraceRecord> {
    SLOTS.newest(pool.cache_files(), |bytes| {
        let record = TraceRecord::decode(bytes, pool.config().pool).ok()?;
        Some((record.sequence, record))
    })
}

/// Returns the stored reads of a pool's volumes and snapshots, by [`store::Fragmentable::key`]:
/// disjoint ranges in ascending order.
pub fn stored_heat(pool: &Pool) -> BTreeMap<u64, Vec<HotRange>> {
    let mut trace = Trace::new(TraceOptions::default());
    if let Some(record) = newest(pool) {
        fill(&mut trace, &record);
    }
    heat_of(&trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_keep_the_newest_and_lose_none_that_is_carried_over() {
        let tracer = Tracer::new(true, 1 << 20);
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
}
