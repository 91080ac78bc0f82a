//! One run of the program: its settings, its streams, and the way into the pool.

use super::opened::Opened;
use super::readers;
use super::unlocking::{Door, Opening, Visit};
use crate::caller::Caller;
use crate::console::Console;
use crate::control::{IN_A_TURN_LIMIT, Leases};
use crate::exit::Exit;
use crate::held::{Held, JOURNAL_BYTES_DEFAULT, OpenPool, OpenVolumes, lost_writes, open_volumes};
use crate::interrupt::Interrupt;
use crate::memory_plan::MemoryPlan;
use crate::progress::Progress;
use crate::settings::{Environment, OtherPool, PasswordSources, Settings, parse_compression};
use anyhow::{Context, anyhow};
use device::{DeviceQueue, PacedDisk, RequestQueue, Writes, flow_of};
use format::config::Seal;
use jiff::tz::TimeZone;
use maintenance::CollectMemory;
use media::{Asker, Clock, DirBlobs, LocalDisk, Media, Syncing, SystemClock, SystemRandom};
use parking_lot::Mutex;
use qos::Flow;
use std::borrow::Cow;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::{
    DamageHints, LaneOptions, OpenMode, Pool, SecretKey, SlotInfo, StoreError, StoreErrorKind,
};
use units::Origin;
use volumes::Volumes;

/// Threads that write and sync containers: the disk overlaps their syncs.
const WRITER_THREADS: usize = 2;
/// Containers that may wait for them.
const WRITER_QUEUE: usize = 3;
/// Size at which containers are closed, bytes.
const CONTAINER_BYTES: usize = 16 << 20;

/// See the module's head.
pub(super) struct Invocation {
    /// Checked settings.
    pub settings: Settings,
    /// Who runs it.
    pub caller: Caller,
    /// All output.
    pub console: Arc<Console>,
    /// The caller's wish to stop.
    pub interrupt: Interrupt,
    /// The user's time zone.
    pub zone: TimeZone,
    /// The pool, in the server that holds it.
    held: Option<Arc<Held>>,
    /// What it uses the device for.
    origin: Origin,
    /// Where the pools that it opened leave what was found damaged.
    hints: Mutex<Vec<Arc<DamageHints>>>,
    /// Of the pools that it opened: containers that parity restored for it.
    restored: Mutex<Vec<Arc<AtomicU64>>>,
    /// Pools that were opened here.
    visits: Mutex<Vec<Visit>>,
}

/// Turns at the device of the server that has the pool in that directory, whenever there is one. Who asks may have a
/// turn at another one's device.
pub(super) fn leases_of(
    pool: &Path,
    flow: Flow,
    interrupt: &Interrupt,
    may_have_turn: bool,
) -> io::Result<Arc<dyn RequestQueue>> {
    let leases = Leases::new(std::path::absolute(pool)?, flow, interrupt.clone());
    Ok(Arc::new(match may_have_turn {
        true => leases.within(IN_A_TURN_LIMIT),
        false => leases,
    }))
}

/// What cannot be looked at is another one.
fn is_one_device(a: &Path, b: &Path) -> bool {
    matches!((a.metadata(), b.metadata()), (Ok(a), Ok(b)) if a.dev() == b.dev())
}

impl Invocation {
    pub fn new(
        settings: Settings,
        caller: Caller,
        console: Arc<Console>,
        held: Option<Arc<Held>>,
        origin: Origin,
    ) -> Self {
        Self {
            settings,
            interrupt: caller.interrupt.clone(),
            zone: caller.zone(),
            caller,
            console,
            held,
            origin,
            hints: Mutex::default(),
            visits: Mutex::default(),
            restored: Mutex::default(),
        }
    }

    /// Says at the end what readers of the command could only have with parity.
    pub fn tell_restored(&self) {
        let opened = self.restored.lock();
        let containers: u64 = opened.iter().map(|n| n.load(Ordering::Relaxed)).sum();
        if containers > 0 {
            self.console.warn(format_args!(
                "{containers} containers are damaged, and parity restored what was read of them; \
                 put them back with quintet scrub, and look after the disk"
            ));
        }
    }

    /// The pool's storage; `create` makes its directory.
    pub fn media(&self, create: bool) -> anyhow::Result<Media> {
        self.media_behind(None, create)
    }

    /// The same, with a queue in front of the device.
    fn media_behind(
        &self,
        queue: Option<Arc<dyn RequestQueue>>,
        create: bool,
    ) -> anyhow::Result<Media> {
        Self::media_at(self.settings.pool()?, queue, create)
    }

    fn media_at(
        path: &Path,
        queue: Option<Arc<dyn RequestQueue>>,
        create: bool,
    ) -> anyhow::Result<Media> {
        // A server's threads have other working directories.
        let path = &std::path::absolute(path)?;
        let disk = LocalDisk::new(path);
        if create {
            disk.create_top()
                .context("cannot make the pool's directory")?;
        } else if !path.is_dir() {
            let why = format!("{} is not a directory (see quintet init)", path.display());
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
            blobs: Arc::new(DirBlobs::new(behind(Writes::TakeTurns), syncing)),
            disk: behind(Writes::Pass),
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
        })
    }

    /// Opens the pool; asks for the password only when it is encrypted. Says what was found
    /// damaged on the way. In a server: the pool that it has, when it is this command's turn.
    pub fn open(&self, mode: OpenMode) -> anyhow::Result<OpenPool> {
        let pool = self.open_silently(mode)?;
        // What a server found it has said itself.
        if self.held.is_none() {
            self.tell_notes(&pool);
        }
        Ok(pool)
    }

    /// As [`Invocation::open`], for commands that show the notes themselves.
    pub fn open_silently(&self, mode: OpenMode) -> anyhow::Result<OpenPool> {
        match (&self.held, mode) {
            (None, _) => {
                let memory = self.settings.memory_bytes;
                Ok(self.open_own(None, mode, memory)?.into())
            }
            (Some(held), OpenMode::Read) => {
                self.check_held(held)?;
                Ok(held.for_reading())
            }
            (Some(held), OpenMode::Write) => {
                self.check_held(held)?;
                let waiting = || {
                    let why = "waiting for another command that writes to the pool";
                    self.console.note(why);
                };
                Ok(held.for_writing(&self.interrupt, waiting)?)
            }
        }
    }

    /// As [`Invocation::open`], for commands that hold the pool themselves, and need part of the
    /// memory.
    pub fn open_within(&self, mode: OpenMode, memory_bytes: usize) -> anyhow::Result<Pool> {
        let pool = self.open_own(None, mode, memory_bytes)?;
        self.tell_notes(&pool);
        Ok(pool)
    }

    /// As [`Invocation::open_for_volumes`], for a server: who uses the device takes turns.
    pub fn open_behind(&self, queue: &Arc<DeviceQueue>, plan: &MemoryPlan) -> anyhow::Result<Pool> {
        let pool = self.open_own(Some(queue), OpenMode::Write, plan.pool_bytes)?;
        self.tell_notes(&pool);
        Ok(pool)
    }

    /// Opens another pool in this process; also says with which secret, if it needs one.
    pub fn open_other(
        &self,
        other: &OtherPool,
        mode: OpenMode,
        memory_bytes: usize,
    ) -> anyhow::Result<(Pool, Option<SecretKey>)> {
        let queue = self.queue_of_other(&other.path, mode)?;
        let media = Self::media_at(&other.path, queue, false)?;
        let door = Door {
            path: &other.path,
            password: &other.password,
            sources: other.sources,
            is_unencrypted: other.is_unencrypted,
            accepts_changed: self.settings.accepts_changed,
        };
        let (pool, secret) = self.enter(&door, media, mode, memory_bytes)?;
        for note in pool.notes() {
            let path = other.path.display();
            self.console.warn(format_args!("{path}: {note}"));
        }
        Ok((pool, secret))
    }

    /// Where reads of another pool take turns, and what is stored there: at the server that has it, or, when this one
    /// writes to it and both lie on one device, here.
    fn queue_of_other(
        &self,
        path: &Path,
        mode: OpenMode,
    ) -> anyhow::Result<Option<Arc<dyn RequestQueue>>> {
        if mode == OpenMode::Read {
            let flow = flow_of(Asker::of(self.origin));
            let leases = leases_of(path, flow, &self.interrupt, self.held.is_some())?;
            return Ok(Some(leases));
        }
        let held = self.held.as_ref();
        let held = held.filter(|held| is_one_device(&held.path, path));
        Ok(held.map(|held| Arc::clone(&held.device) as _))
    }

    /// Opens the pool in that directory, behind that queue.
    pub fn open_at(
        path: &Path,
        secret: Option<&SecretKey>,
        mode: OpenMode,
        memory_bytes: usize,
        queue: Option<Arc<dyn RequestQueue>>,
    ) -> anyhow::Result<Pool> {
        let media = Self::media_at(path, queue, false)?;
        let unlocked = Pool::unlock(&media, secret)?;
        if secret.is_some() && unlocked.config().seal == Seal::None {
            // Another pool has taken its place since the secret opened it.
            let why = format!("{}: the pool is not encrypted any more", path.display());
            return Err(StoreError::new(StoreErrorKind::WrongKey, why).into());
        }
        Ok(readers::open(media, unlocked, mode, memory_bytes)?)
    }

    fn tell_notes(&self, pool: &Pool) {
        for note in pool.notes() {
            self.console.warn(format_args!("pool: {note}"));
        }
        if let Some(why) = pool.unheld() {
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
                let flow = flow_of(Asker::of(self.origin));
                let pool = self.settings.pool()?;
                let leases = leases_of(pool, flow, &self.interrupt, self.held.is_some())?;
                Some(leases)
            }
            // Nobody else has it.
            (None, OpenMode::Write) => None,
        };
        let media = self.media_behind(queue, false)?;
        let door = self.door()?;
        let (pool, _) = self.enter(&door, media, mode, memory)?;
        if mode == OpenMode::Write {
            // A cache: without it status knows no trend.
            let _ = CollectMemory::note_size(&pool);
        }
        let mut hints = self.hints.lock();
        hints.push(Arc::clone(pool.damage_hints()));
        drop(hints);
        let mut opened = self.restored.lock();
        opened.push(pool.found_restorable());
        drop(opened);
        Ok(pool)
    }

    /// At the end: leaves what was found damaged for the next writer, and says if that cannot be.
    pub fn leave_hints(&self) {
        let hints = self.hints.lock();
        for why in hints.iter().filter_map(|hints| hints.flush()) {
            self.console.warn(format_args!(
                "the damage that was found cannot be noted in the pool, so the next backup does not know of it: run \
                 quintet repair as a user who may write there ({why})"
            ));
        }
    }

    /// The way into the pool that the command is about.
    fn door(&self) -> anyhow::Result<Door<'_>> {
        Ok(Door {
            path: self.settings.pool()?,
            password: &self.settings.password,
            sources: PasswordSources::OPEN,
            is_unencrypted: self.settings.is_unencrypted,
            accepts_changed: self.settings.accepts_changed,
        })
    }

    /// Opens a pool in this process, and says when it is not the one that it was.
    fn enter(
        &self,
        door: &Door<'_>,
        media: Media,
        mode: OpenMode,
        memory_bytes: usize,
    ) -> anyhow::Result<(Pool, Option<SecretKey>)> {
        let environment = self.own_environment();
        let opening = door.unlock(&media, &self.caller, &environment, &self.console)?;
        let Opening {
            unlocked,
            secret,
            mut visit,
        } = opening;
        let pool = readers::open(media, unlocked, mode, memory_bytes)?;
        visit.entered(&pool, door.path, &self.console);
        let mut visits = self.visits.lock();
        visits.push(visit);
        drop(visits);
        Ok((pool, secret))
    }

    /// Of this process, also when it runs a command for somebody else.
    pub fn own_environment(&self) -> Cow<'_, Environment> {
        match self.held {
            None => Cow::Borrowed(&self.caller.environment),
            Some(_) => Cow::Owned(Environment::of_process()),
        }
    }

    /// Remembers the pools that were opened here, at the end of a run.
    pub fn remember_pools(&self) {
        let visits = self.visits.lock();
        let now = SystemClock.now();
        visits.iter().for_each(|visit| visit.remember(now));
    }

    /// Through a server too, who gives a password is not served a pool without encryption.
    fn check_held(&self, held: &Held) -> anyhow::Result<()> {
        if held.pool.config().seal == Seal::None {
            self.door()?.refuse_clear(None)?;
        }
        Ok(())
    }

    /// Opens the volumes, to change them. In a server: those that it has open.
    pub fn open_volumes(&self) -> anyhow::Result<OpenVolumes> {
        if let Some(held) = &self.held {
            self.check_held(held)?;
            return Ok(OpenVolumes::of_server(held));
        }
        let pool = self.open_for_volumes()?;
        let volumes = self.volumes_of(pool, &self.memory_plan(), JOURNAL_BYTES_DEFAULT)?;
        Ok(OpenVolumes::own(volumes))
    }

    /// What a collector works on, beside whoever else writes: in a server without a turn.
    pub fn open_to_collect(&self) -> anyhow::Result<Opened> {
        if let Some(held) = &self.held {
            self.check_held(held)?;
            return Ok(Opened::Volumes(OpenVolumes::of_server(held)));
        }
        let pool = self.open_for_volumes()?;
        if pool.volumes()?.is_empty() {
            return Ok(Opened::Pool(Box::new(pool)));
        }
        let volumes = self.volumes_of(pool, &self.memory_plan(), JOURNAL_BYTES_DEFAULT)?;
        Ok(Opened::Volumes(OpenVolumes::own(volumes)))
    }

    /// How this process divides its memory when it opens volumes for one command.
    pub fn memory_plan(&self) -> MemoryPlan {
        MemoryPlan::of(self.settings.memory_bytes, JOURNAL_BYTES_DEFAULT)
    }

    /// Opens the pool for writing, in this process, and leaves memory for its volumes.
    pub fn open_for_volumes(&self) -> anyhow::Result<Pool> {
        self.open_within(OpenMode::Write, self.memory_plan().pool_bytes)
    }

    /// Opens the volumes of that pool; says what the journal has lost.
    pub fn volumes_of(
        &self,
        pool: Pool,
        plan: &MemoryPlan,
        journal_bytes: u64,
    ) -> anyhow::Result<Volumes> {
        let compression = self.settings.compression;
        let volumes = open_volumes(Arc::new(pool), plan, journal_bytes, compression)?;
        for lost in lost_writes(&volumes) {
            self.console.warn(format_args!("{lost}"));
        }
        Ok(volumes)
    }

    /// What the server holds that runs this.
    pub fn held(&self) -> Option<&Arc<Held>> {
        self.held.as_ref()
    }

    /// The server that runs this; an error without one, which says what there is `instead`, or that there is no pool
    /// at all: that has its own exit code.
    pub fn server(&self, instead: &str) -> anyhow::Result<&Arc<Held>> {
        if self.held.is_none() {
            self.media(false)?;
        }
        let none = || anyhow!("no server holds this pool: {instead}");
        self.held.as_ref().ok_or_else(none)
    }

    /// Key slots, and the one that opens with what the user gave; none without encryption. In a
    /// server that is another one than it was itself opened with, maybe.
    pub fn keys(&self, pool: &Pool) -> anyhow::Result<(Vec<SlotInfo>, Option<SlotInfo>)> {
        let (slots, opened_with) = pool.keys()?;
        if self.held.is_none() || opened_with.is_none() {
            return Ok((slots, opened_with));
        }
        let secret = self.settings.password.read(&self.caller)?;
        Ok((slots, pool.slot_of(&secret)?))
    }

    /// Starts counters and their display.
    pub fn progress(&self, action: &'static str) -> Progress {
        self.progress_shown(action, false)
    }

    /// As [`Invocation::progress`], once a second also where no terminal is, if `shown`.
    pub fn progress_shown(&self, action: &'static str, shown: bool) -> Progress {
        let lines = shown && !self.console.paints();
        let fps = self.settings.progress_fps.or(lines.then_some(1.0));
        Progress::start(&self.console, &self.interrupt, action, fps)
    }

    /// Threads for the work of one command.
    pub fn workers(&self) -> usize {
        std::thread::available_parallelism().map_or(2, usize::from)
    }

    /// How new data are packed.
    pub fn lane(
        &self,
        compression: Option<&str>,
        region_bytes: usize,
    ) -> anyhow::Result<LaneOptions> {
        let compression = match compression {
            Some(text) => parse_compression(text)
                .map_err(anyhow::Error::msg)
                .context("--compression")?,
            None => self.settings.compression,
        };
        Ok(LaneOptions {
            compression,
            region_bytes,
            container_bytes: CONTAINER_BYTES,
        })
    }

    /// Name of the host that a new snapshot is of.
    pub fn host(&self, given: Option<&str>) -> String {
        if let Some(host) = given {
            return host.to_owned();
        }
        match rustix::system::uname().nodename().to_string_lossy() {
            name if name.is_empty() => "localhost".to_owned(),
            name => name.into_owned(),
        }
    }

    /// Name of the user who runs this, or the number.
    pub fn user(&self) -> String {
        let named = ["USER", "LOGNAME"]
            .iter()
            .find_map(|name| self.caller.environment.text(name).ok().flatten());
        named.unwrap_or_else(|| rustix::process::geteuid().as_raw().to_string())
    }

    /// The time of a new snapshot.
    pub fn time(&self, given: Option<&str>, pool: &Pool) -> anyhow::Result<units::UnixNanos> {
        match given {
            Some(text) => crate::calendar::parse_time(text, &self.zone).context("--time"),
            None => Ok(pool.now()),
        }
    }
}

/// Name and version, as snapshots record it.
pub(super) fn program() -> String {
    format!("quintet {}", env!("CARGO_PKG_VERSION"))
}

/// Of runs whose only trouble was with single files.
pub(super) fn done_or_partly(failures: u64) -> Exit {
    match failures {
        0 => Exit::Done,
        _ => Exit::Partly,
    }
}
