//! Memory for requests: what each connection owns, and what all of them share.
//!
//! Invariant: a request's payload and reply are leased before they are allocated. Small requests
//! fit what their connection owns, so they never wait for other connections; larger ones take
//! turns at the pool. Reads and changes have pools of their own, so that writes which wait leave
//! reads alone. When somebody waits, a client that holds memory of the pool and neither finishes
//! its request nor takes its reply is dropped. Sessions and workers call this.

use crate::connection::Connection;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a connection owns of each kind, bytes.
pub(crate) const OWN_BYTES: u64 = 1 << 20;
/// How often those who wait look for clients that stall.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// What all connections of a server share for one kind of request.
pub(crate) struct Pool {
    stall_limit: Duration,
    state: Mutex<PoolState>,
    returned: Condvar,
}

struct PoolState {
    free_bytes: u64,
    /// Turns given out, and whose turn it is: first come, first served.
    turns: u64,
    turn: u64,
    holders: HashMap<u64, Holder>,
}

struct Holder {
    bytes: u64,
    connection: Arc<Connection>,
}

/// One connection's way to memory of one kind.
pub(crate) struct Share {
    pool: Arc<Pool>,
    number: u64,
    connection: Arc<Connection>,
    own_free: AtomicU64,
}

/// The right to use memory, until dropped.
pub(crate) struct Lease {
    share: Arc<Share>,
    bytes: u64,
    pooled: bool,
}

impl Pool {
    /// A pool of `bytes`; must be at least what the largest request needs. Holders that stall
    /// for `stall_limit` while others wait are dropped.
    pub(crate) fn new(bytes: u64, stall_limit: Duration) -> Self {
        Self {
            stall_limit,
            state: Mutex::new(PoolState {
                free_bytes: bytes,
                turns: 0,
                turn: 0,
                holders: HashMap::new(),
            }),
            returned: Condvar::new(),
        }
    }

    /// The share of a new connection; `number` is its own.
    pub(crate) fn share(self: &Arc<Self>, number: u64, connection: Arc<Connection>) -> Arc<Share> {
        Arc::new(Share {
            pool: self.clone(),
            number,
            connection,
            own_free: AtomicU64::new(OWN_BYTES),
        })
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PoolState {
    fn grant(&mut self, share: &Share, bytes: u64) {
        self.free_bytes -= bytes;
        let holder = self.holders.entry(share.number).or_insert_with(|| Holder {
            bytes: 0,
            connection: share.connection.clone(),
        });
        holder.bytes += bytes;
    }
}

impl Share {
    /// Leases `bytes` if that needs no waiting.
    pub(crate) fn try_take(self: &Arc<Self>, bytes: u64) -> Option<Lease> {
        let less = |free: u64| free.checked_sub(bytes);
        let own = self.own_free.fetch_update(Relaxed, Relaxed, less).is_ok();
        if !own {
            let mut state = self.pool.lock();
            if state.turn != state.turns || state.free_bytes < bytes {
                return None;
            }
            state.grant(self, bytes);
        }
        Some(self.lease(bytes, !own))
    }

    /// Leases `bytes`; waits for them. The caller holds nothing that others wait for, except
    /// requests that are being carried out.
    pub(crate) fn take(self: &Arc<Self>, bytes: u64) -> Lease {
        if let Some(lease) = self.try_take(bytes) {
            return lease;
        }
        let pool = &*self.pool;
        let mut state = pool.lock();
        let turn = state.turns;
        state.turns += 1;
        while state.turn != turn || state.free_bytes < bytes {
            let waited = pool.returned.wait_timeout(state, LOOK_PERIOD);
            let (again, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = again;
            if timeout.timed_out() {
                for holder in state.holders.values() {
                    if holder.connection.stalled() >= pool.stall_limit {
                        holder.connection.drop_now();
                    }
                }
            }
        }
        state.turn += 1;
        state.grant(self, bytes);
        drop(state);
        // The next in turn may fit as well.
        pool.returned.notify_all();
        self.lease(bytes, true)
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
        let mut state = share.pool.lock();
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
        let all = greedy.take(POOL_BYTES);
        assert!(modest.try_take(OWN_BYTES + 1).is_none());
        let own = modest.take(OWN_BYTES);
        assert!(modest.try_take(1).is_none());
        drop(own);
        assert!(modest.try_take(1).is_some());
        drop(all);
        assert!(modest.try_take(POOL_BYTES).is_some());
        assert!(pool.lock().holders.is_empty());
        assert_eq!(pool.lock().free_bytes, POOL_BYTES);
    }

    #[test]
    fn those_who_wait_are_served_in_turn() {
        let pool = Arc::new(Pool::new(POOL_BYTES, Duration::from_secs(60)));
        let (first, _, _far) = share(&pool, 1);
        let all = first.take(POOL_BYTES);
        thread::scope(|scope| {
            let waiting = |number: u64, bytes: u64| {
                let (share, _, far) = share(&pool, number);
                let turns = pool.lock().turns;
                let handle = scope.spawn(move || (share.take(bytes), far));
                while pool.lock().turns == turns {
                    thread::yield_now();
                }
                handle
            };
            let large = waiting(2, POOL_BYTES - OWN_BYTES);
            let small = waiting(3, 2 * OWN_BYTES);
            drop(all);
            let held = large.join().unwrap();
            assert!(
                !small.is_finished(),
                "there is no room beside the large one"
            );
            drop(held);
            drop(small.join().unwrap());
        });
        assert_eq!(pool.lock().free_bytes, POOL_BYTES);
    }

    #[test]
    fn who_stalls_while_others_wait_is_dropped() {
        let pool = Arc::new(Pool::new(POOL_BYTES, Duration::from_millis(50)));
        let (stalling, connection, _far) = share(&pool, 1);
        let held = stalling.take(POOL_BYTES);
        connection.sending.start(&connection);
        let (waiting, _, _far) = share(&pool, 2);
        thread::scope(|scope| {
            let served = scope.spawn(|| drop(waiting.take(2 * OWN_BYTES)));
            while !connection.closing() {
                thread::yield_now();
            }
            // Its thread ends, and with it the lease.
            drop(held);
            served.join().unwrap();
        });
    }
}
