//! Defines the limits of a server. The program sets some from its command line.
//!
//! Invariant: every default allows the operations of usual initiators; none is infinite.

use crate::login::keys::FIRST_BURST_BYTES_MAX;
use crate::portals::Portals;
use crate::registry::SharedUnits;
use crate::scsi::inquiry::TRANSFER_BYTES_MAX;
use crate::sender::DEPTH;
use crate::targets::TargetAccess;
use connections::ServerLimits;
use std::time::Duration;

/// Limits of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The logical units, which servers that offer the same disks share.
    pub units: SharedUnits,
    /// Conditions of discovery. Off loopback it needs CHAP and a list of initiators.
    pub discovery: TargetAccess,
    /// Addresses that initiators learn from discovery.
    pub portals: Portals,
    /// Size of a block, bytes: 512 or 4096. A volume whose size is no multiple
    /// is refused: its end would be missing.
    pub block_bytes: u32,
    /// Whether writes may be acknowledged before they are durable (WCE), until an initiator changes
    /// it with MODE SELECT. All usual initiators reconnect by themselves. After a crash of the
    /// server they would continue as if acknowledged writes were there, so without the cache no
    /// acknowledged write may be lost.
    pub write_cache: bool,
    /// Limits of connections, memory and time.
    pub limits: ServerLimits,
    /// Time without a request after which the initiator is asked for a sign of life. If it takes as
    /// long again, it is dropped.
    pub idle_limit: Duration,
    /// Time that initiators have to log out when a target is closed or the server stops.
    pub logout_limit: Duration,
}

/// MemoryPool memory of the largest command, bytes.
pub(crate) const COMMAND_BYTES_MAX: u64 = 2 * TRANSFER_BYTES_MAX;

impl ServerOptions {
    /// Returns the size of the pool for data that initiators send without being asked: at least the
    /// first bursts of one of them.
    pub(crate) fn burst_pool_bytes(&self) -> u64 {
        let one = u64::from(DEPTH) * u64::from(FIRST_BURST_BYTES_MAX);
        (self.limits.pool_bytes / 4).max(one)
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            units: SharedUnits::default(),
            discovery: TargetAccess::default(),
            portals: Portals::default(),
            block_bytes: 512,
            write_cache: true,
            limits: ServerLimits::default(),
            idle_limit: Duration::from_secs(60),
            logout_limit: Duration::from_secs(2),
        }
    }
}
