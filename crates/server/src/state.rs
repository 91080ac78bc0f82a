//! Server state: one pool, its volumes, and the parts that the threads and clients of a server
//! share. Commands and the server call this.
//!
//! Invariant: each part owns its state and its locks, and knows no other part. Between processes,
//! the pool's lock file refuses the second. Changes of volumes need no lock here: the `volumes`
//! crate orders changes of names itself.
//!
//! ```text
//! commands --- access --> OpenPool (hold, writer lock)
//! threads ---- tasks: one state per maintenance task, shares of the device, I/O grants
//! NBD, iSCSI, mounts --- clients, classes, meters, directories
//! status, top, metrics <-- Live, findings, failures
//! ```

mod advising;
mod changing;
mod classes;
mod clients;
mod live;
mod open_files;
mod pool_access;
mod tasks;
mod volumes;
mod writer_lock;

pub use advising::{Advised, NoAdvice, expectation};
pub use changing::Changing;
pub use classes::{ClassReading, ClassesReading, PolicyInForce, ServedClasses};
pub use clients::Clients;
pub use live::{ExportReading, Live};
pub use open_files::OpenFiles;
pub use pool_access::{OpenPool, PoolAccess};
pub use tasks::{
    CollectStatus, CollectTotals, Collecting, Collection, Copies, CopyEntry, CopyState,
    DefragStatus, HotChunksState, HotChunksStatus, RunOutcome, Scrubbing, TaskDue, TaskError,
    TaskHost, TaskReading, TaskSlot, TaskStatus, Tasks, checkpoint_all, seconds,
};
pub use volumes::{
    JOURNAL_BYTES_DEFAULT, OpenVolumes, REGION_BYTES, VolumesWanted, open_volumes, volumes_options,
};
pub use writer_lock::{Asking, NotTaken};

use crate::directories::Directories;
use crate::failures::Failures;
use crate::findings::{FindingsCache, LiveFacts, PoolFindings};
use crate::memory_plan::MemoryPlan;
use crate::meters::ExportMeters;
use crate::settings::Shares;
use ::volumes::Volumes;
use device::DeviceQueue;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use store::Pool;

/// The state of a server. See the module's head.
pub struct ServerState {
    /// Directory of the pool.
    pub path: PathBuf,
    /// The pool, open for writing.
    pub pool: Arc<Pool>,
    /// The pool's volumes, open.
    pub volumes: Arc<Volumes>,
    /// Time at which the server opened the pool.
    pub since: Instant,
    /// The memory budget of each owner.
    pub memory: MemoryPlan,
    /// Grants I/O to every user of the pool's device.
    pub device: Arc<DeviceQueue>,
    /// Gives commands the pool.
    pub access: PoolAccess,
    /// Maintenance.
    pub tasks: Arc<Tasks>,
    /// Clients of the exports.
    pub clients: Clients,
    /// Classes of I/O, and the policy in force.
    pub classes: ServedClasses,
    /// Counts of client requests by export.
    pub meters: Arc<ExportMeters>,
    /// Present failures.
    pub failures: Arc<Failures>,
    /// The cache of snapshot directories that mounts share.
    pub directories: Arc<Directories>,
    findings: FindingsCache,
}

impl ServerState {
    /// Takes over the volumes in the pool directory `path`. `device` is the queue through which the
    /// caller opened the pool.
    pub fn new(
        path: PathBuf,
        volumes: Volumes,
        device: Arc<DeviceQueue>,
        shares: Shares,
        memory: MemoryPlan,
    ) -> Self {
        let volumes = Arc::new(volumes);
        let pool = Arc::clone(volumes.pool());
        let failures = Arc::<Failures>::default();
        Self {
            path,
            since: Instant::now(),
            access: PoolAccess::new(&pool),
            tasks: Arc::new(Tasks::new(&volumes, &device, shares)),
            clients: Clients::default(),
            classes: ServedClasses::new(&volumes, memory.layouts as u64),
            meters: Arc::new(ExportMeters::new(&failures.requests)),
            failures,
            directories: Arc::new(Directories::new(Arc::clone(pool.reader()), memory.mounts)),
            findings: FindingsCache::default(),
            memory,
            device,
            volumes,
            pool,
        }
    }

    /// Returns what findings need to know of a running server.
    pub fn facts(&self) -> LiveFacts<'_> {
        LiveFacts {
            volumes: &self.volumes,
            failing: self.failures.messages(),
            iscsi_access: self.failures.iscsi_access.read(),
            verified: self.tasks.scrub.status().verified(),
        }
    }

    /// Returns the findings of `status` and the newest snapshot of each source.
    pub fn findings(&self) -> Arc<PoolFindings> {
        let within_s = self.tasks.shares().within.scrub_s;
        self.findings.read(&self.pool, self.facts(), within_s)
    }
}
