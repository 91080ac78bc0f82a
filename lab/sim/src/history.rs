//! Scenarios, and the history of a run: operations, acknowledgements and positions in the log.
//! Scenarios fill it in while they run; the explorer reads it for each crash point.
//!
//! Invariant: an operation counts as acknowledged at a position of the log if the scenario
//! acknowledged it at or before that position. Until then it is in flight and may or may not have
//! taken place.

use crate::disk::SimDisk;
use crate::seed::mix;
use parking_lot::Mutex;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of in-flight operations of which [`Expected::models`] has every subset.
const SUBSETS_OF_MAX: usize = 5;

/// A system under test with a history to run on it. One value is one seed.
pub trait Scenario: Sync {
    /// An operation of the history.
    type Op: Clone + Debug + Send + Sync;
    /// Knowledge of an observer of all acknowledgements. The default is the start.
    type Model: Clone + Default + Send + Sync;

    /// Applies the effect of `op`.
    fn apply(&self, model: &mut Self::Model, op: &Self::Op);

    /// Runs the history once, recorded. Must do the same each time.
    fn run(&self, disk: &Arc<SimDisk>, history: &History<Self::Op>) -> Result<(), String>;

    /// Opens the system on the disk that a crash left, and returns what is wrong. Its writes
    /// (recovery) are explored in turn if [`crate::Explorer::recovery_depth`] says so. It must not
    /// undo or replace anything that `expected` names.
    fn check(&self, disk: &Arc<SimDisk>, expected: &Expected<Self>) -> Result<(), String>;
}

/// Allowed states after a crash.
pub struct Expected<S: Scenario + ?Sized> {
    /// Every acknowledged operation and nothing else.
    pub acked: S::Model,
    /// Operations begun and not acknowledged: they may or may not have taken place.
    pub in_flight: Vec<S::Op>,
    /// All allowed states: `acked`, with any subset of the operations in flight (with each prefix
    /// of them if there are more than five).
    pub models: Vec<S::Model>,
}

/// Names an operation of a [`History`].
#[derive(Clone, Copy, Debug)]
pub struct Ticket(usize);

struct Event<O> {
    op: O,
    begun: usize,
    /// Position in the log at which the outcome was known, and whether it took place.
    known: Option<(usize, bool)>,
}

/// The operations of one run and their acknowledgements.
pub struct History<O> {
    disk: Arc<SimDisk>,
    events: Mutex<Vec<Event<O>>>,
    start: AtomicUsize,
}

impl<O: Clone> History<O> {
    /// Creates an empty history on `disk`.
    pub fn new(disk: Arc<SimDisk>) -> Self {
        Self {
            disk,
            events: Mutex::default(),
            start: AtomicUsize::new(0),
        }
    }

    /// Excludes earlier crash points from the exploration (the pool's creation, for example).
    pub fn explore_from_here(&self) {
        self.start.store(self.disk.position(), Ordering::Relaxed);
    }

    /// An operation begins.
    pub fn begin(&self, op: O) -> Ticket {
        let begun = self.disk.position();
        let mut events = self.events.lock();
        events.push(Event {
            op,
            begun,
            known: None,
        });
        Ticket(events.len() - 1)
    }

    /// The operation was acknowledged: from here on it must survive.
    pub fn ack(&self, ticket: Ticket) {
        self.known(ticket, true);
    }

    /// It is known, and durable, that the operation did not take place: from here on it must not
    /// appear. An operation that merely failed stays in flight.
    pub fn forget(&self, ticket: Ticket) {
        self.known(ticket, false);
    }

    /// Runs `work` as `op`: acknowledged if it succeeds.
    pub fn op<T, E>(&self, op: O, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let ticket = self.begin(op);
        let result = work();
        if result.is_ok() {
            self.ack(ticket);
        }
        result
    }

    pub(crate) fn start(&self) -> usize {
        self.start.load(Ordering::Relaxed)
    }

    /// Returns a key of the expectation at `position`: equal keys, equal expectations.
    pub(crate) fn key(&self, position: usize) -> u64 {
        self.events.lock().iter().fold(0, |key, event| {
            mix(
                key,
                match fate(event, position) {
                    Fate::Unborn | Fate::Known(false) => 0,
                    Fate::Known(true) => 1,
                    Fate::InFlight => 2,
                },
            )
        })
    }

    pub(crate) fn expected<S: Scenario<Op = O>>(
        &self,
        scenario: &S,
        position: usize,
    ) -> Expected<S> {
        let events = self.events.lock();
        let in_flight: Vec<usize> = (0..events.len())
            .filter(|at| matches!(fate(&events[*at], position), Fate::InFlight))
            .collect();
        let model = |takes_place: &dyn Fn(usize) -> bool| {
            let mut model = S::Model::default();
            for event in events.iter() {
                let number = in_flight
                    .iter()
                    .position(|at| std::ptr::eq(&events[*at], event));
                let happens = match number {
                    Some(number) => takes_place(number),
                    None => matches!(fate(event, position), Fate::Known(true)),
                };
                if happens {
                    scenario.apply(&mut model, &event.op);
                }
            }
            model
        };
        let count = in_flight.len();
        let models = if count <= SUBSETS_OF_MAX {
            (0..1_u32 << count)
                .map(|subset| model(&|at| subset & (1 << at) != 0))
                .collect()
        } else {
            (0..=count).map(|prefix| model(&|at| at < prefix)).collect()
        };
        Expected {
            acked: model(&|_| false),
            in_flight: in_flight.iter().map(|at| events[*at].op.clone()).collect(),
            models,
        }
    }

    fn known(&self, ticket: Ticket, took_place: bool) {
        let position = self.disk.position();
        self.events.lock()[ticket.0].known = Some((position, took_place));
    }
}

enum Fate {
    /// The log has no effect of it before `position`.
    Unborn,
    InFlight,
    Known(bool),
}

fn fate<O>(event: &Event<O>, position: usize) -> Fate {
    match event.known {
        Some((at, took_place)) if at <= position => Fate::Known(took_place),
        _ if event.begun < position => Fate::InFlight,
        _ => Fate::Unborn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use media::Disk;

    /// A set of numbers, as bits.
    struct Numbers;

    impl Scenario for Numbers {
        type Op = u32;
        type Model = u64;

        fn apply(&self, model: &mut u64, op: &u32) {
            *model |= 1 << op;
        }

        fn run(&self, _: &Arc<SimDisk>, _: &History<u32>) -> Result<(), String> {
            Ok(())
        }

        fn check(&self, _: &Arc<SimDisk>, _: &Expected<Self>) -> Result<(), String> {
            Ok(())
        }
    }

    fn models(history: &History<u32>, position: usize) -> (u64, Vec<u64>) {
        let expected = history.expected(&Numbers, position);
        (expected.acked, expected.models)
    }

    #[test]
    fn an_operation_counts_from_its_answer_on() {
        let disk = SimDisk::new();
        let history = History::new(Arc::clone(&disk));
        let first = history.begin(0);
        disk.open("a", true).unwrap();
        history.ack(first);
        let second = history.begin(1);
        disk.open("b", true).unwrap();
        let third = history.begin(2);
        disk.open("c", true).unwrap();
        history.forget(third);
        history.ack(second);
        assert_eq!(models(&history, 0), (0, vec![0]));
        // The acknowledgement came with the first operation and before the second.
        assert_eq!(models(&history, 1), (0b001, vec![0b001]));
        assert_eq!(models(&history, 2), (0b001, vec![0b001, 0b011]));
        assert_eq!(models(&history, 3), (0b011, vec![0b011]));
        assert_ne!(history.key(1), history.key(2));
        assert_eq!(history.key(3), history.key(4));
    }

    #[test]
    fn many_in_flight_give_prefixes() {
        let disk = SimDisk::new();
        let history = History::new(Arc::clone(&disk));
        for number in 0..6 {
            history.begin(number);
        }
        disk.open("a", true).unwrap();
        let (acked, models) = models(&history, 1);
        assert_eq!((acked, models), (0, vec![0, 1, 3, 7, 15, 31, 63]));
    }
}
