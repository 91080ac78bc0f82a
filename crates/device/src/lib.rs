//! Decides which thread may use the device now: the scheduler of `qos`, with threads that wait for
//! its I/O grants. The server that holds a pool creates the queue.
//!
//! ```text
//! reads, syncs of blobs (PacedDisk) ----+
//! steps (DeviceQueue::ask) -------------+--> scheduler (qos) --> I/O grant --> device
//! other processes (their RequestQueue) -+
//! ```
//!
//! Invariant: the lock is never held across device I/O. A thread that holds a grant waits only for
//! grants of maintenance, and maintenance never holds all grants; so every grant ends. Requests
//! that the page cache answers do not come here.
//!
//! [`PacedDisk`] asks for a grant for each read and for each sync of a blob. Maintenance asks for a
//! grant for each of its steps; the reads and writes of the step then use it in pieces
//! ([`RequestQueue::before_piece`]). Disks of processes beside the server ask a [`RequestQueue`] of
//! their own, which leases grants from this queue.
//!
//! [`PatientDisk`] gives up requests of a device that hangs.
#![forbid(unsafe_code)]

mod around;
mod grants;
mod paced_disk;
mod patient_disk;
mod pieces;
mod state;
mod steps;

pub use grants::DeviceQueue;
pub use paced_disk::{PacedDisk, Writes};
pub use patient_disk::{Patience, PatientDisk};
pub use state::PieceKind;
pub use steps::StepGrant;

use media::IoOrigin;
use qos::{Direction, Flow};
use units::Origin;

/// Decides when a request may go to the device: a queue of this process or of another one.
///
/// `enter` must not wait for a grant that the calling thread holds, and a caller that holds a grant
/// does not ask for another user's grant. An implementation that has lost the other process lets
/// every request pass.
pub trait RequestQueue: Send + Sync {
    /// Waits until a request of `bytes` bytes may go. The request ends when the returned value is
    /// dropped. Returns `None` if the request may pass and its end does not matter.
    fn enter(
        &self,
        io_origin: IoOrigin,
        direction: Direction,
        is_sequential: bool,
        bytes: u64,
    ) -> Option<Box<dyn RequestGrant + '_>>;

    /// Returns true if a client's read would not wait now. Then it is at the device before it
    /// enters.
    fn would_pass(&self, _io_origin: IoOrigin) -> bool {
        true
    }

    /// Returns true if this process knows that the device is a disk with arms.
    fn has_arms(&self) -> bool {
        false
    }

    /// Counts a request that does not wait for a grant.
    fn note(&self, io_origin: IoOrigin, direction: Direction, bytes: u64);

    /// Returns how many of `bytes` bytes maintenance may read or write now, at least one. If the
    /// grant of its step has ended, this waits for another one. Without a grant it returns `bytes`.
    fn before_piece(&self, _flow: Flow, _kind: PieceKind, bytes: u64) -> u64 {
        bytes
    }

    /// Ends what [`RequestQueue::before_piece`] began.
    fn after_piece(&self, _flow: Flow) {}
}

/// A request that is at the device as long as this lives.
pub trait RequestGrant {}

/// Counters of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Reads, whichever layer below has the bytes.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes of `read_bytes` that processes beside the server read.
    pub leased_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// I/O grants: requests of users, steps of maintenance.
    pub grants: u64,
    /// Time that requests waited for grants, nanoseconds, outside and inside the scheduler.
    pub wait_ns: u64,
    /// Part of `wait_ns` that was delayed outside the scheduler, because other flows exceeded their
    /// latency targets.
    pub held_back_ns: u64,
    /// Time from grants to their ends, nanoseconds.
    pub busy_ns: u64,
    /// Requests that wait now.
    pub waiting: u64,
}

/// Returns the flow of an I/O origin.
pub fn flow_of(io_origin: IoOrigin) -> Flow {
    match io_origin.origin {
        Origin::Foreground => Flow::of_client(io_origin.is_sequential),
        Origin::Backup => Flow::Backup,
        Origin::Restore => Flow::Restore,
        Origin::Replication => Flow::Replication,
        Origin::Scrub => Flow::Scrub,
        Origin::Collect => Flow::Collect,
        Origin::Defragment => Flow::Defragment,
    }
}

/// Returns true if the work of this thread is maintenance.
fn is_maintenance() -> bool {
    IoOrigin::current().origin.is_maintenance()
}

#[cfg(test)]
mod tests;
