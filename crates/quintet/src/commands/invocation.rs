//! One run of a command: its settings, its shell, and how it opens pools. Every command gets one.
//!
//! Invariant: a command that runs in a server uses the server's pool and volumes. Otherwise the
//! process opens them itself, and its reads ask the pool's server, if there is one, for I/O grants.
//! Damage that is found is left for the next writer.
//!
//! ```text
//! open, open_to_collect ---+-- in a server: held.access.for_reading, for_writing (writer lock)
//!                          +-- else: Door::unlock --> readers::open --> Pool
//! open_other, open_at -------- replica, receiving pool: always in this process
//! ```

use super::failure;
use super::opened::Opened;
use super::readers;
use super::writer_wait;
use crate::progress::ArchiveProgress;
use crate::rate_limit::ReadLimit;
use crate::settings::{OtherPool, Settings, parse_compression};
use anyhow::{Context, anyhow};
use device::{DeviceQueue, PacedDisk, RequestQueue, Writes, flow_of};
use format::config::Seal;
use maintenance::CollectMemory;
use media::{Clock, DirBlobs, IoOrigin, LocalDisk, Media, Syncing, SystemClock, SystemRandom};
use parking_lot::Mutex;
use qos::Flow;
use server::control::{IN_A_GRANT_LIMIT, Leases};
use server::memory_plan::MemoryPlan;
use server::state::{JOURNAL_BYTES_DEFAULT, OpenPool, OpenVolumes};
use server::state::{ServerState, VolumesWanted, open_volumes};
use server::threads::Background;
use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::ops::{ControlFlow, Deref};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::{
    DamageHints, LaneOptions, OpenMode, Pool, SecretKey, SlotInfo, StoreError, StoreErrorKind,
    Watch,
};
use terminal::command_context::CommandContext;
use terminal::console::Console;
use terminal::environment::Environment;
use terminal::exit::Exit;
use terminal::interrupt::Interrupt;
use terminal::shell::Shell;
use units::Origin;
use unlocking::writer::{PoolWriter, Wait, unlock_again, words_shown};
use unlocking::{KnownPoolWriter, LockedPool, Opening, PasswordSources};
use volumes::Volumes;
use volumes::loss_messages::lost_writes;

/// Leftovers of interrupted runs that take seconds to verify, bytes: a note says so.
const LEFTOVERS_SAID: u64 = 256 << 20;
/// Number of threads that write and sync containers, so that the device overlaps their syncs.
const WRITER_THREADS: usize = 2;
/// Maximum number of containers that wait for these threads.
const WRITER_QUEUE: usize = 3;
/// Size at which containers are closed, bytes.
const CONTAINER_BYTES: usize = 16 << 20;

/// One run of a command. See the module's head.
pub(super) struct Invocation {
    /// Checked settings.
    pub settings: Settings,
    /// The user's side of the command.
    shell: Shell,
    /// The server state, if a server runs the command.
    server: Option<Arc<ServerState>>,
    /// I/O origin of the command.
    origin: Origin,
    /// The command line.
    pub arguments: Vec<OsString>,
    /// Name of the command, for commands that wait for it in the server.
    name: String,
    /// Where the opened pools collect damage for the next writer.
    hints: Mutex<Vec<Arc<DamageHints>>>,
    /// Numbers of containers that parity restored for reads of the opened pools.
    restored: Mutex<Vec<Arc<AtomicU64>>>,
    /// Limit of reads from the pool.
    pub read_limit: ReadLimit,
    /// Pools that this run opened, to be remembered.
    visits: Mutex<Vec<KnownPoolWriter>>,
    /// Threads that end with the command.
    pub(super) threads: Mutex<Vec<Background>>,
}

/// A command uses its shell as its own.
impl Deref for Invocation {
    type Target = Shell;

    fn deref(&self) -> &Shell {
        &self.shell
    }
}

/// Returns a queue of leases at the server of the pool in this directory, whenever there is one.
/// `may_wait`: the caller may hold an I/O grant of another server, so waiting has a limit.
pub(super) fn leases_of(
    pool: &Path,
    flow: Flow,
    interrupt: &Interrupt,
    may_wait: bool,
) -> io::Result<Arc<dyn RequestQueue>> {
    let leases = Leases::new(std::path::absolute(pool)?, flow, interrupt.clone());
    Ok(Arc::new(match may_wait {
        true => leases.within(IN_A_GRANT_LIMIT),
        false => leases,
    }))
}

/// Returns true if both paths are on one device. A path that cannot be examined counts as another
/// device.
fn is_one_device(a: &Path, b: &Path) -> bool {
    matches!((a.metadata(), b.metadata()), (Ok(a), Ok(b)) if a.dev() == b.dev())
}

impl Invocation {
    pub fn new(
        settings: Settings,
        context: CommandContext,
        console: Arc<Console>,
        server: Option<Arc<ServerState>>,
        (origin, arguments): (Origin, &[OsString]),
    ) -> Self {
        let writer = PoolWriter {
            process: context.client,
            words: words_shown(arguments),
        };
        Self {
            arguments: arguments.to_vec(),
            name: writer.to_string(),
            shell: Shell::new(context, console, settings.progress_fps),
            settings,
            server,
            origin,
            hints: Mutex::default(),
            visits: Mutex::default(),
            threads: Mutex::default(),
            restored: Mutex::default(),
            read_limit: ReadLimit::default(),
        }
    }

    /// Warns at the end of a run about containers that could be read only with parity.
    pub fn tell_restored(&self) {
        let opened = self.restored.lock();
        let containers: u64 = opened.iter().map(|n| n.load(Ordering::Relaxed)).sum();
        if containers > 0 {
            self.console.warn(format_args!(
                "{}; parity restored the data that was read. Run quintet scrub to restore them, and check the disk",
                units::count(containers, "damaged container")
            ));
        }
    }

    /// Returns the pool's storage. `create` makes its directory.
    pub fn media(&self, create: bool) -> anyhow::Result<Media> {
        self.media_behind(None, create)
    }

    /// The same, with a queue before the device.
    fn media_behind(
        &self,
        queue: Option<Arc<dyn RequestQueue>>,
        create: bool,
    ) -> anyhow::Result<Media> {
        Self::media_at(self.settings.pool()?, queue, create)
    }

    /// The same for a pool in any directory.
    pub fn media_at(
        path: &Path,
        queue: Option<Arc<dyn RequestQueue>>,
        create: bool,
    ) -> anyhow::Result<Media> {
        // The threads of a server have other working directories.
        let path = &std::path::absolute(path)?;
        let disk = LocalDisk::new(path);
        if create {
            disk.create_top()?;
        } else if !path.is_dir() {
            let place = path.display();
            let why = match path.symlink_metadata() {
                Ok(_) => format!("there is no pool in {place}: it is not a directory"),
                Err(_) => format!(
                    "there is no pool in {place}: no such directory. Is its disk mounted? Create a \
                     new pool with quintet init"
                ),
            };
            return Err(StoreError::new(StoreErrorKind::NoPool, why).into());
        }
        let disk: Arc<dyn media::Disk> = Arc::new(disk);
        let syncing = Syncing::Threads {
            threads: WRITER_THREADS,
            queue: WRITER_QUEUE,
        };
        let behind = |writes| -> Arc<dyn media::Disk> {
            let disk = Arc::clone(&disk);
            match queue.clone() {
                Some(queue) => Arc::new(PacedDisk::new(disk, queue, writes)),
                None => disk,
            }
        };
        Ok(Media {
            blobs: Arc::new(DirBlobs::new(behind(Writes::WaitForGrants), syncing)),
            disk: behind(Writes::Pass),
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
        })
    }

    /// Opens the pool and prints its notes about damage. Asks for a password only if the pool is
    /// encrypted. In a server: returns the server's pool, for writing when the command has the
    /// writer lock.
    pub fn open(&self, mode: OpenMode) -> anyhow::Result<OpenPool> {
        let pool = self.open_silently(mode)?;
        // The server has printed its own notes.
        if self.server.is_none() {
            self.tell_notes(&pool);
        }
        Ok(pool)
    }

    /// Like [`Invocation::open`], for commands that print the notes themselves.
    pub fn open_silently(&self, mode: OpenMode) -> anyhow::Result<OpenPool> {
        match (&self.server, mode) {
            (None, _) => {
                let memory = self.settings.memory_bytes;
                Ok(self.open_own(None, mode, memory)?.into())
            }
            (Some(server), OpenMode::Read) => {
                self.check_held(server)?;
                Ok(server.access.for_reading())
            }
            (Some(server), OpenMode::Write) => {
                self.check_held(server)?;
                writer_wait::in_server(server, self, &self.name, self.settings.wait)
            }
        }
    }

    /// Like [`Invocation::open`], but always in this process and with `memory_bytes` of memory.
    pub fn open_within(&self, mode: OpenMode, memory_bytes: usize) -> anyhow::Result<Pool> {
        let pool = self.open_own(None, mode, memory_bytes)?;
        self.tell_notes(&pool);
        Ok(pool)
    }

    /// Like [`Invocation::open_for_volumes`], for a server: all I/O goes through `queue`.
    pub fn open_behind(&self, queue: &Arc<DeviceQueue>, plan: &MemoryPlan) -> anyhow::Result<Pool> {
        let pool = self.open_own(Some(queue), OpenMode::Write, plan.pool_bytes)?;
        self.tell_notes(&pool);
        Ok(pool)
    }

    /// Opens another pool in this process. Also returns the secret that opened it, if it is
    /// encrypted.
    pub fn open_other(
        &self,
        other: &OtherPool,
        mode: OpenMode,
        memory_bytes: usize,
    ) -> anyhow::Result<(Pool, Option<SecretKey>)> {
        let queue = self.queue_of_other(&other.path, mode)?;
        let media = Self::media_at(&other.path, queue, false)?;
        let door = LockedPool {
            path: &other.path,
            password: &other.password,
            sources: other.sources,
            is_unencrypted: other.is_unencrypted,
            accepts_changed: self.settings.accepts_changed,
        };
        let (pool, secret) = self.enter(&door, media, mode, memory_bytes)?;
        for note in pool.health().notes() {
            let path = other.path.display();
            self.console.warn(format_args!("{path}: {note}"));
        }
        Ok((pool, secret))
    }

    /// Returns the queue for I/O of another pool. Reads ask the server of that pool for I/O grants.
    /// Writes use this server's queue if both pools are on one device.
    fn queue_of_other(
        &self,
        path: &Path,
        mode: OpenMode,
    ) -> anyhow::Result<Option<Arc<dyn RequestQueue>>> {
        if mode == OpenMode::Read {
            let flow = flow_of(IoOrigin::of(self.origin));
            let leases = leases_of(path, flow, &self.interrupt, self.server.is_some())?;
            return Ok(Some(leases));
        }
        let server = self.server.as_ref();
        let server = server.filter(|server| is_one_device(&server.path, path));
        Ok(server.map(|server| Arc::clone(&server.device) as _))
    }

    /// Opens the pool in this directory, behind `queue`.
    pub fn open_at(
        path: &Path,
        secret: Option<&SecretKey>,
        mode: OpenMode,
        memory_bytes: usize,
        queue: Option<Arc<dyn RequestQueue>>,
    ) -> anyhow::Result<Pool> {
        let media = Self::media_at(path, queue, false)?;
        let unlocked = unlock_again(&media, path, secret)?;
        Ok(readers::open(media, unlocked, mode, memory_bytes)?)
    }

    fn tell_notes(&self, pool: &Pool) {
        for note in pool.health().notes() {
            self.console.warn(format_args!("pool: {note}"));
        }
        if let Some(why) = pool.holders().unheld() {
            self.console.note(readers::unheld(why));
        }
    }

    fn open_own(
        &self,
        queue: Option<&Arc<DeviceQueue>>,
        mode: OpenMode,
        memory: usize,
    ) -> anyhow::Result<Pool> {
        let queue: Option<Arc<dyn RequestQueue>> = match (queue, mode) {
            (Some(queue), _) => Some(Arc::clone(queue) as _),
            (None, OpenMode::Read) => {
                let flow = flow_of(IoOrigin::of(self.origin));
                let pool = self.settings.pool()?;
                let leases = leases_of(pool, flow, &self.interrupt, self.server.is_some())?;
                Some(self.read_limit.before(leases))
            }
            // A writer has the pool's lock, so there is no server to ask.
            (None, OpenMode::Write) => None,
        };
        let media = self.media_behind(queue, false)?;
        let door = self.door()?;
        let (pool, _) = self.enter(&door, media, mode, memory)?;
        if mode == OpenMode::Write {
            // The record is a cache for the growth trend of `status`: errors are ignored.
            let _ = CollectMemory::note_size(&pool);
        }
        let (hints, restored) = (pool.health().hints(), pool.health().found_restorable());
        self.hints.lock().push(Arc::clone(hints));
        self.restored.lock().push(restored);
        Ok(pool)
    }

    /// Leaves damage that was found for the next writer, at the end of a run. Warns if that is not
    /// possible.
    pub fn leave_hints(&self) {
        let hints = self.hints.lock();
        for why in hints.iter().filter_map(|hints| hints.flush()) {
            self.console.warn(format_args!(
                "cannot record the damage in the pool, so the next backup does not know of it: {why}. Run quintet repair as \
                 a user who may write to the pool"
            ));
        }
    }

    /// Returns how the command's own pool is unlocked.
    fn door(&self) -> anyhow::Result<LockedPool<'_>> {
        Ok(LockedPool {
            path: self.settings.pool()?,
            password: &self.settings.password,
            sources: PasswordSources::OPEN,
            is_unencrypted: self.settings.is_unencrypted,
            accepts_changed: self.settings.accepts_changed,
        })
    }

    /// Opens a pool in this process, and warns if it is not the pool or state that this machine
    /// remembers. For writing, waits for another process that writes.
    fn enter(
        &self,
        door: &LockedPool<'_>,
        media: Media,
        mode: OpenMode,
        memory_bytes: usize,
    ) -> anyhow::Result<(Pool, Option<SecretKey>)> {
        let environment = self.own_environment();
        let of_pool = |e| failure::of_pool(e, door.path);
        let warn = |warning: &dyn std::fmt::Display| self.console.warn(warning);
        let opening = door.unlock(&media, &self.context, &environment, &warn);
        let opening = opening.map_err(of_pool)?;
        let Opening {
            mut unlocked,
            secret,
            mut known_writer,
        } = opening;
        let mut wait = Wait::new(self, door.path, self.settings.wait);
        let pool = loop {
            unlocked = unlocked.watched(self.watch_leftovers());
            match readers::open(media.clone(), unlocked, mode, memory_bytes) {
                Ok(pool) => break pool,
                Err(e) if Wait::is_for(&e) => {
                    let again = wait.wait_for_lock(&media, secret.as_ref(), e);
                    unlocked = again.map_err(|e| of_pool(e.into()))?;
                }
                Err(e) => return Err(of_pool(e.into())),
            }
        };
        known_writer.entered(&pool, door.path, &warn);
        self.visits.lock().push(known_writer);
        Ok((pool, secret))
    }

    /// Shows that opening a pool reads what interrupted runs left, and stops it on request.
    fn watch_leftovers(&self) -> Watch {
        let (console, interrupt) = (Arc::clone(&self.console), self.interrupt.clone());
        let (mut progress, mut before) = (None, 0);
        Watch::new(move |done, total| {
            let progress = progress.get_or_insert_with(|| {
                if total >= LEFTOVERS_SAID {
                    let size = terminal::sizes::display(total);
                    console.note(format_args!(
                        "an interrupted run left {size}; they are verified once, so that this and later runs use them"
                    ));
                }
                let action = "verifying what an interrupted run left";
                let progress = terminal::progress::Progress::start(&console, &interrupt, action, None);
                progress.add_total(0, total);
                progress.totals_known();
                progress
            });
            progress.add_bytes(done.saturating_sub(before));
            before = done;
            match interrupt.requested() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })
    }

    /// Returns the environment of this process, even if it runs a command for a client: the files
    /// of remembered pools belong to this process's user.
    pub fn own_environment(&self) -> Cow<'_, Environment> {
        match self.server {
            None => Cow::Borrowed(&self.context.environment),
            Some(_) => Cow::Owned(Environment::of_process()),
        }
    }

    /// Remembers the pools that were opened here, at the end of a run.
    pub fn remember_pools(&self) {
        let visits = self.visits.lock();
        let now = SystemClock.now();
        visits
            .iter()
            .for_each(|known_writer| known_writer.remember(now));
    }

    /// In a server too, a client that gives a password is refused a pool without encryption.
    fn check_held(&self, server: &ServerState) -> anyhow::Result<()> {
        if server.pool.config().seal == Seal::None {
            self.door()?.refuse_clear(None)?;
        }
        Ok(())
    }

    /// Opens the volumes for changes. In a server: returns the server's volumes.
    pub fn open_volumes(&self) -> anyhow::Result<OpenVolumes> {
        if let Some(server) = &self.server {
            self.check_held(server)?;
            return Ok(OpenVolumes::of_server(server));
        }
        let pool = self.open_for_volumes()?;
        let volumes = self.volumes_of(pool, None)?;
        Ok(OpenVolumes::own(volumes))
    }

    /// Opens the pool or its volumes for gc or defragmentation. In a server: without the writer
    /// lock.
    pub fn open_to_collect(&self) -> anyhow::Result<Opened> {
        if let Some(server) = &self.server {
            self.check_held(server)?;
            return Ok(Opened::Volumes(OpenVolumes::of_server(server)));
        }
        let pool = self.open_for_volumes()?;
        if pool.volumes()?.is_empty() {
            return Ok(Opened::Pool(Box::new(pool)));
        }
        let volumes = self.volumes_of(pool, None)?;
        Ok(Opened::Volumes(OpenVolumes::own(volumes)))
    }

    /// Returns the memory plan of this process for a command with volumes.
    pub fn memory_plan(&self) -> MemoryPlan {
        MemoryPlan::of(self.settings.memory_bytes, JOURNAL_BYTES_DEFAULT)
    }

    /// Opens the pool for writing, in this process, with memory left for its volumes.
    pub fn open_for_volumes(&self) -> anyhow::Result<Pool> {
        self.open_within(OpenMode::Write, self.memory_plan().pool_bytes)
    }

    /// Opens the volumes of a pool, and warns about lost writes. `None`: without a server.
    pub fn volumes_of(
        &self,
        pool: Pool,
        wanted: Option<(&MemoryPlan, &VolumesWanted)>,
    ) -> anyhow::Result<Volumes> {
        let (pool, compression) = (Arc::new(pool), self.settings.compression);
        let (plan, usual) = (self.memory_plan(), VolumesWanted::default());
        let (plan, wanted) = wanted.unwrap_or((&plan, &usual));
        let volumes = open_volumes(pool, plan, compression, wanted)?;
        let lost = lost_writes(&volumes);
        lost.iter().for_each(|lost| self.console.warn(lost));
        Ok(volumes)
    }

    /// Returns the server state, if a server runs the command.
    pub fn server_state(&self) -> Option<&Arc<ServerState>> {
        self.server.as_ref()
    }

    /// Returns the server state. Without a server, fails with a message that says what to do
    /// `instead`. A missing pool fails with its own exit code.
    pub fn server(&self, instead: &str) -> anyhow::Result<&Arc<ServerState>> {
        if self.server.is_none() {
            self.media(false)?;
        }
        let none = || anyhow!("this pool has no server; {instead}");
        self.server.as_ref().ok_or_else(none)
    }

    /// Returns the key slots, and the slot that the user's secret opens. No slots without
    /// encryption. In a server the user's slot may differ from the one that the server was started
    /// with.
    pub fn keys(&self, pool: &Pool) -> anyhow::Result<(Vec<SlotInfo>, Option<SlotInfo>)> {
        let (slots, opened_with) = (pool.keys().list()?, pool.keys().opened_with());
        if self.server.is_none() || opened_with.is_none() {
            return Ok((slots, opened_with.cloned()));
        }
        let secret = self.settings.password.read(&self.context)?;
        Ok((slots, pool.keys().slot_of(&secret)?))
    }

    /// Starts counters and their display.
    pub fn progress(&self, action: &'static str) -> ArchiveProgress {
        self.shell.progress(action).into()
    }

    /// See [`Shell::progress_shown`].
    pub fn progress_shown(&self, action: &'static str, shown: bool) -> ArchiveProgress {
        self.shell.progress_shown(action, shown).into()
    }

    /// Returns the number of threads for the work of one command.
    pub fn workers(&self) -> usize {
        std::thread::available_parallelism().map_or(2, usize::from)
    }

    /// Returns how new data is compressed and grouped into regions and containers.
    pub fn lane(
        &self,
        compression: Option<&str>,
        region_bytes: usize,
    ) -> anyhow::Result<LaneOptions> {
        let compression = match compression {
            Some(text) => parse_compression(text)
                .map_err(anyhow::Error::msg)
                .context("invalid --compression")?,
            None => self.settings.compression,
        };
        Ok(LaneOptions {
            compression,
            region_bytes,
            container_bytes: CONTAINER_BYTES,
        })
    }

    /// Returns the time of a new snapshot.
    pub fn time(&self, given: Option<&str>, pool: &Pool) -> anyhow::Result<units::UnixNanos> {
        match given {
            Some(text) => {
                terminal::calendar::parse_time(text, &self.zone).context("invalid --time")
            }
            None => Ok(pool.now()),
        }
    }
}

/// Returns name and version of this program, as snapshots record them.
pub(super) fn program() -> String {
    format!("quintet {}", env!("CARGO_PKG_VERSION"))
}

/// Returns the exit code of a run in which this many files failed.
pub(super) fn done_or_partly(failures: u64) -> Exit {
    match failures {
        0 => Exit::Done,
        _ => Exit::Partly,
    }
}
