//! `--limit` of commands that read or store: bytes a second. Backups, imports, restores and exports
//! wait for it.
//!
//! Invariant: over any period, what is read stays below the rate times the period plus what is read
//! at once; so does what is stored. No wait outlasts an interruption.

use device::{PieceKind, RequestGrant, RequestQueue};
use duet::Pace;
use media::IoOrigin;
use parking_lot::Mutex;
use qos::{Direction, Flow};
use std::sync::Arc;
use std::time::{Duration, Instant};
use terminal::interrupt::Interrupt;

/// Maximum length of one wait. The limit does not change meanwhile.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// A limit that all threads of a run share.
pub struct RateLimit {
    interrupt: Interrupt,
    started: Instant,
    spent: Mutex<Spent>,
}

struct Spent {
    pace: Pace,
    read_bytes: u64,
    stored_bytes: u64,
    /// The larger one of both, as far as the pace knows it.
    paid_bytes: u64,
}

impl RateLimit {
    /// Makes a limit of so many bytes a second. `None` if there is none: not given, or 0.
    pub fn new(bytes_per_s: Option<u64>, interrupt: &Interrupt) -> Option<Arc<Self>> {
        let bytes_per_s = bytes_per_s.filter(|bytes| *bytes > 0)?;
        Some(Arc::new(Self {
            interrupt: interrupt.clone(),
            started: Instant::now(),
            spent: Mutex::new(Spent {
                pace: Pace::new(Some(bytes_per_s)),
                read_bytes: 0,
                stored_bytes: 0,
                paid_bytes: 0,
            }),
        }))
    }

    /// Counts bytes that were read, and waits until they are paid.
    pub fn has_read(&self, bytes: u64) {
        self.pay(|spent| spent.read_bytes = spent.read_bytes.saturating_add(bytes));
    }

    /// The same for stored bytes. `total_bytes`: since the run began.
    pub fn has_stored(&self, total_bytes: u64) {
        self.pay(|spent| spent.stored_bytes = spent.stored_bytes.max(total_bytes));
    }

    fn pay(&self, count: impl FnOnce(&mut Spent)) {
        {
            let mut spent = self.spent.lock();
            count(&mut spent);
            let total = spent.read_bytes.max(spent.stored_bytes);
            let more = total - spent.paid_bytes;
            spent.pace.spend(more);
            spent.paid_bytes = total;
        }
        while !self.interrupt.requested() {
            let now_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let Some(until_ns) = self.spent.lock().pace.waits_until(now_ns) else {
                return;
            };
            let wait = Duration::from_nanos(until_ns.saturating_sub(now_ns));
            self.interrupt.wait(wait.min(WAIT_MAX));
        }
    }
}

/// Limit of what a command reads from its own pool: stored bytes.
#[derive(Default)]
pub struct ReadLimit(Mutex<Option<Arc<RateLimit>>>);

impl ReadLimit {
    /// Sets the limit for a pool that is opened for reading after this, bytes a second.
    pub fn set(&self, bytes_per_s: Option<u64>, interrupt: &Interrupt) {
        *self.0.lock() = RateLimit::new(bytes_per_s, interrupt);
    }

    /// Returns a queue whose reads wait for the limit, before they wait for `below`.
    pub fn before(&self, below: Arc<dyn RequestQueue>) -> Arc<dyn RequestQueue> {
        match self.0.lock().clone() {
            Some(limit) => Arc::new(LimitedReads { below, limit }),
            None => below,
        }
    }
}

struct LimitedReads {
    below: Arc<dyn RequestQueue>,
    limit: Arc<RateLimit>,
}

impl RequestQueue for LimitedReads {
    fn enter(
        &self,
        io_origin: IoOrigin,
        direction: Direction,
        is_sequential: bool,
        bytes: u64,
    ) -> Option<Box<dyn RequestGrant + '_>> {
        if direction == Direction::Read {
            self.limit.has_read(bytes);
        }
        self.below.enter(io_origin, direction, is_sequential, bytes)
    }

    fn would_pass(&self, io_origin: IoOrigin) -> bool {
        self.below.would_pass(io_origin)
    }

    fn has_arms(&self) -> bool {
        self.below.has_arms()
    }

    fn note(&self, io_origin: IoOrigin, direction: Direction, bytes: u64) {
        self.below.note(io_origin, direction, bytes);
    }

    fn before_piece(&self, flow: Flow, kind: PieceKind, bytes: u64) -> u64 {
        self.below.before_piece(flow, kind, bytes)
    }

    fn after_piece(&self, flow: Flow) {
        self.below.after_piece(flow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_one_of_read_and_stored_bytes_is_paid() {
        assert!(RateLimit::new(None, &Interrupt::detached()).is_none());
        assert!(RateLimit::new(Some(0), &Interrupt::detached()).is_none());
        let limit = RateLimit::new(Some(1 << 20), &Interrupt::detached()).unwrap();
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| limit.has_read(64 << 10));
            }
        });
        assert!(began.elapsed() >= Duration::from_millis(249));
        limit.has_stored(192 << 10);
        assert_eq!(limit.spent.lock().paid_bytes, 256 << 10, "it was read");
        limit.has_stored(512 << 10);
        assert!(began.elapsed() >= Duration::from_millis(499));
    }

    #[test]
    fn an_interruption_ends_the_wait() {
        let interrupt = Interrupt::detached();
        let limit = RateLimit::new(Some(1), &interrupt).unwrap();
        interrupt.request();
        limit.has_read(1 << 40);
    }
}
