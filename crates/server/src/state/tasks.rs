//! The maintenance tasks of a server: one state for each, and what they share: the shares of the
//! device, and the grants of their steps.
//!
//! Invariant: each task has its own lock, and a task looks at its own state only. The device learns
//! what a task has left before it grants a step.

mod collecting;
mod copies;
mod deadlines;
mod error;
mod host;
mod hot_chunks;
mod readings;
mod scrubbing;
mod slot;

pub use collecting::{
    CollectStatus, CollectTotals, Collecting, Collection, checkpoint_all, seconds,
};
pub use copies::{Copies, CopyEntry, CopyState};
pub use deadlines::TaskDue;
pub use error::TaskError;
pub use host::TaskHost;
pub use hot_chunks::{HotChunksState, HotChunksStatus};
pub use readings::TaskReading;
pub use scrubbing::Scrubbing;
pub use slot::{RunOutcome, TaskSlot, TaskStatus};

use crate::settings::Shares;
use deadlines::LastReported;
use device::{DeviceQueue, StepGrant};
use maintenance::{DefragRun, Defragmenter};
use parking_lot::Mutex;
use qos::{Flow, InvalidShares};
use std::sync::Arc;
use std::time::Duration;
use store::Pool;
use terminal::interrupt::{Interrupt, Interrupted};
use volumes::Volumes;

/// Time between two checks for a stop request, while maintenance waits for an I/O grant.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// State of defragmentation for `status`, `top` and the metrics.
pub type DefragStatus = TaskStatus<DefragRun>;

/// The tasks of a server. See the module's head.
pub struct Tasks {
    pub(crate) pool: Arc<Pool>,
    pub(crate) volumes: Arc<Volumes>,
    pub(crate) device: Arc<DeviceQueue>,
    shares: Mutex<Shares>,
    reported: LastReported,
    /// State of the scrub.
    pub scrub: Scrubbing,
    /// State of garbage collection.
    pub collecting: Collecting,
    /// State of defragmentation.
    pub defrag: Arc<TaskSlot<Defragmenter>>,
    /// Hot chunks that the server copies by itself.
    pub hot_chunks: HotChunksState,
    /// Copies to other pools that are in progress.
    pub copies: Arc<Copies>,
}

impl Tasks {
    /// Reads the states that the last server recorded.
    pub(super) fn new(volumes: &Arc<Volumes>, device: &Arc<DeviceQueue>, shares: Shares) -> Self {
        let pool = volumes.pool();
        Self {
            pool: Arc::clone(pool),
            volumes: Arc::clone(volumes),
            device: Arc::clone(device),
            shares: Mutex::new(shares),
            reported: LastReported::default(),
            scrub: Scrubbing::of(volumes),
            collecting: Collecting::of(pool),
            defrag: Arc::new(TaskSlot::of(pool)),
            hot_chunks: HotChunksState::default(),
            copies: Arc::default(),
        }
    }

    /// Returns the shares of the device.
    pub fn shares(&self) -> Shares {
        *self.shares.lock()
    }

    /// Changes the shares of the device from now on.
    pub fn set_shares(&self, shares: Shares) -> Result<(), InvalidShares> {
        let mut before = self.shares.lock();
        self.device.set(shares.plan)?;
        *before = shares;
        drop(before);
        // The shares say how soon a scrub is due, and whether hot chunks are copied: let their
        // threads look again.
        self.scrub.task.wake();
        self.defrag.wake();
        Ok(())
    }

    /// Asks for an I/O grant for one maintenance step of about `bytes` bytes. Tells the device
    /// before what the task has left.
    pub fn ask(&self, flow: Flow, bytes: u64) -> StepGrant<'_> {
        self.tell_deadline(flow);
        self.device.ask(flow, bytes)
    }

    /// The same, and waits for the grant.
    ///
    /// Returns [`Interrupted`] when the server is asked to stop.
    pub fn grant(
        &self,
        flow: Flow,
        bytes: u64,
        interrupt: &Interrupt,
    ) -> Result<StepGrant<'_>, Interrupted> {
        let mut grant = self.ask(flow, bytes);
        while !grant.wait(LOOK_EVERY) {
            interrupt.check()?;
        }
        Ok(grant)
    }
}
