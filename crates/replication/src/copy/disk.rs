//! Copies a disk: an object in fixed chunks, whose parts are copied in any order. The task calls
//! this.
//!
//! Invariant: a part is the range of one recipe node over chunks. The task's own order skips parts
//! that equal the base, and their nodes are not loaded.

use super::carrier::Carrier;
use super::pairs::Pair;
use super::{CopyError, CopyLimits, Copying};
use duet::Access;
use format::recipe::{FIXED_FANOUT, ObjectRoot};
use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use store::{ChunkRun, GrowingObject, Reader, RegionKind};
use units::Fingerprint;

/// log2 of the chunks of a part.
pub(super) const PART_LOG2: u32 = FIXED_FANOUT.trailing_zeros();
/// See the module's head.
pub(super) struct DiskCopy {
    root: ObjectRoot,
    log2: u8,
    /// This pool's object that equals what the receiving pool has.
    before: ObjectRoot,
    growing: GrowingObject,
    runs: Vec<ChunkRun>,
    /// The part in progress, and its remaining changes.
    begun: Option<(u64, VecDeque<Change>)>,
    limits: CopyLimits,
}

/// A chunk, or a run of holes, that differs from the base.
struct Change {
    first: u64,
    count: u64,
    /// In this pool.
    fingerprint: Fingerprint,
    /// Bytes.
    len: u64,
}

impl DiskCopy {
    pub fn new(root: ObjectRoot, log2: u8, base: Option<Pair>, limits: CopyLimits) -> Self {
        let fits =
            |pair: &Pair| pair.here.layout == root.layout && pair.there.layout == root.layout;
        let (before, growing) = match base.filter(fits) {
            Some(pair) => (pair.here, GrowingObject::over(pair.there, root.len)),
            None => {
                let empty = GrowingObject::empty(root.len, log2);
                (empty.root(), empty)
            }
        };
        Self {
            root,
            log2,
            before,
            growing,
            runs: Vec::new(),
            begun: None,
            limits,
        }
    }

    fn part_bytes(&self) -> u64 {
        1 << (u32::from(self.log2) + PART_LOG2)
    }

    /// Number of parts.
    pub fn parts(&self) -> u64 {
        self.root.len.div_ceil(self.part_bytes())
    }

    /// Returns the next part that differs from the base.
    ///
    /// Looks at one part first, then at more and more: a range of differences is reported as a
    /// whole, which loads the nodes of all of it, and most copies differ everywhere.
    pub fn next(&self, after: Option<u64>, from: &Reader) -> Result<Option<u64>, CopyError> {
        let mut first = after.map_or(0, |part| part + 1);
        let mut count = 1u64;
        let mut found = None;
        while found.is_none() && first < self.parts() {
            let end = first.saturating_add(count).min(self.parts());
            let within =
                first * self.part_bytes()..self.root.len.min(end.saturating_mul(self.part_bytes()));
            let visited = from.visit_differences(&self.before, &self.root, within, &mut |range| {
                found = Some(range.start / self.part_bytes());
                Ok(ControlFlow::Break(()))
            });
            visited.map_err(CopyError::Source)?;
            (first, count) = (end, count.saturating_mul(2));
        }
        Ok(found)
    }

    /// Copies about `budget_bytes` of the differences in a part. If it is not complete, the next
    /// call must be for the same part.
    pub fn copy_part(
        &mut self,
        part: u64,
        carrier: &mut Carrier,
        (budget_bytes, access): (u64, Access),
    ) -> Result<Copying, CopyError> {
        let begun = self.begun.take().filter(|(begun, _)| *begun == part);
        let mut changes = match begun {
            Some((_, changes)) => changes,
            None if access == Access::Memory && !self.is_recipe_cached(part, carrier.source()) => {
                return Ok(Copying::NeedsDevice);
            }
            None => self.changes(part, carrier.source())?,
        };
        let (mut copied, mut needs_device) = (0, false);
        while copied < budget_bytes
            && let Some(change) = changes.front()
        {
            let layout = self.root.layout;
            let how = (layout, RegionKind::of_layout(layout), access);
            let Some(fingerprint) = carrier.carry(how, &change.fingerprint, change.len)? else {
                needs_device = true;
                break;
            };
            copied += change.len;
            self.runs.push(ChunkRun {
                first: change.first,
                count: change.count,
                fingerprint,
            });
            changes.pop_front();
        }
        if !changes.is_empty() {
            self.begun = Some((part, changes));
            return Ok(match needs_device {
                true => Copying::NeedsDevice,
                false => Copying::Begun,
            });
        }
        if self.runs.len() >= self.limits.runs_max {
            carrier.to.grow(&mut self.growing, &mut self.runs)?;
        }
        let is_full = self.growing.nodes_in_memory() >= self.limits.nodes_max;
        if is_full {
            carrier.to.commit(&[])?;
            self.growing.committed();
        }
        Ok(Copying::Done)
    }

    fn is_recipe_cached(&self, part: u64, from: &Reader) -> bool {
        let start = part.saturating_mul(self.part_bytes());
        let mut roots = [&self.before, &self.root].into_iter();
        roots.all(|root| from.is_recipe_cached(root, start))
    }

    /// Returns the differences in a part.
    fn changes(&self, part: u64, from: &Reader) -> Result<VecDeque<Change>, CopyError> {
        let start = part.saturating_mul(self.part_bytes());
        let within = start..start.saturating_add(self.part_bytes()).min(self.root.len);
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut changes = VecDeque::new();
        let visited = from.visit_differences(&self.before, &self.root, within, &mut |range| {
            ranges.push(range);
            Ok(ControlFlow::Continue(()))
        });
        visited.map_err(CopyError::Source)?;
        for range in ranges {
            let mut add = |offset: u64, len: u64, fingerprint| {
                let at = offset.max(range.start);
                let end = offset.saturating_add(len).min(range.end);
                let len = end.saturating_sub(at);
                changes.push_back(Change {
                    first: at >> self.log2,
                    count: len.div_ceil(1 << self.log2),
                    fingerprint,
                    len,
                });
                Ok(ControlFlow::Continue(()))
            };
            from.visit_pieces(&self.root, range.start, range.end, &mut add)
                .map_err(CopyError::Source)?;
        }
        Ok(changes)
    }

    /// Returns the object in the receiving pool, once all of its parts are there.
    pub fn finish(&mut self, carrier: &mut Carrier) -> Result<ObjectRoot, CopyError> {
        carrier.to.grow(&mut self.growing, &mut self.runs)?;
        Ok(self.growing.root())
    }
}
