//! One mount: starts it, serves it on its own threads, ends it. `mount` and `serve` call this.
//!
//! Invariant: a mount that is no longer served does not stay mounted. A mount that another process
//! has made at the same place meanwhile is left alone.

use super::disks::{Disks, Which};
use super::error::MountingError;
use super::place::mountpoint;
use super::pool_files::{FilesSource, PoolFiles};
use super::snapshot_list::SnapshotList;
use crate::directories::Directories;
use crate::program::Program;
use crate::state::ServerState;
use format::snapshot::Snapshot;
use fuse::{MountError, MountOptions, Session, SessionError, SessionOptions, Unmounter};
use jiff::tz::TimeZone;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use store::{Pool, StoreError};
use units::printable::printable;

/// Settings of a mount.
pub struct MountSettings<'a> {
    /// Directory of the pool.
    pub pool: &'a Path,
    /// The mountpoint, as the user wrote it.
    pub mountpoint: &'a Path,
    /// The mountpoint may have files, which the mount hides.
    pub over: bool,
    /// Other users can see the files.
    pub allow_other: bool,
    /// With `allow_other`: the kernel enforces modes and owners. Without it, a mount with
    /// `allow_other` is read-only.
    pub enforce: bool,
    /// Time zone of the snapshots' names.
    pub zone: &'a TimeZone,
    /// Filter for snapshots.
    pub shows: Box<dyn Fn(&Snapshot) -> bool + Send + Sync>,
}

/// The pool that a mount shows.
pub struct Pools {
    /// The pool, open.
    pub pool: Arc<Pool>,
    /// The server state. Without it, volumes are not shown.
    pub server: Option<Arc<ServerState>>,
    /// Cache of stored directories.
    pub directories: Arc<Directories>,
}

impl Pools {
    /// Shows everything that a server has open.
    pub fn server_state(server: &Arc<ServerState>) -> Self {
        Self {
            pool: Arc::clone(&server.pool),
            server: Some(Arc::clone(server)),
            directories: Arc::clone(&server.directories),
        }
    }
}

/// A served mount. Dropping it without [`Mount::end`] leaves unmounting to the guard.
pub struct Mount {
    program: Arc<dyn Program>,
    mountpoint: PathBuf,
    unmounter: Unmounter,
    snapshots: Arc<SnapshotList>,
    /// Receives the result of the session.
    ended: Receiver<Result<(), SessionError>>,
    _guard: Box<dyn Send>,
}

impl Mount {
    /// Mounts and serves.
    ///
    /// `guard` makes a value that is kept as long as the mount; it should unmount if this process
    /// is killed. `at_end` is called when the session ends for any reason.
    pub fn start(
        settings: MountSettings<'_>,
        pools: &Pools,
        program: &Arc<dyn Program>,
        guard: impl FnOnce(&Path) -> io::Result<Box<dyn Send>>,
        at_end: impl FnOnce() + Send + 'static,
    ) -> Result<Self, MountingError> {
        let mountpoint = mountpoint(settings.pool, settings.mountpoint, settings.over)?;
        let snapshots = snapshot_list(settings.shows, pools, program);
        let files = files(settings.zone, pools, program, &snapshots, &mountpoint);
        let enforce = settings.allow_other && settings.enforce;
        let writes = pools.server.is_some() && (enforce || !settings.allow_other);
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

    /// Returns the mountpoint, an absolute path.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// Returns the number of snapshots that are shown now.
    pub fn snapshots(&self) -> usize {
        self.snapshots.now().len()
    }

    /// Unmounts, unless that was done already. Waits until all files are closed, at most `limit`.
    pub fn end(self, limit: Option<Duration>) -> Result<(), MountingError> {
        if let Some(ended) = self.wait(Some(Duration::ZERO))? {
            return Ok(ended?);
        }
        let done = match self.unmounter.unmount(false) {
            Err(MountError::Busy) => {
                self.program.warn(format_args!(
                    "files of the mount are in use; this ends when they are closed, or at the next Ctrl-C"
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

/// Waits for the session's end on its own thread.
fn serve(
    session: Session,
    at_end: impl FnOnce() + Send + 'static,
) -> io::Result<Receiver<Result<(), SessionError>>> {
    let (say, ended) = channel();
    let thread = std::thread::Builder::new().name("mount".to_owned());
    thread.spawn(move || {
        // If the receiver was dropped, no caller waits for the result.
        let _ = say.send(session.wait());
        at_end();
    })?;
    Ok(ended)
}

/// Makes the list of snapshots. Unreadable ones are left out and reported.
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
        let (snapshots, server) = (Arc::clone(snapshots), pools.server.clone());
        Arc::new(Disks::new(which, snapshots, server, &mount))
    };
    let source = FilesSource {
        snapshots: Arc::clone(snapshots),
        volumes: disks(Which::Volumes),
        images: disks(Which::Images),
        zone: zone.clone(),
        directories: Arc::clone(&pools.directories),
        mount: mount.clone(),
        classifiers: pools
            .server
            .as_ref()
            .map(|s| Arc::clone(&s.classes.classifiers)),
    };
    let program = Arc::clone(program);
    let tell = move |path: &[u8], error: &StoreError| {
        program.warn(format_args!("{}: {error}", printable(path)));
    };
    Arc::new(PoolFiles::new(source, Box::new(tell)))
}
