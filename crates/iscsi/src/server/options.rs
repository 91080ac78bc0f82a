//! Defines the limits of a server. The program sets some from its command line.
//!
//! Invariant: every default allows the operations of usual initiators; none is infinite.

use crate::login::keys::FIRST_BURST_BYTES_MAX;
use crate::registry::SharedUnits;
use crate::scsi::inquiry::TRANSFER_BYTES_MAX;
use crate::sender::DEPTH;
use crate::targets::Access;
use std::time::Duration;

/// Limits of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The logical units, which servers that offer the same disks share.
    pub units: SharedUnits,
    /// Conditions of discovery. Off loopback it needs CHAP and a list of initiators.
    pub discovery: Access,
    /// Size of a block, bytes: 512 or 4096. A volume whose size is no multiple
    /// is refused: its end would be missing.
    pub block_bytes: u32,
    /// Whether writes may be acknowledged before they are durable (WCE), until an initiator changes
    /// it with MODE SELECT. All usual initiators reconnect by themselves. After a crash of the
    /// server they would continue as if acknowledged writes were there, so without the cache no
    /// acknowledged write may be lost.
    pub write_cache: bool,
    /// Maximum number of connections. Further ones are closed at once.
    pub connections_max: usize,
    /// Time from the connection to the end of the login.
    pub handshake_limit: Duration,
    /// Time that an initiator may leave an answer unread before it is dropped. Generous, because a
    /// paused machine looks the same. It costs only this initiator's own memory.
    pub send_limit: Duration,
    /// Time without a request after which the initiator is asked for a sign of life. If it takes as
    /// long again, it is dropped.
    pub idle_limit: Duration,
    /// Time after which an initiator is dropped if its machine vanished, or its system no longer
    /// answers for it.
    pub vanished_limit: Duration,
    /// Memory that all connections share for large reads, and the same again for writes, bytes. It
    /// is raised to the size of the largest command. In addition every connection has up to some
    /// MiB of its own.
    pub pool_bytes: u64,
    /// Time that an initiator may hold memory of a pool without sending its data, or without taking
    /// its answer, while others wait for it.
    pub stall_limit: Duration,
    /// Time that initiators have to log out when a target is closed or the server stops.
    pub logout_limit: Duration,
    /// Time that [`crate::ServerHandle::stop`] gives commands in flight.
    pub stop_limit: Duration,
}

impl ServerOptions {
    /// Returns the effective size of a pool.
    pub(crate) fn pool_bytes(&self) -> u64 {
        self.pool_bytes.max(2 * TRANSFER_BYTES_MAX)
    }

    /// Returns the size of the pool for data that initiators send without being asked: at least the
    /// first bursts of one of them.
    pub(crate) fn burst_pool_bytes(&self) -> u64 {
        let one = u64::from(DEPTH) * u64::from(FIRST_BURST_BYTES_MAX);
        (self.pool_bytes / 4).max(one)
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            units: SharedUnits::default(),
            discovery: Access::default(),
            block_bytes: 512,
            write_cache: true,
            connections_max: 128,
            handshake_limit: Duration::from_secs(30),
            send_limit: Duration::from_secs(300),
            idle_limit: Duration::from_secs(60),
            vanished_limit: Duration::from_secs(120),
            pool_bytes: 256 << 20,
            stall_limit: Duration::from_secs(10),
            logout_limit: Duration::from_secs(2),
            stop_limit: Duration::from_secs(10),
        }
    }
}
