//! Scrub: reads and verifies every region of every container. Regions that readers have just
//! verified are not read again (Duet, SOSP'15). The scrubber calls this.
//!
//! ```text
//! containers in the order of their numbers --> not in memory: read now
//!                                          \-> in memory: read at the end of the pass, in order
//! ```
//!
//! Bytes in memory prove nothing about the medium, so the pass reads those containers too. It
//! reads them last: by then their chunks may have left memory, and clients may have read them from
//! the medium.
//!
//! Invariant: a container is done when each of its regions was verified since the pass began, by
//! the scrub or by a reader, and its metadata by the scrub. Damage is put into quarantine before it
//! is reported.

mod read_by_others;
mod scrubber;

pub use scrubber::{ScrubNews, ScrubStatus, Scrubber, Unread};

use duet::{
    Events, Item, News, Page, Present, Processed, Space, Task, TaskProgress, Work, WorkSet,
};
use read_by_others::ReadByOthers;
use std::sync::Arc;
use store::{Damaged, Pool, RegionPlace, Result, Verification};
use units::ContainerId;

/// Findings of a step.
#[derive(Clone, Debug, Default)]
pub struct ScrubFindings {
    /// Damage.
    pub damaged: Vec<Damaged>,
    /// Regions that were in quarantine and are intact again.
    pub taken_back: Vec<RegionPlace>,
}

impl ScrubFindings {
    /// Returns true if there is nothing to note.
    pub fn is_empty(&self) -> bool {
        self.damaged.is_empty() && self.taken_back.is_empty()
    }
}

/// The task: a unit is a container. Its own order is that of container numbers. Whole containers
/// are left for the end of the pass, so that what is read stays contiguous.
struct Scrub {
    pool: Arc<Pool>,
    current: Option<Verification>,
    /// The last container that the driver was given.
    reached: Option<ContainerId>,
    /// Containers that are left for the end of the pass.
    last: WorkSet,
    read_by_others: ReadByOthers,
    findings: ScrubFindings,
}

impl Scrub {
    fn new(pool: Arc<Pool>, progress: &TaskProgress) -> Self {
        Self {
            pool,
            current: None,
            reached: progress.position.map(|work| ContainerId(work.object)),
            last: progress.again.clone(),
            read_by_others: ReadByOthers::default(),
            findings: ScrubFindings::default(),
        }
    }

    /// Returns true for containers that are done, or that are tried again as a whole.
    fn is_behind(&self, container: ContainerId) -> bool {
        let is_current = |v: &Verification| v.container() == container;
        self.reached.is_some_and(|reached| container <= reached)
            && !self.last.contains(work_of(container))
            && !self.current.as_ref().is_some_and(is_current)
    }

    /// Returns true if clients have read a region of the container lately, or in this pass.
    fn is_in_memory(&self, container: ContainerId) -> bool {
        let mut is_recent = false;
        let recent = self.pool.reader().recent_regions();
        recent.replay_object(Space::Containers, container.0, &mut |_, _| is_recent = true);
        is_recent || self.read_by_others.regions_of(container) > 0
    }
}

fn work_of(container: ContainerId) -> Work {
    Work {
        object: container.0,
        part: 0,
    }
}

impl Task for Scrub {
    type Error = store::StoreError;

    /// Nothing is worth leaving the order for: a region in memory was verified already.
    fn work_of(&self, _: &Page) -> Option<Work> {
        None
    }

    fn pages(&self, _: Work) -> u64 {
        1
    }

    fn next(&mut self, after: Option<Work>) -> Result<Option<Work>> {
        let after = after.map(|work| ContainerId(work.object));
        let next = self.pool.container_after(after)?;
        if next.is_some() {
            self.reached = next;
        }
        Ok(next.map(work_of))
    }

    fn is_last(&mut self, work: Work) -> bool {
        let is_last = self.is_in_memory(ContainerId(work.object));
        if is_last {
            self.last.insert(work);
        }
        is_last
    }

    fn hear(&mut self, item: &Item) -> News {
        let Page {
            space,
            object,
            index,
            ..
        } = item.page;
        let container = ContainerId(object);
        if space == Space::Containers
            && item.events.has(Events::ADDED)
            && !self.is_behind(container)
            && let Ok(sector) = u32::try_from(index)
        {
            self.read_by_others.add(RegionPlace { container, sector });
        }
        News::None
    }

    fn process(&mut self, work: Work, budget_bytes: u64) -> Result<Processed> {
        let id = ContainerId(work.object);
        self.last.remove(work);
        let begun = self.current.take().filter(|v| v.container() == id);
        let (mut verification, before) = match begun {
            Some(verification) => {
                let before = (verification.read_bytes, verification.cached_bytes);
                (verification, before)
            }
            None => {
                let verified = self.read_by_others.regions_of(id);
                (self.pool.begin_verification(id, verified)?, (0, 0))
            }
        };
        let others = &self.read_by_others;
        let mut is_verified = |place| others.has(place);
        let continued =
            self.pool
                .go_on_verifying(&mut verification, &mut is_verified, budget_bytes);
        self.findings.damaged.append(&mut verification.damaged);
        self.findings
            .taken_back
            .append(&mut verification.taken_back);
        let processed = Processed {
            bytes_read: verification.read_bytes - before.0,
            bytes_cached: verification.cached_bytes - before.1,
            is_done: verification.is_done(),
            ..Processed::default()
        };
        if continued.is_err() || processed.is_done {
            self.read_by_others.forget(id);
        } else {
            self.current = Some(verification);
        }
        continued.map(|()| processed)
    }
}
