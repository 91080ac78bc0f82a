//! Knows of one served volume: which block is for what, and the pattern of its requests.
//! [`super::Classified`] asks and tells it; [`super::Classifiers`] steps it.
//!
//! Invariant: neither a request nor a command waits for a step, which reads the volume. A request
//! looks at a few runs and notes its write; the next step tells the layout. While a step works,
//! blocks are [`Contents::Unknown`]. Commands set flags that the next step obeys, and read counters
//! that the last one left. A write is noted after it was done, so the step that looks again reads
//! it.

use crate::facts::{Contents, Pattern};
use crate::notes::{Next, Notes};
use access_pattern::{Detector, Threshold};
use disk_layout::{
    Budget, Counters, Interest, Layout, Options, Progress, Unreadable, VolumeSource, journal_blocks,
};
use parking_lot::{Mutex, RwLock};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::Duration;
use units::IoClass;
use volume::{RequestContext, Volume};

/// A request waits this long for the end of a step.
const SHORT: Duration = Duration::from_micros(50);
/// Work of telling a note, as a step counts it.
const NOTE_WORK: u64 = 64;
/// Reads between two moments in which requests can ask.
const READS_AT_ONCE: u64 = 2;
/// Part of the memory that is for the layout; the rest is for notes.
const LAYOUT_PART: (u64, u64) = (7, 8);

/// Judges the access patterns of a volume. Reads and writes have histories of their own: read-ahead
/// follows the reads.
struct AccessPatterns {
    size_bytes: u64,
    reads: Detector,
    writes: Detector,
    /// The last write, and its pattern.
    last: ((u64, u64), Pattern),
    /// The last write was not done: the same comes again.
    comes_again: bool,
}

impl AccessPatterns {
    fn new(size_bytes: u64) -> Self {
        let detector = Detector::new(size_bytes, Threshold::for_object(size_bytes));
        Self {
            size_bytes,
            reads: detector.clone(),
            writes: detector,
            last: ((0, 0), Pattern::Sequential),
            comes_again: false,
        }
    }
}

/// One volume. See the module's head.
pub(crate) struct Served {
    pub name: String,
    /// Volumes that came earlier have memory before those that came later.
    pub number: u64,
    /// 0: nothing is learned.
    memory_bytes_max: AtomicU64,
    /// Handles of clients: a client that left is not kept by this.
    sources: Mutex<Vec<Weak<dyn Volume>>>,
    size_bytes: AtomicU64,
    layout: RwLock<(u64, Layout)>,
    is_stepping: AtomicBool,
    /// A step has begun and not ended.
    is_working: AtomicBool,
    /// Nothing that matters was written since the last step, and that one had nothing left to read.
    is_settled: AtomicBool,
    /// The next step begins anew.
    must_begin: AtomicBool,
    notes: Mutex<Notes>,
    /// As the last step left them.
    counters: Mutex<Option<Counters>>,
    patterns: Mutex<Option<AccessPatterns>>,
}

impl Served {
    /// Knows nothing yet of a volume, and has no memory to learn.
    pub fn new(name: &str, number: u64, source: &Arc<dyn Volume>) -> Self {
        let size_bytes = source.size_bytes();
        Self {
            name: name.to_owned(),
            number,
            memory_bytes_max: AtomicU64::new(0),
            sources: Mutex::new(vec![Arc::downgrade(source)]),
            size_bytes: AtomicU64::new(size_bytes),
            layout: RwLock::new((size_bytes, new_layout(size_bytes, 0))),
            is_stepping: AtomicBool::new(false),
            is_working: AtomicBool::new(false),
            is_settled: AtomicBool::new(false),
            must_begin: AtomicBool::new(false),
            notes: Mutex::new(Notes::new(0)),
            counters: Mutex::default(),
            patterns: Mutex::default(),
        }
    }

    /// Another client has the volume open.
    pub fn also(&self, source: &Arc<dyn Volume>) {
        let mut sources = self.sources.lock();
        sources.retain(|known| known.strong_count() > 0);
        sources.push(Arc::downgrade(source));
    }

    fn source(&self) -> Option<Arc<dyn Volume>> {
        self.sources.lock().iter().find_map(Weak::upgrade)
    }

    /// Memory for all that is known, bytes.
    pub fn memory_bytes_max(&self) -> u64 {
        self.memory_bytes_max.load(SeqCst)
    }

    /// Sets the memory. The next step obeys.
    pub fn set_memory(&self, bytes: u64) {
        if self.memory_bytes_max.swap(bytes, SeqCst) != bytes {
            let mut notes = self.notes.lock();
            let is_empty = notes.is_empty();
            *notes = Notes::new(bytes);
            if !is_empty {
                notes.all();
            }
            self.is_settled.store(false, SeqCst);
        }
    }

    /// Forgets all. The next step begins anew.
    pub fn reset(&self) {
        self.must_begin.store(true, SeqCst);
        self.notes.lock().clear();
        *self.counters.lock() = None;
        self.is_settled.store(false, SeqCst);
    }

    /// Frees what is to be forgotten, without a step.
    pub fn obey_reset(&self) {
        if self.must_begin.load(SeqCst) {
            let mut layout = self.layout.write();
            self.obey(&mut layout);
        }
    }

    /// Returns the contents of a block.
    pub fn contents(&self, offset_bytes: u64) -> Contents {
        if self.is_stepping.load(SeqCst) || self.must_begin.load(SeqCst) {
            return Contents::Unknown;
        }
        let layout = self.layout.try_read_for(SHORT);
        layout.map_or(Contents::Unknown, |layout| {
            layout.1.at(offset_bytes).contents
        })
    }

    /// Returns the access pattern of a request among those of its direction before it.
    pub fn pattern(&self, offset_bytes: u64, len_bytes: u64, is_write: bool) -> Pattern {
        let size_bytes = self.size_bytes.load(SeqCst);
        let mut patterns = self.patterns.lock();
        let patterns = match &mut *patterns {
            Some(known) if known.size_bytes == size_bytes => known,
            other => other.insert(AccessPatterns::new(size_bytes)),
        };
        if !is_write {
            return patterns.reads.observe(offset_bytes, len_bytes);
        }
        let request = (offset_bytes, len_bytes);
        if std::mem::take(&mut patterns.comes_again) && patterns.last.0 == request {
            return patterns.last.1;
        }
        let pattern = patterns.writes.observe(offset_bytes, len_bytes);
        patterns.last = (request, pattern);
        pattern
    }

    /// A write was judged and not done: it comes again, and is not its own neighbour.
    pub fn comes_again(&self, offset_bytes: u64, len_bytes: u64) {
        if let Some(patterns) = self.patterns.lock().as_mut() {
            patterns.comes_again = patterns.last.0 == (offset_bytes, len_bytes);
        }
    }

    /// Notes a write that was done, if it matters. `bytes` if they are known.
    pub fn wrote(&self, offset_bytes: u64, len_bytes: u64, bytes: Option<&[u8]>) {
        if self.memory_bytes_max() == 0 || len_bytes == 0 {
            return;
        }
        let layout = match self.is_stepping.load(SeqCst) {
            true => None,
            false => self.layout.try_read_for(SHORT),
        };
        let interest = layout.map_or(Interest::Changed, |layout| {
            layout.1.interest(offset_bytes, len_bytes, bytes)
        });
        if interest == Interest::None {
            return;
        }
        let mut notes = self.notes.lock();
        notes.add(offset_bytes, len_bytes, None);
        if let Interest::Journal {
            block_bytes,
            skip_bytes,
        } = interest
        {
            for (at, block) in journal_blocks(bytes.unwrap_or_default(), block_bytes, skip_bytes) {
                let len = block.len() as u64;
                notes.add(offset_bytes.saturating_add(at), len, Some(block));
            }
        }
        drop(notes);
        self.is_settled.store(false, SeqCst);
    }

    /// Reads until nothing is left to read, or until the budget is spent. Returns true if more is
    /// left. These reads are of metadata, and have its class: after a restart they come from where
    /// the policy keeps it.
    pub fn step(&self, budget: &mut Budget, class: IoClass) -> bool {
        let Some(source) = self.source() else {
            return false;
        };
        self.size_bytes.store(source.size_bytes(), SeqCst);
        self.is_working.store(true, SeqCst);
        let reader = Reader(source.as_ref(), class);
        let has_more = !self.is_settled.swap(true, SeqCst) && self.step_unsettled(&reader, budget);
        self.is_working.store(false, SeqCst);
        has_more
    }

    fn step_unsettled(&self, reader: &Reader<'_>, budget: &mut Budget) -> bool {
        let has_more = self.step_alone(reader, budget);
        // Writes that came meanwhile are for a later step: one that follows at once might never
        // leave requests a moment in which blocks are known.
        if has_more {
            self.is_settled.store(false, SeqCst);
        }
        has_more
    }

    fn step_alone(&self, reader: &Reader<'_>, budget: &mut Budget) -> bool {
        let (mut is_reported, mut is_behind) = (false, false);
        loop {
            // Requests have a look between two parts of a step.
            let mut part = Budget {
                reads: budget.reads.min(READS_AT_ONCE),
                ..*budget
            };
            let before = part;
            self.is_stepping.store(true, SeqCst);
            let mut layout = self.layout.write();
            self.obey(&mut layout);
            if !is_reported {
                is_reported = true;
                is_behind = !self.tell(&mut layout, &mut part);
            }
            let progress = layout.1.step_within(reader, &mut part);
            *self.counters.lock() = Some(layout.1.counters());
            drop(layout);
            self.is_stepping.store(false, SeqCst);
            budget.reads -= before.reads - part.reads;
            budget.work -= before.work - part.work;
            if progress == Progress::Idle || budget.is_spent() {
                return is_behind || progress == Progress::More;
            }
        }
    }

    /// Does what commands asked for.
    fn obey(&self, layout: &mut (u64, Layout)) {
        let memory = self.memory_bytes_max() / LAYOUT_PART.1 * LAYOUT_PART.0;
        let size_bytes = self.size_bytes.load(SeqCst);
        if self.must_begin.swap(false, SeqCst) || layout.0 != size_bytes {
            *layout = (size_bytes, new_layout(size_bytes, memory));
        } else if layout.1.memory_bytes_max() != memory {
            layout.1.set_memory(memory);
        }
    }

    /// Tells the layout of writes. Returns false if some are left for the next step.
    fn tell(&self, layout: &mut (u64, Layout), budget: &mut Budget) -> bool {
        while budget.work > NOTE_WORK {
            let next = self.notes.lock().next();
            budget.work -= NOTE_WORK;
            match next {
                None => return true,
                Some(Next::All) => {
                    let memory = layout.1.memory_bytes_max();
                    layout.1 = new_layout(layout.0, memory);
                }
                Some(Next::Note(note)) => match note.bytes {
                    Some(bytes) => layout.1.wrote(note.offset_bytes, &bytes),
                    None => layout.1.changed(note.offset_bytes, note.len_bytes),
                },
            }
        }
        false
    }

    /// Cost at the end of the last step, and whether everything was read. `None` before the first.
    pub fn counters(&self) -> Option<(Counters, bool)> {
        let counters = *self.counters.lock();
        let is_working = self.is_working.load(SeqCst);
        Some((counters?, !is_working && self.is_settled.load(SeqCst)))
    }
}

fn new_layout(size_bytes: u64, memory_bytes_max: u64) -> Layout {
    Layout::new(size_bytes, Options { memory_bytes_max })
}

/// Reads for a layout, in a class.
struct Reader<'a>(&'a dyn Volume, IoClass);

impl VolumeSource for Reader<'_> {
    fn read(&self, offset_bytes: u64, bytes: &mut [u8]) -> Result<(), Unreadable> {
        let end = offset_bytes
            .checked_add(bytes.len() as u64)
            .ok_or(Unreadable)?;
        if end > self.0.size_bytes() {
            return Err(Unreadable);
        }
        let context = RequestContext {
            class: self.1,
            ..RequestContext::default()
        };
        let read = self.0.read(context, offset_bytes, bytes);
        read.map_err(|_| Unreadable)
    }
}

#[cfg(test)]
mod tests;
