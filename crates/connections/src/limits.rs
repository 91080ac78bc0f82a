//! Defines the limits of a server. The program sets some from its command line.
//!
//! Invariant: every default allows the operations of usual clients; none is infinite.

use std::time::Duration;

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Maximum number of connections. Further ones are closed at once.
    pub connections_max: usize,
    /// Time from the connection to the end of the handshake or login.
    pub handshake_limit: Duration,
    /// Time that a client may leave a reply unread before it is dropped. Generous, because a paused
    /// machine looks the same. It costs only this client's own memory.
    pub send_limit: Duration,
    /// Time after which a TCP client is dropped if its machine vanished, or its system no longer
    /// answers for it. A silent client stays. A unix socket ends with its client.
    pub vanished_limit: Duration,
    /// Memory that all connections share for large reads, and the same again for large writes,
    /// bytes. It is raised to the size of the largest request. In addition every connection has up
    /// to some MiB of its own.
    pub pool_bytes: u64,
    /// Time that a client may hold memory of a pool without finishing its request, or without
    /// taking its reply, while others wait for it.
    pub stall_limit: Duration,
    /// Time that [`crate::ServerHandle::stop`] gives requests in flight.
    pub stop_limit: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections_max: 128,
            handshake_limit: Duration::from_secs(30),
            send_limit: Duration::from_secs(300),
            vanished_limit: Duration::from_secs(120),
            pool_bytes: 256 << 20,
            stall_limit: Duration::from_secs(10),
            stop_limit: Duration::from_secs(10),
        }
    }
}
