//! The containers that a run still has to copy, and the order in which it takes them: first those
//! of which clients have just read regions, so that their chunks are in memory (Duet, SOSP'15),
//! then the others as planned. The collector uses it.
//!
//! Invariant: each container is taken once. Events affect only the order.

use super::choose::Candidate;
use crate::listening;
use duet::{Access, Driver, DriverOptions, Duet, Page, Present, Processed, TaskProgress};
use duet::{DriverStep, Scope, Session, Space, Task, Work};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use store::Result;
use units::ContainerId;

/// Fetches of events for one choice from memory. A table that overflows again and again would have
/// more events for ever.
const LOOKS_MAX: usize = 32;

/// See the module's head.
pub(super) struct Plan {
    ranked: Ranked,
    driver: Driver,
}

/// Containers in the planned order. A unit of work is a container; its object number is the rank.
struct Ranked {
    /// `None`: taken.
    candidates: Vec<Option<Candidate>>,
    ranks: HashMap<ContainerId, u64>,
    /// Ranks below this one are taken.
    next: usize,
    /// Number of containers that are not taken, and the plain bytes to copy of them.
    left: usize,
    left_bytes: u64,
    /// The container that the driver has chosen.
    chosen: Option<Candidate>,
}

/// Begins to listen to what clients read from containers.
pub(super) fn listen(duet: &Arc<Duet>) -> Result<Session> {
    listening::listen(duet, Space::Containers, Scope::Everything, 0)
}

impl Plan {
    /// `candidates` are in the planned order. Events come from `session`.
    pub fn new(candidates: Vec<Candidate>, session: Session) -> Self {
        let ids = candidates.iter().zip(0..);
        Self {
            ranked: Ranked {
                ranks: ids.map(|(candidate, rank)| (candidate.id, rank)).collect(),
                next: 0,
                left: candidates.len(),
                left_bytes: candidates.iter().map(|c| c.live_bytes).sum(),
                candidates: candidates.into_iter().map(Some).collect(),
                chosen: None,
            },
            driver: Driver::new(session, DriverOptions::default(), TaskProgress::new(0)),
        }
    }

    /// Takes the next container. `present`: the regions that were read before this began to listen.
    /// With [`Access::Memory`]: only one that clients have just read.
    pub fn take(&mut self, present: &dyn Present, access: Access) -> Option<Candidate> {
        let mut looks = 0;
        loop {
            let budget = (u64::MAX, access);
            let Ok(step) = self.driver.step(&mut self.ranked, present, 0, budget);
            match step {
                DriverStep::Worked { .. } => return self.ranked.chosen.take(),
                DriverStep::Looked if access == Access::Device || looks < LOOKS_MAX => looks += 1,
                _ => return None,
            }
        }
    }

    /// Returns the first container of the planned order.
    pub fn first(&self) -> Option<&Candidate> {
        let rest = self.ranked.candidates.get(self.ranked.next..);
        rest?.iter().flatten().next()
    }

    /// Number of containers.
    pub fn len(&self) -> usize {
        self.ranked.left
    }

    /// Returns the plain bytes to copy.
    pub fn bytes(&self) -> u64 {
        self.ranked.left_bytes
    }

    /// Drops all containers.
    pub fn clear(&mut self) {
        self.driver.cancel();
        self.ranked.candidates.clear();
        self.ranked.ranks.clear();
        (self.ranked.left, self.ranked.left_bytes) = (0, 0);
    }
}

impl Task for Ranked {
    type Error = Infallible;

    fn work_of(&self, page: &Page) -> Option<Work> {
        let rank = *self.ranks.get(&ContainerId(page.object))?;
        let is_left = self.candidates.get(rank as usize)?.is_some();
        is_left.then_some(Work {
            object: rank,
            part: 0,
        })
    }

    /// One page is enough to take a container without an I/O grant: taking it reads nothing.
    fn pages(&self, _: Work) -> u64 {
        1
    }

    fn score(&self, _: Work, cached_pages: u64) -> u64 {
        cached_pages
    }

    fn next(&mut self, after: Option<Work>) -> std::result::Result<Option<Work>, Infallible> {
        let from = after.map_or(0, |work| work.object as usize + 1);
        let mut rest = self.candidates.iter().enumerate().skip(from);
        let next = rest.find(|(_, candidate)| candidate.is_some());
        Ok(next.map(|(at, _)| Work {
            object: at as u64,
            part: 0,
        }))
    }

    fn process(&mut self, work: Work, _: u64) -> std::result::Result<Processed, Infallible> {
        let slot = self.candidates.get_mut(work.object as usize);
        self.chosen = slot.and_then(Option::take);
        if let Some(chosen) = &self.chosen {
            self.left -= 1;
            self.left_bytes -= chosen.live_bytes;
        }
        let rest = self.candidates.iter().skip(self.next);
        let taken = rest.take_while(|candidate| candidate.is_none());
        self.next += taken.count();
        Ok(Processed {
            is_done: true,
            ..Processed::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duet::{Events, Position};

    /// Far more regions than the table has room for.
    struct Many;

    impl Present for Many {
        fn replay(
            &self,
            _: Space,
            position: Option<Position>,
            max: usize,
            visit: &mut dyn FnMut(&Page, Events),
        ) -> Option<Position> {
            let from = position.map_or(0, |position| position.0[0]);
            for index in from..from + max as u64 {
                let page = Page {
                    space: Space::Containers,
                    object: 1000 + index,
                    generation: 0,
                    index,
                };
                visit(&page, Events::ADDED);
            }
            let next = from + max as u64;
            (next < 16_384).then_some(Position([next, 0]))
        }

        fn replay_object(&self, _: Space, _: u64, _: &mut dyn FnMut(&Page, Events)) {}
    }

    fn candidate(id: ContainerId) -> Candidate {
        Candidate::from(super::super::merge::Small {
            id,
            class: format::container::ContainerClass::Data,
            live_bytes: 100,
        })
    }

    #[test]
    fn a_table_that_overflows_delays_no_choice() {
        let ids: Vec<_> = (1..=9).map(ContainerId).collect();
        let candidates = ids.iter().map(|id| candidate(*id)).collect();
        let session = listen(&Duet::silent()).unwrap();
        let mut plan = Plan::new(candidates, session);
        assert!(plan.take(&Many, Access::Memory).is_none());
        let mut taken = Vec::new();
        while let Some(candidate) = plan.take(&Many, Access::Device) {
            assert!(plan.take(&Many, Access::Memory).is_none());
            taken.push(candidate.id);
        }
        assert_eq!(taken, ids);
        assert_eq!((plan.len(), plan.bytes()), (0, 0));
    }
}
