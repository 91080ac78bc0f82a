//! The task of copying: the units of a disk are its parts; any other object is one unit. Duet's
//! driver calls this.
//!
//! Invariant: the result does not depend on the order.

use super::CopyError;
use super::carrier::Carrier;
use super::disk::{CopyLimits, DiskCopy, PART_LOG2};
use super::object::ObjectCopy;
use super::pairs::Pair;
use super::tree::TreeCopy;
use duet::{Page, Processed, Space, Task, Work};
use format::recipe::{Layout, ObjectRoot};
use format::snapshot::{Snapshot, SnapshotKind};

/// The object in progress.
pub(super) enum Copied {
    Disk(DiskCopy),
    Object(ObjectCopy),
    Tree(Box<TreeCopy>),
}

impl Copied {
    pub fn new(
        snapshot: &Snapshot,
        base: Option<Pair>,
        carrier: &mut Carrier,
        limits: CopyLimits,
    ) -> Result<Self, CopyError> {
        let root = snapshot.root;
        Ok(match (snapshot.kind, root.layout) {
            (SnapshotKind::Tree, _) => Self::Tree(Box::new(TreeCopy::new(root, base, carrier)?)),
            (_, Layout::Fixed(log2)) => {
                // A disk takes parts of its base over without looking them up.
                let reader = carrier.to.reader();
                let base = base.filter(|pair| reader.is_believed_whole(&pair.there));
                Self::Disk(DiskCopy::new(root, log2, base, limits))
            }
            (_, Layout::Variable) => Self::Object(ObjectCopy::new(root, base, carrier)),
        })
    }

    pub fn finish(self, carrier: &mut Carrier) -> Result<Option<ObjectRoot>, CopyError> {
        match self {
            Self::Disk(mut disk) => disk.finish(carrier).map(Some),
            Self::Object(object) => object.finish(carrier).map(Some),
            Self::Tree(tree) => Ok(tree.root()),
        }
    }
}

/// See the module's head.
pub(super) struct Copying {
    pub carrier: Carrier,
    pub copied: Option<Copied>,
}

/// The only unit of an object without parts.
const WHOLE: Work = Work { object: 0, part: 0 };

impl Task for Copying {
    type Error = CopyError;

    fn work_of(&self, page: &Page) -> Option<Work> {
        let Some(Copied::Disk(disk)) = &self.copied else {
            return None;
        };
        let part = page.index >> PART_LOG2;
        let is_one = page.space == Space::Chunks && part < disk.parts();
        is_one.then_some(Work { object: 0, part })
    }

    fn pages(&self, _: Work) -> u64 {
        match &self.copied {
            Some(Copied::Disk(_)) => 1 << PART_LOG2,
            _ => 1,
        }
    }

    fn next(&mut self, after: Option<Work>) -> Result<Option<Work>, CopyError> {
        match &self.copied {
            Some(Copied::Disk(disk)) => {
                let next = disk.next(after.map(|work| work.part), self.carrier.source())?;
                Ok(next.map(|part| Work { object: 0, part }))
            }
            _ => Ok(after.is_none().then_some(WHOLE)),
        }
    }

    fn process(&mut self, work: Work, budget_bytes: u64) -> Result<Processed, CopyError> {
        let before = (self.carrier.counts, self.carrier.to.counts().new_bytes);
        let is_done = match &mut self.copied {
            Some(Copied::Disk(disk)) => {
                disk.copy_part(work.part, &mut self.carrier, budget_bytes)?
            }
            Some(Copied::Object(object)) => object.step(&mut self.carrier, budget_bytes)?,
            Some(Copied::Tree(tree)) => tree.step(&mut self.carrier, budget_bytes)?,
            None => true,
        };
        let counts = self.carrier.counts;
        Ok(Processed {
            bytes_read: counts.read_bytes - before.0.read_bytes,
            bytes_cached: counts.cached_bytes - before.0.cached_bytes,
            bytes_written: self.carrier.to.counts().new_bytes - before.1,
            is_done,
        })
    }
}
