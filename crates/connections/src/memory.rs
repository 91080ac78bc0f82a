//! Leases memory for requests: each connection's own, and pools that all connections share.
//! Sessions and workers call this.
//!
//! Invariant: a request's payload and reply are leased before they are allocated. Small requests
//! fit the connection's own memory, so they never wait for other connections.
//!
//! Larger ones queue at the pool by weighted fair queueing: a connection that has received few
//! bytes of it goes before one that has received many, regardless of arrival. Several greedy
//! clients thus cost a modest one only its share. A disconnected client waits no longer. Reads and
//! changes have separate pools, so that waiting writes do not delay reads.
//!
//! While a connection waits, a client is dropped that holds memory of the pool and neither finishes
//! its request nor takes its reply.

use crate::connection::Connection;
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Memory of each kind that a connection owns, bytes.
pub const OWN_BYTES: u64 = 1 << 20;
/// Period at which waiting threads look for clients that stall.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// Memory for one kind of request that all connections of a server share.
pub struct Pool {
    stall_limit: Duration,
    state: Mutex<PoolState>,
    returned: Condvar,
}

struct PoolState {
    free_bytes: u64,
    /// Waiting requests: the virtual time at which each would be served if all were served at once,
    /// one byte each in rotation; then the order of arrival.
    waiting: BTreeSet<(u64, u64)>,
    arrivals: u64,
    /// Current virtual time: bytes that every waiting connection has received.
    clock: u64,
    holders: HashMap<u64, Holder>,
}

struct Holder {
    bytes: u64,
    connection: Arc<Connection>,
}

/// One connection's access to memory of one kind.
pub struct Share {
    pool: Arc<Pool>,
    number: u64,
    connection: Arc<Connection>,
    own_free: AtomicU64,
    /// Virtual time up to which it has been served. Changed under the pool's lock.
    served: AtomicU64,
}

/// The right to use memory until it is dropped.
pub struct Lease {
    share: Arc<Share>,
    bytes: u64,
    pooled: bool,
}

impl Pool {
    /// Makes a pool of `bytes`, which must suffice for the largest request. Holders that stall for
    /// `stall_limit` while others wait are dropped.
    pub fn new(bytes: u64, stall_limit: Duration) -> Self {
        Self {
            stall_limit,
            state: Mutex::new(PoolState {
                free_bytes: bytes,
                waiting: BTreeSet::new(),
                arrivals: 0,
                clock: 0,
                holders: HashMap::new(),
            }),
            returned: Condvar::new(),
        }
    }

    /// Makes the share of a new connection; `number` is unique to it.
    pub fn share(self: &Arc<Self>, number: u64, connection: Arc<Connection>) -> Arc<Share> {
        Arc::new(Share {
            pool: self.clone(),
            number,
            connection,
            own_free: AtomicU64::new(OWN_BYTES),
            served: AtomicU64::new(0),
        })
    }
}

impl PoolState {
    /// Returns the virtual time at which a request of `bytes` would be served.
    fn due(&self, share: &Share, bytes: u64) -> u64 {
        let start = self.clock.max(share.served.load(Relaxed));
        start.saturating_add(bytes)
    }

    fn grant(&mut self, share: &Share, bytes: u64) {
        self.free_bytes -= bytes;
        share.served.store(self.due(share, bytes), Relaxed);
        // The time advances with every small request, so that large ones are served eventually.
        let sharing = self.waiting.len() as u64 + 1;
        self.clock = self.clock.saturating_add(bytes / sharing);
        let holder = self.holders.entry(share.number).or_insert_with(|| Holder {
            bytes: 0,
            connection: share.connection.clone(),
        });
        holder.bytes += bytes;
    }
}

impl Share {
    /// Leases `bytes` if that needs no waiting.
    pub fn try_take(self: &Arc<Self>, bytes: u64) -> Option<Lease> {
        let less = |free: u64| free.checked_sub(bytes);
        let own = self.own_free.fetch_update(Relaxed, Relaxed, less).is_ok();
        if !own {
            let mut state = self.pool.state.lock();
            if !state.waiting.is_empty() || state.free_bytes < bytes {
                return None;
            }
            state.grant(self, bytes);
        }
        Some(self.lease(bytes, !own))
    }

    /// Waits for `bytes` and leases them. `None` if the client disconnected meanwhile. The caller
    /// must hold nothing that others wait for, except requests that are being executed.
    pub fn take(self: &Arc<Self>, bytes: u64) -> Option<Lease> {
        if let Some(lease) = self.try_take(bytes) {
            return Some(lease);
        }
        let pool = &*self.pool;
        let mut state = pool.state.lock();
        let place = (state.due(self, bytes), state.arrivals);
        state.arrivals += 1;
        state.waiting.insert(place);
        while state.waiting.first() != Some(&place) || state.free_bytes < bytes {
            let waited = pool.returned.wait_for(&mut state, LOOK_PERIOD);
            if waited.timed_out() {
                for holder in state.holders.values() {
                    if holder.connection.stalled() >= pool.stall_limit {
                        holder.connection.drop_now();
                    }
                }
                if self.connection.look_for_client() {
                    state.waiting.remove(&place);
                    drop(state);
                    pool.returned.notify_all();
                    return None;
                }
            }
        }
        state.waiting.remove(&place);
        state.grant(self, bytes);
        drop(state);
        // The next request in the queue may fit as well.
        pool.returned.notify_all();
        Some(self.lease(bytes, true))
    }

    fn lease(self: &Arc<Self>, bytes: u64, pooled: bool) -> Lease {
        Lease {
            share: self.clone(),
            bytes,
            pooled,
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let share = &*self.share;
        if !self.pooled {
            share.own_free.fetch_add(self.bytes, Relaxed);
            return;
        }
        let mut state = share.pool.state.lock();
        state.free_bytes += self.bytes;
        if let Some(holder) = state.holders.get_mut(&share.number) {
            holder.bytes -= self.bytes;
            if holder.bytes == 0 {
                state.holders.remove(&share.number);
            }
        }
        drop(state);
        share.pool.returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::thread;

    const POOL_BYTES: u64 = 64 << 20;

    fn share(pool: &Arc<Pool>, number: u64) -> (Arc<Share>, Arc<Connection>, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        let connection = Arc::new(Connection::new(Arc::new(near)));
        let share = pool.share(number, connection.clone());
        (share, connection, far)
    }

    #[test]
    fn small_requests_never_wait_for_others() {
        let pool = Arc::new(Pool::new(POOL_BYTES, Duration::from_secs(60)));
        let (greedy, _, _far) = share(&pool, 1);
        let (modest, _, _far) = share(&pool, 2);
        let all = greedy.take(POOL_BYTES).unwrap();
        assert!(modest.try_take(OWN_BYTES + 1).is_none());
        let own = modest.take(OWN_BYTES).unwrap();
        assert!(modest.try_take(1).is_none());
        drop(own);
        assert!(modest.try_take(1).is_some());
        drop(all);
        assert!(modest.try_take(POOL_BYTES).is_some());
        assert!(pool.state.lock().holders.is_empty());
        assert_eq!(pool.state.lock().free_bytes, POOL_BYTES);
    }

    #[test]
    fn who_wants_less_goes_first_and_nobody_starves() {
        let pool = Arc::new(Pool::new(POOL_BYTES, Duration::from_secs(60)));
        let (first, _, _far) = share(&pool, 1);
        let all = first.take(POOL_BYTES).unwrap();
        thread::scope(|scope| {
            let waiting = |number: u64, bytes: u64| {
                let (share, _, far) = share(&pool, number);
                let arrivals = pool.state.lock().arrivals;
                let handle = scope.spawn(move || (share.take(bytes).unwrap(), far));
                while pool.state.lock().arrivals == arrivals {
                    thread::yield_now();
                }
                handle
            };
            let large = waiting(2, POOL_BYTES - OWN_BYTES);
            let small = waiting(3, 2 * OWN_BYTES);
            drop(all);
            let mut held = small.join().unwrap();
            // Small requests of new connections may overtake the large one, but not for ever.
            let mut passed = 0;
            loop {
                let next = waiting(10 + passed, 2 * OWN_BYTES);
                // There is space for it. If it waits, it stands behind the large one.
                let is_behind = pool.state.lock().waiting.len() == 2;
                if is_behind {
                    drop(held);
                    drop(large.join().unwrap());
                    drop(next.join().unwrap());
                    break;
                }
                held = next.join().unwrap();
                passed += 1;
                assert!(passed < POOL_BYTES / OWN_BYTES, "the large one starves");
            }
            assert!(passed > 8, "{passed} small ones passed");
        });
        assert_eq!(pool.state.lock().free_bytes, POOL_BYTES);
    }

    #[test]
    fn who_stalls_while_others_wait_is_dropped() {
        let pool = Arc::new(Pool::new(POOL_BYTES, Duration::from_millis(50)));
        let (stalling, connection, _far) = share(&pool, 1);
        let held = stalling.take(POOL_BYTES).unwrap();
        connection.sending.start(&connection);
        let (waiting, _, _far) = share(&pool, 2);
        thread::scope(|scope| {
            let served = scope.spawn(|| drop(waiting.take(2 * OWN_BYTES).unwrap()));
            while !connection.closing() {
                thread::yield_now();
            }
            // Its thread ends, and releases the lease.
            drop(held);
            served.join().unwrap();
        });
    }
}
