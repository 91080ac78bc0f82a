//! In front of the device: who may read or write it now (`qos`), with threads that wait.
//!
//! Invariant: the lock is never held across device I/O, and whoever has a turn waits for nobody else's
//! but maintenance, which never has all of them; so turns are always given back. What the page cache
//! answers never comes here. The disk in front of it ([`PacedDisk`]) asks for each read, and for each
//! sync of a blob; maintenance asks for each of its steps, whose reads and writes then pass; so do
//! processes beside the server, whose disks ask a [`RequestQueue`] of their own, at the other end of which is
//! this one. What a step of maintenance stores takes turns of its own. Called by the server that holds a pool.
#![forbid(unsafe_code)]

mod paced_disk;
mod pieces;
mod state;
mod steps;
mod turns;

pub use paced_disk::{PacedDisk, Writes};
pub use state::PieceKind;
pub use steps::StepTurn;
pub use turns::DeviceQueue;

use media::Asker;
use qos::{Direction, Flow};
use units::Origin;

/// Who says when a request may go to the device: a queue of this process, or that of another one.
///
/// What a call waits for never waits for the caller: whoever has a turn is not asked for another one's. An
/// implementation that cannot tell any more, as the other process is gone, lets everybody pass.
pub trait RequestQueue: Send + Sync {
    /// A request of `bytes` bytes, once it may go; it has ended when what is returned is dropped. `None`: it
    /// passes, and nobody wants to know when it ends.
    fn enter(
        &self,
        asker: Asker,
        direction: Direction,
        is_sequential: bool,
        bytes: u64,
    ) -> Option<Box<dyn Turn + '_>>;

    /// A request that waits for nobody. It is counted.
    fn note(&self, asker: Asker, direction: Direction, bytes: u64);

    /// Before maintenance reads or writes: so many of the bytes it may, now, at least one. If it has a turn for its
    /// step and that is over, it has another one on return. All of them where it has none.
    fn before_piece(&self, _flow: Flow, _kind: PieceKind, bytes: u64) -> u64 {
        bytes
    }

    /// That is done.
    fn after_piece(&self, _flow: Flow) {}
}

/// A request is at the device as long as this lives.
pub trait Turn {}

/// What went through, of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Reads, of whatever layer below has the bytes.
    pub reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// ... of them, by processes beside the server.
    pub leased_bytes: u64,
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

/// True when what this thread does now is maintenance.
fn is_maintenance() -> bool {
    Asker::current().origin.is_maintenance()
}

#[cfg(test)]
mod tests;
