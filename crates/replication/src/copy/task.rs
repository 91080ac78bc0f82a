//! The task of copying: the units of a disk are its parts, those of a stream or a tree its pieces.
//! Duet's driver calls this.
//!
//! Invariant: the result does not depend on the order.

use super::carrier::Carrier;
use super::disk::{DiskCopy, PART_LOG2};
use super::ordered::OrderedCopy;
use super::pairs::Pair;
use super::{CopyError, CopyLimits, Copying};
use duet::{Access, Page, Processed, Space, Task, Work};
use format::recipe::{Layout, ObjectRoot};
use format::snapshot::{Snapshot, SnapshotKind};

/// The object in progress.
pub(super) enum Copied {
    Disk(Box<DiskCopy>),
    Ordered(Box<OrderedCopy>),
}

impl Copied {
    pub fn new(
        snapshot: &Snapshot,
        base: Option<Pair>,
        carrier: &Carrier,
        limits: CopyLimits,
    ) -> Self {
        let root = snapshot.root;
        match (snapshot.kind, root.layout) {
            (SnapshotKind::Tree, _) => {
                let tree = OrderedCopy::of_tree(root, base, carrier, limits);
                Self::Ordered(Box::new(tree))
            }
            (_, Layout::Fixed(log2)) => {
                // A disk takes parts of its base over without looking them up.
                let reader = carrier.to.reader();
                let base = base.filter(|pair| reader.is_believed_whole(&pair.there));
                Self::Disk(Box::new(DiskCopy::new(root, log2, base, limits)))
            }
            (_, Layout::Variable) => {
                let stream = OrderedCopy::of_stream(root, base, carrier, limits);
                Self::Ordered(Box::new(stream))
            }
        }
    }

    pub fn finish(self, carrier: &mut Carrier) -> Result<Option<ObjectRoot>, CopyError> {
        match self {
            Self::Disk(mut disk) => disk.finish(carrier).map(Some),
            Self::Ordered(ordered) => Ok(ordered.root()),
        }
    }
}

/// See the module's head.
pub(super) struct CopyTask {
    pub carrier: Carrier,
    pub copied: Option<Copied>,
    /// Of the current step.
    pub access: Access,
    /// Sent bytes that the rate limit has counted.
    pub paid_bytes: u64,
}

/// Numbers of units: the part of a disk; the object is the piece of a stream or a tree.
fn part(part: u64) -> Work {
    Work { object: 0, part }
}

fn piece(object: u64) -> Work {
    Work { object, part: 0 }
}

impl Task for CopyTask {
    type Error = CopyError;

    fn work_of(&self, page: &Page) -> Option<Work> {
        let Some(Copied::Disk(disk)) = &self.copied else {
            return None;
        };
        let number = page.index >> PART_LOG2;
        let is_one = page.space == Space::Chunks && number < disk.parts();
        is_one.then_some(part(number))
    }

    fn visit_works(&self, page: &Page, visit: &mut dyn FnMut(Work)) {
        match &self.copied {
            Some(Copied::Ordered(ordered)) => {
                let visit = &mut |number| visit(piece(number));
                ordered.visit_pieces(page, &self.carrier, visit);
            }
            _ => self.work_of(page).into_iter().for_each(visit),
        }
    }

    fn resident_pages(&self, work: Work) -> Option<u64> {
        match &self.copied {
            Some(Copied::Ordered(ordered)) => {
                Some(ordered.chunks_resident(work.object, &self.carrier))
            }
            _ => None,
        }
    }

    fn pages(&self, work: Work) -> u64 {
        match &self.copied {
            Some(Copied::Disk(_)) => 1 << PART_LOG2,
            Some(Copied::Ordered(ordered)) => ordered.chunks_left(work.object),
            None => 1,
        }
    }

    fn next(&mut self, after: Option<Work>) -> Result<Option<Work>, CopyError> {
        match &mut self.copied {
            Some(Copied::Disk(disk)) => {
                let next = disk.next(after.map(|work| work.part), self.carrier.source())?;
                Ok(next.map(part))
            }
            Some(Copied::Ordered(ordered)) => {
                let number = after.map_or(0, |work| work.object + 1);
                let is_there = ordered.fill(number, &mut self.carrier)?;
                Ok(is_there.then_some(piece(number)))
            }
            None => Ok(None),
        }
    }

    fn process(&mut self, work: Work, budget_bytes: u64) -> Result<Processed, CopyError> {
        let before = (self.carrier.counts, self.carrier.to.counts().new_bytes);
        let (carrier, budget) = (&mut self.carrier, (budget_bytes, self.access));
        let copied = match &mut self.copied {
            Some(Copied::Disk(disk)) => disk.copy_part(work.part, carrier, budget)?,
            Some(Copied::Ordered(ordered)) => ordered.copy_piece(work.object, carrier, budget)?,
            None => Copying::Done,
        };
        let counts = self.carrier.counts;
        Ok(Processed {
            bytes_read: counts.read_bytes - before.0.read_bytes,
            bytes_cached: counts.cached_bytes - before.0.cached_bytes,
            bytes_written: self.carrier.to.counts().new_bytes - before.1,
            is_done: copied == Copying::Done,
            needs_device: copied == Copying::NeedsDevice,
        })
    }

    fn limited_bytes(&mut self, _: &Processed) -> u64 {
        let before = self.paid_bytes;
        self.paid_bytes = self.carrier.to.sent_bytes().max(before);
        self.paid_bytes - before
    }
}
