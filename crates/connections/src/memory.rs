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
//! While a connection waits, a client is dropped that holds memory of the pool and is late with
//! sending a request, or with taking a reply. It has the stall limit, and again as much for each
//! [`BYTES_OF_LIMIT`] that it has moved: one that sends a byte now and then would keep the memory
//! for ever.

use crate::alarm::Alarm;
use crate::connection::Connection;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Memory of each kind that a connection owns, bytes.
pub const OWN_BYTES: u64 = 1 << 20;
/// Period at which those that wait look for clients that stall.
pub const LOOK_PERIOD: Duration = Duration::from_millis(100);
/// Bytes that a client moves within the stall limit, at least.
const BYTES_OF_LIMIT: u64 = 20 << 20;

/// Memory for one kind of request that all connections of a server share.
pub struct MemoryPool {
    own_bytes: u64,
    stall_limit: Duration,
    state: Mutex<MemoryPoolState>,
    returned: Condvar,
}

struct MemoryPoolState {
    free_bytes: u64,
    /// Waiting requests: the virtual time at which each would be served if all were served at once,
    /// one byte each in rotation; then the order of arrival.
    waiting: BTreeMap<(u64, u64), Waiting>,
    /// Numbers of leases that were granted and not fetched yet, by the place that waited.
    granted: HashMap<(u64, u64), u64>,
    arrivals: u64,
    leases: u64,
    /// Current virtual time: bytes that every waiting connection has received.
    clock: u64,
    holders: HashMap<u64, Holder>,
}

struct Waiting {
    share: Arc<Share>,
    bytes: u64,
    alarm: Option<Arc<Alarm>>,
}

struct Holder {
    bytes: u64,
    connection: Arc<Connection>,
    /// Current transfers, by the number of their lease.
    transfers: BTreeMap<u64, Transfer>,
}

/// Bytes that a client must send or take.
struct Transfer {
    bytes: u64,
    began: Instant,
    /// Bytes that the connection had moved before.
    moved_before: u64,
}

/// One connection's access to memory of one kind.
pub struct Share {
    pool: Arc<MemoryPool>,
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
    /// Its number in the pool; `None` for the connection's own memory.
    pooled: Option<u64>,
}

/// A place in the queue of a pool, of a thread that does other things while it waits.
pub struct Queued {
    share: Arc<Share>,
    bytes: u64,
    place: (u64, u64),
}

impl MemoryPool {
    /// Makes a pool of `bytes`, which must suffice for the largest request. Holders that stall for
    /// `stall_limit` while others wait are dropped.
    pub fn new(bytes: u64, stall_limit: Duration) -> Self {
        Self {
            own_bytes: OWN_BYTES,
            stall_limit,
            state: Mutex::new(MemoryPoolState {
                free_bytes: bytes,
                waiting: BTreeMap::new(),
                granted: HashMap::new(),
                arrivals: 0,
                leases: 0,
                clock: 0,
                holders: HashMap::new(),
            }),
            returned: Condvar::new(),
        }
    }

    /// Connections have no memory of their own besides this pool.
    #[must_use]
    pub fn without_own(self) -> Self {
        Self {
            own_bytes: 0,
            ..self
        }
    }

    /// Makes the share of a new connection; `number` is unique to it.
    pub fn share(self: &Arc<Self>, number: u64, connection: Arc<Connection>) -> Arc<Share> {
        Arc::new(Share {
            pool: self.clone(),
            number,
            connection,
            own_free: AtomicU64::new(self.own_bytes),
            served: AtomicU64::new(0),
        })
    }

    /// Grants memory to those that wait, as far as there is some, unlocks the pool, and wakes them.
    fn serve(&self, mut state: MutexGuard<'_, MemoryPoolState>) {
        let pool = &mut *state;
        let mut served = Vec::new();
        while let Some(first) = pool.waiting.first_entry()
            && first.get().bytes <= pool.free_bytes
        {
            let (place, waiting) = first.remove_entry();
            let number = pool.grant(&waiting.share, waiting.bytes);
            // If it does not fetch it soon, it stalls like one that does not use it.
            pool.start(&waiting.share, number, 0);
            pool.granted.insert(place, number);
            served.push(waiting);
        }
        drop(state);
        if !served.is_empty() {
            self.returned.notify_all();
        }
        let alarms = served.into_iter().filter_map(|waiting| waiting.alarm);
        alarms.for_each(|alarm| alarm.ring());
    }

    /// Returns memory of a lease.
    fn give_back(&self, share: &Share, number: u64, bytes: u64) {
        let mut state = self.state.lock();
        state.free_bytes += bytes;
        if let Some(holder) = state.holders.get_mut(&share.number) {
            holder.transfers.remove(&number);
            holder.bytes -= bytes;
            if holder.bytes == 0 {
                state.holders.remove(&share.number);
            }
        }
        self.serve(state);
    }
}

impl MemoryPoolState {
    /// Returns the virtual time at which a request of `bytes` would be served.
    fn due(&self, share: &Share, bytes: u64) -> u64 {
        let start = self.clock.max(share.served.load(Relaxed));
        start.saturating_add(bytes)
    }

    /// Returns the number of the lease.
    fn grant(&mut self, share: &Share, bytes: u64) -> u64 {
        self.free_bytes -= bytes;
        share.served.store(self.due(share, bytes), Relaxed);
        // The time advances with every small request, so that large ones are served eventually.
        let sharing = self.waiting.len() as u64 + 1;
        self.clock = self.clock.saturating_add(bytes / sharing);
        let holder = self.holders.entry(share.number).or_insert_with(|| Holder {
            bytes: 0,
            connection: share.connection.clone(),
            transfers: BTreeMap::new(),
        });
        holder.bytes += bytes;
        self.leases += 1;
        self.leases
    }

    /// Starts the transfer of a lease.
    fn start(&mut self, share: &Share, number: u64, bytes: u64) {
        if let Some(holder) = self.holders.get_mut(&share.number) {
            let transfer = Transfer {
                bytes,
                began: Instant::now(),
                moved_before: holder.connection.moved(),
            };
            holder.transfers.insert(number, transfer);
        }
    }

    fn end(&mut self, share: &Share, number: u64) {
        if let Some(holder) = self.holders.get_mut(&share.number) {
            holder.transfers.remove(&number);
        }
    }

    /// Drops the clients that stall.
    fn look(&self, limit: Duration) {
        for holder in self.holders.values() {
            if holder.is_late(limit) {
                holder.connection.drop_now();
            }
        }
    }
}

impl Holder {
    fn is_late(&self, limit: Duration) -> bool {
        let moved = self.connection.moved();
        let mut all = 0;
        self.transfers.values().any(|transfer| {
            // It need not move them in this order. But other traffic of the connection does not
            // count for more than all that it must move.
            all += transfer.bytes;
            let useful = moved.saturating_sub(transfer.moved_before).min(all);
            is_late(transfer.began.elapsed(), useful, limit)
        })
    }
}

/// Returns true if a client that has moved so many bytes should have moved more.
fn is_late(elapsed: Duration, moved: u64, limit: Duration) -> bool {
    elapsed >= limit.mul_f64(1.0 + moved as f64 / BYTES_OF_LIMIT as f64)
}

impl Share {
    /// Leases `bytes` of the connection's own memory.
    pub fn try_own(self: &Arc<Self>, bytes: u64) -> Option<Lease> {
        let less = |free: u64| free.checked_sub(bytes);
        self.own_free.fetch_update(Relaxed, Relaxed, less).ok()?;
        Some(self.lease(bytes, None))
    }

    /// Leases `bytes` if that needs no waiting.
    pub fn try_take(self: &Arc<Self>, bytes: u64) -> Option<Lease> {
        if let Some(own) = self.try_own(bytes) {
            return Some(own);
        }
        let mut state = self.pool.state.lock();
        if !state.waiting.is_empty() || state.free_bytes < bytes {
            return None;
        }
        let number = state.grant(self, bytes);
        Some(self.lease(bytes, Some(number)))
    }

    /// Waits for `bytes` and leases them. `None` if the client disconnected meanwhile. The caller
    /// must hold nothing that others wait for, except requests that are being executed.
    pub fn take(self: &Arc<Self>, bytes: u64) -> Option<Lease> {
        self.take_while(bytes, || true)
    }

    /// The same, but `None` too when `is_wanted` says no.
    pub fn take_while(self: &Arc<Self>, bytes: u64, is_wanted: impl Fn() -> bool) -> Option<Lease> {
        if let Some(lease) = self.try_take(bytes) {
            return Some(lease);
        }
        let mut queued = self.queue(bytes, None);
        loop {
            let mut state = self.pool.state.lock();
            let is_granted = state.granted.contains_key(&queued.place);
            let waited =
                (!is_granted).then(|| self.pool.returned.wait_for(&mut state, LOOK_PERIOD));
            drop(state);
            queued = match queued.poll() {
                Ok(lease) => return Some(lease),
                Err(queued) => queued,
            };
            let is_time = waited.is_some_and(|w| w.timed_out());
            if is_time && (self.connection.look_for_client() || !is_wanted()) {
                return None;
            }
        }
    }

    /// Queues for `bytes`. The alarm rings when [`Queued::poll`] succeeds.
    pub fn queue(self: &Arc<Self>, bytes: u64, alarm: Option<Arc<Alarm>>) -> Queued {
        let mut state = self.pool.state.lock();
        let place = (state.due(self, bytes), state.arrivals);
        state.arrivals += 1;
        let waiting = Waiting {
            share: self.clone(),
            bytes,
            alarm,
        };
        state.waiting.insert(place, waiting);
        // It may go before a larger request that has been waiting.
        self.pool.serve(state);
        Queued {
            share: self.clone(),
            bytes,
            place,
        }
    }

    fn lease(self: &Arc<Self>, bytes: u64, pooled: Option<u64>) -> Lease {
        Lease {
            share: self.clone(),
            bytes,
            pooled,
        }
    }
}

impl Queued {
    /// Returns the lease if it was granted, and looks for clients that stall otherwise. It must be
    /// called again after [`LOOK_PERIOD`], or when the alarm rings.
    pub fn poll(self) -> Result<Lease, Self> {
        let mut state = self.share.pool.state.lock();
        let Some(number) = state.granted.remove(&self.place) else {
            state.look(self.share.pool.stall_limit);
            drop(state);
            return Err(self);
        };
        state.end(&self.share, number);
        drop(state);
        Ok(self.share.lease(self.bytes, Some(number)))
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        let pool = &self.share.pool;
        let mut state = pool.state.lock();
        if let Some(number) = state.granted.remove(&self.place) {
            drop(state);
            pool.give_back(&self.share, number, self.bytes);
        } else if state.waiting.remove(&self.place).is_some() {
            // Those behind it may fit.
            pool.serve(state);
        }
    }
}

impl Lease {
    /// From now on the client must send or take `bytes`, until [`Lease::transferred`] or the end of
    /// the lease. [`Connection::count`] says how far it is.
    pub fn transfer(&self, bytes: u64) {
        self.update(|state, number| state.start(&self.share, number, bytes));
    }

    /// The client has done it.
    pub fn transferred(&self) {
        self.update(|state, number| state.end(&self.share, number));
    }

    /// Memory of the connection's own keeps no others waiting.
    fn update(&self, change: impl FnOnce(&mut MemoryPoolState, u64)) {
        if let Some(number) = self.pooled {
            change(&mut self.share.pool.state.lock(), number);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let share = &*self.share;
        match self.pooled {
            Some(number) => share.pool.give_back(share, number, self.bytes),
            None => {
                share.own_free.fetch_add(self.bytes, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::thread;

    const POOL_BYTES: u64 = 64 << 20;

    fn share(pool: &Arc<MemoryPool>, number: u64) -> (Arc<Share>, Arc<Connection>, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        let connection = Arc::new(Connection::new(Arc::new(near)));
        let share = pool.share(number, connection.clone());
        (share, connection, far)
    }

    #[test]
    fn small_requests_never_wait_for_others() {
        let pool = Arc::new(MemoryPool::new(POOL_BYTES, Duration::from_secs(60)));
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
    fn clients_that_want_less_go_first_and_none_starves() {
        let pool = Arc::new(MemoryPool::new(POOL_BYTES, Duration::from_secs(60)));
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

    /// Returns true if the client is dropped before the one that waits has its memory. `moves` is
    /// called until then.
    fn is_dropped(moves: impl Fn(&Connection) -> bool) -> bool {
        let pool = Arc::new(MemoryPool::new(POOL_BYTES, Duration::from_millis(50)));
        let (stalling, connection, _far) = share(&pool, 1);
        let held = stalling.take(POOL_BYTES).unwrap();
        held.transfer(POOL_BYTES);
        let (waiting, _, _far) = share(&pool, 2);
        thread::scope(|scope| {
            let served = scope.spawn(|| drop(waiting.take(2 * OWN_BYTES).unwrap()));
            while !connection.closing() && moves(&connection) {
                thread::yield_now();
            }
            // Its thread ends, and releases the lease.
            drop(held);
            served.join().unwrap();
        });
        connection.closing()
    }

    #[test]
    fn clients_that_stall_while_others_wait_are_dropped() {
        assert!(is_dropped(|_| true));
        // A few bytes now and then are no progress, and more than it must move is no credit.
        let trickles = |connection: &Connection| {
            connection.count(1);
            true
        };
        assert!(is_dropped(trickles));
        let floods = |connection: &Connection| {
            connection.count(POOL_BYTES as usize);
            true
        };
        assert!(is_dropped(floods));
    }

    #[test]
    fn clients_that_do_not_fetch_their_memory_are_dropped() {
        let pool = Arc::new(MemoryPool::new(POOL_BYTES, Duration::from_millis(50)));
        let (first, _, _far) = share(&pool, 1);
        let all = first.take(POOL_BYTES).unwrap();
        let (deaf, connection, _far) = share(&pool, 2);
        let queued = deaf.queue(POOL_BYTES, None);
        let (next, _, _far) = share(&pool, 3);
        thread::scope(|scope| {
            drop(all);
            let served = scope.spawn(|| drop(next.take(POOL_BYTES).unwrap()));
            while !connection.closing() {
                thread::yield_now();
            }
            drop(queued);
            served.join().unwrap();
        });
        let state = pool.state.lock();
        assert_eq!(state.free_bytes, POOL_BYTES);
        assert!(state.holders.is_empty() && state.granted.is_empty());
    }

    #[test]
    fn slow_clients_have_time_for_what_they_move() {
        let limit = Duration::from_secs(10);
        let is_late = |seconds, moved| is_late(Duration::from_secs(seconds), moved, limit);
        assert!(!is_late(9, 0) && is_late(10, 0));
        assert!(!is_late(19, BYTES_OF_LIMIT) && is_late(20, BYTES_OF_LIMIT));
    }
}
