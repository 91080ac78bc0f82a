//! Makes requests out of what the kernel reports: one system call can be several reports, and pages
//! are not bytes. `tracing` calls this.
//!
//! Invariant: a request that was made counts once. Only repeated reads within one page, one after
//! another by the same thread, count as one (they look like the parts of one call).

use crate::accesses::{AccessKind, FileAccess};
use crate::identity::FileId;
use fragpicker::{HotRange, Trace, TraceOptions, TracedRequest, WINDOW_BYTES};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Threads whose last read is known. When there are more, all are forgotten.
const THREADS_MAX: usize = 4096;
/// Requests that may be made again. When there are more, all are forgotten.
const AGAIN_MAX: usize = 4096;
/// Files that are known; each takes about 100 bytes.
const FILES_MAX: usize = 1 << 18;
const PAGE_BYTES: u64 = 4096;

/// Requested ranges of files.
pub(super) struct Requests {
    trace: Trace,
    objects: HashMap<Name, u64>,
    last: HashMap<u32, LastRead>,
    /// Files and offsets at which the next request is not a new one.
    again: HashSet<(u64, u64)>,
    too_many: u64,
    /// Number of requests that read.
    pub reads: u64,
    /// Number of requests that write.
    pub writes: u64,
}

/// A file of the one file system.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Name {
    root: u64,
    inode: u64,
    generation: u32,
}

/// The last buffered read that a thread made; whole pages.
struct LastRead {
    object: u64,
    range: Range<u64>,
}

impl Requests {
    pub fn new(options: TraceOptions) -> Self {
        Self {
            trace: Trace::new(options),
            objects: HashMap::new(),
            last: HashMap::new(),
            again: HashSet::new(),
            too_many: 0,
            reads: 0,
            writes: 0,
        }
    }

    /// Records what the kernel reported.
    pub fn record(&mut self, access: &FileAccess) {
        let name = Name {
            root: access.root,
            inode: access.inode,
            generation: access.generation,
        };
        let next = self.objects.len() as u64;
        let object = match self.objects.get(&name) {
            Some(object) => *object,
            None if self.objects.len() >= FILES_MAX => {
                self.too_many += 1;
                return;
            }
            None => *self.objects.entry(name).or_insert(next),
        };
        let mut range = access.offset..access.offset.saturating_add(access.bytes);
        let (is_direct, is_write) = match access.kind {
            AccessKind::Read => {
                let Some(new) = self.new_part(access.thread, object, &range) else {
                    return;
                };
                range = new;
                (false, false)
            }
            AccessKind::Write => (false, true),
            AccessKind::DirectRead => (true, false),
            AccessKind::DirectWrite => (true, true),
            AccessKind::ComesAgain => {
                if self.again.len() >= AGAIN_MAX {
                    self.again.clear();
                }
                self.again.insert((object, access.offset));
                return;
            }
            AccessKind::Fault => {
                // The system reads a window around the page at once.
                range.start = range.start / WINDOW_BYTES * WINDOW_BYTES;
                range.end = range.start.saturating_add(WINDOW_BYTES);
                (true, false)
            }
        };
        let may_come_again = !matches!(access.kind, AccessKind::Fault | AccessKind::Write);
        if may_come_again && self.again.remove(&(object, range.start)) {
            return;
        }
        match is_write {
            true => self.writes += 1,
            false => self.reads += 1,
        }
        self.trace.record(&TracedRequest {
            object,
            offset: range.start,
            len: range.end - range.start,
            is_direct,
            is_write,
        });
    }

    /// Returns the part of a buffered read that is not a repetition; none if all of it is.
    ///
    /// The kernel reports a long read again for each part that it has copied, always up to the end
    /// of the call, and small reads by the page that they lie in.
    fn new_part(&mut self, thread: u32, object: u64, range: &Range<u64>) -> Option<Range<u64>> {
        if self.last.len() >= THREADS_MAX && !self.last.contains_key(&thread) {
            self.last.clear();
        }
        let is_whole_pages = [range.start, range.end]
            .iter()
            .all(|at| at.is_multiple_of(PAGE_BYTES));
        let last = self.last.entry(thread);
        let before = match &last {
            std::collections::hash_map::Entry::Occupied(known) if is_whole_pages => {
                let known = known.get();
                (known.object == object).then(|| known.range.clone())
            }
            _ => None,
        };
        let new = match before {
            Some(before) if before.end == range.end && range.start >= before.start => {
                let is_one_call =
                    range.start > before.start || range.end - range.start == PAGE_BYTES;
                (!is_one_call).then(|| range.clone())
            }
            // It begins in the last page of the one before.
            Some(before) if before.end == range.start + PAGE_BYTES && range.end > before.end => {
                Some(before.end..range.end)
            }
            _ => Some(range.clone()),
        };
        last.insert_entry(LastRead {
            object,
            range: range.clone(),
        });
        new
    }

    /// Returns the requested ranges of a file of `size` bytes.
    pub fn ranges(&self, id: FileId, size: u64) -> Vec<HotRange> {
        let name = Name {
            root: id.root,
            inode: id.inode,
            generation: id.generation,
        };
        let object = self.objects.get(&name);
        object.map_or_else(Vec::new, |object| self.trace.ranges(*object, size))
    }

    /// Returns the number of files that were requested.
    pub fn files(&self) -> u64 {
        self.objects.len() as u64
    }

    /// Returns the number of ranges, and of requests for files, that there was no room for.
    pub fn forgotten(&self) -> u64 {
        self.trace.dropped() + self.too_many
    }
}

#[cfg(test)]
mod tests;
