//! Counts the connections of a server, and ends them. Each server has one [`Permits`].
//!
//! Invariant: there are never more connections than permits. A permit is returned when the thread
//! of its connection ends, however it ends. Clients that have not introduced themselves keep no
//! others out: the oldest of them makes room.

#[cfg(test)]
mod tests;

use crate::connection::Connection;
use crate::stream::Stream;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time that a dropped connection has to make room.
const ROOM_LIMIT: Duration = Duration::from_millis(200);

/// The connections of a server.
pub struct Permits {
    max: usize,
    open: Mutex<Open>,
    /// Signalled when a connection ends.
    ended: Condvar,
}

#[derive(Default)]
struct Open {
    last: u64,
    /// By number, oldest first.
    connections: BTreeMap<u64, Arc<Connection>>,
}

/// Permit for one connection. The connection's thread owns it.
pub struct Permit {
    permits: Arc<Permits>,
    /// Number of the connection: no other connection of this server has or had it.
    pub number: u64,
    /// The connection.
    pub connection: Arc<Connection>,
}

impl Permits {
    /// Allows `max` connections at once.
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            open: Mutex::default(),
            ended: Condvar::new(),
        })
    }

    /// Registers a new connection. When there are too many, the oldest one that was not admitted
    /// yet is dropped for it. `None` if all were admitted.
    pub fn take(self: &Arc<Self>, stream: Arc<dyn Stream>) -> Option<Permit> {
        let mut open = self.open.lock();
        if open.connections.len() >= self.max {
            let mut oldest = open.connections.values();
            oldest.find(|c| !c.is_admitted())?.drop_now();
            let until = Instant::now() + ROOM_LIMIT;
            while open.connections.len() >= self.max {
                if self.ended.wait_until(&mut open, until).timed_out() {
                    return None;
                }
            }
        }
        open.last += 1;
        let number = open.last;
        let connection = Arc::new(Connection::new(stream));
        open.connections.insert(number, connection.clone());
        Some(Permit {
            permits: self.clone(),
            number,
            connection,
        })
    }

    /// Returns the number of connections.
    pub fn count(&self) -> usize {
        self.open.lock().connections.len()
    }

    /// Calls `of` for every connection and sums up the results. Connections do not end meanwhile.
    pub fn sum(&self, of: impl Fn(&Connection) -> usize) -> usize {
        let open = self.open.lock();
        open.connections.values().map(|c| of(c)).sum()
    }

    /// Waits until a connection ends, at most this long.
    pub fn wait_for_one(&self, limit: Duration) {
        self.ended.wait_for(&mut self.open.lock(), limit);
    }

    /// Lets all connections answer what has arrived, and ends them. Those that take longer than
    /// `limit` are dropped.
    ///
    /// Returns false if the thread of one did not end in time (twice `limit`). It is left behind.
    pub fn end_all(&self, limit: Duration) -> bool {
        self.sum(|connection| {
            connection.close();
            1
        });
        if self.wait_for_none(limit) {
            return true;
        }
        self.sum(|connection| {
            connection.drop_now();
            1
        });
        self.wait_for_none(limit)
    }

    fn wait_for_none(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut open = self.open.lock();
        while !open.connections.is_empty() {
            if self.ended.wait_until(&mut open, until).timed_out() {
                return open.connections.is_empty();
            }
        }
        true
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // After a panic nothing else has closed it.
        self.connection.drop_now();
        self.permits.open.lock().connections.remove(&self.number);
        self.permits.ended.notify_all();
    }
}
