//! Knows of one served volume: which block is for what, and the pattern of its requests.
//! [`super::Classified`] asks and tells it; [`super::Classifiers`] steps it.
//!
//! Invariant: a request never waits for a step, which reads the volume. While a step runs, blocks
//! are [`Contents::Unknown`] and writes are kept for after it. If too many came to keep, the
//! layout begins anew. A write is reported only after it was done, so the step that looks again
//! reads it.

use access_pattern::{Detector, Threshold};
use io_class::layout::{Counters, Layout, Options, Progress, Source, Unreadable};
use io_class::{Contents, Pattern};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use volume::{RequestContext, Volume};

/// Writes that are kept during a step.
const MISSED_MAX: usize = 4096;
/// A request waits this long for another request that is telling its write: that takes about a
/// microsecond.
const SHORT: Duration = Duration::from_micros(50);

/// Ranges that were written during a step, bytes: offset and length.
#[derive(Default)]
struct Missed {
    ranges: Vec<(u64, u64)>,
    too_many: bool,
}

struct Judge {
    size_bytes: u64,
    detector: Detector,
    /// The last request, and its pattern.
    last: ((u64, u64), Pattern),
    /// The last request was not done: the same comes again.
    comes_again: bool,
}

/// One volume. See the module's head.
pub(crate) struct Served {
    pub name: String,
    pub memory_bytes_max: u64,
    source: Arc<dyn Volume>,
    layout: RwLock<(u64, Layout)>,
    is_stepping: AtomicBool,
    /// Nothing was written since the last step, and that one had nothing left to read.
    is_settled: AtomicBool,
    missed: Mutex<Missed>,
    judge: Mutex<Option<Judge>>,
}

impl Served {
    /// Knows nothing yet of `source`. 0 bytes of memory: never learns which block is for what.
    pub fn new(name: &str, source: Arc<dyn Volume>, memory_bytes_max: u64) -> Self {
        let size_bytes = source.size_bytes();
        Self {
            name: name.to_owned(),
            memory_bytes_max,
            source,
            layout: RwLock::new((size_bytes, new_layout(size_bytes, memory_bytes_max))),
            is_stepping: AtomicBool::new(false),
            is_settled: AtomicBool::new(false),
            missed: Mutex::default(),
            judge: Mutex::default(),
        }
    }

    /// Forgets all. The next step begins anew.
    pub fn reset(&self) {
        let size_bytes = self.source.size_bytes();
        *self.layout.write() = (size_bytes, new_layout(size_bytes, self.memory_bytes_max));
        *self.missed.lock() = Missed::default();
        self.is_settled.store(false, SeqCst);
    }

    /// Returns the contents of a block.
    pub fn contents(&self, offset_bytes: u64) -> Contents {
        if self.is_stepping.load(SeqCst) {
            return Contents::Unknown;
        }
        let layout = self.layout.try_read_for(SHORT);
        layout.map_or(Contents::Unknown, |layout| {
            layout.1.at(offset_bytes).contents
        })
    }

    /// Returns the access pattern of the request among those before it.
    pub fn pattern(&self, offset_bytes: u64, len_bytes: u64) -> Pattern {
        let size_bytes = self.source.size_bytes();
        let mut judge = self.judge.lock();
        if judge.as_ref().is_none_or(|of| of.size_bytes != size_bytes) {
            *judge = Some(Judge {
                size_bytes,
                detector: Detector::new(size_bytes, Threshold::for_object(size_bytes)),
                last: ((0, 0), Pattern::Sequential),
                comes_again: false,
            });
        }
        let Some(judge) = judge.as_mut() else {
            return Pattern::Sequential;
        };
        let request = (offset_bytes, len_bytes);
        if std::mem::take(&mut judge.comes_again) && judge.last.0 == request {
            return judge.last.1;
        }
        let pattern = match judge.detector.observe(offset_bytes, len_bytes) {
            access_pattern::Pattern::Sequential => Pattern::Sequential,
            access_pattern::Pattern::Monotonic => Pattern::Monotonic,
            access_pattern::Pattern::Random => Pattern::Random,
        };
        judge.last = (request, pattern);
        pattern
    }

    /// A request was judged and not done: it comes again, and is not its own neighbour.
    pub fn comes_again(&self, offset_bytes: u64, len_bytes: u64) {
        if let Some(judge) = self.judge.lock().as_mut() {
            judge.comes_again = judge.last.0 == (offset_bytes, len_bytes);
        }
    }

    /// Learns from a write that was done. `bytes` if they are known.
    pub fn wrote(&self, offset_bytes: u64, len_bytes: u64, bytes: Option<&[u8]>) {
        if self.memory_bytes_max == 0 || len_bytes == 0 {
            return;
        }
        let layout = match self.is_stepping.load(SeqCst) {
            true => None,
            false => self.layout.try_write_for(SHORT),
        };
        match (layout, bytes) {
            (Some(mut layout), Some(bytes)) => layout.1.wrote(offset_bytes, bytes),
            (Some(mut layout), None) => layout.1.changed(offset_bytes, len_bytes),
            (None, _) => {
                let mut missed = self.missed.lock();
                match missed.ranges.len() < MISSED_MAX {
                    true => missed.ranges.push((offset_bytes, len_bytes)),
                    false => missed.too_many = true,
                }
            }
        }
        self.is_settled.store(false, SeqCst);
    }

    /// Reads until nothing is left to read, or about `reads_max` times. Returns true if more is
    /// left.
    pub fn step(&self, reads_max: u64) -> bool {
        if self.memory_bytes_max == 0 || self.is_settled.swap(true, SeqCst) {
            return false;
        }
        self.is_stepping.store(true, SeqCst);
        let progress = self.step_alone(reads_max);
        self.is_stepping.store(false, SeqCst);
        // Writes that came meanwhile are for a later step: one that follows at once might never
        // leave requests a moment in which blocks are known.
        let has_more = progress == Progress::More;
        if has_more {
            self.is_settled.store(false, SeqCst);
        }
        has_more
    }

    fn step_alone(&self, reads_max: u64) -> Progress {
        let size_bytes = self.source.size_bytes();
        let mut layout = self.layout.write();
        let missed = std::mem::take(&mut *self.missed.lock());
        if missed.too_many || layout.0 != size_bytes {
            *layout = (size_bytes, new_layout(size_bytes, self.memory_bytes_max));
        }
        for (offset, len) in missed.ranges {
            layout.1.changed(offset, len);
        }
        layout.1.step(self, reads_max)
    }

    /// Cost so far, and whether everything was read.
    pub fn counters(&self) -> Option<(Counters, bool)> {
        let layout = self.layout.try_read_for(SHORT)?;
        Some((layout.1.counters(), self.is_settled.load(SeqCst)))
    }
}

fn new_layout(size_bytes: u64, memory_bytes_max: u64) -> Layout {
    Layout::new(size_bytes, Options { memory_bytes_max })
}

impl Source for Served {
    fn read(&self, offset_bytes: u64, bytes: &mut [u8]) -> Result<(), Unreadable> {
        let end = offset_bytes
            .checked_add(bytes.len() as u64)
            .ok_or(Unreadable)?;
        if end > self.source.size_bytes() {
            return Err(Unreadable);
        }
        let context = RequestContext::default();
        let read = self.source.read(context, offset_bytes, bytes);
        read.map_err(|_| Unreadable)
    }
}

#[cfg(test)]
mod tests;
