//! Divides the threads of a server among its connections. Workers ask here before they start one.
//!
//! Invariant: there are never more threads than the limit, besides those that a connection always
//! may have. A connection may have a quarter as many as are left. So a few connections get as many
//! as they can use, many get fewer each, and those that wait for their clients for ever leave some
//! to the next one (dynamic thresholds, Choudhury and Hahne 1998).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Time after which a thread without work ends. Beginning another one takes some 50 us.
pub const IDLE_THREAD_LIMIT: Duration = Duration::from_secs(10);
/// Maximum number of threads of a server, besides the first of each kind of a connection.
const THREADS_MAX: usize = 256;

/// The threads of a server.
pub struct Threads {
    left: AtomicUsize,
    /// Asked once: the answer is in files.
    processors: usize,
}

/// The threads of one connection.
pub struct ThreadShare {
    threads: Arc<Threads>,
    own: AtomicUsize,
}

/// Permit for one thread; empty for the first of a kind.
pub struct ThreadPermit(Option<Arc<ThreadShare>>);

impl Default for Threads {
    fn default() -> Self {
        Self {
            left: AtomicUsize::new(THREADS_MAX),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

impl Threads {
    /// Makes the share of a new connection.
    pub fn share(self: &Arc<Self>) -> Arc<ThreadShare> {
        Arc::new(ThreadShare {
            threads: self.clone(),
            own: AtomicUsize::new(0),
        })
    }
}

impl ThreadShare {
    /// Returns how many threads can run at a time.
    pub fn processors(&self) -> usize {
        self.threads.processors
    }

    /// Permits one more thread of a kind of which some are `running`: the first always, others if
    /// the connection has not had its share.
    pub fn try_take(self: &Arc<Self>, running: usize) -> Option<ThreadPermit> {
        if running == 0 {
            return Some(ThreadPermit(None));
        }
        let own = self.own.load(SeqCst);
        let less = |left: usize| {
            if own < left / 4 {
                left.checked_sub(1)
            } else {
                None
            }
        };
        self.threads.left.fetch_update(SeqCst, SeqCst, less).ok()?;
        self.own.fetch_add(1, SeqCst);
        Some(ThreadPermit(Some(self.clone())))
    }
}

impl Drop for ThreadPermit {
    fn drop(&mut self) {
        if let Some(share) = &self.0 {
            share.own.fetch_sub(1, SeqCst);
            share.threads.left.fetch_add(1, SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_connections_get_fewer_threads_each_and_the_next_gets_some() {
        let threads = Arc::new(Threads::default());
        let take = || {
            let share = threads.share();
            std::iter::from_fn(|| share.try_take(1)).collect::<Vec<_>>()
        };
        let alone = take();
        assert_eq!(alone.len(), 51);
        let many: Vec<_> = (0..8).map(|_| take()).collect();
        assert_eq!(many[0].len(), 41);
        assert!(!many[7].is_empty());
        drop((alone, many));
        assert_eq!(take().len(), 51);
        assert_eq!(threads.left.load(SeqCst), THREADS_MAX);
    }
}
