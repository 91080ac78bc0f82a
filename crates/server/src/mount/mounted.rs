//! One mount: started, served by threads of its own, ended.
//!
//! Invariant: what nobody serves does not stay mounted, and a place where somebody else has mounted
//! since is left alone. `mount` and `serve` start and end this.

use super::directories::Directories;
use super::disks::{Disks, Which};
use super::error::MountingError;
use super::place::mountpoint;
use super::pool_files::{PoolFiles, Source};
use super::snapshot_list::SnapshotList;
use crate::held::Held;
use crate::program::Program;
use archive::printable::printable;
use format::snapshot::Snapshot;
use fuse::{MountError, MountOptions, Session, SessionError, SessionOptions, Unmounter};
use jiff::tz::TimeZone;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use store::{Pool, StoreError};

/// What the user wants.
pub struct MountSettings<'a> {
    /// Directory of the pool.
    pub pool: &'a Path,
    /// Where its files are to be, as the user wrote it.
    pub mountpoint: &'a Path,
    /// Other users see them too.
    pub allow_other: bool,
    /// With `allow_other`: the kernel enforces modes and owners. If not, nobody writes.
    pub enforce: bool,
    /// In which the names of snapshots tell their times.
    pub zone: &'a TimeZone,
    /// Which snapshots are shown.
    pub shows: Box<dyn Fn(&Snapshot) -> bool + Send + Sync>,
}

/// What is shown.
pub struct Pools {
    /// The pool, open.
    pub pool: Arc<Pool>,
    /// Without it volumes are not shown.
    pub held: Option<Arc<Held>>,
    /// Directories of snapshots in memory.
    pub directories: Arc<Directories>,
}

impl Pools {
    /// All that a server holds.
    pub fn held(held: &Arc<Held>) -> Self {
        Self {
            pool: Arc::clone(&held.pool),
            held: Some(Arc::clone(held)),
            directories: Arc::clone(held.directories()),
        }
    }
}

/// See the module's head. Dropping it leaves the mount to the guard.
pub struct Mount {
    program: Arc<dyn Program>,
    mountpoint: PathBuf,
    unmounter: Unmounter,
    snapshots: Arc<SnapshotList>,
    /// Says how the session ended.
    ended: Receiver<Result<(), SessionError>>,
    _guard: Box<dyn Send>,
}

impl Mount {
    /// Mounts and serves. What `guard` makes for the mountpoint is kept as long as the mount; it
    /// should unmount what this process leaves when it is killed. `at_end` is called when the session
    /// ends, whoever ended it.
    pub fn start(
        settings: MountSettings<'_>,
        pools: &Pools,
        program: &Arc<dyn Program>,
        guard: impl FnOnce(&Path) -> io::Result<Box<dyn Send>>,
        at_end: impl FnOnce() + Send + 'static,
    ) -> Result<Self, MountingError> {
        let mountpoint = mountpoint(settings.pool, settings.mountpoint)?;
        let snapshots = snapshot_list(settings.shows, pools, program);
        let files = files(settings.zone, pools, program, &snapshots, &mountpoint);
        let enforce = settings.allow_other && settings.enforce;
        let writes = pools.held.is_some() && (enforce || !settings.allow_other);
        let options = MountOptions {
            name: "quintet".to_owned(),
            read_only: !writes,
            allow_other: settings.allow_other,
            enforce_permissions: enforce,
        };
        let mounted = fuse::mount(&mountpoint, &options);
        let mounted = mounted.map_err(|source| MountingError::Mount {
            place: mountpoint.display().to_string(),
            source,
        })?;
        let options = SessionOptions {
            writes,
            enforce_acls: enforce,
            ..SessionOptions::default()
        };
        let started = guard(&mountpoint).map_err(MountingError::from);
        let started = started.and_then(|guard| {
            let session = Session::start(mounted.device, files, &options)?;
            Ok((guard, serve(session, at_end)?))
        });
        let (guard, ended) = started.inspect_err(|_| {
            let _ = mounted.unmounter.unmount(true);
        })?;
        Ok(Self {
            program: Arc::clone(program),
            mountpoint,
            unmounter: mounted.unmounter,
            snapshots,
            ended,
            _guard: guard,
        })
    }

    /// Where it is, absolute.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// How many snapshots it shows now.
    pub fn snapshots(&self) -> usize {
        self.snapshots.now().len()
    }

    /// Unmounts, unless somebody has, and waits until all files are closed, at most so long.
    pub fn end(self, limit: Option<Duration>) -> Result<(), MountingError> {
        if let Some(ended) = self.wait(Some(Duration::ZERO))? {
            return Ok(ended?);
        }
        let done = match self.unmounter.unmount(false) {
            Err(MountError::Busy) => {
                self.program.warn(format_args!(
                    "files are in use: ending when they are closed, or at the next Ctrl-C"
                ));
                self.unmounter.unmount(true)
            }
            done => done,
        };
        if let Err(e) = done {
            let place = self.mountpoint.display();
            self.program
                .warn(format_args!("cannot unmount {place}: {e}"));
        }
        match self.wait(limit)? {
            Some(ended) => Ok(ended?),
            None => {
                let place = self.mountpoint.display();
                self.program
                    .warn(format_args!("files of {place} are still open"));
                Ok(())
            }
        }
    }

    fn wait(
        &self,
        limit: Option<Duration>,
    ) -> Result<Option<Result<(), SessionError>>, MountingError> {
        let ended = match limit {
            Some(limit) => self.ended.recv_timeout(limit),
            None => self.ended.recv().map_err(RecvTimeoutError::from),
        };
        match ended {
            Ok(ended) => Ok(Some(ended)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(MountingError::Ended),
        }
    }
}

/// Waits for the session's end on a thread of its own.
fn serve(
    session: Session,
    at_end: impl FnOnce() + Send + 'static,
) -> io::Result<Receiver<Result<(), SessionError>>> {
    let (say, ended) = channel();
    let thread = std::thread::Builder::new().name("mount".to_owned());
    thread.spawn(move || {
        // Who does not wait any more does not mind.
        let _ = say.send(session.wait());
        at_end();
    })?;
    Ok(ended)
}

/// What cannot be read is told and left out.
fn snapshot_list(
    shows: Box<dyn Fn(&Snapshot) -> bool + Send + Sync>,
    pools: &Pools,
    program: &Arc<dyn Program>,
) -> Arc<SnapshotList> {
    let program = Arc::clone(program);
    let tell = move |damage: &StoreError| {
        program.warn(format_args!("some snapshots are not shown: {damage}"));
    };
    let pool = Arc::clone(&pools.pool);
    Arc::new(SnapshotList::new(pool, shows, Box::new(tell)))
}

fn files(
    zone: &TimeZone,
    pools: &Pools,
    program: &Arc<dyn Program>,
    snapshots: &Arc<SnapshotList>,
    mountpoint: &Path,
) -> Arc<PoolFiles> {
    let mount = mountpoint.display().to_string();
    let disks = |which| {
        let (snapshots, held) = (Arc::clone(snapshots), pools.held.clone());
        Arc::new(Disks::new(which, snapshots, held, &mount))
    };
    let source = Source {
        snapshots: Arc::clone(snapshots),
        volumes: disks(Which::Volumes),
        images: disks(Which::Images),
        zone: zone.clone(),
        directories: Arc::clone(&pools.directories),
        mount: mount.clone(),
    };
    let program = Arc::clone(program);
    let tell = move |path: &[u8], error: &StoreError| {
        program.warn(format_args!("{}: {error}", printable(path)));
    };
    Arc::new(PoolFiles::new(source, Box::new(tell)))
}
