//! Single-flight for regions: one thread reads and decodes a region, the others that need it wait
//! and share it (DDFS, ATC'18: requests for the same recipe node are serialized, all others run in
//! parallel). The read path calls this.
//!
//! Invariant: each region has at most one leader at a time. A leader that fails or panics leaves no
//! entry, and the waiting threads try again themselves. The lock of the table is never held across
//! a read.

use super::RegionPlace;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Result of a leader; `None` while it is reading.
type FlightResult<T> = Option<Option<Arc<T>>>;

struct Flight<T> {
    result: Mutex<FlightResult<T>>,
    ended: Condvar,
}

/// Regions that are being read; `T` is a decoded one. See the module's head.
pub struct SingleFlight<T> {
    running: Mutex<HashMap<RegionPlace, Arc<Flight<T>>>>,
    waits: AtomicU64,
}

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        Self {
            running: Mutex::default(),
            waits: AtomicU64::new(0),
        }
    }
}

/// Role of a thread that needs a region.
pub enum FlightRole<'a, T> {
    /// No other thread reads it: this one must, and then call [`Leader::complete`].
    Lead(Leader<'a, T>),
    /// Another thread has read it meanwhile.
    Shared(Arc<T>),
}

/// The thread that reads a region.
pub struct Leader<'a, T> {
    single_flight: &'a SingleFlight<T>,
    place: RegionPlace,
    flight: Arc<Flight<T>>,
    region: Option<Arc<T>>,
}

impl<T> SingleFlight<T> {
    /// Returns how often a thread waited for a leader, with the waits that go on.
    pub fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }

    /// Returns a leader, or waits for the current one. A thread whose leader failed tries to lead
    /// next.
    pub fn enter(&self, place: RegionPlace) -> FlightRole<'_, T> {
        loop {
            let mut single_flight = self.running.lock();
            let Some(flight) = single_flight.get(&place) else {
                let flight = Arc::new(Flight {
                    result: Mutex::new(None),
                    ended: Condvar::new(),
                });
                single_flight.insert(place, Arc::clone(&flight));
                return FlightRole::Lead(Leader {
                    single_flight: self,
                    place,
                    flight,
                    region: None,
                });
            };
            let flight = Arc::clone(flight);
            drop(single_flight);
            self.waits.fetch_add(1, Ordering::Relaxed);
            let mut result = flight.result.lock();
            flight
                .ended
                .wait_while(&mut result, |result| result.is_none());
            if let Some(Some(region)) = &*result {
                return FlightRole::Shared(Arc::clone(region));
            }
        }
    }
}

impl<T> Leader<'_, T> {
    /// Passes the region to all waiting threads.
    pub fn complete(mut self, region: &Arc<T>) {
        self.region = Some(Arc::clone(region));
    }
}

impl<T> Drop for Leader<'_, T> {
    fn drop(&mut self) {
        self.single_flight.running.lock().remove(&self.place);
        *self.flight.result.lock() = Some(self.region.take());
        self.flight.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::time::{Duration, Instant};
    use units::{ContainerId, WriterId};

    fn at(sector: u32) -> RegionPlace {
        RegionPlace {
            container: ContainerId::new(WriterId(1), 1),
            sector,
        }
    }

    fn region() -> Arc<u8> {
        Arc::new(1)
    }

    /// Returns when this many threads wait for a place. The map, the leader and each of them have
    /// the flight.
    fn until_others_wait(single_flight: &SingleFlight<u8>, place: RegionPlace, count: usize) {
        let began = Instant::now();
        let waiting = || {
            let running = single_flight.running.lock();
            running.get(&place).map_or(0, Arc::strong_count)
        };
        while waiting() < count + 2 {
            assert!(began.elapsed() < Duration::from_secs(60), "nobody waits");
            std::thread::yield_now();
        }
    }

    #[test]
    fn one_leads_and_all_others_share() {
        let single_flight = SingleFlight::<u8>::default();
        let (led, shared) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            let FlightRole::Lead(leader) = single_flight.enter(at(1)) else {
                panic!("nobody else is there");
            };
            for _ in 0..8 {
                scope.spawn(|| match single_flight.enter(at(1)) {
                    FlightRole::Lead(leader) => {
                        led.fetch_add(1, Ordering::Relaxed);
                        leader.complete(&region());
                    }
                    FlightRole::Shared(_) => {
                        shared.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            until_others_wait(&single_flight, at(1), 8);
            assert_eq!(led.load(Ordering::Relaxed), 0, "two leaders at a time");
            assert!(matches!(single_flight.enter(at(2)), FlightRole::Lead(_)));
            leader.complete(&region());
        });
        assert_eq!((led.into_inner(), shared.into_inner()), (0, 8));
        assert!(single_flight.running.lock().is_empty());
    }

    #[test]
    fn after_a_failure_the_next_one_leads() {
        let single_flight = SingleFlight::<u8>::default();
        std::thread::scope(|scope| {
            let leader = single_flight.enter(at(1));
            let waits = scope.spawn(|| matches!(single_flight.enter(at(1)), FlightRole::Lead(_)));
            until_others_wait(&single_flight, at(1), 1);
            drop(leader);
            assert!(waits.join().expect("no panic"), "who waited leads");
        });
        assert!(single_flight.running.lock().is_empty());
    }
}
