//! Reports which ranges changed between two states of an object, for front ends. Read-only volumes
//! call this, and writable ones for changes that are applied to their recipe.
//!
//! Invariant: a range that is reported as unchanged is equal. A range that cannot be compared
//! counts as changed: the client that copies it gets the error.

use super::Reader;
use format::recipe::{Layout, ObjectRoot};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use volume::{Change, Changes, RequestContext, VolumeError};

/// Size of the range that is compared at a time, so that the differences of a petabyte are not
/// collected at once.
const BYTES_STEP: u64 = 1 << 30;

/// Earlier states of an object, by the names that front ends use.
pub trait ObjectHistory: Send + Sync {
    /// Returns the names, newest first, at most `count_max`.
    fn names(&self, count_max: usize) -> Vec<String>;

    /// Returns the state with this name, even if [`ObjectHistory::names`] did not list it.
    fn root(&self, name: &str) -> Option<ObjectRoot>;
}

/// Returns the ranges of `within`, ascending, in which two states may differ.
pub fn changed_ranges(
    reader: &Reader,
    before: &ObjectRoot,
    after: &ObjectRoot,
    within: Range<u64>,
) -> Vec<Range<u64>> {
    let mut ranges = Vec::new();
    let compared = reader.visit_differences(before, after, within.clone(), &mut |range| {
        ranges.push(range);
        Ok(ControlFlow::Continue(()))
    });
    match compared {
        Ok(()) => ranges,
        Err(_) => vec![within],
    }
}

/// Returns true if chunks of the two states can be compared.
pub fn is_comparable(before: &ObjectRoot, after: &ObjectRoot) -> bool {
    let same = before.layout == after.layout && before.layout != Layout::Variable;
    same || before.len.min(after.len) == 0
}

/// Reports a whole range, step by step, until `visit` breaks. `changed` returns the ranges of a
/// step that may have changed, ascending by start and perhaps overlapping.
pub fn tell_changes(
    (offset_bytes, len_bytes): (u64, u64),
    visit: &mut dyn FnMut(Change) -> ControlFlow<()>,
    mut changed: impl FnMut(Range<u64>) -> Vec<Range<u64>>,
) {
    let end = offset_bytes.saturating_add(len_bytes);
    let mut telling = Telling::new(visit);
    let mut at = offset_bytes;
    while at < end {
        let to = end.min(at.saturating_add(BYTES_STEP));
        if telling.tell(at..to, &changed(at..to)).is_break() {
            return;
        }
        at = to;
    }
    telling.finish();
}

/// Reports pieces without gaps. Adjacent pieces of one kind are joined.
struct Telling<'a> {
    run: Option<Change>,
    visit: &'a mut dyn FnMut(Change) -> ControlFlow<()>,
}

impl<'a> Telling<'a> {
    fn new(visit: &'a mut dyn FnMut(Change) -> ControlFlow<()>) -> Self {
        Self { run: None, visit }
    }

    /// Reports all of `within`. `changed`, ascending and perhaps overlapping, has changed.
    fn tell(&mut self, within: Range<u64>, changed: &[Range<u64>]) -> ControlFlow<()> {
        let mut at = within.start;
        for range in changed {
            let (start, end) = (range.start.max(at), range.end.min(within.end));
            if start < end {
                self.push(at..start, false)?;
                self.push(start..end, true)?;
                at = end;
            }
        }
        self.push(at..within.end, false)
    }

    fn push(&mut self, range: Range<u64>, changed: bool) -> ControlFlow<()> {
        if range.is_empty() {
            return ControlFlow::Continue(());
        }
        let len_bytes = range.end - range.start;
        match &mut self.run {
            Some(run) if run.changed == changed => {
                run.len_bytes += len_bytes;
                ControlFlow::Continue(())
            }
            run => {
                let next = Change {
                    offset_bytes: range.start,
                    len_bytes,
                    changed,
                };
                let reported = run.replace(next);
                reported.map_or(ControlFlow::Continue(()), &mut self.visit)
            }
        }
    }

    /// Reports the last piece.
    fn finish(self) {
        if let Some(run) = self.run {
            let _ = (self.visit)(run);
        }
    }
}

/// The changes between two states that are both immutable.
pub(crate) struct StateChanges {
    pub reader: Arc<Reader>,
    pub before: ObjectRoot,
    pub after: ObjectRoot,
}

impl Changes for StateChanges {
    fn pieces(
        &self,
        _context: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        visit: &mut dyn FnMut(Change) -> ControlFlow<()>,
    ) -> Result<(), VolumeError> {
        tell_changes((offset_bytes, len_bytes), visit, |within| {
            changed_ranges(&self.reader, &self.before, &self.after, within)
        });
        Ok(())
    }
}
