//! The pool of one command: opened for it, or held by the server that runs it.
//!
//! Invariant: commands that write to a held pool take turns, in the order in which they came, as the
//! pool's lock makes processes refuse each other; so each sees the snapshots that it changes. Volumes
//! need no turn: their room lets changes of names follow each other. Called by the commands and the
//! server.

mod collecting;
mod copies;
mod defragging;
mod findings;
mod live;
mod open_files;
mod replica;
mod scrubbing;
mod task_bytes;
mod task_host;
mod tasks;
mod trouble;
mod turns;
mod volumes;

pub use collecting::{
    CollectStatus, CollectTotals, Collected, Collecting, Collection, Initiator, fold, seconds,
};
pub use copies::{Copies, CopyEntry, CopyState};
pub use defragging::{DefragStatus, Defragmenting, Outcome};
pub use findings::Found;
pub use live::{ExportReading, Live};
pub use task_bytes::TaskBytes;
pub use task_host::TaskHost;
pub use tasks::TaskReading;
pub use volumes::{
    JOURNAL_BYTES_DEFAULT, OpenVolumes, REGION_BYTES, lost_writes, named, open_volumes,
    recorded_losses, unacknowledged_losses,
};

use crate::interrupt::{Interrupt, Interrupted};
use crate::memory_plan::MemoryPlan;
use crate::meters::Meter;
use crate::mount::Directories;
use crate::settings::Shares;
use ::volumes::Volumes;
use device::{DeviceQueue, StepTurn};
use nbd::ServerHandle;
use open_files::OpenFile;
pub use open_files::OpenFiles;
use qos::{Flow, InvalidShares};
pub use replica::Replica;
use scrubbing::Scrubbing;
use std::collections::BTreeMap;
use std::io;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use store::{Hold, Pool};
pub use trouble::Trouble;
use turns::{Turn, Turns};
use volume::Volume;

/// Waits for a turn at the device, between looks at the wish to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What a server holds.
pub struct Held {
    /// Directory of the pool.
    pub path: PathBuf,
    /// Open for writing.
    pub pool: Arc<Pool>,
    /// Its volumes, open.
    pub volumes: Arc<Volumes>,
    /// When that was.
    pub since: Instant,
    /// Its verification.
    pub scrub: Scrubbing,
    /// Giving back its space.
    pub collecting: Collecting,
    /// Its defragmentation.
    pub defrag: Defragmenting,
    /// Where all that uses the pool's device takes turns.
    pub device: Arc<DeviceQueue>,
    shares: Mutex<Shares>,
    /// Who gets how much memory.
    pub memory: MemoryPlan,
    /// Copies to other pools.
    pub copies: Arc<Copies>,
    turns: Arc<Turns>,
    /// What volumes were asked to store and could not.
    pub refused: Arc<Trouble>,
    /// Checkpoints that could not be made.
    pub stuck: Trouble,
    /// Of every name that was ever opened by a client.
    meters: Mutex<BTreeMap<String, Arc<Meter>>>,
    servers: Mutex<Vec<ServerHandle>>,
    findings: findings::LastFindings,
    files: Arc<OpenFiles>,
    directories: Arc<Directories>,
}

impl Held {
    /// Takes volumes and their pool, in this directory, over from whoever opened them behind this queue,
    /// with these shares and this much memory.
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
            defrag: Defragmenting::of(&volumes),
            device,
            shares: Mutex::new(shares),
            pool,
            volumes,
            since: Instant::now(),
            copies: Arc::default(),
            turns: Arc::default(),
            refused: Arc::default(),
            stuck: Trouble::default(),
            meters: Mutex::default(),
            servers: Mutex::default(),
            findings: findings::LastFindings::default(),
            files: Arc::default(),
        }
    }

    /// Who gets how much of the device.
    pub fn shares(&self) -> Shares {
        *lock(&self.shares)
    }

    /// Others from now on.
    pub fn set_shares(&self, shares: Shares) -> Result<(), InvalidShares> {
        let mut before = lock(&self.shares);
        self.device.set(shares.plan)?;
        *before = shares;
        drop(before);
        // It may be time for one now.
        self.scrub.wake();
        Ok(())
    }

    /// A turn of maintenance at the device, for one step of about so many bytes. Waits for it, until
    /// somebody asks to stop.
    pub fn turn(
        &self,
        flow: Flow,
        bytes: u64,
        interrupt: &Interrupt,
    ) -> Result<StepTurn<'_>, Interrupted> {
        let mut turn = self.device.ask(flow, bytes);
        while !turn.wait(LOOK_EVERY) {
            interrupt.check()?;
        }
        Ok(turn)
    }

    /// The pool, for reading.
    pub fn for_reading(&self) -> OpenPool {
        OpenPool {
            // Before any name is read: what it leads to stays while the command runs.
            _hold: Some(self.pool.hold()),
            pool: Arc::clone(&self.pool),
            _turn: None,
        }
    }

    /// The pool, when it is this command's turn to write. `waiting` is called when others are before.
    pub fn for_writing(
        &self,
        interrupt: &Interrupt,
        waiting: impl FnOnce(),
    ) -> io::Result<OpenPool> {
        let turn = Turns::take(&self.turns, interrupt, waiting)?;
        // Readers beside this server may have found damage.
        self.pool.take_up_news();
        Ok(OpenPool {
            // Before any name is read that the command may refer to.
            _hold: Some(self.pool.hold()),
            pool: Arc::clone(&self.pool),
            _turn: Some(turn),
        })
    }

    /// What measures the requests for an export.
    pub fn meter(&self, export: &str) -> Arc<Meter> {
        let mut meters = lock(&self.meters);
        let new = || Arc::new(Meter::telling(&self.refused));
        Arc::clone(meters.entry(export.to_owned()).or_insert_with(new))
    }

    /// Reads that clients have asked for so far.
    pub fn reads_asked(&self) -> u64 {
        lock(&self.meters).values().map(|meter| meter.reads()).sum()
    }

    /// What cannot be done at the moment, for people; empty when all is well.
    pub fn failing(&self) -> Vec<String> {
        let refused = self.refused.read();
        let refused = refused.map(|what| format!("writes to volumes fail: {what}"));
        let stuck = self.stuck.read();
        let stuck = stuck.map(|what| format!("checkpoints fail: {what}"));
        refused.into_iter().chain(stuck).collect()
    }

    /// Serves NBD here too, until [`Held::take_servers`].
    pub fn add_server(&self, server: ServerHandle) {
        lock(&self.servers).push(server);
    }

    /// The NBD servers, to stop them.
    pub fn take_servers(&self) -> Vec<ServerHandle> {
        std::mem::take(&mut *lock(&self.servers))
    }

    /// A volume as an open file of a mount.
    pub fn open_file<V: Volume>(&self, name: &str, volume: V) -> OpenFile<V> {
        OpenFiles::open(&self.files, name, volume)
    }

    /// Directories of snapshots that mounts have in memory.
    pub fn directories(&self) -> &Arc<Directories> {
        &self.directories
    }

    /// Connections and open files that use an export.
    pub fn clients(&self, export: &str) -> usize {
        let servers = lock(&self.servers);
        let connections = servers.iter().map(|server| server.clients(export));
        connections.sum::<usize>() + self.files.count(export)
    }

    /// Ends the connections that use an export, when what they asked for was answered, and lets its
    /// open files fail.
    pub fn disconnect(&self, export: &str) -> usize {
        let servers = lock(&self.servers);
        let closed = servers.iter().map(|server| server.close_export(export));
        closed.sum::<usize>() + self.files.disconnect(export)
    }
}

/// An open pool, and the right to it.
pub struct OpenPool {
    pool: Arc<Pool>,
    /// Keeps what the pool's names reach while the command refers to it.
    _hold: Option<Hold>,
    /// Given back after everything else of the command.
    _turn: Option<Turn>,
}

impl From<Pool> for OpenPool {
    fn from(pool: Pool) -> Self {
        Self {
            pool: Arc::new(pool),
            // Nobody else writes.
            _hold: None,
            _turn: None,
        }
    }
}

impl Deref for OpenPool {
    type Target = Arc<Pool>;

    fn deref(&self) -> &Arc<Pool> {
        &self.pool
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
