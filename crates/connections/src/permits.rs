//! Counts the connections of a server, and ends them. Each server has one [`Permits`].
//!
//! Invariant: there are never more connections than permits, and never more threads of dropped
//! ones. A permit is returned when the thread of its connection ends, however it ends. Clients that
//! have not introduced themselves keep no others out: the oldest of them makes room at once.

#[cfg(test)]
mod tests;

use crate::connection::Connection;
use crate::stream::Stream;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for a thread of a dropped connection to end, when as many as there are permits have not.
const LEAVING_LIMIT: Duration = Duration::from_secs(2);

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
    /// Connections that were dropped for others and whose threads have not ended.
    leaving: BTreeMap<u64, Arc<Connection>>,
}

impl Open {
    fn all(&self) -> impl Iterator<Item = &Arc<Connection>> {
        self.connections.values().chain(self.leaving.values())
    }

    /// Returns the oldest connection that was not admitted.
    fn oldest_half_open(&self) -> Option<u64> {
        let mut connections = self.connections.iter();
        let oldest = connections.find(|(_, connection)| !connection.is_admitted());
        oldest.map(|(number, _)| *number)
    }

    /// Drops a connection for another one, unless it was admitted meanwhile. Its thread takes its
    /// time to end.
    fn give_away(&mut self, number: u64) {
        if let Some(connection) = self.connections.get(&number).cloned()
            && connection.give_away()
        {
            self.connections.remove(&number);
            self.leaving.insert(number, connection);
        }
    }
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
    /// yet is dropped for it. `None` if all were admitted, or if the threads of as many dropped
    /// ones are stuck.
    pub fn take(self: &Arc<Self>, stream: Arc<dyn Stream>) -> Option<Permit> {
        let mut open = self.open.lock();
        let until = Instant::now() + LEAVING_LIMIT;
        while open.connections.len() >= self.max {
            let oldest = open.oldest_half_open()?;
            if open.leaving.len() < self.max {
                open.give_away(oldest);
            } else if self.ended.wait_until(&mut open, until).timed_out() {
                return None;
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

    /// Returns the number of connections, without those that were dropped for others.
    pub fn count(&self) -> usize {
        self.open.lock().connections.len()
    }

    /// Calls `of` for every connection and sums up the results. Connections do not end meanwhile.
    pub fn sum(&self, of: impl Fn(&Connection) -> usize) -> usize {
        let open = self.open.lock();
        open.all().map(|c| of(c)).sum()
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
        while open.all().next().is_some() {
            if self.ended.wait_until(&mut open, until).timed_out() {
                return open.all().next().is_none();
            }
        }
        true
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // After a panic nothing else has closed it.
        self.connection.drop_now();
        let mut open = self.permits.open.lock();
        open.connections.remove(&self.number);
        open.leaving.remove(&self.number);
        self.permits.ended.notify_all();
    }
}
