//! The time, as an argument.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use units::UnixNanos;

/// A source of the time of day. Used for what users see, never for safety.
pub trait Clock: Send + Sync {
    /// Now, UTC.
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

/// A clock that moves by one second each time it is asked: deterministic runs.
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
