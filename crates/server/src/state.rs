//! Server state: one pool, its volumes, and everything that the threads and clients of a server
//! share. Commands and the server call this.
//!
//! Invariant: commands that write to a served pool take the writer lock in the order of their
//! arrival, so each sees the snapshots that it changes. Between processes, the pool's lock file
//! does the same by refusing the second. Changes of volumes do not need the writer lock: the
//! `volumes` crate orders changes of names itself.
//!
//! ```text
//! commands --- for_reading, for_writing --> OpenPool (hold, writer lock)
//! threads ---- scrub, collecting, defrag, copies (one state per maintenance task)
//! device I/O - turn --> DeviceQueue (I/O grants by share)
//! NBD, mounts - meter, open_file, classify_volume, clients, disconnect
//! ```

mod changing;
mod classes;
mod collecting;
mod copies;
mod deadlines;
mod error;
mod findings;
mod hot_chunks;
mod live;
mod open_files;
mod replica;
mod scrubbing;
mod task_host;
mod task_slot;
mod tasks;
mod trouble;
mod volumes;
mod writer_lock;

use changing::Changes;
pub use changing::Changing;
pub use classes::{ClassReading, ClassesReading, PolicyInForce};
pub use collecting::{
    CollectStatus, CollectTotals, Collecting, Collection, checkpoint_all, seconds,
};
pub use copies::{Copies, CopyEntry, CopyState};
pub use deadlines::TaskDue;
pub use error::TaskError;
pub use findings::Found;
pub use hot_chunks::{HotChunksState, HotChunksStatus};
pub use live::{ExportReading, Live};
pub use task_host::TaskHost;
pub use task_slot::{Outcome, TaskSlot, TaskStatus};
pub use tasks::TaskReading;
pub use volumes::{
    JOURNAL_BYTES_DEFAULT, OpenVolumes, REGION_BYTES, lost_writes, named, open_volumes,
    recorded_losses, unacknowledged_losses,
};
/// State of defragmentation for `status`, `top` and the metrics.
pub type DefragStatus = TaskStatus<DefragRun>;

use crate::memory_plan::MemoryPlan;
use crate::meters::Meter;
use crate::mount::Directories;
use crate::settings::Shares;
use crate::targets::target_of;
use ::classes::Classifiers;
use ::volumes::Volumes;
use device::{DeviceQueue, StepGrant};
use maintenance::{DefragRun, Defragmenter};
use nbd::ServerHandle;
use open_files::OpenFile;
pub use open_files::OpenFiles;
use parking_lot::Mutex;
use qos::{Flow, InvalidShares};
pub use replica::Replica;
use scrubbing::Scrubbing;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Hold, Pool};
use terminal::interrupt::{Interrupt, Interrupted};
pub use trouble::Trouble;
use volume::Volume;
pub use writer_lock::{Asking, NotTaken};
use writer_lock::{WriterGuard, WriterLock};

/// Time between two checks for a stop request, while maintenance waits for an I/O grant.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Time that requests of disconnected NBD clients have to be answered, before the clients are
/// dropped, and again after that.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

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
    /// State of the scrub.
    pub scrub: Scrubbing,
    /// State of garbage collection.
    pub collecting: Collecting,
    /// State of defragmentation.
    pub defrag: Arc<TaskSlot<Defragmenter>>,
    /// Hot chunks that the server copies by itself.
    pub hot_chunks: HotChunksState,
    /// Grants I/O to every user of the pool's device.
    pub device: Arc<DeviceQueue>,
    shares: Mutex<Shares>,
    told: deadlines::LastTold,
    /// The memory budget of each owner.
    pub memory: MemoryPlan,
    /// Copies to other pools that are in progress.
    pub copies: Arc<Copies>,
    writer_lock: Arc<WriterLock>,
    /// The last request to a volume that the store failed or had no space for, until a flush
    /// succeeds.
    pub refused: Arc<Trouble>,
    /// The last failed checkpoint, until one succeeds.
    pub stuck: Trouble,
    /// One meter for every export name that a client ever opened.
    meters: Mutex<BTreeMap<String, Arc<Meter>>>,
    servers: Mutex<Vec<ServerHandle>>,
    target_servers: Mutex<Vec<iscsi::ServerHandle>>,
    findings: findings::LastFindings,
    files: Arc<OpenFiles>,
    changes: Arc<Changes>,
    directories: Arc<Directories>,
    /// Give requests their classes.
    pub classifiers: Arc<Classifiers>,
    policy: Mutex<Option<PolicyInForce>>,
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
        let pool = Arc::clone(volumes.pool());
        let reader = Arc::clone(pool.reader());
        let volumes = Arc::new(volumes);
        Self {
            path,
            memory,
            directories: Arc::new(Directories::new(reader, memory.mounts)),
            scrub: Scrubbing::of(&volumes),
            collecting: Collecting::of(&pool),
            defrag: Arc::new(TaskSlot::of(&pool)),
            hot_chunks: HotChunksState::default(),
            device,
            shares: Mutex::new(shares),
            told: deadlines::LastTold::default(),
            pool,
            volumes,
            since: Instant::now(),
            copies: Arc::default(),
            writer_lock: Arc::default(),
            refused: Arc::default(),
            stuck: Trouble::default(),
            meters: Mutex::default(),
            servers: Mutex::default(),
            target_servers: Mutex::default(),
            findings: findings::LastFindings::default(),
            files: Arc::default(),
            changes: Arc::default(),
            classifiers: Arc::new(Classifiers::new(memory.layouts as u64)),
            policy: Mutex::default(),
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

    /// Returns the pool for reading.
    pub fn for_reading(&self) -> OpenPool {
        OpenPool {
            // The hold begins before the command reads any name: gc then keeps what the names
            // reach.
            _hold: Some(self.pool.hold()),
            pool: Arc::clone(&self.pool),
            _guard: None,
        }
    }

    /// Waits for the writer lock and returns the pool. Calls `waiting` with the name of the writer
    /// that has the lock, if one does.
    pub fn for_writing(
        &self,
        asking: &Asking<'_>,
        waiting: impl FnOnce(&str),
    ) -> Result<OpenPool, NotTaken> {
        let guard = WriterLock::take(&self.writer_lock, asking, waiting)?;
        // Readers in other processes may have recorded damage.
        self.pool.take_up_news();
        Ok(OpenPool {
            // The hold begins before the command reads any name that it may refer to.
            _hold: Some(self.pool.hold()),
            pool: Arc::clone(&self.pool),
            _guard: Some(guard),
        })
    }

    /// Returns the meter of an export's requests.
    pub fn meter(&self, export: &str) -> Arc<Meter> {
        let mut meters = self.meters.lock();
        let new = || Arc::new(Meter::telling(&self.refused));
        Arc::clone(meters.entry(export.to_owned()).or_insert_with(new))
    }

    /// Returns the number of client reads since the server began.
    pub fn reads_asked(&self) -> u64 {
        self.meters.lock().values().map(|meter| meter.reads()).sum()
    }

    /// Returns messages about what fails at the moment. Empty if all is well.
    pub fn failing(&self) -> Vec<String> {
        let refused = self.refused.read();
        let refused = refused.map(|what| format!("writes to volumes fail: {what}"));
        let stuck = self.stuck.read();
        let stuck = stuck.map(|what| format!("checkpoints fail: {what}"));
        refused.into_iter().chain(stuck).collect()
    }

    /// Registers an NBD server that serves this state until [`ServerState::take_servers`].
    pub fn add_server(&self, server: ServerHandle) {
        self.servers.lock().push(server);
    }

    /// Removes and returns the NBD servers, so that the caller can stop them.
    pub fn take_servers(&self) -> Vec<ServerHandle> {
        std::mem::take(&mut *self.servers.lock())
    }

    /// Registers an iSCSI server that serves this state until
    /// [`ServerState::take_target_servers`].
    pub fn add_target_server(&self, server: iscsi::ServerHandle) {
        self.target_servers.lock().push(server);
    }

    /// Removes and returns the iSCSI servers, so that the caller can stop them.
    pub fn take_target_servers(&self) -> Vec<iscsi::ServerHandle> {
        std::mem::take(&mut *self.target_servers.lock())
    }

    /// Returns the number of iSCSI sessions that use an export.
    fn sessions(&self, export: &str) -> usize {
        let servers = self.target_servers.lock();
        let target = target_of(export);
        servers.iter().map(|server| server.sessions(&target)).sum()
    }

    /// Registers a volume as an open file of a mount.
    pub fn open_file<V: Volume>(&self, name: &str, volume: V) -> OpenFile<V> {
        OpenFiles::open(&self.files, name, volume)
    }

    /// Returns the cache of snapshot directories that mounts share.
    pub fn directories(&self) -> &Arc<Directories> {
        &self.directories
    }

    /// Returns the number of connections and open files that use an export.
    pub fn clients(&self, export: &str) -> usize {
        let servers = self.servers.lock();
        let connections = servers.iter().map(|server| server.clients(export));
        connections.sum::<usize>() + self.sessions(export) + self.files.count(export)
    }

    /// The same without connections whose client has disconnected already.
    pub fn clients_connected(&self, export: &str) -> usize {
        let servers = self.servers.lock();
        let connected = |server: &ServerHandle| server.clients_connected(export);
        let connections: usize = servers.iter().map(connected).sum();
        connections + self.sessions(export) + self.files.count(export)
    }

    /// Refuses to open an export until the result is dropped. Commands that change what an export
    /// is call this before they disconnect its clients.
    pub fn begin_change(&self, export: &str) -> Changing {
        Changes::begin(&self.changes, export)
    }

    /// Returns true if clients must not open the export now.
    pub fn is_changing(&self, export: &str) -> bool {
        self.changes.has(export)
    }

    /// Disconnects the clients of an export and returns their number. When this returns, none of
    /// their requests is executed any more, unless one takes longer than [`CLOSE_LIMIT`]. Open
    /// files fail from now on.
    pub fn disconnect(&self, export: &str) -> usize {
        let closed = self.close_export(export) + self.files.disconnect(export);
        let target = target_of(export);
        // Not under the lock: `status` needs it meanwhile.
        let servers = self.target_servers.lock();
        let closers: Vec<_> = servers.iter().map(|server| server.closer()).collect();
        drop(servers);
        let asked = closers.iter().map(|closer| closer.close_target(&target));
        let asked: usize = asked.sum();
        let servers = self.servers.lock();
        for server in &*servers {
            if !server.wait_for_none(export, CLOSE_LIMIT) {
                server.drop_export(export);
                server.wait_for_none(export, CLOSE_LIMIT);
            }
        }
        drop(servers);
        closed + asked
    }

    /// Closes the NBD connections of an export, and returns their number.
    fn close_export(&self, export: &str) -> usize {
        let servers = self.servers.lock();
        let closed = servers.iter().map(|server| server.close_export(export));
        closed.sum()
    }
}

/// An open pool with a hold and, for writers, the writer lock.
pub struct OpenPool {
    pool: Arc<Pool>,
    /// Keeps containers from deletion while the command refers to what its names reach.
    _hold: Option<Hold>,
    /// Fields drop in order: the writer lock is released after the hold.
    _guard: Option<WriterGuard>,
}

impl From<Pool> for OpenPool {
    fn from(pool: Pool) -> Self {
        Self {
            pool: Arc::new(pool),
            // A pool that this process opened has its own hold, or the pool's lock.
            _hold: None,
            _guard: None,
        }
    }
}

impl Deref for OpenPool {
    type Target = Arc<Pool>;

    fn deref(&self) -> &Arc<Pool> {
        &self.pool
    }
}
