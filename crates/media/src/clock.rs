//! Defines sources of time, which other code takes as an argument. The store and the program call
//! this.
//!
//! Invariant: no safety decision depends on the time of day.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use units::UnixNanos;

/// A source of the time of day. It serves display, never safety.
pub trait Clock: Send + Sync {
    /// Returns the current time, UTC.
    fn now(&self) -> UnixNanos;
}

/// The system's clock.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> UnixNanos {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        UnixNanos(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
    }
}

/// A steady clock for waits and rates, never for display.
pub trait Ticks: Send + Sync {
    /// Returns nanoseconds since an arbitrary moment.
    fn now_ns(&self) -> u64;
}

/// The system's steady clock, counted from its creation.
pub struct SystemTicks(Instant);

impl Default for SystemTicks {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Ticks for SystemTicks {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A clock that advances by one second at each call, for deterministic runs.
#[derive(Default)]
pub struct FixedClock(AtomicI64);

impl FixedClock {
    /// Starts at `start`.
    pub fn new(start: UnixNanos) -> Self {
        Self(AtomicI64::new(start.0))
    }
}

impl Clock for FixedClock {
    fn now(&self) -> UnixNanos {
        UnixNanos(self.0.fetch_add(1_000_000_000, Ordering::Relaxed))
    }
}
