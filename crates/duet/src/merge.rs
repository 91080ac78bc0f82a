//! Pending events of one page for one session: sixteen bits, and how events change them. A shard
//! calls this for each session that an event concerns.
//!
//! Invariant: of the two events of a state, at most one is pending: the one that leads to the
//! current state.

use crate::page::{Events, Mask};

/// Pending events of a page for a session; zero if there are none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Pending(u16);

const EVENTS: u16 = 0xf;
/// First bit of each pair. [`MARK`] is the distance to the bit that forbids cancelling the pair.
const PAIRS: [u16; 2] = [1, 4];
const MARK: u32 = 4;

impl Pending {
    pub const NONE: Self = Self(0);

    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The events to deliver.
    pub fn events(self) -> Events {
        Events((self.0 & EVENTS) as u8)
    }

    /// Returns the state after `events`. `is_unsure`: the table does not know which state the
    /// session has seen, because pages are being replayed to it or it lost items. Opposite events
    /// of a state then do not cancel each other; the last one is delivered.
    pub fn after(self, events: Events, mask: Mask, is_unsure: bool) -> Self {
        let mut bits = self.0 | u16::from(events.0 & mask.events);
        let states = u16::from(events.0 & mask.states);
        for first in PAIRS {
            for (event, opposite) in [(first, first << 1), (first << 1, first)] {
                if states & event == 0 {
                    continue;
                }
                let mark = first << MARK;
                let must_stay = is_unsure || bits & mark != 0;
                if bits & opposite != 0 && !must_stay {
                    bits &= !opposite;
                } else {
                    bits = (bits & !opposite) | event;
                }
                if is_unsure {
                    bits |= mark;
                }
            }
        }
        Self(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(mask: Mask, events: &[Events]) -> Events {
        let none = Pending::default();
        let after = |pending: Pending, event: &Events| pending.after(*event, mask, false);
        events.iter().fold(none, after).events()
    }

    const A: Events = Events::ADDED;
    const R: Events = Events::REMOVED;
    const D: Events = Events::DIRTIED;
    const F: Events = Events::FLUSHED;

    #[test]
    fn events_add_up_and_states_cancel() {
        let all = Mask::ADDED.and(Mask::REMOVED).expect("no state");
        assert_eq!(reported(all, &[A, R]), A.and(R));
        assert_eq!(reported(Mask::ADDED, &[A, R, D, F]), A);
        assert_eq!(reported(Mask::EXISTS, &[A, R]), Events::NONE);
        assert_eq!(reported(Mask::EXISTS, &[R, A]), Events::NONE);
        assert_eq!(reported(Mask::EXISTS, &[A, R, A, D]), A);
        assert_eq!(reported(Mask::MODIFIED, &[A.and(D), F.and(R), D]), D);
        let collect = Mask::EXISTS.and(Mask::FLUSHED).expect("two pairs");
        assert_eq!(reported(collect, &[A, D, F, R]), F);
    }

    #[test]
    fn what_is_unsure_is_reported() {
        let mask = Mask::EXISTS;
        let replayed = Pending::default().after(A, mask, true);
        let removed = replayed.after(R, mask, false);
        assert_eq!(
            removed.events(),
            R,
            "it may have been told that it is there"
        );
        assert_eq!(removed.after(A, mask, false).events(), A);
        let none = Pending::default().after(A, mask, false);
        assert!(none.after(R, mask, false).is_none());
    }
}
