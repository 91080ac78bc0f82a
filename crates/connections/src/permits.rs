//! Counts the connections of a server, and ends them. Each server has one [`Permits`].
//!
//! Invariant: there are never more connections than permits, and never more threads of dropped
//! ones. A permit is returned when the thread of its connection ends, however it ends. Clients that
//! have not introduced themselves keep no others out: the oldest of them makes room at once. The
//! clients of one address keep those of other addresses out neither: they may have as many
//! connections as [`SHARE`] times those that are left.

#[cfg(test)]
mod tests;

use crate::connection::Connection;
use crate::stream::ByteStream;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for a thread of a dropped connection to end, when as many as there are permits have not.
const LEAVING_LIMIT: Duration = Duration::from_secs(2);

/// Connections of one address for each one that is left: alone it gets seven eighths of them all.
const SHARE: usize = 7;

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
    /// By number, oldest first, with the address of each.
    connections: BTreeMap<u64, (Option<IpAddr>, Arc<Connection>)>,
    /// Connections that were dropped for others and whose threads have not ended.
    leaving: BTreeMap<u64, Arc<Connection>>,
}

impl Open {
    fn all(&self) -> impl Iterator<Item = &Arc<Connection>> {
        let connections = self.connections.values().map(|(_, connection)| connection);
        connections.chain(self.leaving.values())
    }

    /// Returns true if the clients of an address have their share of the connections.
    fn has_its_share(&self, address: Option<IpAddr>, max: usize) -> bool {
        let all = self.connections.values();
        let own = all.filter(|(of, _)| *of == address).count();
        let left = max.saturating_sub(self.connections.len());
        address.is_some() && own >= SHARE * left.max(1)
    }

    /// Returns the oldest connection that was not admitted, `of` an address if it is given.
    fn oldest_half_open(&self, of: Option<IpAddr>) -> Option<u64> {
        let meant = self.connections.iter();
        let mut meant = meant.filter(|(_, (address, _))| of.is_none() || *address == of);
        let oldest = meant.find(|(_, (_, connection))| !connection.is_admitted());
        oldest.map(|(number, _)| *number)
    }

    /// Drops a connection for another one, unless it was admitted meanwhile. Its thread takes its
    /// time to end.
    fn give_away(&mut self, number: u64) {
        if let Some((_, connection)) = self.connections.get(&number).cloned()
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

    /// Registers a new connection, of a client at an address if clients of others connect too. When
    /// there are too many, or too many of this address, the oldest one of them that was not
    /// admitted yet is dropped for it. `None` if all were admitted, or if the threads of as many
    /// dropped ones are stuck.
    pub fn take(
        self: &Arc<Self>,
        stream: Arc<dyn ByteStream>,
        address: Option<IpAddr>,
    ) -> Option<Permit> {
        let address = address.map(network);
        let mut open = self.open.lock();
        let until = Instant::now() + LEAVING_LIMIT;
        loop {
            let is_full = open.connections.len() >= self.max;
            let has_its_share = open.has_its_share(address, self.max);
            if !is_full && !has_its_share {
                break;
            }
            let oldest = open.oldest_half_open(address.filter(|_| has_its_share))?;
            if open.leaving.len() < self.max {
                open.give_away(oldest);
            } else if self.ended.wait_until(&mut open, until).timed_out() {
                return None;
            }
        }
        open.last += 1;
        let number = open.last;
        let connection = Arc::new(Connection::new(stream));
        open.connections
            .insert(number, (address, connection.clone()));
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

/// Returns what stands for the addresses of one host: of IPv6 it has 2^64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        address => address,
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
