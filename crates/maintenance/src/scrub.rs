//! Scrub: reads and verifies every region of every container. Regions that readers have just
//! verified are not read again (Duet, SOSP'15). The scrubber calls this.
//!
//! Invariant: a container is done when each of its regions was verified since the pass began, by
//! the scrub or by a reader, and its metadata by the scrub. Damage is put into quarantine before it
//! is reported.

mod read_by_others;
mod scrubber;

pub use scrubber::{ScrubStatus, ScrubTotals, Scrubber, Unread};

use duet::{Events, Item, News, Page, Processed, Space, Task, Work};
use read_by_others::ReadByOthers;
use std::sync::Arc;
use store::{Damaged, Pool, RegionPlace, Result, Verification};
use units::ContainerId;

/// Findings since the last query.
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

/// The task: a unit is a container. Its own order is that of container numbers.
struct Scrub {
    pool: Arc<Pool>,
    current: Option<Verification>,
    /// The last container that the driver was given.
    reached: Option<ContainerId>,
    read_by_others: ReadByOthers,
    findings: ScrubFindings,
}

impl Scrub {
    fn new(pool: Arc<Pool>, reached: Option<ContainerId>) -> Self {
        Self {
            pool,
            current: None,
            reached,
            read_by_others: ReadByOthers::default(),
            findings: ScrubFindings::default(),
        }
    }

    /// Returns true for containers that are done, or that are tried again as a whole.
    fn is_behind(&self, container: ContainerId) -> bool {
        let is_current = |v: &Verification| v.container() == container;
        self.reached.is_some_and(|reached| container <= reached)
            && !self.current.as_ref().is_some_and(is_current)
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
        Ok(next.map(|id| Work {
            object: id.0,
            part: 0,
        }))
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
        let begun = self.current.take().filter(|v| v.container() == id);
        let (mut verification, before) = match begun {
            Some(verification) => {
                let before = (verification.read_bytes, verification.cached_bytes);
                (verification, before)
            }
            None => (self.pool.begin_verification(id)?, (0, 0)),
        };
        let others = &self.read_by_others;
        let mut is_verified = |place| others.has(place);
        let gone_on = self
            .pool
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
        if gone_on.is_err() || processed.is_done {
            self.read_by_others.forget(id);
        } else {
            self.current = Some(verification);
        }
        gone_on.map(|()| processed)
    }
}
