//! In front of the device: who may read or write it now (`qos`), with threads that wait.
//!
//! Invariant: the lock is never held across device I/O, and whoever has a turn waits for nobody else's
//! but maintenance, which never has all of them; so turns are always given back. What the page cache
//! answers never comes here. The disk in front of it ([`PacedDisk`]) asks for each read, and for each
//! sync of a blob; maintenance asks for each of its steps, whose reads and writes then pass. Called
//! by the server that holds a pool.

mod paced_disk;
mod turns;

pub use paced_disk::{PacedDisk, Writes};
pub use turns::{DeviceQueue, MaintenanceTurn};

use media::Asker;
use qos::Flow;
use units::Origin;

/// What went through, of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Reads, of whatever layer below has the bytes.
    pub reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Their bytes.
    pub written_bytes: u64,
    /// Turns that were given: requests of users, steps of maintenance.
    pub turns: u64,
    /// Time that they waited, nanoseconds: outside and in the queue.
    pub wait_ns: u64,
    /// ... of it, outside, because others took too long.
    pub held_back_ns: u64,
    /// Time from turns to their ends, nanoseconds.
    pub busy_ns: u64,
    /// Who waits now.
    pub waiting: u64,
}

/// The flow of work that is done for somebody.
pub fn flow_of(asker: Asker) -> Flow {
    match asker.origin {
        Origin::Foreground => Flow::of_client(asker.is_sequential),
        Origin::Backup => Flow::Backup,
        Origin::Restore => Flow::Restore,
        Origin::Replication => Flow::Replication,
        Origin::Scrub => Flow::Scrub,
        Origin::Collect => Flow::Collect,
        Origin::Defragment => Flow::Defragment,
    }
}

#[cfg(test)]
mod tests;
